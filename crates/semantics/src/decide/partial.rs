//! Partial content: reading a 206, combining parts, and requesting the next one (RFC 9110,
//! 15.3.7.3; RFC 9111, 3.3 and 3.4).
//!
//! Bytes of two responses may be combined only if both have the same strong validator and, if the
//! origin vouches, the same version. Without a strong validator, the bytes of a single response
//! still serve requests for ranges within them.

use http::StatusCode;
use http::header::{
    ACCEPT_RANGES, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, HeaderMap,
    HeaderName, HeaderValue, IF_RANGE, RANGE,
};

use crate::fields::range::ByteRange;
use crate::fields::validators::VERSION;
use crate::fields::view::{EditFields, Fields, only_line};
use crate::fields::{one_exchange, validators, value};
use crate::request::facts::TargetFacts;
use crate::settings::Settings;
use crate::stored::packed::Flag;
use crate::stored::stored_head::StoredHead;
use crate::time::ExchangeTimes;

/// A received part of a representation of known length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Positions of the bytes received.
    pub range: ByteRange,
    /// Length of the representation in bytes.
    pub length: u64,
}

/// Why a 206 cannot be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotAPart {
    /// The body contains several parts.
    Multipart,
    /// `Content-Range` is missing, duplicated or malformed, or not in bytes.
    ContentRange,
    /// The length of the representation is unknown (`*`).
    UnknownLength,
    /// The length of the body differs from `Content-Range`.
    WrongLength,
}

/// Returns the part that a 206 with these headers contains. `body` is the length of its body in
/// bytes, if the framing states it.
pub fn read(headers: &HeaderMap, body: Option<u64>) -> Result<Received, NotAPart> {
    let content_type = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    let multipart = b"multipart/byteranges";
    if content_type.get(..multipart.len()).is_some_and(|kind| kind.eq_ignore_ascii_case(multipart))
    {
        return Err(NotAPart::Multipart);
    }
    let mut lines = headers.get_all(CONTENT_RANGE).iter();
    let (Some(line), None) = (lines.next(), lines.next()) else {
        return Err(NotAPart::ContentRange);
    };
    let (range, length) = content_range(line).ok_or(NotAPart::ContentRange)?;
    let length = length.ok_or(NotAPart::UnknownLength)?;
    if range.end > length {
        return Err(NotAPart::ContentRange);
    }
    if body.is_some_and(|body| body != range.count()) {
        return Err(NotAPart::WrongLength);
    }
    Ok(Received { range, length })
}

/// Parses `bytes first-last/length`; the length is `None` for `*` (RFC 9110, 14.4).
fn content_range(value: &HeaderValue) -> Option<(ByteRange, Option<u64>)> {
    let (unit, rest) = value.to_str().ok()?.trim().split_once([' ', '\t'])?;
    let (range, length) = rest.trim().split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let number = |digits: &str| {
        let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        plain.then(|| digits.parse::<u64>().ok()).flatten()
    };
    let (start, end) = (number(first)?, number(last)?.checked_add(1)?);
    let length = match length {
        "*" => None,
        digits => Some(number(digits)?),
    };
    let sensible = unit.eq_ignore_ascii_case("bytes") && start < end;
    sensible.then_some((ByteRange { start, end }, length))
}

/// Returns the headers of a 200 with the whole representation, derived from those of a 206.
pub fn whole_headers(headers: &HeaderMap, length: u64) -> HeaderMap {
    let mut whole = headers.clone();
    whole.remove(CONTENT_RANGE);
    one_exchange::remove_content_digests(&mut whole);
    whole.insert(CONTENT_LENGTH, value::of_number(length));
    whole
}

/// Returns whether parts of this response may be combined with others: it needs a strong validator.
pub fn combines(head: &StoredHead) -> bool {
    let facts = head.packed();
    facts.is(Flag::StrongEtag) || (facts.is(Flag::StrongLastModified) && !facts.is(Flag::WeakEtag))
}

/// Returns whether an interrupted response is worth keeping because the rest can be requested.
pub fn resumes(head: &StoredHead) -> bool {
    let accepts = head.headers().get(ACCEPT_RANGES);
    let refuses =
        accepts.is_some_and(|ranges| ranges.as_bytes().trim_ascii().eq_ignore_ascii_case(b"none"));
    head.status() == StatusCode::OK && combines(head) && !refuses
}

/// Returns whether `stored` and `new` belong to exactly the same representation, so that their
/// bytes may be combined. `new` is the head of a part, converted by [`whole_headers`].
pub fn is_same(stored: &StoredHead, new: &StoredHead) -> bool {
    let (ours, theirs) = (stored.selected(), new.selected());
    let length = |head: &StoredHead| head.headers().get(CONTENT_LENGTH).cloned();
    let same = |name: HeaderName| stored.headers().get(&name) == new.headers().get(&name);
    // Two codings with one strong validator are an error of the origin.
    let alike = length(stored) == length(new) && same(CONTENT_ENCODING) && same(VERSION);
    let validated = match (ours.etag(), theirs.etag()) {
        (Some(ours), Some(theirs)) => ours.strong_eq(&theirs),
        // Only if neither has a tag: a tag that was added may mean another difference.
        (None, None) => {
            ours.strong_last_modified().is_some()
                && ours.strong_last_modified() == theirs.strong_last_modified()
        }
        _ => false,
    };
    alike && validated
}

/// The result of a request for a gap in a stored response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The response fills the gap up to this position.
    Fits(u64),
    /// The origin now has another representation, or none.
    Changed,
    /// The origin does not send the bytes, now or to this client.
    Refused,
}

/// Evaluates the response to a request for `gap` in a stored response of `length` bytes. The third
/// part of `answer` is the length of its body in bytes, if the framing states it. A part that
/// begins at the start of the gap and ends early is used as far as it goes; any other part is not
/// used.
pub fn weigh(
    stored: &StoredHead,
    length: u64,
    gap: ByteRange,
    answer: (StatusCode, &HeaderMap, Option<u64>),
    times: ExchangeTimes,
    settings: &Settings,
) -> Verdict {
    let (status, headers, body) = answer;
    match status.as_u16() {
        206 => {}
        404 | 410 | 416 | 200..=399 => return Verdict::Changed,
        // Errors, including those for missing credentials, say nothing about the object.
        _ => return Verdict::Refused,
    }
    let Ok(part) = read(headers, body) else { return Verdict::Refused };
    let whole = whole_headers(headers, part.length);
    let new = StoredHead::new(TargetFacts::default(), StatusCode::OK, &whole, times, settings);
    if part.length != length || !is_same(stored, &new) {
        return Verdict::Changed;
    }
    let fits = part.range.start == gap.start && part.range.end <= gap.end;
    if fits { Verdict::Fits(part.range.end) } else { Verdict::Refused }
}

/// Turns a request into one for `range` of exactly the stored representation.
///
/// With a strong tag, `If-Range` makes the origin send the whole representation if it has changed.
/// A date is compared after the response arrives instead: a response to `If-Range` may omit it
/// (RFC 9110, 15.3.7).
pub fn ask(request: &mut impl EditFields, stored: &StoredHead, range: ByteRange) {
    validators::remove_conditions(request);
    let text = format!("bytes={}-{}", range.start, range.end - 1);
    let Ok(value) = HeaderValue::try_from(text) else { return };
    request.set_line(&RANGE, &value);
    if stored.packed().is(Flag::StrongEtag)
        && let Some(tag) = stored.headers().get(ETAG)
    {
        request.set_line(&IF_RANGE, tag);
    }
}

/// Returns whether the `Range` of a request asks for a single part in bytes, so that the part in
/// the response can be stored.
pub fn asks_for_one(request: &impl Fields) -> bool {
    let line = only_line(request, &RANGE).and_then(value::text);
    let Some((unit, set)) = line.and_then(|text| text.split_once('=')) else {
        return false;
    };
    let Some((first, last)) = set.trim().split_once('-') else { return false };
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    unit.trim().eq_ignore_ascii_case("bytes")
        && digits(first)
        && digits(last)
        && !(first.is_empty() && last.is_empty())
}

/// Returns the bytes to fetch so that the byte at `wanted.start` is available, within one window.
///
/// `stored` is the part that the window already has, which must not contain that byte. The result
/// is always adjacent to it, so both form one part. With `aligned` the result extends to the edge
/// of the window, so the next request finds more than this one asked for.
pub fn gap(
    window: ByteRange,
    stored: Option<ByteRange>,
    wanted: ByteRange,
    aligned: bool,
) -> ByteRange {
    let start = if aligned { window.start } else { wanted.start.max(window.start) };
    let end = if aligned { window.end } else { wanted.end.min(window.end) };
    match stored {
        None => ByteRange { start, end },
        Some(part) if wanted.start >= part.end => ByteRange { start: part.end, end },
        Some(part) => ByteRange { start, end: part.start },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{AT_NOW, EARLIER_DATE, LATER_DATE, NOW_DATE, headers, stored};

    fn bytes(start: u64, end: u64) -> ByteRange {
        ByteRange { start, end }
    }

    #[test]
    fn only_the_part_that_was_asked_for_fills_a_gap() {
        use Verdict::*;
        let stored = stored(&["ETag: \"a\"", "Content-Length: 100"]);
        let range = |text: &str| format!("Content-Range: bytes {text}");
        let tag = "ETag: \"a\"";
        let (all, short, early, long, late, other) = (
            range("20-59/100"),
            range("20-39/100"),
            range("19-59/100"),
            range("20-60/100"),
            range("21-59/100"),
            range("20-59/101"),
        );
        let cases: [(u16, &[&str], Option<u64>, Verdict); 19] = [
            (206, &[tag, &all], Some(40), Fits(60)),
            (206, &[tag, &all], None, Fits(60)),
            (206, &[tag, &short], Some(20), Fits(40)),
            (206, &[tag, &early], None, Refused),
            (206, &[tag, &long], None, Refused),
            (206, &[tag, &late], None, Refused),
            (206, &[tag, &all], Some(39), Refused),
            (206, &[tag], None, Refused),
            (206, &[tag, "Content-Type: multipart/byteranges; boundary=x", &all], None, Refused),
            (206, &[tag, &other], None, Changed),
            (206, &["ETag: \"b\"", &all], None, Changed),
            (206, &["ETag: W/\"a\"", &all], None, Changed),
            (206, &[&all], None, Changed),
            (206, &[tag, "Content-Encoding: gzip", &all], None, Changed),
            (200, &[tag], Some(100), Changed),
            (302, &[], None, Changed),
            (416, &[], None, Changed),
            (403, &[], None, Refused),
            (503, &[], None, Refused),
        ];
        for (status, lines, body, expected) in cases {
            let lines = headers(lines);
            let answer = (StatusCode::from_u16(status).unwrap(), &lines, body);
            let (gap, settings) = (bytes(20, 60), Settings::default());
            let verdict = weigh(&stored, 100, gap, answer, AT_NOW, &settings);
            assert_eq!(verdict, expected, "{status} {lines:?} {body:?}");
        }
    }

    #[test]
    fn a_part_says_exactly_where_it_belongs() {
        let part = |start, end, length| Ok(Received { range: bytes(start, end), length });
        type Case<'a> = (&'a [&'a str], Option<u64>, Result<Received, NotAPart>);
        let cases: [Case; 17] = [
            (&["Content-Range: bytes 0-4/10"], Some(5), part(0, 5, 10)),
            (&["Content-Range: Bytes 5-9/10"], None, part(5, 10, 10)),
            (&["Content-Range: bytes  5-9/10"], None, part(5, 10, 10)),
            (&["Content-Range: bytes 0-4/*"], Some(5), Err(NotAPart::UnknownLength)),
            (&["Content-Range: bytes 0-4/10"], Some(4), Err(NotAPart::WrongLength)),
            (&[], Some(5), Err(NotAPart::ContentRange)),
            (&["Content-Range: bytes 0-10/10"], None, Err(NotAPart::ContentRange)),
            (&["Content-Range: bytes 4-3/10"], None, Err(NotAPart::ContentRange)),
            (&["Content-Range: bytes */10"], None, Err(NotAPart::ContentRange)),
            (&["Content-Range: lines 0-4/10"], None, Err(NotAPart::ContentRange)),
            (&["Content-Range: bytes=0-4/10"], None, Err(NotAPart::ContentRange)),
            (&["Content-Range: bytes +0-4/10"], None, Err(NotAPart::ContentRange)),
            (&["Content-Range: bytes 0-4"], None, Err(NotAPart::ContentRange)),
            (&["Content-Range: bytes 0-4/1x"], None, Err(NotAPart::ContentRange)),
            (
                &["Content-Range: bytes 0-18446744073709551615/10"],
                None,
                Err(NotAPart::ContentRange),
            ),
            (
                &["Content-Range: bytes 0-4/10", "Content-Range: bytes 0-4/10"],
                None,
                Err(NotAPart::ContentRange),
            ),
            (&["Content-Type: Multipart/ByteRanges; boundary=x"], None, Err(NotAPart::Multipart)),
        ];
        for (lines, body, expected) in cases {
            assert_eq!(read(&headers(lines), body), expected, "{lines:?}");
        }
    }

    #[test]
    fn only_the_same_strong_validator_lets_parts_stand_side_by_side() {
        let (old, new) =
            (format!("Last-Modified: {EARLIER_DATE}"), format!("Last-Modified: {LATER_DATE}"));
        let (date, later) = (format!("Date: {NOW_DATE}"), format!("Date: {LATER_DATE}"));
        let (old, new, date, later) = (&*old, &*new, &*date, &*later);
        let cases: [(&[&str], &[&str], bool); 15] = [
            (&["ETag: \"a\"", "Larder-Version: 1"], &["ETag: \"a\"", "Larder-Version: 1"], true),
            (&["ETag: \"a\"", "Larder-Version: 1"], &["ETag: \"a\"", "Larder-Version: 2"], false),
            (&["ETag: \"a\"", "Larder-Version: 1"], &["ETag: \"a\""], false),
            (&["ETag: \"a\""], &["ETag: \"a\""], true),
            (&["ETag: \"a\""], &["ETag: \"b\""], false),
            (&["ETag: \"a\""], &["ETag: W/\"a\""], false),
            (&["ETag: W/\"a\""], &["ETag: W/\"a\""], false),
            (&["ETag: \"a\"", old, date], &[old, date], false),
            (&[old, date], &["ETag: \"a\"", old, date], false),
            (&[old, date], &[old, date], true),
            (&[old, date], &[old, later], true),
            (&[old, date], &[new, later], false),
            (&[new, later], &[new, later], false),
            (&["ETag: \"a\"", "Content-Encoding: gzip"], &["ETag: \"a\""], false),
            (&["ETag: \"a\"", "Content-Length: 9"], &["ETag: \"a\"", "Content-Length: 8"], false),
        ];
        for (ours, theirs, expected) in cases {
            assert_eq!(is_same(&stored(ours), &stored(theirs)), expected, "{ours:?} {theirs:?}");
        }
        assert!(combines(&stored(&["ETag: \"a\""])));
        assert!(combines(&stored(&[old, date])));
        for weak in [&["ETag: W/\"a\""][..], &["ETag: W/\"a\"", old, date], &[new, later], &[]] {
            assert!(!combines(&stored(weak)), "{weak:?}");
        }
        assert!(resumes(&stored(&["ETag: \"a\""])));
        assert!(!resumes(&stored(&["ETag: \"a\"", "Accept-Ranges: None"])));
    }

    #[test]
    fn a_part_is_asked_for_under_the_tag_that_it_must_fit() {
        let mut request = headers(&["Range: bytes=0-", "If-None-Match: \"x\"", "If-Range: \"x\""]);
        ask(&mut request, &stored(&["ETag: \"a\""]), bytes(5, 10));
        assert_eq!(request, headers(&["Range: bytes=5-9", "If-Range: \"a\""]));
        let (modified, date) =
            (format!("Last-Modified: {EARLIER_DATE}"), format!("Date: {NOW_DATE}"));
        ask(&mut request, &stored(&[&modified, &date]), bytes(0, 1));
        assert_eq!(request, headers(&["Range: bytes=0-0"]));
    }

    #[test]
    fn one_part_in_bytes_is_told_from_everything_else() {
        for one in ["bytes=0-4", "Bytes=5-", "bytes=-5", "bytes= 0-4 "] {
            assert!(asks_for_one(&headers(&[&format!("Range: {one}")])), "{one}");
        }
        for other in ["bytes=0-4,6-7", "lines=0-4", "bytes=-", "bytes=a-b", "bytes", ""] {
            assert!(!asks_for_one(&headers(&[&format!("Range: {other}")])), "{other}");
        }
        assert!(!asks_for_one(&headers(&[])));
        assert!(!asks_for_one(&headers(&["Range: bytes=0-4", "Range: bytes=0-4"])));
    }

    #[test]
    fn a_gap_always_touches_what_is_there() {
        let window = bytes(100, 200);
        let cases = [
            (None, (120, 130), false, (120, 130)),
            (None, (120, 500), false, (120, 200)),
            (None, (120, 130), true, (100, 200)),
            (Some((100, 120)), (120, 130), false, (120, 130)),
            (Some((100, 120)), (150, 160), false, (120, 160)),
            (Some((100, 120)), (150, 160), true, (120, 200)),
            (Some((150, 160)), (120, 130), false, (120, 150)),
            (Some((150, 160)), (120, 190), false, (120, 150)),
            (Some((150, 160)), (120, 130), true, (100, 150)),
            (Some((150, 160)), (170, 180), false, (160, 180)),
        ];
        for (part, (start, end), aligned, expected) in cases {
            let part = part.map(|(start, end)| bytes(start, end));
            let found = gap(window, part, bytes(start, end), aligned);
            // A gap before a part ends at the start of the part.
            assert_eq!((found.start, found.end), expected, "{part:?} {start}-{end}");
        }
    }

    #[test]
    fn the_whole_has_no_content_range() {
        let part = headers(&["Content-Range: bytes 0-4/10", "Content-Length: 5", "X-A: 1"]);
        assert_eq!(whole_headers(&part, 10), headers(&["Content-Length: 10", "X-A: 1"]));
    }
}
