//! Comparisons of `$request_method` with expressions.

use proxy::rules::request_rules::PathTest;

use crate::convert::glob_of_regex::{globs, words};
use crate::convert::nginx::condition::Alternatives;
use crate::convert::rule_draft::Tests;

/// Methods with which expressions are compared.
const KNOWN: [&str; 17] = [
    "GET",
    "HEAD",
    "POST",
    "PUT",
    "DELETE",
    "PATCH",
    "OPTIONS",
    "CONNECT",
    "TRACE",
    "PROPFIND",
    "PROPPATCH",
    "MKCOL",
    "COPY",
    "MOVE",
    "LOCK",
    "UNLOCK",
    "PURGE",
];

/// Returns the condition that an expression matches the method. One that is no list of whole names,
/// such as `^P`, may match names that are not known: its condition holds for these as well.
pub fn of_regex(operator: &str, regex: &str) -> Result<Alternatives, String> {
    let (is_not, is_in_either_case) = (operator.starts_with('!'), operator.ends_with('*'));
    let case = if is_in_either_case { "(?i)" } else { "" };
    let test = PathTest::parse(&format!("~{case}{regex}"), false);
    let test = test.map_err(|_| "the expression is not supported")?;
    let (mut matched, others): (Vec<&str>, Vec<&str>) =
        KNOWN.iter().partition(|name| test.matches(name.as_bytes()));
    let not = |key: &str| if is_not { format!("not-{key}") } else { key.to_owned() };
    let of = |key: String, names: Vec<String>| {
        let mut tests = Tests::default();
        tests.add(&key, names);
        Alternatives::of(tests)
    };
    let is_method =
        |text: &String| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_uppercase());
    let upper = |name: String| match is_in_either_case {
        true => name.to_ascii_uppercase(),
        false => name,
    };
    let listed = words(regex).map(|all| all.into_iter().map(upper).collect::<Vec<_>>());
    if let Some(names) = listed.filter(|all| all.iter().all(is_method)) {
        return Ok(of(not("methods"), names));
    }
    // `^GET|POST$` means the names.
    let is_known = |glob: &String| KNOWN.contains(&upper(glob.clone()).trim_matches('*'));
    if !matched.is_empty() && globs(regex).is_some_and(|found| found.all.iter().all(is_known)) {
        // In the order of the expression.
        matched.sort_by_key(|name| regex.find(*name));
        return Ok(of(not("methods"), matched.into_iter().map(str::to_owned).collect()));
    }
    let names = if is_not { matched } else { others };
    let names = names.into_iter().map(str::to_owned).collect();
    let why = "methods that are not known are taken for such as it matches";
    Ok(of("not-methods".to_owned(), names).widened(why))
}
