//! Writes a request in HTTP/1.1.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use http::header::{self, HeaderMap, HeaderName};
use http::{Method, Request};
use http_body::Body as _;
use http1::{write_chunk_size, write_field, write_map, write_number_field, write_request_line};
use semantics::Spellings;
use tokio::io::AsyncWrite;

use super::error::Http1Error;
use crate::connection::raw_target::RawTarget;
use crate::connection::request_body::OutBody;
use crate::connection::stream::Stream;

/// Capacity in bytes above which the head buffer is not kept.
const BUFFER_KEPT_MAX: usize = 4 << 10;

pub(super) struct Sending {
    /// Head, or chunk-size line. `sent` is the number of its bytes already sent.
    output: Vec<u8>,
    sent: usize,
    /// Piece of the body. `tail` holds the bytes that follow it.
    piece: Bytes,
    tail: &'static [u8],
    rest: Rest,
    /// True until the body is first polled.
    is_new: bool,
    is_untouched: bool,
    is_done: bool,
}

/// The part of the body that was not polled yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rest {
    Nothing,
    Length(u64),
    Chunks,
}

impl Sending {
    /// Serializes the request head into `output`. `spellings` is the spelling of its field names.
    pub fn new(request: &Request<OutBody>, spellings: &Spellings, mut output: Vec<u8>) -> Sending {
        output.clear();
        let target = match request.extensions().get() {
            Some(RawTarget(target)) => target,
            None => request.uri().path_and_query().map_or("/", |path| path.as_str()),
        };
        write_request_line(request.method(), target, &mut output);
        let has_body = !request.body().is_end_stream();
        let rest = if has_body { rest_of(request) } else { Rest::Nothing };
        let is_written = |name: &HeaderName| match *name {
            header::TRANSFER_ENCODING => false,
            header::CONTENT_LENGTH => !has_body,
            _ => true,
        };
        let mut speller = spellings.speller();
        write_map(request.headers(), &mut speller, is_written, &mut output);
        match rest {
            Rest::Nothing => {}
            Rest::Chunks => {
                let name = speller.spell(&header::TRANSFER_ENCODING);
                write_field(name.as_bytes(), b"chunked", &mut output);
            }
            Rest::Length(length) => {
                let name = speller.spell(&header::CONTENT_LENGTH);
                write_number_field(name.as_bytes(), length, &mut output);
            }
        }
        output.extend_from_slice(b"\r\n");
        let (piece, tail): (_, &[u8]) = (Bytes::new(), b"");
        let (is_new, is_untouched, is_done) = (true, true, false);
        Sending { output, sent: 0, piece, tail, rest, is_new, is_untouched, is_done }
    }

    /// Returns whether no byte was sent and nothing was taken from the body.
    pub fn is_untouched(&self) -> bool {
        self.is_untouched
    }

    /// Returns whether the request was sent completely.
    pub fn is_done(&self) -> bool {
        self.is_done
    }

    /// Returns the head buffer for the next request.
    pub fn into_buffer(self) -> Vec<u8> {
        if self.output.capacity() > BUFFER_KEPT_MAX { Vec::new() } else { self.output }
    }

    /// Sends the request to its end. The part of the body that is available is sent with the head;
    /// if the body fails at once, nothing is sent.
    pub fn poll(
        &mut self,
        stream: &mut Stream,
        body: &mut OutBody,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), Http1Error>> {
        if self.is_new && self.rest != Rest::Nothing {
            self.is_new = false;
            if let Poll::Ready(polled) = self.poll_body(body, cx) {
                polled?;
            }
        }
        while !self.is_done {
            ready!(self.poll_write(stream, cx)).map_err(Http1Error::Io)?;
            if self.rest == Rest::Nothing {
                self.is_done = true;
            } else {
                self.sent = 0;
                self.output.clear();
                ready!(self.poll_body(body, cx))?;
            }
        }
        Poll::Ready(Ok(()))
    }

    fn poll_write(&mut self, stream: &mut Stream, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut stream = Pin::new(stream);
        while self.sent < self.output.len() || !self.piece.is_empty() || !self.tail.is_empty() {
            let head = &self.output[self.sent..];
            let written = if self.piece.is_empty() && self.tail.is_empty() {
                ready!(stream.as_mut().poll_write(cx, head))?
            } else {
                let slices = [head, &self.piece, self.tail].map(IoSlice::new);
                ready!(stream.as_mut().poll_write_vectored(cx, &slices))?
            };
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.is_untouched = false;
            self.advance(written);
        }
        stream.poll_flush(cx)
    }

    fn advance(&mut self, written: usize) {
        let of_head = written.min(self.output.len() - self.sent);
        self.sent += of_head;
        let of_piece = (written - of_head).min(self.piece.len());
        self.piece.advance(of_piece);
        self.tail = &self.tail[written - of_head - of_piece..];
    }

    /// Waits for the next piece of the body.
    fn poll_body(
        &mut self,
        body: &mut OutBody,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), Http1Error>> {
        let frame = ready!(Pin::new(&mut *body).poll_frame(cx));
        self.is_untouched = false;
        let data = match frame {
            Some(Ok(frame)) => frame.into_data().unwrap_or_default(),
            Some(Err(_)) => return Poll::Ready(Err(Http1Error::RequestBody)),
            None => return Poll::Ready(self.end()),
        };
        match &mut self.rest {
            Rest::Length(left) => match left.checked_sub(data.len() as u64) {
                Some(rest) => *left = rest,
                None => return Poll::Ready(Err(Http1Error::RequestBody)),
            },
            Rest::Chunks if !data.is_empty() => {
                write_chunk_size(data.len(), &mut self.output);
                self.tail = b"\r\n";
            }
            Rest::Chunks | Rest::Nothing => {}
        }
        self.piece = data;
        if body.is_end_stream() { Poll::Ready(self.end()) } else { Poll::Ready(Ok(())) }
    }

    fn end(&mut self) -> Result<(), Http1Error> {
        match std::mem::replace(&mut self.rest, Rest::Nothing) {
            // Otherwise the origin would take half a body for a whole one.
            Rest::Length(1..) => Err(Http1Error::RequestBody),
            Rest::Chunks if self.tail.is_empty() => {
                self.tail = b"0\r\n\r\n";
                Ok(())
            }
            Rest::Chunks => {
                self.tail = b"\r\n0\r\n\r\n";
                Ok(())
            }
            Rest::Length(0) | Rest::Nothing => Ok(()),
        }
    }
}

/// Returns the framing of a request body: as its head states, or by its known length.
fn rest_of(request: &Request<OutBody>) -> Rest {
    let headers = request.headers();
    if headers.contains_key(header::TRANSFER_ENCODING) {
        return Rest::Chunks;
    }
    match said(headers).or(request.body().size_hint().exact()) {
        Some(length) => Rest::Length(length),
        // GET and HEAD have no body unless their head states one.
        None if matches!(*request.method(), Method::GET | Method::HEAD) => Rest::Nothing,
        None => Rest::Chunks,
    }
}

fn said(headers: &HeaderMap) -> Option<u64> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}
