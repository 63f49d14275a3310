//! Redirects of nginx from the path of a proxied location without its slash, such as `/admin`, to
//! that with it.

use crate::convert::nginx::matching::{self, Kind, Location};
use crate::convert::nginx::replies::{Place, queries};
use crate::convert::nginx::restrictions;
use crate::convert::nginx::spellings;
use crate::convert::nginx::values::braced;
use crate::convert::output::{Output, text};
use crate::convert::rule_draft::Tests;

/// Pushes the redirects of a server.
pub fn redirect(locations: &[Location<'_>], place: &Place<'_, '_>, out: &mut Output) {
    let mut done: Vec<&str> = Vec::new();
    for one in locations.iter().filter(|one| is_proxied_directory(one)) {
        let path = one.path.trim_end_matches('/');
        let has_own = locations.iter().any(|other| is_of_path(other, path));
        let Some(when) = place.when.and(&Tests::one("paths", path)).filter(|_| !has_own) else {
            continue;
        };
        if done.contains(&path) {
            continue;
        }
        done.push(path);
        for (key, query) in queries(String::new(), true, true) {
            let mut rule = Place { when: &when, ..*place }.rule("slash");
            let mark = if query.is_empty() { "" } else { "?" };
            key.into_iter().for_each(|key| rule.when.add(key, ["*".to_owned()]));
            rule.set("redirect", text(&format!("301 {}{mark}{query}", braced(&one.path))));
            rule.push(out);
        }
        // A server that reads the path otherwise has it as one of the location.
        if restrictions::is_stricter(&one.scope(place.scope), place.scope) {
            spellings::refuse_rest(place.name, &when, &[], out);
        }
    }
}

/// Returns whether nginx redirects to the path of a location.
fn is_proxied_directory(one: &Location<'_>) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/-_.~!$&'()+,:@".contains(c);
    let path = one.path.strip_suffix('/').unwrap_or_default();
    let is_reached = |outer: &&_| {
        let (kind, prefix) = matching::kind_and_path(outer);
        matches!(kind, Kind::Prefix | Kind::Final) && path.starts_with(prefix)
    };
    let block = one.directive.inner();
    let has = |end: &str| block.iter().any(|inner| inner.name.ends_with(end));
    one.kind != Kind::Regex
        && path.len() > 1
        && !path.ends_with('/')
        && one.path.chars().all(is_plain)
        && one.outer.iter().all(is_reached)
        && has("_pass")
        && !has("internal")
}

/// Returns whether nginx takes a location for a path before it thinks of a redirect.
fn is_of_path(one: &Location<'_>, path: &str) -> bool {
    one.kind != Kind::Regex && one.path == path
}
