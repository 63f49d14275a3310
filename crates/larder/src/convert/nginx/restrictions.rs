//! Restrictions of a location that requests for another one must not evade by a spelling that only
//! some servers read as a path of the restricted location.

use crate::convert::nginx::matching::{Kind, Location};
use crate::convert::nginx::replies::refuses;
use crate::convert::nginx::scope::{ACCESS_LISTS, Scope};
use crate::convert::nginx::syntax::Directive;
use crate::convert::nginx::tries::behind;

/// Returns whether a directive asks for the permission of requests: a name, a token, a program.
pub fn is_check(name: &str) -> bool {
    match name.strip_prefix("auth_") {
        // Longer names are settings of these, such as `auth_jwt_key_file`.
        Some(of) if !of.contains('_') => !matches!(of, "delay" | "http"),
        Some(of) => of.ends_with("_enabled") || of == "jwt_require",
        None => {
            let is_program = name.starts_with("access_by_lua") && !name.ends_with("_postpone");
            is_program || matches!(name, "js_access" | "shib_request")
        }
    }
}

/// Returns the checks that are in effect.
pub fn checks<'a>(scope: &Scope<'a>) -> Vec<&'a Directive> {
    let is_on = |one: &&Directive| !matches!(one.arg(0), "off" | "0");
    scope.named(is_check).into_iter().filter(is_on).collect()
}

/// Returns whether a location after `one`, in the order of the rules, or the server for paths
/// without a location, refuses requests that `one` does not refuse.
pub fn are_later(one: &Location<'_>, locations: &[Location<'_>], server: &Scope<'_>) -> bool {
    let here = one.scope(server);
    later(one, locations, server).any(|scope| is_stricter(&scope, &here))
}

/// Returns whether a location after `one` has another password.
pub fn has_other_password(
    one: &Location<'_>,
    locations: &[Location<'_>],
    server: &Scope<'_>,
) -> bool {
    let here = one.scope(server);
    let is_asked = |scope: &Scope<'_>| scope.arg("auth_basic").is_some_and(|realm| realm != "off");
    let is_other =
        |scope: Scope<'_>| is_asked(&scope) && !scope.shares(&["auth_basic_user_file"], &here);
    is_asked(&here) && later(one, locations, server).any(is_other)
}

/// Returns what is in effect in the locations after `one`, and behind their files; last, in the
/// server if paths without a location get that.
fn later<'l, 'a>(
    one: &Location<'_>,
    locations: &'l [Location<'a>],
    server: &'l Scope<'a>,
) -> impl Iterator<Item = Scope<'a>> + use<'l, 'a> {
    let is_here = |other: &Location<'_>| std::ptr::eq(other.directive, one.directive);
    let begin = locations.iter().position(is_here).map_or(locations.len(), |at| at + 1);
    let is_rest = |one: &Location<'_>| one.kind == Kind::Prefix && one.path == "/";
    let rest = (!locations.iter().any(is_rest)).then(|| server.clone());
    let scopes = locations[begin..].iter().flat_map(|one| {
        let scope = one.scope(server);
        let behind = behind(&scope, server).map(|behind| behind.scope);
        [Some(scope), behind].into_iter().flatten()
    });
    scopes.chain(rest)
}

/// Returns whether requests are refused in one scope that are not in another.
pub fn is_stricter(there: &Scope<'_>, here: &Scope<'_>) -> bool {
    let is_other = |names: &[&str]| !there.shares(names, here);
    let denies = there.all(&ACCESS_LISTS).iter().any(|one| one.name == "deny");
    let asks = |one: &&Directive| {
        is_other(&[&one.name]) || (one.name == "auth_basic" && is_other(&["auth_basic_user_file"]))
    };
    let is_limited = |name: &&str| there.get(name).is_some() && is_other(&[name]);
    (denies && is_other(&ACCESS_LISTS))
        || checks(there).iter().any(asks)
        || ["limit_req", "limit_conn"].iter().any(is_limited)
        || there.block().iter().any(|one| match one.name.as_str() {
            "internal" | "limit_except" => true,
            "return" => refuses(one),
            "if" => one.inner().iter().any(refuses),
            _ => false,
        })
}
