//! Sends an HTTP/1 response: head and body in as few writes as possible, at the client's pace.
//!
//! Guarantees: body bytes that arrived before the body broke off are sent, and the client can
//! detect the break. A long response takes turns with other connections of the worker.

use std::cell::RefCell;
use std::error::Error;
use std::io::IoSlice;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use crate::message::cut_short::Truncated;
use bytes::{Buf, Bytes};
use http::header::{self, HeaderMap, HeaderName};
use http::{Method, StatusCode, Version};
use http_body::Body;
use http1::{write_chunk_size, write_field, write_last_chunk, write_number_field};
use semantics::Spellings;
use tokio::task::yield_now;
use upstream::connection::send_file::Sent;

use crate::downstream::http1::wire::Wire;
use crate::response::response_body::ResponseBody;
use crate::response::stored_fields::Written;
use crate::response::trailers::announced;

/// Bytes sent before other connections of the worker have their turn.
const TURN: u64 = 1 << 20;

/// How the end of a body is marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    Nothing,
    Length(u64),
    Chunked,
    /// The body ends when the connection closes.
    UntilClose,
}

/// Properties of a request that decide how its response is written.
#[derive(Clone, Copy)]
pub(super) struct Form {
    pub is_head: bool,
    pub is_connect: bool,
    pub is_old: bool,
}

impl Form {
    pub fn of(method: &Method, version: Version) -> Form {
        let (is_head, is_connect) = (*method == Method::HEAD, *method == Method::CONNECT);
        Form { is_head, is_connect, is_old: version == Version::HTTP_10 }
    }

    /// Returns whether a response with this status may have a body (RFC 9110, 6.4.1).
    fn may_have_body(self, status: StatusCode) -> bool {
        !self.is_head && self.may_have_length(status)
    }

    /// Returns whether a response with this status may have `Content-Length` (RFC 9110, 8.6).
    pub fn may_have_length(self, status: StatusCode) -> bool {
        let is_bodiless = matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
        let opens_tunnel = self.is_connect && status.is_success();
        !(is_bodiless || opens_tunnel || status.is_informational())
    }

    /// Returns whether a stored `Content-Length` is sent unchanged.
    pub fn takes_stored_length(self, status: StatusCode, encoding: Encoding) -> bool {
        match encoding {
            Encoding::Length(_) => status != StatusCode::PARTIAL_CONTENT,
            Encoding::Nothing => self.is_head && self.may_have_length(status),
            Encoding::Chunked | Encoding::UntilClose => false,
        }
    }

    pub fn encoding(self, status: StatusCode, fields: &HeaderMap, body: &ResponseBody) -> Encoding {
        if body.is_end_stream() || !self.may_have_body(status) {
            return Encoding::Nothing;
        }
        let stated = || fields.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok();
        match body.size_hint().exact().or_else(stated) {
            Some(0) => Encoding::Nothing,
            Some(length) => Encoding::Length(length),
            None if self.is_old => Encoding::UntilClose,
            None => Encoding::Chunked,
        }
    }

    /// Writes the last fields of a head, which describe the connection and the body, and the empty
    /// line. `closes`: this is the last response. `has_length`: the fields include
    /// `Content-Length`.
    pub fn write_end(
        self,
        status: StatusCode,
        encoding: Encoding,
        (closes, has_length): (bool, bool),
        out: &mut Vec<u8>,
    ) {
        match (closes, self.is_old) {
            (true, _) => write_field(b"connection", b"close", out),
            (false, true) => write_field(b"connection", b"keep-alive", out),
            (false, false) => {}
        }
        match encoding {
            Encoding::Chunked => write_field(b"transfer-encoding", b"chunked", out),
            _ if has_length => {}
            Encoding::Length(length) => write_number_field(b"content-length", length, out),
            Encoding::Nothing if self.may_have_body(status) => {
                write_number_field(b"content-length", 0, out);
            }
            Encoding::Nothing | Encoding::UntilClose => {}
        }
        out.extend_from_slice(b"\r\n");
    }

    /// Writes the fields of a head before those that [`Form::write_end`] writes.
    pub fn write_fields(
        self,
        status: StatusCode,
        (fields, spellings): (&HeaderMap, &Spellings),
        encoding: Encoding,
        written: &mut Written,
        out: &mut Vec<u8>,
    ) {
        let mut speller = spellings.speller();
        for (name, value) in fields {
            match *name {
                header::CONTENT_LENGTH => {
                    let is_told = match encoding {
                        Encoding::Length(_) => !written.has_length,
                        Encoding::Nothing => self.is_head && self.may_have_length(status),
                        Encoding::Chunked | Encoding::UntilClose => false,
                    };
                    if !is_told {
                        continue;
                    }
                    written.has_length = true;
                }
                header::DATE => written.has_date = true,
                header::TRANSFER_ENCODING => continue,
                header::TRAILER if encoding != Encoding::Chunked => continue,
                _ => {}
            }
            write_field(speller.spell(name).as_bytes(), value.as_bytes(), out);
        }
    }
}

/// Bytes to write: a head or a chunk-size line, a piece of the body, and the bytes after it.
#[derive(Default)]
struct Output {
    front: Vec<u8>,
    sent: usize,
    piece: Bytes,
    tail: &'static [u8],
}

impl Output {
    fn is_empty(&self) -> bool {
        self.sent == self.front.len() && self.piece.is_empty() && self.tail.is_empty()
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, wire: &mut Wire) -> Poll<std::io::Result<u64>> {
        let mut written = 0;
        while !self.is_empty() {
            let slices = [&self.front[self.sent..], &self.piece, self.tail].map(IoSlice::new);
            let count = ready!(wire.poll_write(cx, &slices))?;
            written += count as u64;
            self.advance(count);
        }
        self.front.clear();
        self.sent = 0;
        Poll::Ready(Ok(written))
    }

    fn advance(&mut self, count: usize) {
        let of_front = count.min(self.front.len() - self.sent);
        self.sent += of_front;
        let of_piece = (count - of_front).min(self.piece.len());
        self.piece.advance(of_piece);
        self.tail = &self.tail[count - of_front - of_piece..];
    }
}

/// Writes a head and a complete body as far as the socket takes them. Returns the rest, if any.
pub(super) fn try_send(
    cx: &mut Context<'_>,
    wire: &mut Wire,
    head: &[u8],
    mut body: Bytes,
) -> std::io::Result<Option<Unsent>> {
    let slices = [IoSlice::new(head), IoSlice::new(&body)];
    let sent = match wire.poll_write(cx, &slices) {
        Poll::Ready(sent) => sent?,
        Poll::Pending => 0,
    };
    let of_head = sent.min(head.len());
    body.advance(sent - of_head);
    if of_head == head.len() && body.is_empty() {
        let flushed = wire.poll_flush(cx);
        if flushed?.is_ready() {
            return Ok(None);
        }
    }
    let front = head[of_head..].to_vec();
    Ok(Some(Unsent(Output { front, sent: 0, piece: body, tail: b"" })))
}

/// Rest of a response whose body is complete in memory.
pub(super) struct Unsent(Output);

impl Unsent {
    /// Waits until everything is sent.
    pub fn poll(&mut self, cx: &mut Context<'_>, wire: &mut Wire) -> Poll<std::io::Result<()>> {
        ready!(self.0.poll_write(cx, wire))?;
        wire.poll_flush(cx)
    }
}

/// Response that is sent while its body arrives.
pub(super) struct Sender {
    wire: Rc<RefCell<Wire>>,
    output: Output,
    body: ResponseBody,
    encoding: Encoding,
    announced: Vec<HeaderName>,
    /// True after the end or the break of the body.
    is_done: bool,
    /// Why the body broke off; reported after the bytes before the break are sent.
    broken: Option<Box<dyn Error>>,
    /// True if the kernel sends the body, as far as it can.
    is_file: bool,
    /// True to take the next bytes as a frame.
    takes_frames: bool,
    /// Bytes that may still be sent in this turn.
    turn: u64,
}

impl Sender {
    /// Creates the sender of a response with the serialized `head`, whose fields are `fields`.
    pub fn new(
        wire: Rc<RefCell<Wire>>,
        head: &[u8],
        fields: &HeaderMap,
        mut body: ResponseBody,
        encoding: Encoding,
    ) -> Sender {
        let output = Output { front: head.to_vec(), ..Output::default() };
        let is_file = matches!(encoding, Encoding::Length(_))
            && wire.borrow().sends_files()
            && body.prefers_kernel();
        let takes_frames = !is_file;
        let announced = match encoding {
            Encoding::Chunked => announced(fields),
            _ => Vec::new(),
        };
        let is_done = encoding == Encoding::Nothing;
        let broken = None;
        Sender {
            wire,
            output,
            body,
            encoding,
            announced,
            is_done,
            broken,
            is_file,
            takes_frames,
            turn: TURN,
        }
    }

    /// Sends the response to its end.
    ///
    /// # Errors
    ///
    /// Fails if the client is gone or the body broke off; the connection must not be reused.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Box<dyn Error>>> {
        loop {
            if self.turn == 0 {
                self.turn = TURN;
                return pin!(yield_now()).poll(cx).map(Ok);
            }
            // The head goes out together with the first piece, if that is available.
            let is_free = self.output.piece.is_empty() && self.output.tail.is_empty();
            if !self.is_done && self.takes_frames && is_free {
                match self.poll_body(cx) {
                    Poll::Ready(Ok(())) => {}
                    Poll::Ready(Err(why)) => (self.is_done, self.broken) = (true, Some(why)),
                    Poll::Pending => {
                        ready!(self.poll_output(cx))?;
                        let mut wire = self.wire.borrow_mut();
                        ready!(wire.poll_flush(cx))?;
                        // The socket wakes only one task: the one that still reads the request
                        // body.
                        if Rc::weak_count(&self.wire) == 0 {
                            wire.look_for_end(cx, false);
                        }
                        return Poll::Pending;
                    }
                }
            }
            ready!(self.poll_output(cx))?;
            if self.is_done {
                ready!(self.wire.borrow_mut().poll_flush(cx))?;
                return Poll::Ready(self.broken.take().map_or(Ok(()), Err));
            }
            if self.is_file {
                ready!(self.poll_file(cx))?;
            }
        }
    }

    fn poll_output(&mut self, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        let polled = self.output.poll_write(cx, &mut self.wire.borrow_mut());
        if let Poll::Ready(Ok(written)) = polled {
            self.turn = self.turn.saturating_sub(written);
        }
        polled.map_ok(drop)
    }

    /// Takes the next frame of the body.
    fn poll_body(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Box<dyn Error>>> {
        let frame = match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
            Some(frame) => frame?,
            None => return Poll::Ready(self.end(None)),
        };
        match frame.into_data() {
            Ok(data) => {
                self.put(data)?;
                if self.body.is_end_stream() {
                    self.end(None)?;
                }
            }
            Err(frame) => self.end(frame.into_trailers().ok())?,
        }
        Poll::Ready(Ok(()))
    }

    fn put(&mut self, data: Bytes) -> Result<(), Truncated> {
        match &mut self.encoding {
            Encoding::Length(left) => {
                let rest = left.checked_sub(data.len() as u64);
                *left = rest.ok_or(Truncated("the body is longer than its head says"))?;
            }
            Encoding::Chunked if !data.is_empty() => {
                write_chunk_size(data.len(), &mut self.output.front);
                self.output.tail = b"\r\n";
            }
            Encoding::Chunked | Encoding::UntilClose | Encoding::Nothing => {}
        }
        self.output.piece = data;
        Ok(())
    }

    fn end(&mut self, trailers: Option<HeaderMap>) -> Result<(), Box<dyn Error>> {
        self.is_done = true;
        match self.encoding {
            Encoding::Length(1..) => {
                Err(Truncated("the body is shorter than its head says").into())
            }
            Encoding::Chunked => {
                let trailers = trailers.unwrap_or_default();
                let announced = &self.announced;
                let sent = trailers.iter().filter(|(name, _)| announced.contains(name));
                let sent = sent.map(|(name, value)| (name.as_str().as_bytes(), value.as_bytes()));
                match (trailers.is_empty(), self.output.tail.is_empty()) {
                    (true, true) => self.output.tail = b"0\r\n\r\n",
                    (true, false) => self.output.tail = b"\r\n0\r\n\r\n",
                    // Trailers come in a frame of their own, so the previous chunk was written.
                    (false, _) => write_last_chunk(sent, &mut self.output.front),
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Lets the kernel send the next bytes.
    fn poll_file(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Box<dyn Error>>> {
        self.takes_frames = false;
        let polled = self.wire.borrow_mut().poll_send_file(cx, &mut self.body);
        match ready!(polled)? {
            Sent::Bytes(bytes) => {
                self.turn = self.turn.saturating_sub(bytes);
                if let Encoding::Length(left) = &mut self.encoding {
                    *left = left.saturating_sub(bytes);
                }
                if self.body.is_end_stream() {
                    self.end(None)?;
                }
            }
            Sent::Full => {}
            Sent::Frames => self.takes_frames = true,
        }
        Poll::Ready(Ok(()))
    }
}
