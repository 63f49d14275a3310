//! The operator's rule for a request.

use std::sync::Arc;

use http::request::Parts;
use message::scheme::Scheme;
use message::{framing, upgrade};

use crate::options::Options;
use crate::request::target;
use crate::rules::request_rules::{Rule, RuleQuery};

/// The operator's rule for a request. One that cannot be understood has none, and gets its error
/// later.
pub(crate) fn rule_for(options: &Options, parts: &Parts, scheme: Scheme) -> Option<Arc<Rule>> {
    if options.rules.is_empty() {
        return None;
    }
    let target = target::target(parts, &options.front, scheme).ok()?;
    let url = target.url(&options.upstream)?;
    let site = target.site.name();
    let upgrade = upgrade::asked(parts, framing::announces_body(&parts.headers)).is_some();
    let asked =
        RuleQuery { site, url: &url, method: &parts.method, headers: &parts.headers, upgrade };
    options.rules.find(asked).cloned()
}
