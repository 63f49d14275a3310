//! `Via` (RFC 9110, 7.6.3): the proxies that a message passed, and whether we are among them.

use http::Version;
use http::header::{HeaderMap, HeaderValue, VIA};

use crate::fields::list;

/// Appends our entry. `received` is the version of the message as it reached us; `pseudonym` is our
/// name in it and must be a token or `host:port`; another is not written at all.
pub fn append(headers: &mut HeaderMap, received: Version, pseudonym: &str) {
    let version = match received {
        Version::HTTP_09 => "0.9",
        Version::HTTP_10 => "1.0",
        Version::HTTP_2 => "2",
        Version::HTTP_3 => "3",
        _ => "1.1",
    };
    if is_pseudonym(pseudonym)
        && let Ok(value) = HeaderValue::try_from(format!("{version} {pseudonym}"))
    {
        headers.append(VIA, value);
    }
}

/// Returns whether `name` may stand in `Via` as a received-by; the configuration is checked by it.
pub fn is_pseudonym(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~:[]".contains(&byte);
    !name.is_empty() && name.bytes().all(allowed)
}

/// Returns whether a request has passed us before: one of its entries has our pseudonym.
pub fn is_loop(headers: &HeaderMap, pseudonym: &str) -> bool {
    entries(headers).any(|entry| {
        received_by(entry).is_some_and(|name| name.eq_ignore_ascii_case(pseudonym.as_bytes()))
    })
}

/// Returns the number of proxies that a message has passed.
pub fn hops(headers: &HeaderMap) -> usize {
    entries(headers).count()
}

/// Returns the entries, split at every comma. A comment may hold commas, and its tail then looks
/// like an entry or two more; in return no quote or parenthesis can hide a real entry.
fn entries(headers: &HeaderMap) -> impl Iterator<Item = &[u8]> {
    let lines = headers.get_all(VIA).into_iter();
    lines
        .flat_map(|line| line.as_bytes().split(|&byte| byte == b','))
        .filter(|entry| !list::trim(entry).is_empty())
}

/// Returns the second word of an entry.
fn received_by(entry: &[u8]) -> Option<&[u8]> {
    entry.split(|byte| matches!(byte, b' ' | b'\t')).filter(|word| !word.is_empty()).nth(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::headers;

    #[test]
    fn our_entry_goes_last() {
        let mut message = headers(&["Via: 1.0 first (x, y)"]);
        append(&mut message, Version::HTTP_10, "larder-1:3128");
        append(&mut message, Version::HTTP_11, "larder-1:3128");
        append(&mut message, Version::HTTP_11, "not a token");
        let lines: Vec<_> = message.get_all(VIA).iter().collect();
        assert_eq!(lines, ["1.0 first (x, y)", "1.0 larder-1:3128", "1.1 larder-1:3128"]);
    }

    #[test]
    fn loops_are_seen_wherever_our_entry_stands() {
        for (line, expected) in [
            ("1.1 larder", true),
            ("1.1 LARDER", true),
            ("HTTP/1.1 larder", true),
            ("1.0 a, 1.1\tlarder (comment), 1.1 b", true),
            ("1.1 a (\"unclosed), 1.1 larder, 1.1 b (\")", true),
            ("1.1 larder2", false),
            ("1.1 a (larder)", false),
            ("larder", false),
            ("", false),
        ] {
            assert_eq!(is_loop(&headers(&[&format!("Via: {line}")]), "larder"), expected, "{line}");
        }
        assert!(is_loop(&headers(&["Via: 1.1 a", "Via: 1.1 larder"]), "larder"));
        assert_eq!(hops(&headers(&["Via: 1.1 a, 1.1 b", "Via: 1.1 c"])), 3);
    }
}
