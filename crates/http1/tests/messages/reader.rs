//! Messages read with this crate, from bytes that arrive in pieces.

use bytes::{Buf as _, BytesMut};
use http::{HeaderMap, Method};
use http1::{
    BodyLength, Chunks, Fields, HeadError, Malformed, Piece, RequestHead, ResponseHead,
    ResponseLength,
};

/// Maximum bytes of a head.
const LONGEST: usize = 4096;

/// A message, reduced to what every reader reports.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// The method and the target, or the status.
    pub line: String,
    /// Names in lower case and values of the fields that do not affect framing, sorted by name.
    pub fields: Vec<(String, Vec<u8>)>,
    pub body: Vec<u8>,
    pub trailers: usize,
}

/// Returns the fields that do not affect framing, sorted by name.
pub fn told<'a>(fields: impl Iterator<Item = (&'a str, &'a [u8])>) -> Vec<(String, Vec<u8>)> {
    let lower = fields.map(|(name, value)| (name.to_ascii_lowercase(), value.to_vec()));
    let framing = ["content-length", "transfer-encoding"];
    let mut told: Vec<_> = lower.filter(|(name, _)| !framing.contains(&name.as_str())).collect();
    told.sort_by(|(one, _), (other, _)| one.cmp(other));
    told
}

/// Bytes that arrive in pieces of one size.
struct Source<'a> {
    rest: &'a [u8],
    size: usize,
    input: BytesMut,
}

impl Source<'_> {
    /// Reads the next piece; returns `None` at the end.
    fn more(&mut self) -> Option<()> {
        let count = self.size.min(self.rest.len());
        self.input.extend_from_slice(&self.rest[..count]);
        self.rest = &self.rest[count..];
        (count > 0).then_some(())
    }

    fn bytes(&mut self, mut count: u64) -> Option<Vec<u8>> {
        let mut body = Vec::new();
        while count > 0 {
            if self.input.is_empty() {
                self.more()?;
            }
            let part = self.input.len().min(usize::try_from(count).unwrap());
            body.extend_from_slice(&self.input.split_to(part));
            count -= part as u64;
        }
        Some(body)
    }

    fn chunks(&mut self) -> Result<Option<(Vec<u8>, usize)>, Malformed> {
        let (mut chunks, mut body) = (Chunks::default(), Vec::new());
        loop {
            match chunks.take(&mut self.input)? {
                Piece::Data(data) => body.extend_from_slice(&data),
                Piece::Trailers(fields) => return Ok(Some((body, fields.len()))),
                Piece::End => return Ok(Some((body, 0))),
                Piece::Missing if self.more().is_none() => return Ok(None),
                Piece::Missing => {}
            }
            if chunks.is_done() {
                return Ok(Some((body, 0)));
            }
        }
    }
}

fn lines(fields: &Fields) -> Vec<(String, Vec<u8>)> {
    let map: HeaderMap = fields.to_map(0);
    let of_map = told(map.iter().map(|(name, value)| (name.as_str(), value.as_bytes())));
    assert_eq!(told(fields.iter()), of_map);
    of_map
}

/// Reads the complete requests of a connection until the last one, or until one is malformed or cut
/// off. Also returns whether the end was an error.
pub fn requests(text: &[u8], size: usize) -> (Vec<Message>, bool) {
    let (mut source, mut found) = (Source { rest: text, size, input: BytesMut::new() }, Vec::new());
    let mut head = RequestHead::default();
    loop {
        let framing = loop {
            match head.read(&source.input, LONGEST) {
                Ok(Some((length, framing))) => {
                    source.input.advance(length);
                    break framing;
                }
                Ok(None) if source.more().is_none() => return (found, false),
                Ok(None) => {}
                Err(_) => return (found, true),
            }
        };
        let body = match framing.body {
            BodyLength::Bytes(length) => source.bytes(length).map(|body| (body, 0)),
            BodyLength::Chunked => match source.chunks() {
                Ok(body) => body,
                Err(_) => return (found, true),
            },
        };
        let Some((body, trailers)) = body else { return (found, false) };
        let line = format!("{} {}", head.method, head.target);
        found.push(Message { line, fields: lines(&head.fields), body, trailers });
        if !framing.keeps_open || framing.is_ambiguous {
            return (found, false);
        }
    }
}

/// Reads the response to a request with this method; returns `None` if it is cut off. Also returns
/// whether it ended with the connection.
pub fn response(
    text: &[u8],
    method: &Method,
    size: usize,
) -> Result<Option<(Message, bool)>, HeadError> {
    let mut source = Source { rest: text, size, input: BytesMut::new() };
    let mut head = ResponseHead::default();
    loop {
        let Some((length, framing)) = head.read(&source.input, method, LONGEST)? else {
            match source.more() {
                Some(()) => continue,
                None => return Ok(None),
            }
        };
        source.input.advance(length);
        if head.is_interim() {
            continue;
        }
        let body = match framing.body {
            ResponseLength::Bytes(length) => source.bytes(length).map(|body| (body, 0)),
            ResponseLength::Chunked => source.chunks()?,
            ResponseLength::UntilClose => {
                while source.more().is_some() {}
                Some((source.input.to_vec(), 0))
            }
        };
        let line = head.status.as_u16().to_string();
        let until_close = framing.body == ResponseLength::UntilClose;
        return Ok(body.map(|(body, trailers)| {
            (Message { line, fields: lines(&head.fields), body, trailers }, until_close)
        }));
    }
}
