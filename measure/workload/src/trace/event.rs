//! One line or record of a trace as written: names are hashes, not yet numbers.

use http::StatusCode;
use semantics::freshness;
use store::Kind;
use xxhash_rust::xxh3::xxh3_64;

use super::filter::Filter;
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
    /// Bytes of what `measure` names. `None` for a response without a body (304).
    pub size: Option<u64>,
    /// The thing whose size it is.
    pub measure: Measure,
    /// Distinguishes versions in addition to the size (`Last-Modified`); 0 if absent.
    pub modified: u64,
    /// True if the log states that the origin sent a new version.
    pub is_new_version: bool,
    /// True if the log states that a cache had the response.
    pub is_hit: bool,
    /// Kind of the object: a page or a part of one.
    pub kind: Kind,
    /// The method.
    pub method: Method,
    /// Status of the response; 200 if absent.
    pub status: u16,
    /// Why no cache would store the response, if so.
    pub skip_reason: Option<SkipReason>,
}

/// The thing whose size an event states.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Measure {
    /// The object.
    #[default]
    Object,
    /// The bytes of a body that were sent: fewer than the object has if the transfer broke off.
    Sent,
    /// The same with the response head, whose length varies.
    SentWithHead,
    /// A part of the object, or what was sent of it until the transfer broke off.
    Part,
}

/// Parses a line of a log.
pub(super) type Parse = fn(&[u8], Filter) -> Result<Event, String>;

/// Why a request is irrelevant to a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SkipReason {
    /// The method is not GET.
    Method,
    /// A generated response by C17's rule: `?`, `cgi-bin`, `.cgi` in the URL.
    Dynamic,
    /// A status that is not cacheable by default.
    Status,
    /// The cache that wrote the log refused the request or passed it on; by C17's rule, any outcome
    /// that it does not keep.
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

/// Returns whether a response with this status is cacheable by default; 304 stands for the stored
/// one.
fn is_storable(status: u16, filter: Filter) -> bool {
    match filter {
        Filter::Papers => matches!(status, 200 | 203 | 300 | 301 | 304 | 410),
        Filter::Served | Filter::All => {
            status == 304
                || StatusCode::from_u16(status).is_ok_and(freshness::is_heuristically_cacheable)
        }
    }
}

/// Returns why a cache does not store the response, judged by what every log has.
pub(super) fn skip_reason(
    method: Method,
    is_dynamic: bool,
    status: u16,
    filter: Filter,
) -> Option<SkipReason> {
    if method != Method::Get {
        return Some(SkipReason::Method);
    }
    if is_dynamic && filter == Filter::Papers {
        return Some(SkipReason::Dynamic);
    }
    (!is_storable(status, filter)).then_some(SkipReason::Status)
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
