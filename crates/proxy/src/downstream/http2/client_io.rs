//! Socket of an HTTP/2 client for the `h2` crate. Counts bytes, records waits for the sweep, and
//! watches frames.

use std::cell::Cell;
use std::io;
use std::io::IoSlice;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use net::clock::TokioClock;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::client::connection_state::{ConnectionState, Phase};
use crate::client::handle::Client;
use crate::downstream::http2::frame_watch::FrameWatch;
use crate::downstream::stream::Stream;

pub(crate) struct ClientIo {
    stream: Stream,
    state: Rc<ConnectionState>,
    watch: FrameWatch,
    clock: TokioClock,
    is_flooded: Rc<Cell<bool>>,
}

impl ClientIo {
    /// Creates the socket. The returned flag is set when the client exceeds the frame limit;
    /// nothing is read after that.
    pub fn new(stream: Stream, client: &Client, clock: TokioClock) -> (ClientIo, Rc<Cell<bool>>) {
        let (state, is_flooded) = (client.state.clone(), Rc::default());
        let watch = FrameWatch::new(clock.instant());
        let io = ClientIo { stream, state, watch, clock, is_flooded: Rc::clone(&is_flooded) };
        (io, is_flooded)
    }
}

impl AsyncRead for ClientIo {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let ClientIo { stream, state, watch, clock, is_flooded } = self.get_mut();
        if is_flooded.get() {
            return Poll::Pending;
        }
        let before = buf.filled().len();
        let polled = Pin::new(stream).poll_read(cx, buf);
        state.read_blocked.set(polled.is_pending());
        ready!(polled)?;
        let count = buf.filled().len() - before;
        let bytes = &buf.filled()[before..];
        is_flooded.set(!watch.take(bytes, clock.instant(), state.written.get()));
        state.read.set(state.read.get() + count as u64);
        if count == 0 {
            state.eof.set(true);
        } else if state.is_fresh() {
            state.set_phase(Phase::Idle);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for ClientIo {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let ClientIo { stream, state, .. } = self.get_mut();
        let polled = Pin::new(stream).poll_write(cx, buf);
        state.wrote(&polled);
        polled
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let ClientIo { stream, state, .. } = self.get_mut();
        let polled = Pin::new(stream).poll_write_vectored(cx, bufs);
        state.wrote(&polled);
        polled
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let ClientIo { stream, state, .. } = self.get_mut();
        // TLS buffers bytes that did not fit into the socket.
        let polled = Pin::new(stream).poll_flush(cx);
        state.write_blocked.set(polled.is_pending());
        polled
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
