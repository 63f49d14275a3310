//! Spellings of paths that only some servers read as the path of another location.

use crate::convert::nginx::matching::Location;
use crate::convert::nginx::restrictions::Restrictions;
use crate::convert::nginx::scope::Scope;
use crate::convert::nginx::tries::passed;
use crate::convert::output::{Output, text};
use crate::convert::rule_draft::{RuleDraft, Tests};

/// Refuses spellings such as `/x%2ephp` of the paths of `locations`. A rule that stores or
/// redirects matches only paths of which all readings are its own, so a later rule with files could
/// send a program in place of its output.
pub fn refuse(
    (locations, restrictions): (&[Location<'_>], &Restrictions<'_>),
    server: &Scope<'_>,
    (server_name, server_when): (&str, &Tests),
    out: &mut Output,
) {
    let mut refused: Vec<(Tests, &[Tests])> = Vec::new();
    for one in locations.iter().filter(|one| needs_all_readings(one, restrictions, server)) {
        let Some(when) = server_when.and(&one.when).filter(|_| !one.when.0.is_empty()) else {
            continue;
        };
        let both = refused.last().filter(|(_, any)| any.is_empty() && one.any.is_empty());
        match both.and_then(|(last, _)| last.or(&when)) {
            Some(both) => _ = refused.pop().map(|(_, any)| refused.push((both, any))),
            None => refused.push((when, &one.any)),
        }
    }
    for (when, any) in refused {
        refuse_rest(server_name, &when, any, out);
    }
}

/// Refuses the spellings that a rule before this one does not match in all readings.
pub fn refuse_rest(server_name: &str, when: &Tests, any: &[Tests], out: &mut Output) {
    let mut rule = RuleDraft::new(&format!("{server_name} spellings"), when);
    rule.any = any.to_vec();
    rule.set("respond", text("404 Not Found"));
    rule.push(out);
}

/// Returns whether the rule of a location lets requests into the cache, or answers them without a
/// refusal.
fn needs_all_readings(
    one: &Location<'_>,
    restrictions: &Restrictions<'_>,
    server: &Scope<'_>,
) -> bool {
    let scope = one.scope(server);
    let is_refusal = |code: &str| code.parse::<u16>().is_ok_and(|code| code >= 400);
    match scope.own("return") {
        Some(answer) => !is_refusal(answer.arg(0)),
        None => {
            let is_cached = scope.arg("proxy_cache").is_some_and(|zone| zone != "off");
            (is_cached || restrictions.are_later(one)) && passed(one, server).is_some()
        }
    }
}
