//! Request heads, parsed from the bytes that a client sent.

use http::{Method, Version};

use crate::cursor::{BAD_FIRST_LINE, Cursor, Stop};
use crate::error::HeadError;
use crate::fields::Fields;
use crate::request_framing::RequestFraming;
use crate::request_target::RequestTarget;

/// Maximum number of field lines; a `HeaderMap` can hold as many.
const LINES_MAX: usize = 16_384;

/// The head of a request. Its memory is reused for the next one ([`RequestHead::read`]).
#[derive(Clone, Debug)]
pub struct RequestHead {
    /// The method.
    pub method: Method,
    /// HTTP/1.0 or HTTP/1.1.
    pub version: Version,
    /// The request target.
    pub target: RequestTarget,
    /// The header fields.
    pub fields: Fields,
    /// True if the request arrived as an HTTP/2 extended CONNECT (RFC 8441) and was converted to
    /// its HTTP/1.1 form.
    pub is_extended_connect: bool,
}

impl Default for RequestHead {
    fn default() -> RequestHead {
        RequestHead {
            method: Method::GET,
            version: Version::HTTP_11,
            target: RequestTarget::default(),
            fields: Fields::default(),
            is_extended_connect: false,
        }
    }
}

impl RequestHead {
    /// Parses the head at the start of `bytes`, which must not begin with an empty line. Returns
    /// the length of the head in bytes and its framing, or `None` while the head is incomplete.
    /// `longest` is the maximum size of a head in bytes.
    ///
    /// # Errors
    ///
    /// The bytes do not begin with an acceptable head. `self` keeps the parts that were parsed.
    pub fn read(
        &mut self,
        bytes: &[u8],
        longest: usize,
    ) -> Result<Option<(usize, RequestFraming)>, HeadError> {
        match Stop::or_incomplete(self.parse(bytes))? {
            Some(length) if length > longest || self.fields.len() > LINES_MAX => {
                Err(too_large(bytes, longest))
            }
            Some(length) => {
                let framing = RequestFraming::take(self.version, &mut self.fields);
                Ok(Some((length, framing?)))
            }
            None if bytes.len() >= longest => Err(too_large(bytes, longest)),
            None => Ok(None),
        }
    }

    /// Returns the number of bytes of empty lines at the start of `bytes`. A client may send some
    /// before a request (RFC 9112, 2.2).
    pub fn empty_lines(bytes: &[u8]) -> usize {
        let mut rest = bytes;
        while let [b'\r', b'\n', after @ ..] | [b'\n', after @ ..] = rest {
            rest = after;
        }
        bytes.len() - rest.len()
    }

    /// Returns the number of bytes allocated.
    pub fn capacity(&self) -> usize {
        self.fields.capacity() + self.target.capacity()
    }

    /// Parses a head. Returns its length in bytes.
    fn parse(&mut self, bytes: &[u8]) -> Result<usize, Stop> {
        let mut cursor = Cursor::after_empty_lines(bytes)?;
        self.method = match cursor.method()? {
            b"GET" => Method::GET,
            other => Method::from_bytes(other).map_err(|_| Stop::Malformed(BAD_FIRST_LINE))?,
        };
        self.target.read(cursor.target()?, self.method == Method::CONNECT);
        self.version = cursor.version()?;
        cursor.request_line_end()?;
        self.is_extended_connect = false;
        self.fields.parse(&mut cursor)?;
        Ok(cursor.position())
    }
}

/// Returns the error for a head of more than `longest` bytes (RFC 9112, 3).
fn too_large(bytes: &[u8], longest: usize) -> HeadError {
    let has_line = bytes.iter().take(longest).any(|byte| *byte == b'\n');
    if has_line { HeadError::TooLarge } else { HeadError::TargetTooLong }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::request_framing::BodyLength;

    const LONGEST: usize = 8192;

    #[test]
    fn a_head_is_read_when_its_end_is_there() {
        let text = "POST /a?b HTTP/1.1\r\nHost: a\r\nX-Case: Y\r\nContent-Length: 3\r\n\r\nabc";
        let end = text.len() - 3;
        let mut head = RequestHead::default();
        for length in 0..end {
            assert_eq!(head.read(&text.as_bytes()[..length], LONGEST).unwrap(), None, "{length}");
        }
        for length in end..=text.len() {
            let (read, framing) = head.read(&text.as_bytes()[..length], LONGEST).unwrap().unwrap();
            assert_eq!((read, framing.body), (end, BodyLength::Bytes(3)));
        }
        assert_eq!((head.method.as_str(), head.target.as_str()), ("POST", "/a?b"));
        let lines: Vec<_> = head.fields.iter().map(|(name, _)| name).collect();
        assert_eq!(lines, ["Host", "X-Case", "Content-Length"]);
        assert_eq!(head.fields.get("x-case"), Some(&b"Y"[..]));
    }

    #[test]
    fn a_head_is_limited_by_its_size_alone() {
        let text = format!("GET / HTTP/1.1\r\n{}\r\n", "a:\r\n".repeat(1000));
        let mut head = RequestHead::default();
        let read = head.read(text.as_bytes(), text.len()).unwrap().unwrap();
        assert_eq!((read.0, head.fields.len()), (text.len(), 1000));
        assert_eq!(head.read(text.as_bytes(), text.len() - 1), Err(HeadError::TooLarge));
        let part = &text.as_bytes()[..text.len() / 2];
        assert_eq!(head.read(part, part.len()), Err(HeadError::TooLarge));
        assert_eq!(head.read(&part[..10], 10), Err(HeadError::TargetTooLong));
        for (lines, is_taken) in [(LINES_MAX, true), (LINES_MAX + 1, false)] {
            let text = format!("GET / HTTP/1.1\r\n{}\r\n", "a:\r\n".repeat(lines));
            let read = head.read(text.as_bytes(), usize::MAX);
            assert_eq!(read.is_ok(), is_taken, "{lines}");
        }
    }

    #[test]
    fn bytes_beyond_ascii_are_encoded() {
        let mut head = RequestHead::default();
        let text = b"GET /\xfc\xc3\xbc?|<\"\xff HTTP/1.0\r\nX: \xfc\r\n\r\nrest";
        let (length, framing) = head.read(text, LONGEST).unwrap().unwrap();
        assert_eq!((length, framing.keeps_open), (text.len() - 4, false));
        assert_eq!(head.target.as_str(), "/%FC%C3%BC?|<\"%FF");
        assert_eq!(head.fields.get("x"), Some(&b"\xfc"[..]));
    }

    #[test]
    fn malformed_request_heads_are_refused() {
        for text in [
            "GET / HTTP/1.1\r\nHost : a\r\n\r\n",
            "GET / HTTP/1.1\r\n Host: a\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\n b\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\0b\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\rb\r\n\r\n",
            "GET / HTTP/2.0\r\n\r\n",
            "GET /a b HTTP/1.1\r\n\r\n",
            "GET\r\n\r\n",
            "G@T / HTTP/1.1\r\n\r\n",
            "GET / HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n",
        ] {
            let error = RequestHead::default().read(text.as_bytes(), LONGEST).unwrap_err();
            assert!(matches!(error, HeadError::Malformed(_)), "{text:?}");
        }
    }
}
