//! The fields that frame a message's body, reduced to one meaning.
//!
//! A message that is forwarded or stored has at most one field that says where its body ends: no
//! `Content-Length` together with chunks, no second length, and no transfer coding that was not
//! decoded (RFC 9112, 6).

use http::header::{CONTENT_LENGTH, HeaderMap, HeaderValue, TRANSFER_ENCODING};
use http::{Method, StatusCode};
use semantics::{Fields, UsualNames, value};

use upstream::message::via::list;

const HAS_CODING: UsualNames = UsualNames::of(&["transfer-encoding"]);
const HAS_LENGTH: UsualNames = UsualNames::of(&["content-length"]);

/// Returns whether decoding the chunks of a message yields its content. With any other transfer
/// coding, the coded bytes would be mistaken for the content.
pub fn is_plain(fields: &impl Fields) -> bool {
    if !fields.has_any(HAS_CODING) {
        return true;
    }
    let mut codings = list(fields, &TRANSFER_ENCODING);
    codings.next().is_some_and(|coding| coding.eq_ignore_ascii_case("chunked"))
        && codings.next().is_none()
}

/// Returns whether a request announces a body, even an empty chunked one.
pub fn announces_body(fields: &impl Fields) -> bool {
    fields.has_any(HAS_CODING) || fields.line(&CONTENT_LENGTH).is_some_and(|length| length != b"0")
}

/// The largest body length to accept, because other programs count in signed 64-bit numbers.
const LONGEST: u64 = i64::MAX as u64;

/// Returns whether a `Content-Length` exceeds any length that can be sent; other parsers might
/// misread it. Values that are not numbers are not judged here.
pub fn is_absurd(fields: &impl Fields) -> bool {
    if !fields.has_any(HAS_LENGTH) {
        return false;
    }
    let lines = fields.lines(&CONTENT_LENGTH);
    let mut lengths =
        lines.flat_map(|line| line.split(|&byte| byte == b',')).map(<[u8]>::trim_ascii);
    lengths.any(|length| {
        let is_number = !length.is_empty() && length.iter().all(u8::is_ascii_digit);
        let number = std::str::from_utf8(length).ok().and_then(|text| text.parse().ok());
        is_number && number.is_none_or(|number: u64| number > LONGEST)
    })
}

/// Returns whether an HTTP/2 request declares its body length correctly (RFC 9113, 8.1.1). In
/// HTTP/1 a `Content-Length` decides where the next request begins. `empty`: the request has no
/// body. A body that does not match its length is detected while it is read.
pub fn agrees_with_stream(fields: &impl Fields, empty: bool) -> bool {
    let mut lengths = fields.lines(&CONTENT_LENGTH);
    let Some(length) = lengths.next() else { return true };
    let length = value::text(length).filter(|text| text.bytes().all(|b| b.is_ascii_digit()));
    let length = length.and_then(|text| text.parse::<u64>().ok());
    lengths.next().is_none() && length.is_some_and(|length| !empty || length == 0)
}

/// Reduces the head of an upstream's response to `method` to one correct length, or none. `length`
/// is the length of the received body in bytes, if known.
///
/// # Errors
///
/// Returns the reason if the body cannot be forwarded.
pub fn settle(
    method: &Method,
    status: StatusCode,
    length: Option<u64>,
    headers: &mut HeaderMap,
) -> Result<(), &'static str> {
    let has_body = method != Method::HEAD
        && !matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
    if let Some(length) = length.filter(|length| has_body && *length <= LONGEST)
        && !headers.contains_key(TRANSFER_ENCODING)
        && is_said(headers, length)
    {
        // The common case.
        return Ok(());
    }
    if !is_plain(headers) {
        return Err("its body has a transfer coding that was not asked for");
    }
    if is_absurd(headers) {
        return Err("its Content-Length is larger than any body");
    }
    let has_no_length = headers.contains_key(TRANSFER_ENCODING) || status == StatusCode::NO_CONTENT;
    let length = match () {
        () if has_no_length => None,
        // In these responses the field describes a body that is not sent.
        () if method == Method::HEAD || status == StatusCode::NOT_MODIFIED => said(headers),
        () => length,
    };
    match length {
        Some(length) if is_said(headers, length) => {}
        Some(length) if headers.contains_key(CONTENT_LENGTH) => {
            headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
        }
        _ => {
            headers.remove(CONTENT_LENGTH);
        }
    }
    Ok(())
}

/// Returns whether exactly one line states this length, in canonical form.
fn is_said(headers: &HeaderMap, length: u64) -> bool {
    let mut lines = headers.get_all(CONTENT_LENGTH).iter();
    let (Some(line), None) = (lines.next(), lines.next()) else { return false };
    let starts_plainly = line.as_bytes().first() != Some(&b'0') || line.len() == 1;
    let is_digits = line.as_bytes().iter().all(u8::is_ascii_digit);
    starts_plainly && is_digits && line.to_str().is_ok_and(|text| text.parse() == Ok(length))
}

/// Returns the length that all lines and members of `Content-Length` agree on, if any.
fn said(headers: &HeaderMap) -> Option<u64> {
    let lines = headers.get_all(CONTENT_LENGTH).iter();
    let mut lengths = lines.flat_map(|line| line.to_str().unwrap_or("").split(','));
    let digits = |text: &str| -> Option<u64> {
        let text = text.trim();
        text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
    };
    let first = digits(lengths.next()?)?;
    lengths.all(|other| digits(other) == Some(first)).then_some(first)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// Returns the remaining lengths, or `refused`.
    fn left(method: &str, status: u16, length: Option<u64>, lines: &[(&str, &str)]) -> String {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(http::HeaderName::try_from(*name).unwrap(), value.parse().unwrap());
        }
        let status = StatusCode::from_u16(status).unwrap();
        if settle(&method.parse().unwrap(), status, length, &mut headers).is_err() {
            return "refused".to_owned();
        }
        let lengths = headers.get_all(CONTENT_LENGTH).iter();
        lengths.map(|line| line.to_str().unwrap()).collect::<Vec<_>>().join("|")
    }

    #[test]
    fn one_length_is_left_or_none() {
        const CL: &str = "content-length";
        const TE: &str = "transfer-encoding";
        assert_eq!(left("GET", 200, Some(5), &[(CL, "5")]), "5");
        assert_eq!(left("GET", 200, Some(5), &[(CL, "5"), (CL, "5")]), "5");
        assert_eq!(left("GET", 200, Some(5), &[(CL, "5, 5")]), "5");
        assert_eq!(left("GET", 200, None, &[(CL, "5"), (TE, "chunked")]), "");
        assert_eq!(left("GET", 200, None, &[(TE, "Chunked")]), "");
        for codings in ["gzip, chunked", "gzip", "chunked, chunked", ""] {
            assert_eq!(left("GET", 200, None, &[(TE, codings)]), "refused", "{codings}");
        }
        assert_eq!(left("GET", 204, Some(0), &[(CL, "5")]), "");
        assert_eq!(left("GET", 304, Some(0), &[(CL, "5")]), "5");
        assert_eq!(left("HEAD", 200, Some(0), &[(CL, "5")]), "5");
        for lengths in ["5, 6", "+5", "", "x", "5,"] {
            assert_eq!(left("HEAD", 200, Some(0), &[(CL, lengths)]), "", "{lengths}");
        }
        let most = "9223372036854775807";
        assert_eq!(left("HEAD", 200, Some(0), &[(CL, most)]), most);
        for lengths in ["9223372036854775808", "18446744073709551615", "99999999999999999999999"] {
            for method in ["GET", "HEAD"] {
                assert_eq!(left(method, 200, None, &[(CL, lengths)]), "refused", "{lengths}");
            }
            let beside = [(CL, "5"), (CL, lengths)];
            assert_eq!(left("HEAD", 200, Some(0), &beside), "refused", "{lengths}");
        }
    }

    #[test]
    fn a_length_agrees_with_the_stream() {
        let agrees = |lines: &[&str], empty| {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append(CONTENT_LENGTH, line.parse().unwrap());
            }
            agrees_with_stream(&headers, empty)
        };
        assert!(agrees(&[], true) && agrees(&[], false));
        assert!(agrees(&["0"], true) && agrees(&["5"], false));
        for bad in [&["5"][..], &["0", "0"], &["+0"], &["x"], &[""], &["0, 0"]] {
            assert!(!agrees(bad, true), "{bad:?}");
        }
        assert!(!agrees(&["5", "5"], false));
    }
}
