//! HTTP/1.1 messages without I/O: heads and bodies, taken from the bytes received so far. Clients
//! and origins read with it, from blocking sockets and in virtual time.
//!
//! It is strict: lines end with CR LF, and a malformed head or chunk is an error.

use std::fmt;
use std::io;
use std::ops::Deref;

use bytes::{Buf, BytesMut};

/// Names and values, in the order of arrival.
pub type Fields = Vec<(String, String)>;

/// A start line and fields. Dereferences to the text as received, with one `char` for each byte.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Head {
    text: String,
    /// The request line or status line.
    pub start_line: String,
    /// The fields.
    pub headers: Fields,
}

impl Head {
    /// Takes a head from the front of `input`; returns `None` while it is incomplete.
    ///
    /// # Errors
    ///
    /// A line does not end with CR LF, or a field has no colon.
    pub fn take(input: &mut BytesMut) -> io::Result<Option<Head>> {
        let Some(end) = find(input, b"\r\n\r\n") else {
            let lines = input.split_inclusive(|&byte| byte == b'\n');
            let is_bare = lines.clone().any(|line| line.ends_with(b"\n") && !ends_line(line));
            return if is_bare { Err(invalid("a bare line feed")) } else { Ok(None) };
        };
        let text: String = input.split_to(end + 4).iter().map(|&byte| char::from(byte)).collect();
        let mut lines = text.trim_end_matches("\r\n").split("\r\n");
        let start_line = lines.next().unwrap_or_default().to_owned();
        if start_line.contains('\n') {
            return Err(invalid("a bare line feed"));
        }
        let field = |line: &str| {
            let (name, value) = line.split_once(':').filter(|_| !line.contains('\n'))?;
            Some((name.to_owned(), value.trim().to_owned()))
        };
        let headers = lines.map(field).collect::<Option<_>>();
        let headers = headers.ok_or_else(|| invalid("a malformed field"))?;
        Ok(Some(Head { start_line, headers, text }))
    }

    /// Returns the first value of a field.
    pub fn get(&self, name: &str) -> Option<&str> {
        let mut fields = self.headers.iter();
        let found = fields.find(|(field, _)| field.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// Returns all values of a field, joined with commas.
    pub fn field(&self, name: &str) -> Option<String> {
        let values: Vec<&str> = self.values(name).collect();
        (!values.is_empty()).then(|| values.join(", "))
    }

    /// Returns the values of a field, one for each of its lines.
    pub fn values<'a>(&'a self, name: &'a str) -> impl DoubleEndedIterator<Item = &'a str> {
        let same = move |field: &&(String, String)| field.0.eq_ignore_ascii_case(name);
        self.headers.iter().filter(same).map(|(_, value)| value.as_str())
    }

    /// Returns the status of a response.
    ///
    /// # Errors
    ///
    /// The first line is not a status line.
    pub fn status(&self) -> io::Result<u16> {
        let status = self.start_line.strip_prefix("HTTP/1.").and_then(|rest| rest.get(2..5));
        let status = status.and_then(|digits| digits.parse().ok());
        status.ok_or_else(|| invalid("no status line"))
    }

    /// Returns whether the body is chunked.
    pub fn is_chunked(&self) -> bool {
        self.field("transfer-encoding").is_some_and(|v| v.to_lowercase().ends_with("chunked"))
    }

    fn length(&self) -> Option<u64> {
        self.get("content-length")?.parse().ok()
    }
}

impl Deref for Head {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for Head {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Head {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.text)
    }
}

/// Decoder of the body of one message.
#[derive(Debug)]
pub enum Body {
    /// Number of bytes left.
    Length(u64),
    /// The chunked transfer coding.
    Chunked(Chunks),
    /// The body ends with the connection.
    ToEnd,
}

impl Body {
    /// Returns the decoder for the body of a request.
    pub fn of_request(head: &Head) -> Body {
        match head.is_chunked() {
            true => Body::Chunked(Chunks::default()),
            false => Body::Length(head.length().unwrap_or(0)),
        }
    }

    /// Returns the decoder for the body of a response to a request with `method`.
    ///
    /// # Errors
    ///
    /// The first line is not a status line.
    pub fn of_response(head: &Head, method: &str) -> io::Result<Body> {
        let status = head.status()?;
        let is_tunnel = method == "CONNECT" && status == 200;
        Ok(match head.length() {
            _ if method == "HEAD" || [101, 204, 304].contains(&status) || is_tunnel => {
                Body::Length(0)
            }
            _ if head.is_chunked() => Body::Chunked(Chunks::default()),
            Some(length) => Body::Length(length),
            None => Body::ToEnd,
        })
    }

    /// Takes what has been received of the body from the front of `input`, and passes its content
    /// to `each`. Returns the trailers once the body is complete.
    ///
    /// # Errors
    ///
    /// A chunk is malformed.
    pub fn take(
        &mut self,
        input: &mut BytesMut,
        mut each: impl FnMut(&[u8]),
    ) -> io::Result<Option<Fields>> {
        match self {
            Body::Length(left) => {
                let now = input.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                if now > 0 {
                    each(&input[..now]);
                    input.advance(now);
                    *left -= now as u64;
                }
                Ok((*left == 0).then(Fields::new))
            }
            Body::ToEnd => {
                each(input);
                input.clear();
                Ok(None)
            }
            Body::Chunked(chunks) => chunks.take(input, each),
        }
    }

    /// Returns whether the end of the connection completes the body.
    pub fn ends_with_connection(&self) -> bool {
        matches!(self, Body::ToEnd)
    }
}

/// Decoder of the chunked transfer coding. It shares no code with Larder's own, so that a fault
/// cannot hide in both.
#[derive(Debug, Default)]
pub struct Chunks {
    stage: Stage,
    trailers: Fields,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Size,
    /// Number of bytes left of the chunk.
    Data(u64),
    DataEnd,
    Trailers,
}

impl Chunks {
    fn take(
        &mut self,
        input: &mut BytesMut,
        mut each: impl FnMut(&[u8]),
    ) -> io::Result<Option<Fields>> {
        loop {
            self.stage = match self.stage {
                Stage::Size => match take_line(input)? {
                    None => return Ok(None),
                    Some(line) => match chunk_size(&line)? {
                        0 => Stage::Trailers,
                        size => Stage::Data(size),
                    },
                },
                Stage::Data(0) => Stage::DataEnd,
                Stage::Data(_) if input.is_empty() => return Ok(None),
                Stage::Data(left) => {
                    let now = input.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                    each(&input.split_to(now));
                    Stage::Data(left - now as u64)
                }
                Stage::DataEnd if !b"\r\n".starts_with(&input[..input.len().min(2)]) => {
                    return Err(invalid("a chunk longer than its size"));
                }
                Stage::DataEnd if input.len() < 2 => return Ok(None),
                Stage::DataEnd => {
                    input.advance(2);
                    Stage::Size
                }
                Stage::Trailers => match take_line(input)? {
                    None => return Ok(None),
                    Some(line) if line.is_empty() => {
                        return Ok(Some(std::mem::take(&mut self.trailers)));
                    }
                    Some(line) => {
                        let field = line.split_once(':').ok_or_else(|| invalid("a bad trailer"))?;
                        let (name, value) = (field.0.to_lowercase(), field.1.trim().to_owned());
                        self.trailers.push((name, value));
                        Stage::Trailers
                    }
                },
            };
        }
    }
}

/// Takes a line with its end from the front of `input`; returns `None` while it is incomplete.
fn take_line(input: &mut BytesMut) -> io::Result<Option<String>> {
    let Some(end) = find(input, b"\n") else { return Ok(None) };
    let line = input.split_to(end + 1);
    let line = line.strip_suffix(b"\r\n").ok_or_else(|| invalid("a bare line feed"))?;
    Ok(Some(line.iter().map(|&byte| char::from(byte)).collect()))
}

fn chunk_size(line: &str) -> io::Result<u64> {
    let digits = line.split(';').next().unwrap_or_default();
    let size = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let size = size.then(|| u64::from_str_radix(digits, 16).ok()).flatten();
    size.ok_or_else(|| invalid("a bad chunk size"))
}

/// Returns the first position of `part` in `bytes`.
pub fn find(bytes: &[u8], part: &[u8]) -> Option<usize> {
    bytes.windows(part.len()).position(|window| window == part)
}

fn ends_line(line: &[u8]) -> bool {
    line.ends_with(b"\r\n")
}

fn invalid(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.to_owned())
}

#[test]
fn heads_are_read_strictly() {
    let take = |bytes: &[u8]| Head::take(&mut BytesMut::from(bytes));
    let head = take(b"HTTP/1.1 200 OK\r\nA: 1\r\nb:\xe9 \r\na:2\r\n\r\nrest").unwrap().unwrap();
    assert_eq!((head.status().unwrap(), head.get("B")), (200, Some("\u{e9}")));
    assert_eq!(head.field("a").as_deref(), Some("1, 2"));
    assert!(head.ends_with("a:2\r\n\r\n") && head.field("c").is_none());
    assert!(take(b"HTTP/1.1 200 OK\r\nA: 1\r\n").unwrap().is_none());
    for wrong in [
        "GET / HTTP/1.1\nA: 1\r\n",
        "GET / HTTP/1.1\nA: 1\r\n\r\n",
        "GET / HTTP/1.1\r\nA: 1\nB: 2\r\n\r\n",
        "x\r\ny\r\n\r\n",
    ] {
        assert!(take(wrong.as_bytes()).is_err(), "{wrong:?}");
    }
    assert!(Head { start_line: "not HTTP".to_owned(), ..Head::default() }.status().is_err());
}

#[test]
fn bodies_are_the_same_however_they_arrive() {
    let head = |field: &str| {
        let text = format!("HTTP/1.1 200 OK\r\n{field}\r\n\r\n");
        Head::take(&mut BytesMut::from(text.as_bytes())).unwrap().unwrap()
    };
    let chunked = head("Transfer-Encoding: chunked");
    for size in [1, 2, 5, 100] {
        let mut decoder = Body::of_response(&chunked, "GET").unwrap();
        let (mut input, mut body, mut trailers) = (BytesMut::new(), Vec::new(), None);
        for part in b"3\r\nabc\r\n2\r\nde\r\n0\r\nX: 1\r\n\r\n".chunks(size) {
            input.extend_from_slice(part);
            assert!(trailers.is_none());
            trailers = decoder.take(&mut input, |bytes| body.extend_from_slice(bytes)).unwrap();
        }
        assert_eq!(
            (body.as_slice(), trailers),
            (&b"abcde"[..], Some(vec![("x".into(), "1".into())]))
        );
    }
    for wrong in ["3\r\nabcd", "3 \r\nabc\r\n", "+3\r\nabc\r\n", "3\nabc", "\r\n", "0\r\nx\r\n"] {
        let mut decoder = Body::of_response(&chunked, "GET").unwrap();
        assert!(decoder.take(&mut BytesMut::from(wrong), |_| ()).is_err(), "{wrong:?}");
    }
    let mut exact = Body::of_response(&head("Content-Length: 3"), "GET").unwrap();
    let mut input = BytesMut::from("abcHTTP");
    assert!(exact.take(&mut input, |_| ()).unwrap().is_some());
    assert_eq!(&input[..], b"HTTP");
    assert!(Body::of_response(&head("A: b"), "GET").unwrap().ends_with_connection());
    assert!(!Body::of_response(&head("A: b"), "HEAD").unwrap().ends_with_connection());
}
