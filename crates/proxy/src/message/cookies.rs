//! The `Cookie` field: its pairs, and the pieces into which HTTP/2 may split it.

use http::header;
use http::header::HeaderValue;
use semantics::{EditFields, Fields, Pattern};

/// Joins the pieces into which an HTTP/2 client may split `Cookie` (RFC 9113, 8.2.3). Other
/// versions require a single line.
pub fn join_cookies(fields: &mut impl EditFields) {
    if fields.lines(&header::COOKIE).nth(1).is_none() {
        return;
    }
    let pieces: Vec<&[u8]> = fields.lines(&header::COOKIE).collect();
    // Joining two valid values yields a valid value.
    if let Ok(mut whole) = HeaderValue::from_bytes(&pieces.join(&b"; "[..])) {
        whole.set_sensitive(true);
        fields.set_line(&header::COOKIE, &whole);
    }
}

/// Returns the name and value of each cookie. One without `=` has only a name.
pub fn pairs(fields: &impl Fields) -> impl Iterator<Item = (&[u8], &[u8])> {
    fields.lines(&header::COOKIE).flat_map(pieces).map(pair)
}

/// Returns the cookies of these names as a field value, sorted by name. Of several with one name
/// all are part of it, in order: servers do not agree on which counts.
pub fn named(fields: &impl Fields, names: &[String]) -> HeaderValue {
    let is_asked = |name: &[u8]| names.iter().any(|asked| asked.as_bytes() == name);
    let mut found: Vec<_> = pairs(fields).filter(|(name, _)| is_asked(name)).collect();
    found.sort_by_key(|(name, _)| *name);
    let pieces = found.iter().map(|(name, value)| [name, &b"="[..], value].concat());
    // Parts of a valid value are valid.
    HeaderValue::try_from(pieces.collect::<Vec<_>>().join(&b"; "[..]))
        .unwrap_or(HeaderValue::from_static(""))
}

fn pieces(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|byte| *byte == b';').map(<[u8]>::trim_ascii).filter(|piece| !piece.is_empty())
}

fn pair(piece: &[u8]) -> (&[u8], &[u8]) {
    match piece.iter().position(|byte| *byte == b'=') {
        Some(at) => (piece[..at].trim_ascii_end(), piece[at + 1..].trim_ascii_start()),
        None => (piece, b""),
    }
}

/// Cookies that an operator removes from requests, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CookieFilter {
    /// Lists of patterns: of each list, one must match the name of a cookie that is kept.
    pub keep: Vec<Vec<Pattern>>,
    /// Cookies whose names match one of these patterns are removed.
    pub remove: Vec<Pattern>,
}

impl CookieFilter {
    /// Returns whether every cookie is kept.
    pub fn is_empty(&self) -> bool {
        self.keep.is_empty() && self.remove.is_empty()
    }

    /// Returns the filter that applies this one and then `later`.
    pub fn then(&self, later: &CookieFilter) -> CookieFilter {
        CookieFilter {
            keep: [&self.keep[..], &later.keep].concat(),
            remove: [&self.remove[..], &later.remove].concat(),
        }
    }

    /// Removes cookies, and the field if none is left.
    pub fn apply(&self, fields: &mut impl EditFields) {
        if self.is_empty() || !fields.has(&header::COOKIE) {
            return;
        }
        let keeps = |piece: &&[u8]| {
            let fits = |pattern: &Pattern| pattern.matches(pair(piece).0);
            self.keep.iter().all(|list| list.iter().any(fits)) && !self.remove.iter().any(fits)
        };
        let kept: Vec<&[u8]> =
            fields.lines(&header::COOKIE).flat_map(pieces).filter(keeps).collect();
        // A part of a valid value is valid.
        match HeaderValue::from_bytes(&kept.join(&b"; "[..])) {
            Ok(mut left) if !left.is_empty() => {
                left.set_sensitive(true);
                fields.set_line(&header::COOKIE, &left);
            }
            _ => _ = fields.remove_lines(&header::COOKIE),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use http::HeaderMap;

    use super::*;

    #[test]
    fn cookies_become_one_line() {
        let mut headers = HeaderMap::new();
        join_cookies(&mut headers);
        assert!(headers.is_empty());
        for piece in ["a=1", "b=2; c=3", "d=4"] {
            headers.append(header::COOKIE, piece.parse().unwrap());
        }
        join_cookies(&mut headers);
        let all: Vec<_> = headers.get_all(header::COOKIE).iter().collect();
        assert_eq!(all, ["a=1; b=2; c=3; d=4"]);
    }

    #[test]
    fn cookies_are_filtered_by_name() {
        let patterns = |texts: &[&str]| texts.iter().map(|text| Pattern::new(text)).collect();
        for (keep, remove, expected) in [
            (&["*"][..], &["_ga*", "x"][..], Some("session=1; flag; y=a=b")),
            (&["session"], &[], Some("session=1")),
            (&[], &[], None),
            (&["*"], &["*"], None),
            (&["s*"], &["session"], None),
        ] {
            let mut headers = HeaderMap::new();
            headers.append(header::COOKIE, "_ga=1; session=1;flag ; x=;".parse().unwrap());
            headers.append(header::COOKIE, "_gat=2; y=a=b".parse().unwrap());
            CookieFilter { keep: vec![patterns(keep)], remove: patterns(remove) }
                .apply(&mut headers);
            let left = headers.get(header::COOKIE).map(|line| line.to_str().unwrap());
            assert_eq!(left, expected, "{keep:?} {remove:?}");
        }
    }
}
