//! The socket of one client as hyper sees it. It does three things that hyper does not: 1xx heads
//! are written between two answers' bytes (never inside one), waits for the client are recorded so
//! that one sweep a second finds the slow ones (a timer for each request would cost more than many
//! a cache hit), and bytes are counted.

use std::io;
use std::io::IoSlice;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::Buf;
use net::socket::PeerEnd;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use upstream::connection::send_file::Sent;

use crate::client::connection_state::{CloseReason, ConnectionState, Phase};
use crate::downstream::answers_ahead::{AnswersAhead, Held};
use crate::downstream::stream::Stream;
use crate::response::response_body::ResponseBody;

/// The socket handed to hyper (inside `TokioIo`).
pub(crate) struct ClientIo {
    stream: Stream,
    state: Rc<ConnectionState>,
    /// The answers that hyper does not see, in HTTP/1.
    ahead: Option<AnswersAhead>,
}

impl ClientIo {
    pub fn new(stream: Stream, state: Rc<ConnectionState>) -> ClientIo {
        ClientIo { stream, state, ahead: None }
    }

    /// Has plain requests answered before hyper sees them.
    pub fn with_answers_ahead(self, ahead: AnswersAhead) -> ClientIo {
        ClientIo { ahead: Some(ahead), ..self }
    }

    /// Returns the stream below.
    pub fn into_inner(self) -> Stream {
        self.stream
    }

    /// Has the kernel send the next bytes of a body, or waits until it can.
    pub fn poll_send(
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

    /// Reads from the socket.
    fn poll_socket(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, buf);
        self.state.read_blocked.set(polled.is_pending());
        if let (Poll::Pending, Some(ahead)) = (&polled, &mut self.ahead) {
            ahead.end_turn();
        }
        ready!(polled)?;
        let n = buf.filled().len() - before;
        self.state.read.set(self.state.read.get() + n as u64);
        if n == 0 {
            self.state.eof.set(true);
        }
        Poll::Ready(Ok(()))
    }

    /// Looks whether the client has left while its request is being answered and nothing is read
    /// from it: hyper would notice when it writes the answer.
    fn look_for_end(&mut self, cx: &mut Context<'_>) {
        let state = &self.state;
        if state.is_multiplexed() || state.read_blocked.get() || !state.is_answering() {
            return;
        }
        match self.stream.poll_peer_end(cx) {
            Poll::Pending => {}
            Poll::Ready(PeerEnd::Half) => state.note_half_closed(),
            Poll::Ready(PeerEnd::Reset) => state.cut_now(CloseReason::Left),
        }
    }

    /// Returns whether hyper is given something of what has come, which is in `buf` behind
    /// `before`, or the end of it.
    fn is_given(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
        before: usize,
    ) -> io::Result<bool> {
        match &mut self.ahead {
            Some(ahead) if buf.filled().len() > before => {
                ahead.look_at_new(cx, &mut self.stream, buf, before)
            }
            _ => Ok(true),
        }
    }

    /// Notes bytes that hyper is given.
    fn note_given(&self, bytes: &[u8]) {
        let state = &self.state;
        if !state.is_multiplexed() {
            state.framing.borrow_mut().see(bytes);
        }
        if !bytes.is_empty() && state.phase() == Phase::Idle {
            if !state.is_multiplexed() {
                state.set_phase(Phase::Head);
            } else if state.is_fresh() {
                state.set_phase(Phase::Idle);
            }
        }
    }

    /// Sends what is left of an answer that hyper has not seen, and does not ask for.
    fn poll_unsent(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(ahead) = self.ahead.as_mut().filter(|ahead| ahead.has_unsent()) else {
            return Poll::Ready(Ok(()));
        };
        ready!(ahead.poll_unsent(cx, &mut self.stream))?;
        // A read has waited for this, and for nothing else: hyper has to ask again.
        cx.waker().wake_by_ref();
        Poll::Ready(Ok(()))
    }

    /// Writes queued 1xx heads. hyper calls this only when every byte it had buffered is written:
    /// the one moment at which a 1xx head of the current request may be sent.
    fn poll_interim(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut sent = false;
        loop {
            let mut queue = self.state.interim.borrow_mut();
            let Some(head) = queue.front_mut() else { break };
            let polled = Pin::new(&mut self.stream).poll_write(cx, head);
            let n = match polled {
                Poll::Ready(result) => result?,
                Poll::Pending => {
                    self.state.write_blocked.set(true);
                    return Poll::Pending;
                }
            };
            self.state.write_blocked.set(false);
            self.state.written.set(self.state.written.get() + n as u64);
            head.advance(n);
            if head.is_empty() {
                queue.pop_front();
            }
            sent = true;
        }
        if sent {
            // The service waits for this before it gives its answer.
            cx.waker().wake_by_ref();
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for ClientIo {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buf.filled().len();
        loop {
            let held = match &mut this.ahead {
                Some(ahead) => {
                    ready!(ahead.poll_turn(cx));
                    let begun = ahead.poll_begun(cx, &mut this.stream);
                    if begun.is_pending() {
                        this.look_for_end(cx);
                        return Poll::Pending;
                    }
                    ready!(begun)?;
                    ahead.put_held(cx, &mut this.stream, buf)?
                }
                None => Held::Nothing,
            };
            let is_given = match held {
                Held::Given => true,
                Held::Answering => false,
                Held::Nothing => {
                    ready!(this.poll_socket(cx, buf))?;
                    this.is_given(cx, buf, before)?
                }
            };
            if is_given {
                this.note_given(&buf.filled()[before..]);
                return Poll::Ready(Ok(()));
            }
        }
    }
}

impl AsyncWrite for ClientIo {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_unsent(cx))?;
        let polled = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.state.wrote(&polled);
        polled
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_unsent(cx))?;
        let polled = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.state.wrote(&polled);
        polled
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_unsent(cx))?;
        if !self.state.interim_sent() {
            ready!(self.poll_interim(cx))?;
        }
        self.look_for_end(cx);
        // TLS keeps what did not fit into the socket.
        let polled = Pin::new(&mut self.stream).poll_flush(cx);
        self.state.write_blocked.set(polled.is_pending());
        polled
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_unsent(cx))?;
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
