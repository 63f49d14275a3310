//! Writers for heads and for the lines around chunks.

use http::header::{HeaderMap, HeaderName};
use http::{Method, StatusCode};
use semantics::Speller;

/// Writes an HTTP/1.1 request line.
pub fn write_request_line(method: &Method, target: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(method.as_str().as_bytes());
    out.push(b' ');
    out.extend_from_slice(target.as_bytes());
    out.extend_from_slice(b" HTTP/1.1\r\n");
}

/// Writes the status line of an HTTP/1.1 response, or of an HTTP/1.0 response if `is_old`.
pub fn write_status_line(status: StatusCode, is_old: bool, out: &mut Vec<u8>) {
    out.extend_from_slice(if is_old { b"HTTP/1.0 " } else { b"HTTP/1.1 " });
    out.extend_from_slice(status.as_str().as_bytes());
    out.push(b' ');
    // Many parsers expect a reason phrase.
    out.extend_from_slice(status.canonical_reason().unwrap_or("<none>").as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// Writes a field line.
#[inline]
pub fn write_field(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

/// Writes the fields of `map` that `is_written` selects, with names spelled by `speller`.
pub fn write_map(
    map: &HeaderMap,
    speller: &mut Speller<'_>,
    is_written: impl Fn(&HeaderName) -> bool,
    out: &mut Vec<u8>,
) {
    for (name, value) in map.iter().filter(|(name, _)| is_written(name)) {
        write_field(speller.spell(name).as_bytes(), value.as_bytes(), out);
    }
}

/// Writes a field line with a number as its value.
pub fn write_number_field(name: &[u8], number: u64, out: &mut Vec<u8>) {
    write_field(name, itoa::Buffer::new().format(number).as_bytes(), out);
}

/// Writes the size line of a chunk of `size` bytes, which must be more than 0. The caller writes
/// the data and the CR LF after it.
pub fn write_chunk_size(size: usize, out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    debug_assert!(size > 0, "a chunk of 0 bytes ends the body");
    let digits = (usize::BITS - size.leading_zeros()).div_ceil(4).max(1);
    out.extend((0..digits).rev().map(|at| DIGITS[size >> (4 * at) & 15]));
    out.extend_from_slice(b"\r\n");
}

/// Writes the last chunk and the trailers, which end a chunked body.
pub fn write_last_chunk<'a>(
    trailers: impl Iterator<Item = (&'a [u8], &'a [u8])>,
    out: &mut Vec<u8>,
) {
    out.extend_from_slice(b"0\r\n");
    trailers.for_each(|(name, value)| write_field(name, value, out));
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use http::header::{self, HeaderValue};
    use semantics::Spellings;

    use super::*;

    #[test]
    fn chunk_sizes_are_written_in_hexadecimal() {
        for size in [1, 9, 15, 16, 17, 255, 256, 4095, 65_536, 0xabc_def0, usize::MAX] {
            let mut out = Vec::new();
            write_chunk_size(size, &mut out);
            assert_eq!(out, format!("{size:x}\r\n").as_bytes());
        }
    }

    #[test]
    fn requests_are_spelled_as_their_names_came() {
        let spellings = Spellings::of(["Host", "DNT"].into_iter());
        let names = [header::HOST, header::DNT, header::TE, header::VIA];
        let map = names.into_iter().zip((0u16..).map(HeaderValue::from)).collect();
        let mut out = Vec::new();
        write_request_line(&Method::PUT, "/a?b", &mut out);
        write_map(&map, &mut spellings.speller(), |name| *name != header::TE, &mut out);
        let expected = "PUT /a?b HTTP/1.1\r\nHost: 0\r\nDNT: 1\r\nvia: 3\r\n";
        assert_eq!(out, expected.as_bytes());
    }

    #[test]
    fn lines_end_with_cr_lf() {
        let mut out = Vec::new();
        write_status_line(StatusCode::NOT_FOUND, false, &mut out);
        write_number_field(b"content-length", 12, &mut out);
        write_last_chunk([(&b"a"[..], &b"b"[..])].into_iter(), &mut out);
        let expected = "HTTP/1.1 404 Not Found\r\ncontent-length: 12\r\n0\r\na: b\r\n\r\n";
        assert_eq!(out, expected.as_bytes());
    }
}
