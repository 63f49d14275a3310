//! `Range` requests for a body of known length (RFC 9110, 14).
//!
//! A `Range` is ignored if it is malformed, in another unit, or exceeds [`Limits`]. The client then
//! gets the whole body, which is always permitted (14.2). Ranges that overlap or nearly touch are
//! joined, so a response is never larger than the body plus the part heads of `max_parts` parts.

use http::Method;
use http::header::{HeaderValue, IF_RANGE, RANGE};

use crate::fields::date;
use crate::fields::etag::EntityTag;
use crate::fields::validators::Selected;
use crate::fields::view::{Fields, only_line};

/// The bytes `start..end` of a body; never empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteRange {
    /// Position of the first byte.
    pub start: u64,
    /// Position after the last byte.
    pub end: u64,
}

impl ByteRange {
    /// Returns the number of bytes.
    pub fn count(&self) -> u64 {
        self.end - self.start
    }

    /// Returns the range as a [`std::ops::Range`].
    pub fn as_range(&self) -> std::ops::Range<u64> {
        self.start..self.end
    }

    /// Returns the `Content-Range` of this part of a body of `length` bytes.
    pub fn content_range(&self, length: u64) -> HeaderValue {
        let text = format!("bytes {}-{}/{length}", self.start, self.end - 1);
        HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static("bytes */*"))
    }
}

/// Returns the `Content-Range` of a 416 for a body of `length` bytes.
pub fn unsatisfied_content_range(length: u64) -> HeaderValue {
    HeaderValue::try_from(format!("bytes */{length}"))
        .unwrap_or(HeaderValue::from_static("bytes */*"))
}

/// The part of a body that a request's `Range` selects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// No usable `Range`: respond with 200 and the whole body.
    Whole,
    /// Respond with 206 and one part.
    Single(ByteRange),
    /// Respond with 206 and `multipart/byteranges`: at least two parts, which do not overlap.
    Multiple(Vec<ByteRange>),
    /// Respond with 416: no range is within the body.
    Unsatisfiable,
}

/// Limits against requests for many tiny or overlapping parts (RFC 9110, 17.15).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of ranges in a request; with more, the field is ignored.
    pub max_ranges: usize,
    /// Maximum number of parts in a response, after joining; with more, the whole body is sent.
    pub max_parts: usize,
    /// Maximum gap in bytes between ranges that are joined: such a gap is smaller than a part head.
    pub join_gap: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { max_ranges: 64, max_parts: 16, join_gap: 80 }
    }
}

/// Returns the part of a 200 response with a body of `length` bytes to send. Evaluates `If-Range`;
/// the caller has evaluated the other conditions ([`crate::fields::validators`]).
pub fn select(
    method: &Method,
    request: &impl Fields,
    selected: &Selected,
    length: u64,
    limits: Limits,
) -> Selection {
    let Some(range) = only_line(request, &RANGE) else { return Selection::Whole };
    if method != Method::GET || selected.status != http::StatusCode::OK {
        return Selection::Whole;
    }
    if !if_range_holds(request, selected) {
        return Selection::Whole;
    }
    parse(range, length, limits)
}

/// Returns whether `If-Range` is absent or matches the selected response (RFC 9110, 13.1.5), either
/// by a strong tag or by a `Last-Modified` that is a strong validator.
pub fn if_range_holds(request: &impl Fields, selected: &Selected) -> bool {
    let mut lines = request.lines(&IF_RANGE);
    let Some(condition) = lines.next() else { return true };
    if lines.next().is_some() {
        return false;
    }
    if let Some(wanted) = EntityTag::parse(condition) {
        return selected.etag().is_some_and(|tag| tag.strong_eq(&wanted));
    }
    let wanted = date::parse(condition, selected.received);
    wanted.is_some() && wanted == selected.strong_last_modified()
}

/// Evaluates a `Range` value for a body of `length` bytes.
pub fn parse(value: &[u8], length: u64, limits: Limits) -> Selection {
    let Some(set) = range_set(value) else { return Selection::Whole };
    if limits.max_ranges > 0
        && let Some(spec) = read_spec(set.trim_matches(BLANKS))
    {
        return only_one(spec, length);
    }
    let Some(specs) = read_specs(set, limits.max_ranges) else { return Selection::Whole };
    // A suffix of an empty body is satisfiable (14.1.2), but no 206 can express it.
    if length == 0 && specs.iter().any(|spec| matches!(spec, Spec::Suffix { count: 1.. })) {
        return Selection::Whole;
    }
    let satisfiable: Vec<ByteRange> = specs.iter().filter_map(|spec| spec.within(length)).collect();
    let parts = join(&satisfiable, limits.join_gap);
    match parts.as_slice() {
        [] => Selection::Unsatisfiable,
        [all] if all.start == 0 && all.end == length && satisfiable.len() > 1 => Selection::Whole,
        [single] => Selection::Single(*single),
        parts if parts.len() > limits.max_parts => Selection::Whole,
        parts => Selection::Multiple(parts.to_vec()),
    }
}

/// Returns the selection of a set with one member, which is the usual case.
fn only_one(spec: Spec, length: u64) -> Selection {
    match (spec.within(length), spec) {
        (Some(part), _) => Selection::Single(part),
        (None, Spec::Suffix { count: 1.. }) => Selection::Whole,
        (None, _) => Selection::Unsatisfiable,
    }
}

/// One member of a byte range set.
#[derive(Clone, Copy, Debug)]
enum Spec {
    /// `first-last`, both inclusive; without `last`, to the end.
    From { first: u64, last: Option<u64> },
    /// `-count`: the last `count` bytes.
    Suffix { count: u64 },
}

impl Spec {
    /// Returns the selected bytes of a body of `length` bytes; `None` if there are none.
    fn within(self, length: u64) -> Option<ByteRange> {
        let (start, end) = match self {
            Spec::From { first, last } => {
                let end = last.map_or(length, |last| last.saturating_add(1).min(length));
                (first, end)
            }
            Spec::Suffix { count } => (length.saturating_sub(count), length),
        };
        (start < end).then_some(ByteRange { start, end })
    }
}

const BLANKS: [char; 2] = [' ', '\t'];

/// Returns the range set of a value; `None` if the unit is not bytes.
fn range_set(value: &[u8]) -> Option<&str> {
    let (unit, set) = std::str::from_utf8(value).ok()?.split_once('=')?;
    unit.trim_matches(BLANKS).eq_ignore_ascii_case("bytes").then_some(set)
}

/// Parses the members of a set; `None` if it is malformed or has more than `max` ranges.
fn read_specs(set: &str, max: usize) -> Option<Vec<Spec>> {
    let mut specs = Vec::new();
    for member in set.split(',') {
        let member = member.trim_matches(BLANKS);
        if member.is_empty() {
            continue;
        }
        if specs.len() == max {
            return None;
        }
        specs.push(read_spec(member)?);
    }
    (!specs.is_empty()).then_some(specs)
}

fn read_spec(member: &str) -> Option<Spec> {
    let (first, last) = member.split_once('-')?;
    match (first, last) {
        ("", count) => Some(Spec::Suffix { count: position(count)? }),
        (first, "") => Some(Spec::From { first: position(first)?, last: None }),
        (first, last) => {
            let (first, last) = (position(first)?, position(last)?);
            (first <= last).then_some(Spec::From { first, last: Some(last) })
        }
    }
}

/// Parses a byte position. A number that does not fit in 64 bits lies beyond any body and becomes
/// `u64::MAX`.
fn position(digits: &str) -> Option<u64> {
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some(
        digits.bytes().fold(0u64, |sum, digit| {
            sum.saturating_mul(10).saturating_add(u64::from(digit - b'0'))
        }),
    )
}

/// Joins ranges that overlap or are at most `gap` bytes apart. A joined range takes the place of
/// its first member, which keeps the order of the client (RFC 9110, 15.3.7.2).
fn join(ranges: &[ByteRange], gap: u64) -> Vec<ByteRange> {
    let mut by_start: Vec<(usize, ByteRange)> = ranges.iter().copied().enumerate().collect();
    by_start.sort_by_key(|(_, range)| range.start);
    let mut joined: Vec<(usize, ByteRange)> = Vec::with_capacity(ranges.len());
    for (place, range) in by_start {
        match joined.last_mut() {
            Some((first, last)) if range.start <= last.end.saturating_add(gap) => {
                *first = place.min(*first);
                last.end = last.end.max(range.end);
            }
            _ => joined.push((place, range)),
        }
    }
    joined.sort_by_key(|(place, _)| *place);
    joined.into_iter().map(|(_, range)| range).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{EARLIER_DATE, NOW, NOW_DATE, headers};
    use http::StatusCode;

    /// Returns the selection for a body of 1000 bytes as text: `whole`, `416`, or the parts as
    /// `first-last`.
    fn words(value: &str) -> String {
        let limits = Limits { max_ranges: 8, max_parts: 3, join_gap: 10 };
        match parse(value.as_bytes(), 1000, limits) {
            Selection::Whole => "whole".into(),
            Selection::Unsatisfiable => "416".into(),
            Selection::Single(part) => format!("{}-{}", part.start, part.end - 1),
            Selection::Multiple(parts) => {
                let parts = parts.iter().map(|part| format!("{}-{}", part.start, part.end - 1));
                parts.collect::<Vec<_>>().join(",")
            }
        }
    }

    #[test]
    fn ranges_of_a_thousand_bytes() {
        for (value, expected) in [
            ("bytes=0-0", "0-0"),
            ("bytes=0-999", "0-999"),
            ("bytes=0-", "0-999"),
            ("bytes=500-", "500-999"),
            ("bytes=500-5000", "500-999"),
            ("bytes=999-", "999-999"),
            ("bytes=-1", "999-999"),
            ("bytes=-5000", "0-999"),
            ("BYTES=0-0", "0-0"),
            ("bytes= 0-0 ,, 100-100 ,", "0-0,100-100"),
            ("bytes=900-,0-0", "900-999,0-0"),
            // No range within the body.
            ("bytes=1000-", "416"),
            ("bytes=1000-1001,2000-", "416"),
            ("bytes=-0", "416"),
            ("bytes=99999999999999999999999-", "416"),
            ("bytes=1000-,5-5", "5-5"),
            ("bytes=5-99999999999999999999999", "5-999"),
            // Joined: overlapping, touching, or with a small gap.
            ("bytes=0-9,5-14", "0-14"),
            ("bytes=0-9,10-14", "0-14"),
            ("bytes=0-9,20-29", "0-29"),
            ("bytes=0-9,21-29", "0-9,21-29"),
            ("bytes=500-599,0-9,550-699", "500-699,0-9"),
            ("bytes=500-599,0-9,450-549", "450-599,0-9"),
            ("bytes=0-499,500-999", "whole"),
            ("bytes=-1,0-", "whole"),
            // Over the limits, or malformed.
            ("bytes=0-0,100-100,200-200,300-300", "whole"),
            ("bytes=0-0,0-0,0-0,0-0,0-0,0-0,0-0,0-0", "0-0"),
            ("bytes=0-0,0-0,0-0,0-0,0-0,0-0,0-0,0-0,0-0", "whole"),
            ("bytes=5-4", "whole"),
            ("bytes=0-0,5-4", "whole"),
            ("bytes=a-b", "whole"),
            ("bytes=-", "whole"),
            ("bytes=0 - 1", "whole"),
            ("bytes=+1-2", "whole"),
            ("bytes=", "whole"),
            ("bytes=,", "whole"),
            ("bytes", "whole"),
            ("lines=0-1", "whole"),
            ("", "whole"),
        ] {
            assert_eq!(words(value), expected, "{value}");
        }
    }

    #[test]
    fn an_empty_body_has_no_ranges() {
        let of_nothing = |value: &str| parse(value.as_bytes(), 0, Limits::default());
        assert_eq!(of_nothing("bytes=0-"), Selection::Unsatisfiable);
        assert_eq!(of_nothing("bytes=-0"), Selection::Unsatisfiable);
        assert_eq!(of_nothing("bytes=-5"), Selection::Whole);
    }

    #[test]
    fn if_range_needs_exactly_the_stored_version() {
        let modified = &*format!("Last-Modified: {EARLIER_DATE}");
        let date = &*format!("Date: {NOW_DATE}");
        let same_date = &*format!("If-Range: {EARLIER_DATE}");
        let later = &*format!("If-Range: {NOW_DATE}");
        let cases: [(&[&str], &[&str], bool); 11] = [
            (&[], &[], true),
            (&["If-Range: \"a\""], &["ETag: \"a\""], true),
            (&["If-Range: \"b\""], &["ETag: \"a\""], false),
            (&["If-Range: W/\"a\""], &["ETag: W/\"a\""], false),
            (&["If-Range: \"a\""], &["ETag: W/\"a\""], false),
            (&["If-Range: \"a\""], &[], false),
            (&["If-Range: \"a\"", "If-Range: \"a\""], &["ETag: \"a\""], false),
            (&[same_date], &[modified, date], true),
            (&[same_date], &[modified], false),
            (&[later], &[modified, date], false),
            (&["If-Range: garbage"], &["ETag: garbage"], false),
        ];
        for (request, stored, expected) in cases {
            let stored_headers = headers(stored);
            let selected = Selected::of(StatusCode::OK, &stored_headers, NOW);
            let request_headers = headers(request);
            assert_eq!(
                if_range_holds(&request_headers, &selected),
                expected,
                "{request:?} {stored:?}"
            );
            let mut with_range = request_headers;
            with_range.insert(RANGE, HeaderValue::from_static("bytes=0-1"));
            let selection = select(&Method::GET, &with_range, &selected, 10, Limits::default());
            assert_eq!(selection == Selection::Whole, !expected, "{request:?} {stored:?}");
        }
    }

    #[test]
    fn only_one_range_of_a_get_of_a_200_counts() {
        let none = headers(&[]);
        let select = |method: Method, status: StatusCode, request: &[&str]| {
            let selected = Selected::of(status, &none, NOW);
            super::select(&method, &headers(request), &selected, 10, Limits::default())
        };
        let range = "Range: bytes=0-1";
        let part = Selection::Single(ByteRange { start: 0, end: 2 });
        assert_eq!(select(Method::GET, StatusCode::OK, &[range]), part);
        assert_eq!(select(Method::HEAD, StatusCode::OK, &[range]), Selection::Whole);
        assert_eq!(select(Method::GET, StatusCode::NOT_FOUND, &[range]), Selection::Whole);
        assert_eq!(select(Method::GET, StatusCode::OK, &[range, range]), Selection::Whole);
    }

    #[test]
    fn content_ranges_name_first_and_last_byte() {
        assert_eq!(ByteRange { start: 5, end: 8 }.content_range(10), "bytes 5-7/10");
        assert_eq!(unsatisfied_content_range(10), "bytes */10");
    }
}
