//! The head of an answer with a whole body, as it goes over the wire in HTTP/1.1.
//!
//! It promises the very bytes that hyper writes for the same answer, or none: where the two might
//! differ nothing is written.

use http::header::HeaderMap;
use http::{StatusCode, header};

/// Writes the head of an answer whose body has `length` bytes to `out`, in place of what is there;
/// `None` where it is not of the usual form, or says something about the connection.
pub(crate) fn write(
    status: StatusCode,
    fields: &HeaderMap,
    length: u64,
    out: &mut Vec<u8>,
) -> Option<()> {
    out.clear();
    // hyper writes the length of no body elsewhere.
    if length == 0 {
        return None;
    }
    write_status(status, out)?;
    let (mut digits, mut has_length) = (itoa::Buffer::new(), false);
    let digits = digits.format(length).as_bytes();
    for (name, value) in fields {
        match *name {
            header::CONNECTION | header::TRANSFER_ENCODING | header::TRAILER | header::UPGRADE => {
                return None;
            }
            header::CONTENT_LENGTH if has_length || value.as_bytes() != digits => return None,
            header::CONTENT_LENGTH => has_length = true,
            _ => {}
        }
        write_field(name.as_str().as_bytes(), value.as_bytes(), out);
    }
    if !has_length {
        write_field(b"content-length", digits, out);
    }
    out.extend_from_slice(b"\r\n");
    Some(())
}

/// Writes the first line of an answer that has a body.
pub(super) fn write_status(status: StatusCode, out: &mut Vec<u8>) -> Option<()> {
    let has_body = status.as_u16() >= 200
        && ![StatusCode::NO_CONTENT, StatusCode::RESET_CONTENT, StatusCode::NOT_MODIFIED]
            .contains(&status);
    let reason = status.canonical_reason().filter(|_| has_body)?;
    out.extend_from_slice(b"HTTP/1.1 ");
    out.extend_from_slice(status.as_str().as_bytes());
    out.push(b' ');
    out.extend_from_slice(reason.as_bytes());
    out.extend_from_slice(b"\r\n");
    Some(())
}

/// Writes a field.
pub(super) fn write_field(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    out.reserve(name.len() + value.len() + 4);
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use http::header::HeaderName;

    use super::*;

    fn written(status: u16, fields: &[(HeaderName, &str)], length: u64) -> Option<String> {
        let fields: HeaderMap =
            fields.iter().map(|(name, value)| (name.clone(), value.parse().unwrap())).collect();
        let mut out = b"before".to_vec();
        write(StatusCode::from_u16(status).unwrap(), &fields, length, &mut out)?;
        Some(String::from_utf8(out).unwrap())
    }

    #[test]
    fn a_head_has_its_fields_and_one_length() {
        let (via, length) = (header::VIA, header::CONTENT_LENGTH);
        assert_eq!(
            written(404, &[(via.clone(), "1.1 a"), (via.clone(), "1.1 b")], 3).unwrap(),
            "HTTP/1.1 404 Not Found\r\nvia: 1.1 a\r\nvia: 1.1 b\r\ncontent-length: 3\r\n\r\n"
        );
        assert_eq!(
            written(200, &[(length.clone(), "3"), (via, "1.1 a")], 3).unwrap(),
            "HTTP/1.1 200 OK\r\ncontent-length: 3\r\nvia: 1.1 a\r\n\r\n"
        );
        assert!(written(206, &[], 3).unwrap().starts_with("HTTP/1.1 206 Partial Content\r\n"));
        for (name, value) in [
            (length.clone(), "4"),
            (length, "3, 3"),
            (header::CONNECTION, "close"),
            (header::TRANSFER_ENCODING, "gzip"),
            (header::TRAILER, "x"),
            (header::UPGRADE, "x"),
        ] {
            assert_eq!(written(200, &[(name, value)], 3), None, "{value}");
        }
        for status in [100, 101, 204, 205, 304, 299] {
            assert_eq!(written(status, &[], 3), None, "{status}");
        }
        assert_eq!(written(200, &[], 0), None);
    }
}
