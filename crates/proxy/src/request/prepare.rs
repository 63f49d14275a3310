//! The preparation of a request before anything is looked up: the operator's rule for it, its
//! fields as that rule edits them, and its target. The same for requests of clients, for those that
//! are explained, and for those that the proxy makes itself.

use std::sync::Arc;

use http::request::Parts;
use message::scheme::Scheme;
use message::{framing, upgrade};
use semantics::Identity;
use upstream::send::origin::Origin;

use crate::options::Options;
use crate::origin::target::Target;
use crate::request::target;
use crate::request::target::Refused;
use crate::rules::request_rules;
use crate::rules::request_rules::{Rule, RuleQuery};

/// A request that is understood.
pub(crate) struct Prepared<'a> {
    /// With the fields that the rule sets, without those that it removes.
    pub parts: &'a Parts,
    pub target: Target<'a>,
    pub rule: Option<Arc<Rule>>,
    /// The client's identity by its own fields: those that the rule leaves, without those that it
    /// sets.
    pub identity: Identity,
}

/// Prepares a request, whose fields only a trusted proxy may set are gone already
/// ([`target::distrust`]).
///
/// # Errors
/// Why it cannot be understood.
pub(crate) fn prepare<'a>(
    parts: &'a mut Parts,
    options: &'a Options,
    scheme: Scheme,
) -> Result<Prepared<'a>, Refused> {
    request_rules::distrust(&mut parts.headers);
    let rule = rule_for(options, parts, scheme);
    if let Some(rule) = &rule {
        rule.request.remove(&mut parts.headers);
    }
    let settings = rule.as_ref().map_or(&options.semantics, |rule| &rule.settings);
    let identity = Identity::of(&parts.headers, settings);
    if let Some(rule) = &rule {
        rule.prepare(&mut parts.headers);
    }
    if let Some(origin) = vouching_origin(options, parts, scheme) {
        origin.voucher().into_iter().for_each(|voucher| voucher.tidy(&mut parts.headers));
    }
    let target = target::target(parts, &options.front, scheme)?;
    Ok(Prepared { parts, target, rule, identity })
}

/// Returns the origin of a request if it vouches for its answers.
fn vouching_origin(options: &Options, parts: &Parts, scheme: Scheme) -> Option<Arc<dyn Origin>> {
    if !options.front.vouches() {
        return None;
    }
    let target = target::target(parts, &options.front, scheme).ok()?;
    target.site.vouched().map(|_| target.origin(&options.upstream))
}

/// Finds the operator's rule for a request. One that cannot be understood has none.
fn rule_for(options: &Options, parts: &Parts, scheme: Scheme) -> Option<Arc<Rule>> {
    let rules = &options.rules;
    if rules.is_empty() {
        return None;
    }
    let target = target::target(parts, &options.front, scheme).ok()?;
    let asks_upgrade = || upgrade::asked(parts, framing::announces_body(&parts.headers)).is_some();
    let upgrade = rules.look_at_upgrades() && asks_upgrade();
    let find = |host: &str, path: &str| {
        let (site, method) = (target.site.name(), parts.method.as_str());
        let asked = RuleQuery { site, host, path, method, upgrade };
        let fields = parts.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
        rules.find(asked, fields).cloned()
    };
    match target.normal_place() {
        Some((host, path)) => find(host, path),
        None => {
            let url = target.url(&options.upstream)?;
            find(request_rules::host(&url), url.path_and_query())
        }
    }
}
