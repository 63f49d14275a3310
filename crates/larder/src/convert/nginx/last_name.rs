//! The last name of `try_files`, for which nginx looks for a location again.

use crate::convert::nginx::checks::checks;
use crate::convert::nginx::matching;
use crate::convert::nginx::scope::{ACCESS_LISTS, Scope};
use crate::convert::nginx::syntax::Directive;

/// Returns whether the last name of a `try_files` is a file of the same directory, with the same
/// access control: nginx looks for its location.
pub fn is_file_of(location: &Scope<'_>, path: &str) -> bool {
    let server = location.of_server();
    let (locations, _) = matching::ordered(server.block());
    let Some(found) = locations.iter().find(|one| one.matches(path)) else { return true };
    let scope = found.scope(&server);
    let shared: [&[&str]; 5] =
        [&ACCESS_LISTS, &["auth_basic"], &["auth_basic_user_file"], &["root"], &["alias"]];
    let is_other = |one: &Directive| {
        matches!(one.name.as_str(), "return" | "if" | "rewrite") || one.name.ends_with("_pass")
    };
    std::ptr::eq(scope.block(), location.block())
        || (shared.iter().all(|names| location.shares(names, &scope))
            && is_same_check(location, &scope)
            && is_same_check(&scope, location)
            && !scope.block().iter().any(is_other))
}

/// Returns whether all checks of one scope are in effect in another.
fn is_same_check(scope: &Scope<'_>, other: &Scope<'_>) -> bool {
    checks(scope).iter().all(|check| scope.shares(&[&check.name], other))
}

/// Returns why the last name of a `try_files` is not looked for.
pub fn elsewhere(name: &str) -> String {
    format!("the location of {name} has another directory or access control: 404 instead")
}
