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
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::client::connection_state::{ConnectionState, Phase};
use crate::downstream::stream::Stream;

/// The socket handed to hyper (inside `TokioIo`).
pub(crate) struct ClientIo {
    stream: Stream,
    state: Rc<ConnectionState>,
}

impl ClientIo {
    pub fn new(stream: Stream, state: Rc<ConnectionState>) -> ClientIo {
        ClientIo { stream, state }
    }

    /// Returns the stream below.
    pub fn into_inner(self) -> Stream {
        self.stream
    }

    fn wrote(&self, polled: &Poll<io::Result<usize>>) {
        match polled {
            Poll::Ready(Ok(n)) => {
                self.state.written.set(self.state.written.get() + *n as u64);
                self.state.write_blocked.set(false);
            }
            Poll::Ready(Err(_)) => self.state.write_blocked.set(false),
            Poll::Pending => self.state.write_blocked.set(true),
        }
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
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, buf);
        let state = &self.state;
        state.read_blocked.set(polled.is_pending());
        ready!(polled)?;
        let n = buf.filled().len() - before;
        if !state.is_multiplexed() {
            state.framing.borrow_mut().see(&buf.filled()[before..]);
        }
        state.read.set(state.read.get() + n as u64);
        if n == 0 {
            state.eof.set(true);
        } else if state.phase() == Phase::Idle {
            if !state.is_multiplexed() {
                state.set_phase(Phase::Head);
            } else if state.is_fresh() {
                state.set_phase(Phase::Idle);
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for ClientIo {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.wrote(&polled);
        polled
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.wrote(&polled);
        polled
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.state.interim_sent() {
            ready!(self.poll_interim(cx))?;
        }
        // TLS keeps what did not fit into the socket.
        let polled = Pin::new(&mut self.stream).poll_flush(cx);
        self.state.write_blocked.set(polled.is_pending());
        polled
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
