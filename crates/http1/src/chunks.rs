//! A decoder for chunked bodies (RFC 9112, 7.1) that works on partial input.
//!
//! Lines end with CR LF and nothing else, so no other parser can find a different end. Memory for
//! extensions and trailers is bounded.

use bytes::{Buf, Bytes, BytesMut};
use http::header::HeaderMap;

use crate::cursor::Cursor;
use crate::error::Malformed;
use crate::fields::Fields;

/// Upper bound on the extension bytes of one body, and on its trailer bytes.
const EXTRA_MAX: usize = 16 << 10;

/// Decoder state for one body.
#[derive(Debug, Default)]
pub struct Chunks {
    state: State,
    /// Extension bytes read so far.
    extra: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// Before a chunk-size line.
    #[default]
    Size,
    /// Inside a chunk; the number of bytes still to come.
    Data(u64),
    /// After the data of a chunk, before its CR LF.
    DataEnd,
    /// After the last chunk.
    Trailers,
    Done,
}

/// The next part of a body.
#[derive(Debug, PartialEq, Eq)]
pub enum Piece {
    /// Bytes of the content.
    Data(Bytes),
    /// The trailer fields; the body has ended.
    Trailers(HeaderMap),
    /// The body has ended.
    End,
    /// More bytes are needed.
    Missing,
}

impl Chunks {
    /// Returns whether the body has ended.
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Returns the bytes left of the current chunk; `None` outside a chunk.
    pub fn left(&self) -> Option<u64> {
        match self.state {
            State::Data(left) => Some(left),
            _ => None,
        }
    }

    /// Takes the next piece from `input`.
    ///
    /// # Errors
    ///
    /// The framing violates RFC 9112, 7.1, or the extensions or trailers exceed 16 KiB. The
    /// connection cannot be used any more.
    pub fn take(&mut self, input: &mut BytesMut) -> Result<Piece, Malformed> {
        loop {
            match self.state {
                State::Data(_) if input.is_empty() => return Ok(Piece::Missing),
                State::Data(left) => {
                    let count = input.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                    let data = input.split_to(count).freeze();
                    self.state = match left - count as u64 {
                        0 => State::DataEnd,
                        left => State::Data(left),
                    };
                    self.end_plainly(input);
                    return Ok(Piece::Data(data));
                }
                State::Size => match self.size(input)? {
                    Some(0) => self.state = State::Trailers,
                    Some(size) => self.state = State::Data(size),
                    None => return Ok(Piece::Missing),
                },
                State::DataEnd => match input.get(..2) {
                    Some(b"\r\n") => {
                        input.advance(2);
                        self.state = State::Size;
                    }
                    Some(_) => return Err(malformed()),
                    None if input.first().is_some_and(|first| *first != b'\r') => {
                        return Err(malformed());
                    }
                    None => return Ok(Piece::Missing),
                },
                State::Trailers => return self.trailers(input),
                State::Done => return Ok(Piece::End),
            }
        }
    }

    /// Ends the body if `input` already holds its end, without trailers. Saves the caller another
    /// call.
    fn end_plainly(&mut self, input: &mut BytesMut) {
        const END: &[u8] = b"\r\n0\r\n\r\n";
        if self.state == State::DataEnd && input.starts_with(END) {
            input.advance(END.len());
            self.state = State::Done;
        }
    }

    /// Consumes a chunk-size line and returns the size.
    fn size(&mut self, input: &mut BytesMut) -> Result<Option<u64>, Malformed> {
        let Some(end) = memchr::memchr(b'\n', input) else {
            return if input.len() > EXTRA_MAX { Err(malformed()) } else { Ok(None) };
        };
        let line = input[..end].strip_suffix(b"\r").ok_or_else(malformed)?;
        let digits = line.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
        let (digits, rest) = line.split_at(digits);
        let padding = rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
        let follows = matches!(rest[padding..], [] | [b';', ..]);
        // An extension may contain the bytes that are allowed in a field value.
        let is_text = |byte: &u8| *byte == b'\t' || !byte.is_ascii_control();
        if digits.is_empty() || !follows || !rest.iter().all(is_text) {
            return Err(malformed());
        }
        self.extra += rest.len();
        let digits = std::str::from_utf8(digits).map_err(|_| malformed())?;
        let size = u64::from_str_radix(digits, 16).map_err(|_| malformed())?;
        if self.extra > EXTRA_MAX {
            return Err(malformed());
        }
        input.advance(end + 1);
        Ok(Some(size))
    }

    fn trailers(&mut self, input: &mut BytesMut) -> Result<Piece, Malformed> {
        if input.starts_with(b"\r\n") {
            input.advance(2);
            self.state = State::Done;
            return Ok(Piece::End);
        }
        let Some(end) = memchr::memmem::find(input, b"\r\n\r\n") else {
            return if input.len() > EXTRA_MAX { Err(malformed()) } else { Ok(Piece::Missing) };
        };
        if end > EXTRA_MAX {
            return Err(malformed());
        }
        let block = input.split_to(end + 4).freeze();
        self.state = State::Done;
        let alone = |at: usize| at == 0 || block[at - 1] != b'\r';
        if memchr::memchr_iter(b'\n', &block).any(alone) {
            return Err(malformed());
        }
        let mut trailers = Fields::default();
        trailers.parse(&mut Cursor::new(&block)).map_err(|_| malformed())?;
        Ok(Piece::Trailers(trailers.to_map(0)))
    }
}

fn malformed() -> Malformed {
    Malformed("its chunked body is malformed")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use http::header::{HeaderName, HeaderValue};

    use super::*;

    /// Decodes `text`, fed in pieces of `size` bytes. Returns the body, the trailers and the unread
    /// rest.
    fn decode(text: &str, size: usize) -> Result<(String, Vec<String>, String), ()> {
        let (mut chunks, mut input) = (Chunks::default(), BytesMut::new());
        let mut pieces = text.as_bytes().chunks(size);
        let (mut body, mut trailers) = (String::new(), Vec::new());
        loop {
            match chunks.take(&mut input).map_err(drop)? {
                Piece::Data(data) => body += std::str::from_utf8(&data).unwrap(),
                Piece::Trailers(fields) => {
                    let line = |(name, value): (&HeaderName, &HeaderValue)| {
                        format!("{name}: {}", value.to_str().unwrap())
                    };
                    trailers.extend(fields.iter().map(line));
                }
                Piece::End => break,
                Piece::Missing => input.extend_from_slice(pieces.next().ok_or(())?),
            }
            if chunks.is_done() {
                break;
            }
        }
        pieces.for_each(|piece| input.extend_from_slice(piece));
        Ok((body, trailers, String::from_utf8(input.to_vec()).unwrap()))
    }

    fn is(text: &str, body: &str, trailers: &[&str], left: &str) {
        for size in 1..=text.len() {
            let (found, fields, rest) = decode(text, size).unwrap();
            assert_eq!((found.as_str(), rest.as_str()), (body, left), "{text:?} by {size}");
            assert_eq!(fields, trailers, "{text:?} by {size}");
        }
    }

    #[test]
    fn chunks_are_read_however_they_come() {
        is("5\r\nhello\r\n0\r\n\r\n", "hello", &[], "");
        is("3\r\nabc\r\n00A;x=\"y\"\r\n0123456789\r\n0\r\n\r\nrest", "abc0123456789", &[], "rest");
        is("1 \t;x\r\na\r\n000\r\nx: y\r\nz:1\r\n\r\nr", "a", &["x: y", "z: 1"], "r");
        is("0\r\n\r\n", "", &[], "");
        is("2 \t \r\nab\r\n0 \r\n\r\n", "ab", &[], "");
        let many = format!("0\r\n{}\r\n", "a: b\r\n".repeat(1000));
        let (_, trailers, _) = decode(&many, many.len()).unwrap();
        assert_eq!(trailers.len(), 1000);
    }

    #[test]
    fn ambiguous_chunks_are_refused() {
        for text in [
            "0\r\n\n",
            "0\r\nX: y\n\r\n\r\n",
            "0\r\nX\rY\r\n\r\n",
            "0\r\nX Y: z\r\n\r\n",
            "3\nabc\r\n0\r\n\r\n",
            "3;a\nabc\r\n0\r\n\r\n",
            "3;a\rb\r\nabc\r\n0\r\n\r\n",
            "3\r\nabcd\r\n0\r\n\r\n",
            "3\r\nabc\n0\r\n\r\n",
            "0x3\r\nabc\r\n0\r\n\r\n",
            "+3\r\nabc\r\n0\r\n\r\n",
            "-3\r\nabc\r\n0\r\n\r\n",
            "3 3\r\nabc\r\n0\r\n\r\n",
            " 3\r\nabc\r\n0\r\n\r\n",
            "3\x0c\r\nabc\r\n0\r\n\r\n",
            "3\x0c;a\r\nabc\r\n0\r\n\r\n",
            "3 \x0b;a\r\nabc\r\n0\r\n\r\n",
            "3;\0\r\nabc\r\n0\r\n\r\n",
            "3;a\x7f\r\nabc\r\n0\r\n\r\n",
            "0\r\n:path: /\r\n\r\n",
            "0\r\n:status: 200\r\nx: y\r\n\r\n",
            "0\r\n: y\r\n\r\n",
            "10000000000000000\r\n",
            "\r\n",
            "3\r\nabc",
            "3\r\nabc\r\n0\r\n",
        ] {
            for size in 1..=text.len() {
                assert_eq!(decode(text, size), Err(()), "{text:?} by {size}");
            }
        }
        let long = "x".repeat(EXTRA_MAX + 1);
        for text in [
            format!("1;{long}\r\na\r\n0\r\n\r\n"),
            format!("1;{long}"),
            format!("0\r\na: {long}\r\n\r\n"),
            format!("0\r\na: {long}"),
            "1;aaaaaaaaaaaaaaa\r\na\r\n".repeat(EXTRA_MAX / 16 + 1),
            format!("0\r\n{}\r\n", "a: b\r\n".repeat(EXTRA_MAX / 6 + 2)),
        ] {
            assert!(decode(&text, 1000).is_err());
        }
    }
}
