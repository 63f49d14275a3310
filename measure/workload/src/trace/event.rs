//! One line or record of a trace as written: names are hashes, not yet numbers.

use store::Kind;
use xxhash_rust::xxh3::xxh3_64;

use crate::request::Method;

/// The object and size of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The object: its number, or the hash of its name.
    pub object: u64,
    /// Bytes of the object.
    pub size: u64,
}

/// A request as stated by one line or record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// Time in milliseconds, since 1970 if the format defines that; 0 if absent.
    pub time_ms: u64,
    /// The object: its number, or the hash of its name.
    pub object: u64,
    /// The server: the hash of its name; 0 if absent.
    pub site: u64,
    /// Site and directory; 0 if absent.
    pub group: u64,
    /// The client; 0 if absent.
    pub client: u64,
    /// Bytes of the object. `None` for a response without a body (304).
    pub size: Option<u64>,
    /// Distinguishes versions in addition to the size (`Last-Modified`); 0 if absent.
    pub modified: u64,
    /// True if the log states that the origin sent a new version.
    pub is_new_version: bool,
    /// Kind of the object: a page or a part of one.
    pub kind: Kind,
    /// The method.
    pub method: Method,
    /// Status of the response; 200 if absent.
    pub status: u16,
    /// Why no cache would store the response, if so.
    pub skip_reason: Option<SkipReason>,
}

/// Why a request is irrelevant to a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SkipReason {
    /// The method is not GET.
    Method,
    /// A generated response: `?`, `cgi-bin`, `.cgi` in the URL.
    Dynamic,
    /// A status that is not cacheable by default (RFC 9110, 15.1), or a partial response (206).
    Status,
    /// Squid's outcome is not among those that C17 keeps.
    Outcome,
    /// No earlier line states the size of the object.
    NoSize,
}

impl SkipReason {
    /// All reasons, in the order of their counts.
    pub const ALL: [SkipReason; 5] = [
        SkipReason::Method,
        SkipReason::Dynamic,
        SkipReason::Status,
        SkipReason::Outcome,
        SkipReason::NoSize,
    ];

    /// Returns a short label.
    pub fn as_str(self) -> &'static str {
        match self {
            SkipReason::Method => "not GET",
            SkipReason::Dynamic => "dynamic",
            SkipReason::Status => "status",
            SkipReason::Outcome => "outcome",
            SkipReason::NoSize => "size unknown",
        }
    }
}

pub(super) fn hash(name: &[u8]) -> u64 {
    xxh3_64(name)
}

pub(super) fn method(name: &[u8]) -> Method {
    match name {
        b"GET" => Method::Get,
        b"HEAD" => Method::Head,
        b"POST" => Method::Post,
        _ => Method::Other,
    }
}

/// Returns whether a response is cacheable by default, in HTTP/1.1 as of 1999 (the papers') and
/// today; 304 stands for the stored one.
pub(super) fn is_storable(status: u16) -> bool {
    matches!(status, 200 | 203 | 300 | 301 | 304 | 410)
}

/// Returns why a cache does not store the response, judged by what every log has.
pub(super) fn skip_reason(method: Method, is_dynamic: bool, status: u16) -> Option<SkipReason> {
    if method != Method::Get {
        return Some(SkipReason::Method);
    }
    if is_dynamic {
        return Some(SkipReason::Dynamic);
    }
    (!is_storable(status)).then_some(SkipReason::Status)
}

/// Parses a number of digits only.
pub(super) fn number(field: &[u8]) -> Option<u64> {
    if field.is_empty() || !field.iter().all(u8::is_ascii_digit) {
        return None;
    }
    field.iter().try_fold(0_u64, |number, digit| {
        number.checked_mul(10)?.checked_add(u64::from(digit - b'0'))
    })
}

/// Converts seconds, with or without decimals, to milliseconds, rounding down.
pub(super) fn millis(field: &[u8]) -> Option<u64> {
    let point = field.iter().position(|byte| *byte == b'.').unwrap_or(field.len());
    let seconds = number(&field[..point])?.checked_mul(1_000)?;
    let decimals = field.get(point + 1..).unwrap_or_default();
    if !decimals.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let digits = decimals.iter().chain(b"000").take(3);
    let millis = digits.fold(0, |millis, digit| millis * 10 + u64::from(digit - b'0'));
    seconds.checked_add(millis)
}

/// Formats bytes for a message, with a length limit.
pub(super) fn shown(bytes: &[u8]) -> String {
    const SHOWN: usize = 60;
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(SHOWN)]);
    let more = if bytes.len() > SHOWN { "…" } else { "" };
    format!("{text:?}{more}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_times() {
        assert_eq!(number(b"18446744073709551615"), Some(u64::MAX));
        for bad in [&b""[..], b"-1", b"+1", b" 1", b"1x", b"18446744073709551616"] {
            assert_eq!(number(bad), None);
        }
        assert_eq!(millis(b"12"), Some(12_000));
        assert_eq!(millis(b"791648198.240981"), Some(791_648_198_240));
        assert_eq!(millis(b"1.5"), Some(1_500));
        assert_eq!(millis(b"1."), Some(1_000));
        for bad in [&b""[..], b".5", b"1.x", b"1.2.3", b"-1.0", b"18446744073709551.9"] {
            assert_eq!(millis(bad), None);
        }
    }
}
