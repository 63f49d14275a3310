//! Reading answers: heads, and bodies by length, in chunks or to the connection's end.
//!
//! Nothing of a body is kept: its bytes are handed on as they come.

use std::mem;

use crate::object::ANSWER_FIELD;

/// Fields of a head at most, and its bytes.
const FIELDS: usize = 64;
const HEAD_MAX: usize = 64 << 10;

/// The head of an answer, as far as it is looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// The status.
    pub status: u16,
    /// Bytes of the body.
    pub length: Option<u64>,
    /// The body comes in chunks.
    pub chunked: bool,
    /// The connection is closed behind it.
    pub close: bool,
    /// Which request the origin made it for, and the version of the object.
    pub answer: Option<(u64, u64)>,
    /// First byte, last byte and bytes in all, of a part.
    pub range: Option<(u64, u64, u64)>,
}

impl Head {
    /// Reads a head; `Ok(None)` while it is not whole.
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

    /// Takes a field into account, whatever the version of HTTP.
    ///
    /// # Errors
    /// Its value is none that the field can have, or contradicts an earlier one.
    pub fn note(&mut self, name: &str, value: &[u8]) -> Result<(), String> {
        let text = || std::str::from_utf8(value).map_or("", str::trim);
        // By length first: most fields are of no interest.
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
            _ => {}
        }
        Ok(())
    }
}

/// Reads `bytes FIRST-LAST/ALL`.
fn range(text: &str) -> Option<(u64, u64, u64)> {
    let (part, all) = text.strip_prefix("bytes ")?.split_once('/')?;
    let (first, last) = part.split_once('-')?;
    Some((first.parse().ok()?, last.parse().ok()?, all.parse().ok()?))
}

/// Who is told of what comes.
pub trait Listener {
    /// The head has come. Returns whether a body follows it.
    fn head(&mut self, head: &Head) -> bool;
    /// The next bytes of the body have come.
    fn body(&mut self, bytes: &[u8]);
}

/// How far an answer has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// More is to come.
    More,
    /// It is whole.
    Done {
        /// The connection may be used again.
        keep: bool,
    },
}

/// An answer on its way.
#[derive(Debug, Default)]
pub struct Incoming {
    state: State,
    /// Of a head, or of the line of a chunk, what has come so far.
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
    /// The end of line behind a chunk: so many bytes.
    ChunkEnd(u64),
    Trailer,
    UntilClose,
}

impl Incoming {
    /// Takes the next bytes of the connection.
    ///
    /// # Errors
    /// They are no answer, or there are more of them than belong to it.
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

    /// The connection has ended: whether the answer is whole.
    ///
    /// # Errors
    /// It is not.
    pub fn end(&mut self) -> Result<Progress, String> {
        match self.state {
            State::UntilClose => Ok(Progress::Done { keep: false }),
            State::Head => Err("the connection was closed before the answer's head".to_owned()),
            _ => Err("the connection was closed within the answer".to_owned()),
        }
    }

    /// Whether nothing of an answer has come.
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

    /// The next line without its end, once it is whole.
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

/// Hands on at most `left` bytes; returns how many are still to come.
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

    /// The answer, however its bytes are divided.
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
