//! Transport of one HTTP/1 client: its socket, the bytes read but not consumed, and the state of
//! the request body. The connection shares it with the request body, which is read while the
//! response is made.
//!
//! Waits for the client are recorded in its state, where one periodic sweep finds slow clients. A
//! timer per request would cost more than many cache hits.

use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes, BytesMut};
use http_body::Frame;
use http1::{BodyLength, Chunks, Malformed, Piece};
use net::socket::PeerEnd;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use upstream::connection::send_file::Sent;
use upstream::message::request_body::BrokenOff;

use crate::client::connection_state::{CloseReason, ConnectionState};
use crate::downstream::stream::Stream;
use crate::response::response_body::ResponseBody;

/// Bytes per read.
const READ: usize = 16 << 10;

thread_local! {
    /// Buffer that heads are read into, so that waiting connections need none.
    static BUFFER: RefCell<Vec<u8>> = RefCell::new(vec![0; READ]);
}

pub(super) struct Wire {
    stream: Stream,
    state: Rc<ConnectionState>,
    /// Bytes read but not yet consumed.
    input: BytesMut,
    /// Length of the input already searched for the end of a head.
    seen: usize,
    body: BodyRest,
    /// True once the client has closed its side.
    is_ended: bool,
}

/// The unread rest of a request body.
enum BodyRest {
    Bytes(u64),
    Chunked(Chunks),
    /// Malformed or cut short; no byte after it may be read as a request.
    Broken,
}

impl Wire {
    pub fn new(stream: Stream, state: Rc<ConnectionState>) -> Wire {
        let body = BodyRest::Bytes(0);
        Wire { stream, state, input: BytesMut::new(), seen: 0, body, is_ended: false }
    }

    /// Returns the stream and the bytes read but not consumed.
    pub fn into_parts(self) -> (Stream, Bytes) {
        (self.stream, self.input.freeze())
    }

    /// Returns whether there are bytes read but not consumed.
    pub fn has_input(&self) -> bool {
        !self.input.is_empty()
    }

    /// Calls `take` with the input, and again after each read, until it returns a value. Its second
    /// argument is the length of input it has already seen; it returns the number of bytes
    /// consumed. Returns `None` if the client has closed its side and `take` has seen all input.
    pub fn poll_take<T>(
        &mut self,
        cx: &mut Context<'_>,
        mut take: impl FnMut(&[u8], usize) -> (usize, Option<T>),
    ) -> Poll<io::Result<Option<T>>> {
        loop {
            if self.input.len() > self.seen {
                let (used, taken) = take(&self.input, self.seen);
                self.input.advance(used);
                self.seen = self.input.len();
                if taken.is_some() {
                    self.seen = 0;
                    self.free_empty();
                    return Poll::Ready(Ok(taken));
                }
            }
            if self.is_ended {
                return Poll::Ready(Ok(None));
            }
            if !self.input.is_empty() {
                ready!(self.poll_more(cx))?;
                continue;
            }
            self.free_empty();
            let taken = ready!(self.poll_buffer(cx, &mut take))?;
            if taken.is_some() {
                return Poll::Ready(Ok(taken));
            }
        }
    }

    fn free_empty(&mut self) {
        if self.input.is_empty() {
            (self.input, self.seen) = (BytesMut::new(), 0);
        }
    }

    /// Reads into the thread's buffer, and keeps the bytes that `take` does not consume.
    fn poll_buffer<T>(
        &mut self,
        cx: &mut Context<'_>,
        take: &mut impl FnMut(&[u8], usize) -> (usize, Option<T>),
    ) -> Poll<io::Result<Option<T>>> {
        BUFFER.with_borrow_mut(|buffer| {
            let mut room = ReadBuf::new(buffer);
            ready!(self.poll_read(cx, &mut room))?;
            let bytes = room.filled();
            if bytes.is_empty() {
                return Poll::Ready(Ok(None));
            }
            let (used, taken) = take(bytes, 0);
            self.input.extend_from_slice(&bytes[used..]);
            self.seen = if taken.is_some() { 0 } else { self.input.len() };
            Poll::Ready(Ok(taken))
        })
    }

    fn poll_more(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut input = std::mem::take(&mut self.input);
        let polled = BUFFER.with_borrow_mut(|buffer| {
            let mut room = ReadBuf::new(buffer);
            let polled = self.poll_read(cx, &mut room);
            input.extend_from_slice(room.filled());
            polled
        });
        self.input = input;
        polled
    }

    fn poll_read(&mut self, cx: &mut Context<'_>, room: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_read(cx, room);
        self.state.read_blocked.set(polled.is_pending());
        ready!(polled)?;
        let count = room.filled().len();
        self.state.read.set(self.state.read.get() + count as u64);
        if count == 0 {
            self.is_ended = true;
            self.state.eof.set(true);
        }
        Poll::Ready(Ok(()))
    }

    /// Begins the body of the request whose head was taken.
    pub fn begin_body(&mut self, length: BodyLength) {
        self.body = match length {
            BodyLength::Bytes(length) => BodyRest::Bytes(length),
            BodyLength::Chunked => BodyRest::Chunked(Chunks::default()),
        };
    }

    /// Returns whether the whole request body was taken.
    pub fn body_is_done(&self) -> bool {
        match &self.body {
            BodyRest::Bytes(left) => *left == 0,
            BodyRest::Chunked(chunks) => chunks.is_done(),
            BodyRest::Broken => false,
        }
    }

    /// Returns the number of body bytes left, if known.
    pub fn body_left(&self) -> Option<u64> {
        match &self.body {
            BodyRest::Bytes(left) => Some(*left),
            BodyRest::Chunked(_) | BodyRest::Broken => None,
        }
    }

    /// Waits for the next piece of the request body.
    pub fn poll_body(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BrokenOff>>> {
        loop {
            match self.take_body() {
                Ok(Piece::Data(bytes)) => return Poll::Ready(Some(Ok(Frame::data(bytes)))),
                Ok(Piece::Trailers(fields)) => {
                    return Poll::Ready(Some(Ok(Frame::trailers(fields))));
                }
                Ok(Piece::End) => return Poll::Ready(None),
                Ok(Piece::Missing) if self.is_ended => {
                    self.body = BodyRest::Broken;
                    return Poll::Ready(Some(Err(BrokenOff::Ended)));
                }
                Ok(Piece::Missing) => match ready!(self.poll_more(cx)) {
                    Ok(()) => {}
                    Err(error) => {
                        self.body = BodyRest::Broken;
                        return Poll::Ready(Some(Err(BrokenOff::Io(error))));
                    }
                },
                Err(malformed) => {
                    self.body = BodyRest::Broken;
                    return Poll::Ready(Some(Err(BrokenOff::Malformed(malformed))));
                }
            }
        }
    }

    /// Takes the next piece of the body from the input.
    fn take_body(&mut self) -> Result<Piece, Malformed> {
        match &mut self.body {
            BodyRest::Bytes(0) => Ok(Piece::End),
            BodyRest::Bytes(_) if self.input.is_empty() => Ok(Piece::Missing),
            BodyRest::Bytes(left) => {
                let count = self.input.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= count as u64;
                Ok(Piece::Data(self.input.split_to(count).freeze()))
            }
            BodyRest::Chunked(chunks) => chunks.take(&mut self.input),
            BodyRest::Broken => Err(Malformed("it broke off before")),
        }
    }

    /// Returns whether the input holds the rest of the body.
    pub fn body_has_arrived(&self) -> bool {
        match &self.body {
            BodyRest::Bytes(left) => *left <= self.input.len() as u64,
            BodyRest::Chunked(chunks) => chunks.is_done(),
            BodyRest::Broken => false,
        }
    }

    /// Discards received bytes of a body that nothing reads.
    pub fn discard_body(&mut self) {
        loop {
            match self.take_body() {
                Ok(Piece::Data(_) | Piece::Trailers(_)) => {}
                Ok(Piece::End | Piece::Missing) => return,
                Err(_) => return self.body = BodyRest::Broken,
            }
        }
    }

    /// Writes bytes from several slices.
    pub fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.state.wrote(&polled);
        match polled {
            Poll::Ready(Ok(0)) => Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
            polled => polled,
        }
    }

    /// Waits until the socket has taken all bytes written. TLS buffers bytes that did not fit.
    pub fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_flush(cx);
        self.state.write_blocked.set(polled.is_pending());
        polled
    }

    /// Writes the queued 1xx heads. Must be called between responses, never inside one.
    pub fn poll_interim(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            let Some(mut head) = self.state.interim.borrow_mut().pop_front() else {
                return self.poll_flush(cx);
            };
            let polled = self.poll_write(cx, &[IoSlice::new(&head)]);
            if let Poll::Ready(Ok(count)) = polled {
                head.advance(count);
            }
            if !head.is_empty() {
                self.state.interim.borrow_mut().push_front(head);
            }
            ready!(polled)?;
        }
    }

    /// Lets the kernel send the next bytes of a body, or waits until it can.
    pub fn poll_send_file(
        &mut self,
        cx: &mut Context<'_>,
        body: &mut ResponseBody,
    ) -> Poll<io::Result<Sent>> {
        let Some(socket) = self.stream.bare_socket() else { return Poll::Ready(Ok(Sent::Frames)) };
        let (state, mut is_loading) = (&self.state, false);
        let polled = socket.poll_write_with(cx, |cx, descriptor| {
            let polled = body.poll_send(cx, descriptor);
            is_loading = polled.is_pending();
            match polled {
                Poll::Ready(Sent::Full) => Poll::Ready(Err(io::ErrorKind::WouldBlock.into())),
                polled => polled.map(Ok),
            }
        });
        if let Poll::Ready(Ok(Sent::Bytes(bytes))) = polled {
            state.written.set(state.written.get() + bytes);
        }
        state.write_blocked.set(polled.is_pending() && !is_loading);
        polled
    }

    /// Returns whether the kernel can send files to the client.
    pub fn sends_files(&self) -> bool {
        self.stream.bare_socket().is_some()
    }

    /// Checks whether the client is gone while its request is being answered and nothing is read
    /// from it. With `runs_on` the origin may have acted on the request, and the stored responses
    /// that it invalidates must still be removed (RFC 9111, 4.4). A reset then only marks the
    /// connection as half-closed; the request is cut only when another one needs its resources.
    pub fn look_for_end(&mut self, cx: &mut Context<'_>, runs_on: bool) {
        if self.state.read_blocked.get() || self.is_ended {
            return;
        }
        match self.stream.poll_peer_end(cx) {
            Poll::Pending => {}
            Poll::Ready(PeerEnd::Half) => self.state.note_half_closed(),
            Poll::Ready(PeerEnd::Reset) if runs_on => self.state.note_half_closed(),
            Poll::Ready(PeerEnd::Reset) => self.state.cut_now(CloseReason::Left),
        }
    }
}
