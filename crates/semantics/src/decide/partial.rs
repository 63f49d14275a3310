//! Partial content: the part that a 206 brings, what it may be combined with, and which part to ask
//! for next (RFC 9110, 15.3.7.3; RFC 9111, 3.3 and 3.4).
//!
//! The rule behind all of it: bytes of two answers may be combined only when both have the same
//! strong validator, and of an origin that vouches for its answers the same version. Without one,
//! the bytes of a single answer still serve requests that lie within them.

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

/// One received part of a whole of known length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Positions of the bytes received.
    pub range: ByteRange,
    /// Length of the whole in bytes.
    pub length: u64,
}

/// Why a 206 cannot be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotAPart {
    /// Several parts in one body.
    Multipart,
    /// `Content-Range` is missing, is there twice, or says nothing sensible in bytes.
    ContentRange,
    /// The length of the whole is not known (`*`).
    UnknownLength,
    /// The body is not as long as `Content-Range` says.
    WrongLength,
}

/// Reads which part a 206 with these headers brings. `body` is the length of its body in bytes,
/// when the framing says so.
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

/// Reads `bytes first-last/length`, the length `None` for `*` (RFC 9110, 14.4).
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

/// Returns the headers that a 200 with the whole would have had in place of this 206.
pub fn whole_headers(headers: &HeaderMap, length: u64) -> HeaderMap {
    let mut whole = headers.clone();
    whole.remove(CONTENT_RANGE);
    one_exchange::remove_content_digests(&mut whole);
    whole.insert(CONTENT_LENGTH, value::of_number(length));
    whole
}

/// Returns whether parts of this response may be combined with others: it has a strong validator.
pub fn combines(head: &StoredHead) -> bool {
    let facts = head.packed();
    facts.is(Flag::StrongEtag) || (facts.is(Flag::StrongLastModified) && !facts.is(Flag::WeakEtag))
}

/// Returns whether a response that broke off is worth keeping: the missing part can be asked for.
pub fn resumes(head: &StoredHead) -> bool {
    let accepts = head.headers().get(ACCEPT_RANGES);
    let refuses =
        accepts.is_some_and(|ranges| ranges.as_bytes().trim_ascii().eq_ignore_ascii_case(b"none"));
    head.status() == StatusCode::OK && combines(head) && !refuses
}

/// Returns whether `new`, the head of a part turned into that of the whole, is of exactly the
/// representation that `stored` is: then their bytes may be combined.
pub fn is_same(stored: &StoredHead, new: &StoredHead) -> bool {
    let (ours, theirs) = (stored.selected(), new.selected());
    let length = |head: &StoredHead| head.headers().get(CONTENT_LENGTH).cloned();
    let same = |name: HeaderName| stored.headers().get(&name) == new.headers().get(&name);
    // One strong validator for two codings is a mistake of the origin's.
    let alike = length(stored) == length(new) && same(CONTENT_ENCODING) && same(VERSION);
    let validated = match (ours.etag(), theirs.etag()) {
        (Some(ours), Some(theirs)) => ours.strong_eq(&theirs),
        // What had no tag may have got another reason to differ.
        (None, None) => {
            ours.strong_last_modified().is_some()
                && ours.strong_last_modified() == theirs.strong_last_modified()
        }
        _ => false,
    };
    alike && validated
}

/// The meaning of the answer to a request for a gap of a stored response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The part, up to this position.
    Fits(u64),
    /// The origin has something else by now.
    Changed,
    /// It does not give it, now or to this client.
    Refused,
}

/// Weighs the answer to a request for `gap` of what is `stored`, a response of `length` bytes.
/// `body` is the length of the answer's body in bytes, when the framing says so. An answer that
/// begins where the gap does and ends early is good as far as it goes; one that brings anything
/// else is of no use.
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
        // An error, or a client without the right credentials, says nothing of the object.
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

/// Turns a request into one for `range` of exactly the representation that is stored.
///
/// Under a strong tag `If-Range` makes the origin send everything when it has something else. A
/// date is compared in the answer instead: after `If-Range` the origin may leave it out
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

/// Returns whether a request's `Range` asks for one part in bytes: the part in its answer can be
/// stored.
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

/// Returns the bytes to fetch so that the one at `wanted.start` is there, within one window.
///
/// `stored` is the part that the window has, which must not contain that byte. What is fetched
/// always touches it, so that both together are one part again; with `aligned` it reaches to the
/// window's edge, so that the next request finds more than this one asked for.
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
            // A gap before a part ends where the part begins.
            assert_eq!((found.start, found.end), expected, "{part:?} {start}-{end}");
        }
    }

    #[test]
    fn the_whole_has_no_content_range() {
        let part = headers(&["Content-Range: bytes 0-4/10", "Content-Length: 5", "X-A: 1"]);
        assert_eq!(whole_headers(&part, 10), headers(&["Content-Length: 10", "X-A: 1"]));
    }
}
