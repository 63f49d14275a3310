//! Tests of responses that Larder makes by itself: what it stores anyway, or never.

use crate::convert::vcl::syntax::{Kind, Statement, Token};

/// Returns whether a branch only keeps responses from the cache that Larder does not store: with
/// `Set-Cookie`, `Vary: *`, without a lifetime, or forbidden by `Cache-Control`.
pub fn is_default(tokens: &[Token], inner: &[&Statement]) -> bool {
    let is_unstored = |one: &&Statement| {
        // A field of a response that is not stored tells only why.
        (one.word(0) == "set" && one.word(1).starts_with("beresp.http.X-"))
            || matches!(one.word(1), "beresp.uncacheable" | "beresp.ttl" | "beresp.grace")
            || (one.word(0) == "return" && matches!(one.word(2), "deliver" | "pass"))
    };
    let is_any =
        inner.iter().any(|one| one.word(1) == "beresp.uncacheable" && one.word(3) == "true")
            || inner.iter().any(|one| one.word(0) == "return" && one.word(2) == "pass")
            || inner.iter().any(|one| one.word(1) == "beresp.ttl" && one.word(3) == "0s");
    is_any && inner.iter().all(is_unstored) && are_careful(tokens)
}

/// Returns the tests of `Surrogate-Control` in such a condition, which Larder does not look at.
pub fn tests_of_surrogates(tokens: &[Token]) -> impl Iterator<Item = &[Token]> {
    tokens.windows(3).filter(|test| test[0].text.eq_ignore_ascii_case(SURROGATE) && test[1].is("~"))
}

const SURROGATE: &str = "beresp.http.surrogate-control";

/// Returns whether each test of a condition is one that Larder makes, however they are joined.
fn are_careful(tokens: &[Token]) -> bool {
    let mut rest = tokens;
    let mut count = 0;
    while let Some(first) = rest.first() {
        let is_sign = |sign: &str| rest.get(1).is_some_and(|token| token.is(sign));
        let value = rest.get(2).map_or("", |token| token.text.as_str());
        let name = first.text.to_ascii_lowercase();
        let length = match name.as_str() {
            "(" | ")" | "||" | "&&" if first.kind == Kind::Sign => 1,
            "!" if rest.get(1).is_some_and(|one| one.text.eq_ignore_ascii_case(SURROGATE)) => 2,
            "!" if is_sign("beresp.ttl") && value == ">" => 4,
            "beresp.ttl" if (is_sign("<=") || is_sign("<")) && value.starts_with('0') => 3,
            "beresp.http.set-cookie" if !is_sign("~") && !is_sign("!~") && !is_sign("==") => 1,
            "beresp.http.vary" if (is_sign("==") || is_sign("~")) && value.contains('*') => 3,
            "beresp.http.cache-control" if is_sign("~") && are_prohibitions(value) => 3,
            SURROGATE if is_sign("~") && are_prohibitions(value) => 3,
            _ => return false,
        };
        count += usize::from(length > 1 || name.starts_with("beresp"));
        rest = &rest[length.min(rest.len())..];
    }
    count > 0
}

/// Returns whether an expression is a list of directives that forbid storing.
fn are_prohibitions(regex: &str) -> bool {
    let inner = regex.strip_prefix("(?i)").unwrap_or(regex);
    let inner = inner.strip_prefix("(?:").or(inner.strip_prefix('(')).unwrap_or(inner);
    inner.trim_end_matches(')').split('|').all(|word| {
        let word = word.trim_matches(['^', '$', '\\', 'b']);
        matches!(word, "private" | "no-cache" | "no-store" | "no-cache*" | "max-age=0")
            || matches!(word, "s-maxage=0" | "s-max-age=0")
    })
}
