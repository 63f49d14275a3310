//! The path in a `proxy_pass`.

use crate::convert::nginx::matching::{Kind, Location};
use crate::convert::nginx::values::template;
use crate::convert::output::{Output, text};
use crate::convert::rule_draft::RuleDraft;

/// Sends the path of a `proxy_pass` with variables, with its query in place of the client's.
pub fn send(one: &Location<'_>, path: &str, name: &str, rule: &mut RuleDraft, out: &mut Output) {
    // The path alone, behind the host.
    if path == "/$uri" {
        return rule.add("remove-query", "*");
    }
    let is_regex = one.kind == Kind::Regex && one.any.is_empty();
    let bare = ["$is_args$args", "?$args", "$is_args$query_string"]
        .iter()
        .find_map(|end| path.strip_suffix(end))
        .or_else(|| path.ends_with("$request_uri").then_some(path));
    let (path, query) = match (bare, path.split_once('?')) {
        (Some(path), _) => (path, None),
        (None, Some((path, query))) => (path, Some(query)),
        (None, None) => (path, Some("")),
    };
    let made = template(path, name).map(|path| path.replace("{uri}", "{path}"));
    let query = query.map_or(Some(None), |query| template(query, name).map(Some));
    let is_plain = |(path, query): &(String, Option<String>)| {
        let captures = query.iter().chain([path]).any(|text| text.contains("{capture."));
        !path.contains(['?', '#']) && (is_regex || !captures)
    };
    match made.zip(query).filter(is_plain) {
        Some((path, query)) => {
            rule.set("set-path", text(&path));
            match query.as_deref() {
                Some("") => rule.add("remove-query", "*"),
                Some(query) => rule.set("set-query", text(query)),
                None => {}
            }
        }
        _ => {
            let reason = "a path with these variables has no equivalent: answered with 501";
            out.lose(&one.directive.at, "proxy_pass", reason);
            rule.set("respond", text("501 Not converted: proxy_pass"));
        }
    }
}

/// Replaces the path of a location by that of `proxy_pass`.
pub fn replace(one: &Location<'_>, path: &str, rule: &mut RuleDraft, out: &mut Output) {
    let from = one.path.as_str();
    match one.kind {
        Kind::Exact => rule.set("set-path", text(path)),
        Kind::Regex => {
            out.lose(&one.directive.at, "proxy_pass", "a path behind an expression");
        }
        _ if from == path => {}
        _ if from.ends_with('/') && path.ends_with('/') => {
            if from != "/" {
                rule.set("remove-prefix", text(from.trim_end_matches('/')));
            }
            if path != "/" {
                rule.set("add-prefix", text(path.trim_end_matches('/')));
            }
        }
        _ if from == "/" => {
            rule.when.add("paths", ["/*".to_owned()]);
            rule.set("set-path", text(&format!("{path}{{capture.1}}")));
        }
        _ => rule.set("set-path", text(&format!("{path}{{capture.1}}"))),
    }
}
