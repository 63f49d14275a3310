//! `valid_referers` as tests of `Referer`.

use crate::convert::nginx::condition::{Alternatives, Variables};
use crate::convert::nginx::syntax::Directive;
use crate::convert::regex_of_text::escaped;
use crate::convert::rule_draft::Tests;

/// The variable that is true for other referers, without its `$`.
pub const INVALID: &str = "invalid_referer";

/// Name under which the names of a server stand among the variables; it is none of nginx.
const NAMES: &str = "names of the server";

/// Records the names of a server for [`invalid`].
pub fn names(directive: &Directive, variables: &mut Variables) {
    let mut tests = Tests::default();
    tests.add("hosts", directive.args.iter().cloned());
    variables.insert(NAMES.to_owned(), Ok(Alternatives::of(tests)));
}

/// Returns the requests with a referer that the directive does not name.
pub fn invalid(directive: &Directive, variables: &Variables) -> Result<Alternatives, String> {
    let mut all = Vec::new();
    for name in &directive.args {
        match name.as_str() {
            "none" => all.push("Referer".to_owned()),
            "blocked" => all.push("Referer: ~(?i)^https?://".to_owned()),
            "server_names" => {
                let of_server = variables.get(NAMES).and_then(|known| known.as_ref().ok());
                let names = of_server.and_then(|known| known.any.first()?.get("hosts"));
                let own = names.ok_or("the server has no names")?.iter();
                all.extend(own.map(|name| other_than(name)).collect::<Result<Vec<_>, _>>()?);
            }
            name => all.push(other_than(name)?),
        }
    }
    Ok(Alternatives::of(Tests(vec![("headers".to_owned(), all)])).valued("1"))
}

/// Returns the test that the URL of a referer has another host, or begins otherwise behind it.
fn other_than(name: &str) -> Result<String, String> {
    if let Some(regex) = name.strip_prefix('~') {
        let regex = regex.trim_start_matches('*');
        // It is compared with the URL behind its scheme.
        let test = match regex.strip_prefix('^') {
            Some(rest) => format!("~(?i)^https?://(?:{rest})"),
            None => format!("~(?i)^https?://.*(?:{regex})"),
        };
        let parsed = proxy::rules::request_rules::PathTest::parse(&test, false);
        return match parsed.is_ok() && !regex.contains('|') {
            true => Ok(format!("!Referer: {test}")),
            false => Err("an expression for referers is not supported".to_owned()),
        };
    }
    let (host, path) = name.split_at(name.find('/').unwrap_or(name.len()));
    let host = match (host.strip_prefix("*."), host.strip_prefix('.'), host.strip_suffix(".*")) {
        (Some(rest), ..) => format!("[^/:]+\\.{}", escaped(rest)),
        (_, Some(rest), _) => format!("(?:[^/:]+\\.)?{}", escaped(rest)),
        (.., Some(rest)) => format!("{}\\.[^/:]+", escaped(rest)),
        _ => escaped(host),
    };
    let end = if path.is_empty() { "(?:[:/]|$)".to_owned() } else { escaped(path) };
    Ok(format!("!Referer: ~(?i)^https?://{host}{end}"))
}
