//! Expressions on URLs as conditions of rules. Squid compares `url_regex` and `refresh_pattern`
//! with the whole URL, `urlpath_regex` with path and query.

use proxy::rules::request_rules::PathTest;

use crate::convert::glob_of_regex::alternatives;
use crate::convert::rule_draft::Tests;
use crate::convert::squid::url_parts::{self, Changes, Part};
use crate::convert::url_test;

/// Key of expressions on path and query.
pub const URLS: &str = "urls";

/// Key of expressions on whole URLs.
pub const WHOLE_URLS: &str = "whole URLs";

/// Returns the test of a list of expressions; one must match.
pub fn of_list(key: &str, expressions: &[String]) -> Result<Tests, String> {
    let is_within_path = |regex: &String| {
        let same = Changes { loses: false, gains: false };
        url_parts::changes(regex, Part::Origin) == Some(same)
    };
    let test = match key == URLS || expressions.iter().all(is_within_path) {
        true => url_test::urls,
        false => absolute,
    };
    let tests: Result<Vec<Tests>, String> = expressions.iter().map(|regex| test(regex)).collect();
    let mut all = Tests::default();
    let lists = tests?.into_iter().flat_map(|test| test.0);
    lists.for_each(|(key, values)| all.add(&key, values));
    Ok(all)
}

/// Returns the test of an expression on a whole URL.
fn absolute(regex: &str) -> Result<Tests, String> {
    let test = format!("~{regex}");
    PathTest::parse_absolute(&test, false)?;
    match url_parts::changes(regex, Part::Port) {
        Some(changes) if !changes.loses => Ok(Tests::one("absolute-urls", test)),
        Some(_) => Err(format!("absolute-urls are without ports, and {regex:?} may match one")),
        None => Err(format!("whether {regex:?} matches a port is too hard to tell")),
    }
}

/// Returns whether expressions on whole URLs match no tunnel, whose URL is a host and a port.
pub fn match_no_tunnel(expressions: &[String]) -> bool {
    let has_slash = |one: &str| {
        let one = one.strip_prefix('^').unwrap_or(one);
        let begins = ["/", "\\/", "http://", "https://", "https?://", "http:\\/\\/"];
        let rest = begins.iter().find_map(|begin| one.strip_prefix(begin));
        rest.is_some_and(|rest| !rest.starts_with(['?', '*', '{']))
    };
    let of_regex = |regex: &String| {
        let body = regex.strip_prefix("(?i)").unwrap_or(regex);
        alternatives(body).is_some_and(|all| all.into_iter().all(has_slash))
    };
    expressions.iter().all(of_regex)
}

/// Returns an expression of POSIX as one of Larder: in brackets, a backslash is one, and so are the
/// signs of sets.
pub fn posix(regex: &str) -> Result<String, String> {
    if ["\\d", "\\D"].iter().any(|sign| regex.contains(sign)) {
        return Err("\\d is no digit in an expression of POSIX".to_owned());
    }
    let (mut all, mut is_escaped, mut bracket) = (String::new(), false, None);
    for (at, c) in regex.char_indices() {
        match (bracket, c) {
            (Some(begin), ']') if at > begin && !regex[..at].ends_with(":") => bracket = None,
            (Some(begin), '^') if at == begin => bracket = Some(at + 1),
            (Some(_), '[') if regex[at..].starts_with("[:") => {}
            (Some(_), '[' | ']' | '\\' | '&' | '~') if c != ']' || !regex[..at].ends_with(':') => {
                all.push('\\');
            }
            (None, '[') if !is_escaped => bracket = Some(at + 1),
            _ => {}
        }
        is_escaped = bracket.is_none() && c == '\\' && !is_escaped;
        all.push(c);
    }
    Ok(all)
}
