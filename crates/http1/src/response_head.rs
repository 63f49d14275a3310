//! Response heads, parsed from the bytes that a server sent.

use http::{Method, StatusCode, Version};

use crate::cursor::{BAD_STATUS, Cursor, Stop};
use crate::error::HeadError;
use crate::fields::Fields;
use crate::response_framing::ResponseFraming;

/// The head of a response. Its memory is reused for the next one ([`ResponseHead::read`]).
#[derive(Clone)]
pub struct ResponseHead {
    /// The status code.
    pub status: StatusCode,
    /// HTTP/1.0 or HTTP/1.1.
    pub version: Version,
    /// The header fields.
    pub fields: Fields,
}

impl Default for ResponseHead {
    fn default() -> ResponseHead {
        let (status, version) = (StatusCode::OK, Version::HTTP_11);
        ResponseHead { status, version, fields: Fields::default() }
    }
}

impl ResponseHead {
    /// Parses the head at the start of `bytes`, of the response to a request with this method.
    /// Returns the length of the head in bytes and its framing, or `None` while the head is
    /// incomplete. `longest` is the maximum size of a head in bytes.
    ///
    /// # Errors
    ///
    /// The bytes do not begin with an acceptable head. `self` keeps the parts that were parsed.
    pub fn read(
        &mut self,
        bytes: &[u8],
        method: &Method,
        longest: usize,
    ) -> Result<Option<(usize, ResponseFraming)>, HeadError> {
        match Stop::or_incomplete(self.parse(bytes))? {
            Some(length) if length > longest => Err(HeadError::TooLarge),
            Some(length) => {
                let framing = ResponseFraming::of(method, self.status, self.version, &self.fields)?;
                Ok(Some((length, framing)))
            }
            None if bytes.len() >= longest => Err(HeadError::TooLarge),
            None => Ok(None),
        }
    }

    /// Returns whether another response head follows this one (RFC 9110, 15.2).
    pub fn is_interim(&self) -> bool {
        self.status.is_informational() && self.status != StatusCode::SWITCHING_PROTOCOLS
    }

    /// Returns the number of bytes allocated.
    pub fn capacity(&self) -> usize {
        self.fields.capacity()
    }

    /// Parses a head. Returns its length in bytes.
    fn parse(&mut self, bytes: &[u8]) -> Result<usize, Stop> {
        let mut cursor = Cursor::after_empty_lines(bytes)?;
        self.version = cursor.version()?;
        let status = StatusCode::from_u16(cursor.status()?);
        self.status = status.map_err(|_| Stop::Malformed(BAD_STATUS))?;
        self.fields.parse(&mut cursor)?;
        Ok(cursor.position())
    }
}

/// Returns whether a head may end within `input[seen..]`, the bytes that arrived since the head was
/// found incomplete.
pub fn may_end(input: &[u8], seen: usize) -> bool {
    let tail = &input[seen.saturating_sub(3)..];
    memchr::memchr_iter(b'\n', tail)
        .any(|at| matches!(&tail[at + 1..], [b'\n', ..] | [b'\r', b'\n', ..]))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::response_framing::ResponseLength;

    const LONGEST: usize = 8192;

    fn read(text: &[u8]) -> Result<Option<(usize, ResponseFraming)>, HeadError> {
        ResponseHead::default().read(text, &Method::GET, LONGEST)
    }

    #[test]
    fn a_head_is_read_when_its_end_is_there() {
        let text = b"HTTP/1.1 404 No\r\nX-Case: Y\r\nContent-Length: 3\r\n\r\nabc";
        let end = text.len() - 3;
        let mut head = ResponseHead::default();
        for length in 0..end {
            let found = head.read(&text[..length], &Method::GET, LONGEST).unwrap();
            assert_eq!(found, None, "{length}");
            assert!((0..length).all(|seen| !may_end(&text[..length], seen)));
        }
        for length in end..=text.len() {
            let found = head.read(&text[..length], &Method::GET, LONGEST).unwrap();
            let framing = ResponseFraming { body: ResponseLength::Bytes(3), keeps_open: true };
            assert_eq!(found, Some((end, framing)));
            assert!((0..end).all(|seen| may_end(&text[..length], seen)));
        }
        assert_eq!((head.status.as_u16(), head.is_interim()), (404, false));
        let lines: Vec<_> = head.fields.iter().map(|(name, _)| name).collect();
        assert_eq!(lines, ["X-Case", "Content-Length"]);
    }

    #[test]
    fn a_head_is_limited_by_its_size_alone() {
        for status in [200, 103, 304] {
            let text = format!("HTTP/1.1 {status} x\r\n{}\r\n", "a:\r\n".repeat(1000));
            let (text, mut head) = (text.as_bytes(), ResponseHead::default());
            let (length, _) = head.read(text, &Method::GET, text.len()).unwrap().unwrap();
            assert_eq!((length, head.fields.len()), (text.len(), 1000));
            let longer = head.read(text, &Method::GET, text.len() - 1);
            assert_eq!(longer, Err(HeadError::TooLarge));
            let part = &text[..text.len() / 2];
            assert_eq!(head.read(part, &Method::GET, part.len()), Err(HeadError::TooLarge));
        }
    }

    #[test]
    fn malformed_response_heads_are_refused() {
        for text in [
            "HTTP/1.1 200 OK\r\nA : b\r\n\r\n",
            "HTTP/1.1 200 OK\r\n A: b\r\n\r\n",
            "HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n",
            "HTTP/1.1 200 OK\r\nA: b\0c\r\n\r\n",
            "HTTP/1.1 200 OK\r\nA: b\rc\r\n\r\n",
            "HTTP/1.1 200 OK\r\n:path: /\r\n\r\n",
            "HTTP/1.1 200 OK\r\n: x\r\n\r\n",
            "HTTP/1.1 200 OK\r\nA\r\n\r\n",
            "HTTP/1.1 099 OK\r\n\r\n",
            "HTTP/1.1 20 OK\r\n\r\n",
            "HTTP/2 200 OK\r\n\r\n",
            "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        ] {
            let error = read(text.as_bytes()).unwrap_err();
            assert!(matches!(error, HeadError::Malformed(_)), "{text:?}");
        }
    }
}
