//! Prepares a request before any lookup: finds its target and the operator's rule for it, and edits
//! its fields by that rule. Used for client requests, for `explain`, and for requests that the
//! proxy makes itself.

use std::net::IpAddr;
use std::sync::Arc;

use crate::message::framing;
use crate::message::header_edits::set_filled;
use crate::message::scheme::Scheme;
use http::header::{self, HeaderValue};
use http1::RequestHead;
use semantics::scanned_path::ScannedPath;
use semantics::{EditFields as _, Identity};
use upstream::message::upgrade;

use crate::options::Options;
use crate::origin::target::Target;
use crate::request::negotiated::Negotiated;
use crate::request::request_values::{RequestValues, Requester};
use crate::request::target::{Refused, TargetPlace, target};
use crate::rules::classes::{ClassValues, FoundClasses};
use crate::rules::request_rules;
use crate::rules::request_rules::{AnswerEdits, Rule, RuleFacts};

/// Prepared request. Its head has the fields that the rule sets and lacks those that it removes.
pub(crate) struct Prepared {
    pub target: TargetPlace,
    pub rule: Option<Arc<Rule>>,
    /// The classes that the rule uses, by the client's own fields.
    pub classes: ClassValues,
    /// The client's identity by its own fields, without those that the rule removes or sets to a
    /// value without variables.
    pub identity: Identity,
    /// The coding in which the client gets responses that are compressed here.
    pub negotiated: Negotiated,
}

/// Prepares a request. Fields that only a trusted proxy may set must have been removed by
/// [`distrust`](crate::request::target::distrust). Variables have the values of the request before
/// its fields are edited.
///
/// # Errors
///
/// The reason why the request is invalid.
pub(crate) fn prepare(
    head: &mut RequestHead,
    options: &Options,
    scheme: Scheme,
    from: Requester<'_>,
) -> Result<Prepared, Refused> {
    request_rules::distrust(&mut head.fields);
    let mut host = head.target.take_host();
    // No rule edits the fields that the target is read from.
    let found = target(head, &options.front, scheme)?;
    let (rule, classes) = rule_for(options, head, &found, from);
    let with_variables = rule.as_deref().filter(|rule| rule.request.has_variables());
    let filled = with_variables.map(|rule| {
        let with_classes = Some((rule, &classes));
        rule.request.variable_fields(&RequestValues::new(from, head, &found, with_classes))
    });
    let place = TargetPlace::of(&found);
    host.push_str(found.host);
    head.target.note_host(host);
    if let Some(rule) = &rule {
        rule.remove(&mut head.fields);
    }
    // Values of variables are the client's.
    if let Some(filled) = filled {
        let filled = filled.iter().map(|(name, value)| (name, value.as_ref()));
        set_filled(filled, &mut head.fields);
    }
    let settings = rule.as_ref().map_or(&options.semantics, |rule| &rule.settings);
    let identity = Identity::of(&head.fields, settings);
    if let Some(rule) = &rule {
        rule.prepare(&mut head.fields, &classes);
    }
    if let Some(voucher) = place.site(&options.front).voucher() {
        voucher.tidy(&mut head.fields);
    }
    let negotiated = Negotiated::of(head, place.site(&options.front), options, rule.as_deref());
    if rule.as_ref().is_some_and(|rule| rule.substitution.is_some()) {
        // Texts can be found only without a coding.
        head.fields.set_line(&header::ACCEPT_ENCODING, &HeaderValue::from_static("identity"));
    }
    Ok(Prepared { target: place, rule, classes, identity, negotiated })
}

/// Returns the rule with the values of the variables in its edits of the origin's response.
pub(crate) fn with_values(rule: &Arc<Rule>, values: &RequestValues<'_>) -> Arc<Rule> {
    let filled: Vec<_> = rule.answer.iter().map(|answer| answer.edits.fill(values)).collect();
    let responses = rule.responses.as_ref().and_then(|responses| responses.fill(values));
    let substitution = rule.substitution.as_ref().and_then(|of| of.fill(values));
    let is_fixed = filled.iter().all(Option::is_none) && rule.locations.is_empty();
    if is_fixed && responses.is_none() && substitution.is_none() {
        return rule.clone();
    }
    let answers = rule.answer.iter().zip(filled).map(|(answer, edits)| AnswerEdits {
        edits: edits.unwrap_or_else(|| answer.edits.clone()),
        ..answer.clone()
    });
    let responses = responses.or_else(|| rule.responses.clone());
    let locations = rule.locations.iter().map(|rewrite| rewrite.fill(values)).collect();
    let substitution = substitution.or_else(|| rule.substitution.clone());
    let answer = answers.collect();
    Arc::new(Rule { answer, responses, locations, substitution, ..Rule::clone(rule) })
}

/// Finds the operator's rule for a request, and looks up the classes that it uses.
fn rule_for(
    options: &Options,
    head: &RequestHead,
    target: &Target<'_>,
    from: Requester<'_>,
) -> (Option<Arc<Rule>>, ClassValues) {
    let rules = &options.rules;
    if rules.is_empty() {
        return (None, ClassValues::default());
    }
    let known = FoundClasses::default();
    let client = match rules.look_at_clients() {
        true => options.forwarded.client(from.client.ip(), &head.fields),
        false => from.client.ip(),
    };
    let from = (client, from.listener);
    let found = with_facts(options, head, (target, &known), from, |asked| {
        let mut rule = rules.find(asked, &head.fields);
        let classes = rule.as_ref().map(|of| ClassValues::of(&of.classes, asked, &head.fields));
        if known.are_ambiguous() {
            // The origin server may read another value than the one in the key.
            rule = Some(rules.past_cache(rule));
        }
        (rule, classes.unwrap_or_default())
    });
    found.unwrap_or_default()
}

/// Describes the classes of a request ([`Classes::described`]).
///
/// [`Classes::described`]: crate::rules::classes::Classes::described
pub(crate) fn described_classes(
    options: &Options,
    head: &RequestHead,
    scheme: Scheme,
    client: IpAddr,
) -> Result<Vec<(String, String, String)>, Refused> {
    let target = target(head, &options.front, scheme)?;
    let client = options.forwarded.client(client, &head.fields);
    let known = FoundClasses::default();
    let described = with_facts(options, head, (&target, &known), (client, None), |asked| {
        options.rules.classes.described(asked, &head.fields)
    });
    Ok(described.unwrap_or_default())
}

/// Calls `take` with the facts by which a rule is chosen; `None` if the target makes no valid URL.
fn with_facts<T>(
    options: &Options,
    head: &RequestHead,
    (target, classes): (&Target<'_>, &FoundClasses),
    (client, listener): (IpAddr, Option<&str>),
    take: impl FnOnce(&RuleFacts<'_>) -> T,
) -> Option<T> {
    let upgrade = options.rules.look_at_upgrades() && asks_upgrade(head);
    let facts = |host: &str, path: ScannedPath<'_>| {
        let (site, method, scheme) = (target.site.name(), head.method.as_str(), target.scheme);
        take(&RuleFacts { site, host, path, method, scheme, client, listener, upgrade, classes })
    };
    match target.normal_place() {
        Some((host, path)) => Some(facts(host, path)),
        None => {
            let url = target.url(&options.upstream)?;
            Some(facts(request_rules::host(&url), ScannedPath::new(url.path_and_query())))
        }
    }
}

/// Returns whether a request asks for another protocol.
fn asks_upgrade(head: &RequestHead) -> bool {
    let has_body = framing::announces_body(&head.fields);
    let (kind, of_stream) = ((&head.method, head.version), head.is_extended_connect);
    upgrade::asked_by(kind, of_stream, &head.fields, has_body).is_some()
}
