//! `Cache-Status` (RFC 9211): how this cache handled a request, as reported in the response.
//!
//! The entry of this cache is appended as a line of its own, after those of caches nearer to the
//! origin.

use std::fmt;

use http::StatusCode;
use http::header::{HeaderMap, HeaderName, HeaderValue};

use crate::fields::value;

/// The field name.
pub const CACHE_STATUS: HeaderName = HeaderName::from_static("cache-status");

/// Why a request went to the origin: the `fwd` parameter of RFC 9211 (2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forward {
    /// The configuration bypasses the cache for this request.
    Bypass,
    /// The method's semantics require it.
    Method,
    /// Nothing is stored for the URL.
    UriMiss,
    /// Responses are stored for the URL, but none that the request selects.
    VaryMiss,
    /// Nothing usable is stored; either of the two reasons above.
    Miss,
    /// The directives of the request required it (`no-cache`, `max-age`).
    Request,
    /// The stored response is stale.
    Stale,
    /// Only part of the requested bytes is stored.
    Partial,
}

impl Forward {
    /// Returns the token defined in RFC 9211.
    pub const fn token(self) -> &'static str {
        match self {
            Forward::Bypass => "bypass",
            Forward::Method => "method",
            Forward::UriMiss => "uri-miss",
            Forward::VaryMiss => "vary-miss",
            Forward::Miss => "miss",
            Forward::Request => "request",
            Forward::Stale => "stale",
            Forward::Partial => "partial",
        }
    }
}

/// One entry of the field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStatus<'a> {
    /// True if the cache served the response without asking the origin. Excludes `forward`.
    pub hit: bool,
    /// Why the request was forwarded.
    pub forward: Option<Forward>,
    /// The origin's status, if the client gets a different one.
    pub forward_status: Option<StatusCode>,
    /// Remaining freshness in seconds; negative if stale.
    pub ttl: Option<i64>,
    /// True if the response was stored.
    pub stored: bool,
    /// True if the request waited for the fetch of another request.
    pub collapsed: bool,
    /// The cache key.
    pub key: Option<&'a str>,
    /// Further detail: the name of the outcome.
    pub detail: Option<&'a str>,
}

impl CacheStatus<'_> {
    /// Returns the entry as text, with `cache` as the name of the cache.
    pub fn to_text(&self, cache: &str) -> String {
        self.named(cache).to_string()
    }

    /// Returns the entry as a field value. Never `None`, since the text is always visible ASCII.
    pub fn to_value(&self, cache: &str) -> Option<HeaderValue> {
        value::of(self.named(cache))
    }

    /// Appends the entry to the headers of a response, after those of other caches.
    pub fn append_to(&self, headers: &mut HeaderMap, cache: &str) {
        if let Some(value) = self.to_value(cache) {
            headers.append(CACHE_STATUS, value);
        }
    }

    fn named<'a>(&'a self, cache: &'a str) -> Named<'a> {
        Named { cache, entry: self }
    }
}

/// An entry with the name of its cache.
struct Named<'a> {
    cache: &'a str,
    entry: &'a CacheStatus<'a>,
}

impl fmt::Display for Named<'_> {
    fn fmt(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entry = self.entry;
        write_token_or_string(text, self.cache)?;
        if entry.hit {
            text.write_str("; hit")?;
        } else if let Some(forward) = entry.forward {
            write!(text, "; fwd={}", forward.token())?;
        }
        if let Some(status) = entry.forward_status {
            write!(text, "; fwd-status={}", status.as_u16())?;
        }
        if let Some(ttl) = entry.ttl {
            write!(text, "; ttl={ttl}")?;
        }
        if entry.stored {
            text.write_str("; stored")?;
        }
        if entry.collapsed {
            text.write_str("; collapsed")?;
        }
        // RFC 9211 (2.7) requires a string, even if the key is a valid token.
        if let Some(key) = entry.key {
            text.write_str("; key=")?;
            write_string(text, key)?;
        }
        if let Some(detail) = entry.detail {
            text.write_str("; detail=")?;
            write_token_or_string(text, detail)?;
        }
        Ok(())
    }
}

/// Writes `value` as a structured-field token if it is one, otherwise as a string.
pub(crate) fn write_token_or_string(text: &mut impl fmt::Write, value: &str) -> fmt::Result {
    let is_first = |byte: &u8| byte.is_ascii_alphabetic() || *byte == b'*';
    let is_more = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~:/".contains(&byte);
    if value.as_bytes().first().is_some_and(is_first) && value.bytes().all(is_more) {
        text.write_str(value)
    } else {
        write_string(text, value)
    }
}

/// Writes a structured-field string. Characters that it cannot contain become `?`.
fn write_string(text: &mut impl fmt::Write, value: &str) -> fmt::Result {
    text.write_char('"')?;
    for character in value.chars() {
        match character {
            '"' | '\\' => {
                text.write_char('\\')?;
                text.write_char(character)?;
            }
            ' '..='~' => text.write_char(character)?,
            _ => text.write_char('?')?,
        }
    }
    text.write_char('"')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::headers;

    #[test]
    fn entries_are_written_as_in_rfc_9211() {
        let hit = CacheStatus { hit: true, ttl: Some(376), ..CacheStatus::default() };
        let miss = CacheStatus {
            forward: Some(Forward::UriMiss),
            stored: true,
            collapsed: true,
            detail: Some("MISS"),
            ..CacheStatus::default()
        };
        let validated = CacheStatus {
            forward: Some(Forward::Stale),
            forward_status: Some(StatusCode::NOT_MODIFIED),
            ttl: Some(-5),
            key: Some("http://a/\"\u{e9}"),
            detail: Some("BYPASS(no store)"),
            ..CacheStatus::default()
        };
        for (entry, expected) in [
            (hit, "larder; hit; ttl=376"),
            (miss, "larder; fwd=uri-miss; stored; collapsed; detail=MISS"),
            (
                validated,
                "larder; fwd=stale; fwd-status=304; ttl=-5; key=\"http://a/\\\"?\"; \
                 detail=\"BYPASS(no store)\"",
            ),
        ] {
            let text = entry.to_text("larder");
            assert_eq!(text, expected);
            let parsed = sfv::Parser::new(text.as_bytes()).parse::<sfv::List>();
            assert_eq!(parsed.unwrap().len(), 1, "{text}");
        }
        assert!(hit.to_text("my cache").starts_with("\"my cache\"; hit"));
    }

    #[test]
    fn our_entry_goes_behind_those_nearer_to_the_origin() {
        let mut reply = headers(&["Cache-Status: other; hit"]);
        CacheStatus { hit: true, ..CacheStatus::default() }.append_to(&mut reply, "larder");
        let lines: Vec<_> = reply.get_all(CACHE_STATUS).iter().collect();
        assert_eq!(lines, ["other; hit", "larder; hit"]);
    }
}
