//! `Via` (RFC 9110, 7.6.3): the proxies a message came through, and whether we are among them.

use http::Version;
use http::header::{HeaderMap, HeaderValue, VIA};

use crate::list;

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

/// Whether `name` may stand in `Via` as a received-by: what the configuration is checked with.
pub fn is_pseudonym(name: &str) -> bool {
    !name.is_empty()
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~:[]".contains(&byte))
}

/// Whether a request has been through us before: one of its entries bears our pseudonym.
pub fn is_loop(headers: &HeaderMap, pseudonym: &str) -> bool {
    list::members(headers, VIA).any(|entry| {
        received_by(entry).is_some_and(|name| name.eq_ignore_ascii_case(pseudonym.as_bytes()))
    })
}

/// How many proxies have been passed.
pub fn hops(headers: &HeaderMap) -> usize {
    list::members(headers, VIA).count()
}

/// The second word of an entry. A comment behind it may hold commas, which makes its tail look like
/// entries; their second words may then only hide nothing: a real entry is never lost.
fn received_by(entry: &[u8]) -> Option<&[u8]> {
    entry.split(|byte| matches!(byte, b' ' | b'\t')).filter(|word| !word.is_empty()).nth(1)
}
