//! Directives that refuse requests, or ask for the permission of requests.

use crate::convert::nginx::scope::Scope;
use crate::convert::nginx::syntax::Directive;

/// Returns whether a directive asks for the permission of requests: a name, a token, a program. An
/// `include` of a file that is missing may have had one.
pub fn is_check(name: &str) -> bool {
    match name.strip_prefix("auth_") {
        // Longer names are settings of these, such as `auth_jwt_key_file`.
        Some(of) if !of.contains('_') => !matches!(of, "delay" | "http"),
        Some(of) => of.ends_with("_enabled") || of == "jwt_require",
        None => {
            let programs = ["access_by_lua", "rewrite_by_lua", "server_rewrite_by_lua"];
            let is_program = programs.iter().any(|begin| name.starts_with(begin));
            let is_setting = name.ends_with("_postpone");
            (is_program && !is_setting) || matches!(name, "js_access" | "shib_request" | "include")
        }
    }
}

/// Returns the checks that are in effect.
pub fn checks<'a>(scope: &Scope<'a>) -> Vec<&'a Directive> {
    let is_on = |one: &&Directive| !matches!(one.arg(0), "off" | "0");
    scope.named(is_check).into_iter().filter(is_on).collect()
}

/// Returns whether a directive within an `if` gives requests another response than the one they ask
/// for: a refusal, a redirect, another path.
pub fn turns_away(act: &Directive) -> bool {
    refuses(act) || matches!(act.name.as_str(), "return" | "rewrite" | "include")
}

/// Returns whether a directive within an `if` refuses requests.
pub fn refuses(act: &Directive) -> bool {
    match act.name.as_str() {
        "return" => act.arg(0).parse::<u16>().is_ok_and(|code| code >= 400),
        name => name == "deny",
    }
}
