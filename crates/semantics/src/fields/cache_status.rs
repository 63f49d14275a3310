//! `Cache-Status` (RFC 9211): what this cache did with a request, for readers of the answer.
//!
//! Our entry stands behind those of caches nearer to the origin, as a line of its own.

use std::fmt;

use http::StatusCode;
use http::header::{HeaderMap, HeaderName, HeaderValue};

use crate::fields::value;

/// The name of the field.
pub const CACHE_STATUS: HeaderName = HeaderName::from_static("cache-status");

/// Why a request went to the origin: the `fwd` of RFC 9211 (2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forward {
    /// The configuration says not to use the cache for it.
    Bypass,
    /// The method's semantics require it.
    Method,
    /// Nothing is stored under the URL.
    UriMiss,
    /// Something is stored, but no variant for this request.
    VaryMiss,
    /// Nothing usable is stored, for one of the two reasons above.
    Miss,
    /// The request asked for it (`no-cache`, `max-age`).
    Request,
    /// The stored response is stale.
    Stale,
    /// A part is stored, but not what was asked for.
    Partial,
}

impl Forward {
    /// Returns the token of RFC 9211.
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

/// One entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStatus<'a> {
    /// Served from the cache, without asking the origin. Excludes `forward`.
    pub hit: bool,
    /// Why the origin was asked.
    pub forward: Option<Forward>,
    /// The origin's status, when that differs from the client's.
    pub forward_status: Option<StatusCode>,
    /// Freshness left in seconds; negative when stale.
    pub ttl: Option<i64>,
    /// The answer was stored.
    pub stored: bool,
    /// The request waited for another one's fetch.
    pub collapsed: bool,
    /// The cache key.
    pub key: Option<&'a str>,
    /// Anything else: the outcome's name.
    pub detail: Option<&'a str>,
}

impl CacheStatus<'_> {
    /// Returns the entry as text, under the name `cache`.
    pub fn to_text(&self, cache: &str) -> String {
        self.named(cache).to_string()
    }

    /// Returns the entry as a field value; never `None`, as it is visible ASCII whatever the name.
    pub fn to_value(&self, cache: &str) -> Option<HeaderValue> {
        value::of(self.named(cache))
    }

    /// Appends the entry to a response's headers, behind those of other caches.
    pub fn append_to(&self, headers: &mut HeaderMap, cache: &str) {
        if let Some(value) = self.to_value(cache) {
            headers.append(CACHE_STATUS, value);
        }
    }

    fn named<'a>(&'a self, cache: &'a str) -> Named<'a> {
        Named { cache, entry: self }
    }
}

/// An entry under the name of its cache.
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
        // The key is a string also where a token would do (RFC 9211, 2.7).
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

/// Writes a structured-field token where `value` is one, else a string.
pub(crate) fn write_token_or_string(text: &mut impl fmt::Write, value: &str) -> fmt::Result {
    let is_first = |byte: &u8| byte.is_ascii_alphabetic() || *byte == b'*';
    let is_more = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~:/".contains(&byte);
    if value.as_bytes().first().is_some_and(is_first) && value.bytes().all(is_more) {
        text.write_str(value)
    } else {
        write_string(text, value)
    }
}

/// Writes a structured-field string; characters it cannot hold become `?`.
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
