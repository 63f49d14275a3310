//! The `Cookie` field in HTTP/2.

use http::header;
use http::header::HeaderValue;
use semantics::EditFields;

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
}
