//! Content codings that a client takes (RFC 9110, 12.5.3).

use http::header::{ACCEPT_ENCODING, HeaderMap, HeaderValue};

use crate::fields::list;

/// Returns whether a client accepts a body with these codings: each is named in its
/// `Accept-Encoding`, or `*` is. A client that sends no such field accepts any coding by the letter
/// of the RFC; it is not sent one on a guess.
pub fn is_taken(request: &HeaderMap, codings: Option<&HeaderValue>) -> bool {
    let Some(codings) = codings else { return true };
    list::split(codings.as_bytes())
        .all(|coding| coding.eq_ignore_ascii_case(b"identity") || is_named(request, coding))
}

fn is_named(request: &HeaderMap, coding: &[u8]) -> bool {
    let of = |wanted: &[u8]| {
        list::members(request, ACCEPT_ENCODING).find_map(|member| {
            let mut parts = member.split(|&byte| byte == b';').map(list::trim);
            let name = parts.next()?;
            // `q=0`, `q=0.0`, `q=0.000`
            let is_refused = parts.any(|part| {
                let weight = part.strip_prefix(b"q=").or_else(|| part.strip_prefix(b"Q="));
                weight.is_some_and(|weight| weight.iter().all(|byte| b"0.".contains(byte)))
            });
            name.eq_ignore_ascii_case(wanted).then_some(!is_refused)
        })
    };
    of(coding).or_else(|| of(b"*")).unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::headers;

    #[test]
    fn codings_must_be_named_and_not_refused() {
        let cases = [
            ("gzip, br", "gzip", true),
            ("GZIP;q=0.5", "gzip", true),
            ("br", "gzip", false),
            ("gzip;q=0", "gzip", false),
            ("gzip; q=0.000", "gzip", false),
            ("gzip;q=0.001", "gzip", true),
            ("*", "gzip", true),
            ("*, gzip;q=0", "gzip", false),
            ("*;q=0, gzip", "gzip", true),
            ("gzip", "gzip, br", false),
            ("br, gzip", "gzip, br", true),
            ("x", "identity", true),
            ("", "gzip", false),
        ];
        for (accepted, codings, expected) in cases {
            let request = headers(&[&format!("Accept-Encoding: {accepted}")]);
            let codings = HeaderValue::from_static(codings);
            assert_eq!(is_taken(&request, Some(&codings)), expected, "{accepted} {codings:?}");
        }
        assert!(is_taken(&headers(&[]), None));
        assert!(!is_taken(&headers(&[]), Some(&HeaderValue::from_static("gzip"))));
    }
}
