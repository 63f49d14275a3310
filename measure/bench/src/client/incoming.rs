//! Parses responses: heads, and bodies delimited by length, by chunks or by the end of the
//! connection.
//!
//! Bodies are not stored: their bytes are passed on as they arrive.

use std::mem;

use crate::object::{ANSWER_FIELD, NODE_FIELD, RESULT_FIELD, ServedFrom};

/// Maximum number of fields and of bytes in a head.
const FIELDS: usize = 64;
const HEAD_MAX: usize = 64 << 10;

/// The relevant parts of a response head.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// The status.
    pub status: u16,
    /// Length of the body in bytes.
    pub length: Option<u64>,
    /// True if the body is chunked.
    pub chunked: bool,
    /// True if the connection is closed after the response.
    pub close: bool,
    /// The request that the origin produced the response for, and the version of the object.
    pub answer: Option<(u64, u64)>,
    /// First byte, last byte and total length, for a part.
    pub range: Option<(u64, u64, u64)>,
    /// The place that `Cache-Status` names.
    pub cache_status: ServedFrom,
    /// The node whose cache was asked, from systems without `Cache-Status`.
    pub node: Option<usize>,
    /// True if that node had the object.
    pub is_hit: bool,
}

impl Head {
    /// Parses a head; returns `Ok(None)` while it is incomplete.
    fn read(bytes: &[u8]) -> Result<Option<(Head, usize)>, String> {
        let mut fields = [httparse::EMPTY_HEADER; FIELDS];
        let mut response = httparse::Response::new(&mut fields);
        let status = response.parse(bytes).map_err(|error| format!("no answer: {error}"))?;
        let httparse::Status::Complete(len) = status else { return Ok(None) };
        let close = response.version == Some(0);
        let mut head = Head { status: response.code.unwrap_or(0), close, ..Head::default() };
        for field in response.headers.iter() {
            head.note(field.name, field.value)?;
        }
        Ok(Some((head, len)))
    }

    /// Evaluates a field, of any HTTP version.
    ///
    /// # Errors
    /// Fails if the value is invalid for the field, or contradicts an earlier one.
    pub fn note(&mut self, name: &str, value: &[u8]) -> Result<(), String> {
        let text = || std::str::from_utf8(value).map_or("", str::trim);
        // By length first, because most fields are irrelevant.
        match name.len() {
            14 if name.eq_ignore_ascii_case("content-length") => {
                let length = text().parse().map_err(|_| format!("a length of {:?}", text()))?;
                if self.length.is_some_and(|other| other != length) {
                    return Err("two lengths".to_owned());
                }
                self.length = Some(length);
            }
            17 if name.eq_ignore_ascii_case("transfer-encoding") => {
                self.chunked = text().eq_ignore_ascii_case("chunked");
                if !self.chunked {
                    return Err(format!("Transfer-Encoding: {}", text()));
                }
            }
            10 if name.eq_ignore_ascii_case("connection") => match text() {
                close if close.eq_ignore_ascii_case("close") => self.close = true,
                keep if keep.eq_ignore_ascii_case("keep-alive") => self.close = false,
                _ => {}
            },
            len if len == ANSWER_FIELD.len() && name.eq_ignore_ascii_case(ANSWER_FIELD) => {
                let numbers = text().split_once('.');
                self.answer = numbers.and_then(|(number, version)| {
                    Some((number.parse().ok()?, version.parse().ok()?))
                });
            }
            13 if name.eq_ignore_ascii_case("content-range") => self.range = range(text()),
            12 if name.eq_ignore_ascii_case("cache-status") => {
                self.cache_status = ServedFrom::read(text());
            }
            6 if name.eq_ignore_ascii_case(NODE_FIELD) => self.node = text().parse().ok(),
            8 if name.eq_ignore_ascii_case(RESULT_FIELD) => self.is_hit = text() == "HIT",
            _ => {}
        }
        Ok(())
    }

    /// Returns where the response came from, if `node` received the request.
    pub fn served_from(&self, node: usize) -> ServedFrom {
        match self.node.filter(|_| self.is_hit) {
            Some(other) if other == node => ServedFrom::Cache,
            Some(_) => ServedFrom::Peer,
            None => self.cache_status,
        }
    }
}

/// Parses `bytes FIRST-LAST/ALL`.
fn range(text: &str) -> Option<(u64, u64, u64)> {
    let (part, all) = text.strip_prefix("bytes ")?.split_once('/')?;
    let (first, last) = part.split_once('-')?;
    Some((first.parse().ok()?, last.parse().ok()?, all.parse().ok()?))
}

/// Receives the parts of a response.
pub trait Listener {
    /// Receives the head. Returns whether a body follows.
    fn head(&mut self, head: &Head) -> bool;
    /// Receives the next bytes of the body.
    fn body(&mut self, bytes: &[u8]);
}

/// The progress of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// More bytes are expected.
    More,
    /// The response is complete.
    Done {
        /// True if the connection can be reused.
        keep: bool,
    },
}

/// A response that is being received.
#[derive(Debug, Default)]
pub struct Incoming {
    state: State,
    /// The bytes received so far of a head, or of a chunk's size line.
    partial: Vec<u8>,
    close: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Head,
    Length(u64),
    ChunkSize,
    Chunk(u64),
    /// The line end after a chunk, with the number of missing bytes.
    ChunkEnd(u64),
    Trailer,
    UntilClose,
}

impl Incoming {
    /// Processes the next bytes of the connection.
    ///
    /// # Errors
    /// Fails if they are not a response, or if there are more than belong to it.
    pub fn take(&mut self, bytes: &[u8], to: &mut impl Listener) -> Result<Progress, String> {
        let mut rest = bytes;
        loop {
            let progress = match self.state {
                State::Head => self.take_head(&mut rest, to)?,
                State::Length(left) => {
                    let left = pass(&mut rest, left, to);
                    self.state = State::Length(left);
                    (left == 0).then(|| self.done())
                }
                State::UntilClose => {
                    pass(&mut rest, u64::MAX, to);
                    None
                }
                _ => self.take_chunks(&mut rest, to)?,
            };
            match progress {
                Some(_) if !rest.is_empty() => {
                    return Err(format!("{} bytes behind the answer", rest.len()));
                }
                Some(progress) => return Ok(progress),
                None if rest.is_empty() => return Ok(Progress::More),
                None => {}
            }
        }
    }

    /// Handles the end of the connection; returns whether the response is complete.
    ///
    /// # Errors
    /// Fails if the response is incomplete.
    pub fn end(&mut self) -> Result<Progress, String> {
        match self.state {
            State::UntilClose => Ok(Progress::Done { keep: false }),
            State::Head => Err("the connection was closed before the answer's head".to_owned()),
            _ => Err("the connection was closed within the answer".to_owned()),
        }
    }

    /// Returns whether no byte of a response has arrived.
    pub fn is_untouched(&self) -> bool {
        self.state == State::Head && self.partial.is_empty()
    }

    fn done(&mut self) -> Progress {
        let keep = !mem::take(&mut self.close);
        self.state = State::Head;
        Progress::Done { keep }
    }

    fn take_head(
        &mut self,
        rest: &mut &[u8],
        to: &mut impl Listener,
    ) -> Result<Option<Progress>, String> {
        let before = self.partial.len();
        let read = match before {
            0 => Head::read(rest)?,
            _ => {
                self.partial.extend_from_slice(rest);
                Head::read(&self.partial)?
            }
        };
        let Some((head, len)) = read else {
            if before == 0 {
                self.partial.extend_from_slice(rest);
            }
            *rest = &[];
            return match self.partial.len() {
                ..HEAD_MAX => Ok(None),
                _ => Err("a head that is too long".to_owned()),
            };
        };
        *rest = &rest[len - before..];
        self.partial.clear();
        if (100..200).contains(&head.status) {
            return Ok(None);
        }
        self.close = head.close;
        let has_body = to.head(&head);
        self.state = match (has_body, head.chunked, head.length) {
            (false, ..) => return Ok(Some(self.done())),
            (true, true, _) => State::ChunkSize,
            (true, false, Some(length)) => State::Length(length),
            (true, false, None) => {
                self.close = true;
                State::UntilClose
            }
        };
        Ok((self.state == State::Length(0)).then(|| self.done()))
    }

    fn take_chunks(
        &mut self,
        rest: &mut &[u8],
        to: &mut impl Listener,
    ) -> Result<Option<Progress>, String> {
        match self.state {
            State::Chunk(left) => {
                self.state = match pass(rest, left, to) {
                    0 => State::ChunkEnd(2),
                    left => State::Chunk(left),
                };
            }
            State::ChunkEnd(left) => {
                let skipped = rest.len().min(left as usize);
                *rest = &rest[skipped..];
                self.state = match left - skipped as u64 {
                    0 => State::ChunkSize,
                    left => State::ChunkEnd(left),
                };
            }
            _ => {
                let Some(line) = self.take_line(rest)? else { return Ok(None) };
                if self.state == State::Trailer {
                    return Ok(line.is_empty().then(|| self.done()));
                }
                let digits = line.split(';').next().unwrap_or_default().trim();
                let size = u64::from_str_radix(digits, 16);
                self.state = match size.map_err(|_| format!("a chunk of {line:?}"))? {
                    0 => State::Trailer,
                    size => State::Chunk(size),
                };
            }
        }
        Ok(None)
    }

    /// Returns the next line without its end, once it is complete.
    fn take_line(&mut self, rest: &mut &[u8]) -> Result<Option<String>, String> {
        let end = rest.iter().position(|byte| *byte == b'\n');
        let len = end.map_or(rest.len(), |end| end + 1);
        self.partial.extend_from_slice(&rest[..len]);
        *rest = &rest[len..];
        if self.partial.len() > HEAD_MAX {
            return Err("a line that is too long".to_owned());
        }
        Ok(end.map(|_| String::from_utf8_lossy(&mem::take(&mut self.partial)).trim().to_owned()))
    }
}

/// Passes on at most `left` bytes; returns how many are still missing.
fn pass(rest: &mut &[u8], left: u64, to: &mut impl Listener) -> u64 {
    let len = usize::try_from(left).unwrap_or(usize::MAX).min(rest.len());
    to.body(&rest[..len]);
    *rest = &rest[len..];
    left - len as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Heard {
        head: Option<Head>,
        body: Vec<u8>,
    }

    impl Listener for Heard {
        fn head(&mut self, head: &Head) -> bool {
            self.head = Some(head.clone());
            head.status != 304
        }

        fn body(&mut self, bytes: &[u8]) {
            self.body.extend_from_slice(bytes);
        }
    }

    /// Returns the response, which must not depend on how its bytes are split.
    fn read(text: &str) -> Result<(Heard, Progress), String> {
        let mut first = None;
        for size in [text.len(), 1, 2, 3, 7] {
            let (mut incoming, mut heard) = (Incoming::default(), Heard::default());
            let mut progress = Progress::More;
            for bytes in text.as_bytes().chunks(size) {
                if progress != Progress::More {
                    return Err("too early".to_owned());
                }
                progress = incoming.take(bytes, &mut heard)?;
            }
            if progress == Progress::More {
                progress = incoming.end()?;
            }
            let same =
                first.get_or_insert_with(|| (heard.head.clone(), heard.body.clone(), progress));
            assert_eq!((heard.head.clone(), heard.body.clone(), progress), *same, "{size}");
            if size == 7 {
                return Ok((heard, progress));
            }
        }
        unreachable!()
    }

    #[test]
    fn bodies_end_where_they_end() {
        let (heard, progress) =
            read("HTTP/1.1 200 OK\r\nBench-Answer: 17.3\r\nContent-Length: 5\r\n\r\nhello")
                .unwrap();
        assert_eq!(progress, Progress::Done { keep: true });
        assert_eq!((heard.body, heard.head.unwrap().answer), (b"hello".to_vec(), Some((17, 3))));
        let chunked = "HTTP/1.1 206 Part\r\nTransfer-Encoding: chunked\r\n\
            Content-Range: bytes 5-9/20\r\nConnection: close\r\n\r\n\
            3;x=y\r\nhel\r\n2\r\nlo\r\n0\r\nTrailer: x\r\n\r\n";
        let (heard, progress) = read(chunked).unwrap();
        assert_eq!(progress, Progress::Done { keep: false });
        assert_eq!((heard.body, heard.head.unwrap().range), (b"hello".to_vec(), Some((5, 9, 20))));
        let (heard, progress) = read("HTTP/1.0 200 OK\r\n\r\nall").unwrap();
        assert_eq!((heard.body, progress), (b"all".to_vec(), Progress::Done { keep: false }));
        let none = read("HTTP/1.1 103 Early\r\n\r\nHTTP/1.1 304 Same\r\nContent-Length: 9\r\n\r\n");
        assert_eq!(none.unwrap().1, Progress::Done { keep: true });
        let (heard, _) = read("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").unwrap();
        assert!(heard.body.is_empty());
    }

    #[test]
    fn what_is_no_answer_is_an_error() {
        for text in [
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell",
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
            "HTTP/1.1 200 OK\r\nContent-L",
            "SMTP ready\r\n\r\n",
        ] {
            assert!(read(text).is_err(), "{text}");
        }
        let mut incoming = Incoming::default();
        let text = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello!";
        assert!(incoming.take(text, &mut Heard::default()).is_err());
    }
}
