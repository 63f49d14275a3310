//! One line or record of a trace, as it says it: names are hashes, nothing is numbered yet.

use store::Kind;
use xxhash_rust::xxh3::xxh3_64;

use crate::request::Method;

/// One request of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Names the object: its number, or the hash of its name.
    pub object: u64,
    /// Bytes of the object.
    pub size: u64,
}

/// A request as one line or record tells it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// Milliseconds, from 1970 where the format says so; 0 where there is no time.
    pub time_ms: u64,
    /// Names the object: its number, or the hash of its name.
    pub object: u64,
    /// Names the server: the hash of its name; 0 where there is none.
    pub site: u64,
    /// Names site and directory; 0 where there is none.
    pub group: u64,
    /// Names who asked; 0 where there is none.
    pub client: u64,
    /// Bytes of the object. `None` where the line is about an answer without a body (304).
    pub size: Option<u64>,
    /// Names what tells versions apart beside the size (`Last-Modified`); 0 where there is none.
    pub modified: u64,
    /// The log says that the origin sent a new version.
    pub is_new_version: bool,
    /// A page, or a part of one.
    pub kind: Kind,
    /// What was asked.
    pub method: Method,
    /// The status of the answer; 200 where there is none.
    pub status: u16,
    /// Why no cache would store the answer, if so.
    pub skip_reason: Option<SkipReason>,
}

/// Why a request is no business of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SkipReason {
    /// Not a GET.
    Method,
    /// An answer that programs make: `?`, `cgi-bin`, `.cgi` in the URL.
    Dynamic,
    /// A status that is not stored without being asked to (RFC 9110, 15.1), or a part (206).
    Status,
    /// Squid's outcome is none of those that C17 keeps.
    Outcome,
    /// No line before it tells the size of the object.
    NoSize,
}

impl SkipReason {
    /// All, in the order of their counts.
    pub const ALL: [SkipReason; 5] = [
        SkipReason::Method,
        SkipReason::Dynamic,
        SkipReason::Status,
        SkipReason::Outcome,
        SkipReason::NoSize,
    ];

    /// In a word or two.
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

/// A name as a number.
pub(super) fn hash(name: &[u8]) -> u64 {
    xxh3_64(name)
}

/// What a method's name says.
pub(super) fn method(name: &[u8]) -> Method {
    match name {
        b"GET" => Method::Get,
        b"HEAD" => Method::Head,
        b"POST" => Method::Post,
        _ => Method::Other,
    }
}

/// Whether an answer is stored without being asked to, in HTTP/1.1 as of 1999 (the papers') and
/// today; 304 stands for the stored one.
pub(super) fn is_storable(status: u16) -> bool {
    matches!(status, 200 | 203 | 300 | 301 | 304 | 410)
}

/// Why a cache does not store this, by what every log tells.
pub(super) fn skip_reason(method: Method, is_dynamic: bool, status: u16) -> Option<SkipReason> {
    if method != Method::Get {
        return Some(SkipReason::Method);
    }
    if is_dynamic {
        return Some(SkipReason::Dynamic);
    }
    (!is_storable(status)).then_some(SkipReason::Status)
}

/// Digits only.
pub(super) fn number(field: &[u8]) -> Option<u64> {
    if field.is_empty() || !field.iter().all(u8::is_ascii_digit) {
        return None;
    }
    field.iter().try_fold(0_u64, |number, digit| {
        number.checked_mul(10)?.checked_add(u64::from(digit - b'0'))
    })
}

/// Seconds with decimals or without, in milliseconds; what is finer is cut off.
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

/// Bytes for a message, not too many of them.
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
