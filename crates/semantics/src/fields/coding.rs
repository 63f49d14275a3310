//! Content codings that a client accepts (RFC 9110, 12.5.3).

use std::cmp::Reverse;

use http::header::ACCEPT_ENCODING;

use crate::fields::list;
use crate::fields::view::Fields;

/// Returns whether a client accepts a body with these codings: its `Accept-Encoding` must name each
/// of them, or `*`. Without the field the RFC permits any coding, but this function assumes none.
pub fn is_taken(request: &impl Fields, codings: Option<&[u8]>) -> bool {
    let Some(codings) = codings else { return true };
    list::split(codings).all(|coding| {
        coding.eq_ignore_ascii_case(b"identity") || weight(request, coding).is_some_and(|q| q > 0)
    })
}

/// Returns the codings in `offered` that a client accepts, in order of preference; ties keep the
/// order of `offered`. Codings that the client likes less than `identity` are left out.
pub fn preferred<'a>(request: &impl Fields, offered: &[&'a str]) -> Vec<&'a str> {
    let plain = member_weight(request, b"identity").unwrap_or(0).max(1);
    let mut taken: Vec<(u16, &str)> = offered
        .iter()
        .filter_map(|coding| Some((weight(request, coding.as_bytes())?, *coding)))
        .filter(|(weight, _)| *weight >= plain)
        .collect();
    taken.sort_by_key(|(weight, _)| Reverse(*weight));
    taken.into_iter().map(|(_, coding)| coding).collect()
}

/// Returns the position in `offered` of the coding that a client prefers, like [`preferred`]
/// without an allocation. `None` if the client prefers a body without a coding.
pub fn best<'a>(request: &impl Fields, offered: impl Iterator<Item = &'a str>) -> Option<usize> {
    let plain = member_weight(request, b"identity").unwrap_or(0).max(1);
    let mut best = None;
    for (at, coding) in offered.enumerate() {
        let weight = weight(request, coding.as_bytes()).filter(|weight| *weight >= plain);
        if let Some(weight) = weight
            && best.is_none_or(|(_, most)| weight > most)
        {
            best = Some((at, weight));
        }
    }
    best.map(|(at, _)| at)
}

/// Returns the weight of a coding in thousandths, by its name or by `*`. `None` if neither is
/// listed.
fn weight(request: &impl Fields, coding: &[u8]) -> Option<u16> {
    member_weight(request, coding).or_else(|| member_weight(request, b"*"))
}

/// Returns the weight of the first member with this name; 0 if it is malformed.
fn member_weight(request: &impl Fields, wanted: &[u8]) -> Option<u16> {
    list::members(request, &ACCEPT_ENCODING).find_map(|member| {
        let mut parts = member.split(|&byte| byte == b';').map(list::trim);
        let is_wanted = same(parts.next()?, wanted);
        is_wanted.then(|| list::weight(parts).unwrap_or(0))
    })
}

/// Compares coding names. `x-gzip` is equivalent to `gzip` (RFC 9110, 8.4.1.3).
fn same(one: &[u8], other: &[u8]) -> bool {
    let is_gzip =
        |name: &[u8]| name.eq_ignore_ascii_case(b"gzip") || name.eq_ignore_ascii_case(b"x-gzip");
    one.eq_ignore_ascii_case(other) || (is_gzip(one) && is_gzip(other))
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
            ("x-gzip", "gzip", true),
            ("gzip;q=x", "gzip", false),
            ("gzip;level=9;q=0.5", "gzip", true),
            ("", "gzip", false),
        ];
        for (accepted, codings, expected) in cases {
            let request = headers(&[&format!("Accept-Encoding: {accepted}")]);
            let is_taken = is_taken(&request, Some(codings.as_bytes()));
            assert_eq!(is_taken, expected, "{accepted} {codings}");
        }
        assert!(is_taken(&headers(&[]), None));
        assert!(!is_taken(&headers(&[]), Some(b"gzip")));
    }

    #[test]
    fn codings_are_ranked_as_the_client_wants() {
        let offered = ["br", "zstd", "gzip"];
        let cases: [(&str, &[&str]); 14] = [
            ("gzip, deflate, br, zstd", &["br", "zstd", "gzip"]),
            ("gzip", &["gzip"]),
            ("gzip, br;q=0.9", &["gzip", "br"]),
            ("br;q=0.1, gzip;q=0.2, zstd;q=0.15", &["gzip", "zstd", "br"]),
            ("*", &["br", "zstd", "gzip"]),
            ("*, br;q=0", &["zstd", "gzip"]),
            ("*;q=0.5, gzip", &["gzip", "br", "zstd"]),
            ("identity, gzip;q=0.5, br", &["br"]),
            ("identity;q=0, gzip", &["gzip"]),
            ("X-GZIP", &["gzip"]),
            ("gzip;q=7, br;q=nan, zstd;q=-1", &[]),
            ("identity", &[]),
            ("", &[]),
            (";q=1,,", &[]),
        ];
        for (accepted, expected) in cases {
            let request = headers(&[&format!("Accept-Encoding: {accepted}")]);
            assert_eq!(preferred(&request, &offered), expected, "{accepted}");
            let best = best(&request, offered.into_iter()).map(|at| offered[at]);
            assert_eq!(best, expected.first().copied(), "{accepted}");
        }
        assert_eq!(preferred(&headers(&[]), &offered), Vec::<&str>::new());
    }
}
