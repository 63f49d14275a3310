//! The transfer of bytes through a tunnel, which a `CONNECT` or a change of the protocol
//! (`upgrade`) has opened: both ways, until both sides have ended.
//!
//! Each side may end its own direction and still receive (half-close). A tunnel in which nothing
//! moves for a while is ended, and so is one that is cut from outside, as at the end of a drain.
//! The moved bytes are known however it ends. `Places` limits how many are open at a time.

use std::cell::Cell;
use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Instant;

use bytes::Bytes;
use net::clock::TokioClock;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf, copy_bidirectional_with_sizes};
use tokio::time::{sleep, sleep_until};

use crate::client::limits::Lifetime;

/// Bytes of buffer for each direction of a tunnel.
const BUFFER: usize = 16 << 10;

/// The end of a tunnel, and the bytes that moved through it.
#[derive(Debug)]
pub struct Ended {
    /// Bytes that the upstream took from the client.
    pub sent: u64,
    /// Bytes that the client took from the upstream.
    pub received: u64,
    /// How it ended.
    pub how: End,
}

/// The way in which a tunnel ended.
#[derive(Debug)]
pub enum End {
    /// Both sides ended their direction.
    Closed,
    /// Nothing moved for the time allowed.
    Idle,
    /// It was open for as long as one may be.
    Expired,
    /// It was cut from outside.
    Cut,
    /// It was idle, and another tunnel has its place.
    Displaced,
    /// A connection broke.
    Broken(io::Error),
}

/// The bytes that moved each way, and when the last did.
struct Moved<F> {
    to_upstream: Cell<u64>,
    to_client: Cell<u64>,
    last: Cell<Instant>,
    clock: TokioClock,
    /// Called with the time of each move.
    note: F,
}

/// A side whose written bytes are counted.
struct Side<'a, T, F> {
    inner: T,
    written: &'a Cell<u64>,
    moved: &'a Moved<F>,
}

/// Joins a client and its upstream. `early` is what the client sent behind the head of its request.
/// Returns when both directions have ended, when its `lifetime` is over, when a connection breaks,
/// or when `cut` completes, with what `cut` returns; both connections are closed then. `note` is
/// called with the time at which it opens, and whenever bytes move.
pub async fn join(
    client: impl AsyncRead + AsyncWrite + Unpin,
    early: Bytes,
    upstream: impl AsyncRead + AsyncWrite + Unpin,
    lifetime: Lifetime,
    clock: TokioClock,
    cut: impl Future<Output = End>,
    note: impl Fn(Instant),
) -> Ended {
    let opened = clock.instant();
    note(opened);
    let moved = Moved {
        to_upstream: Cell::new(0),
        to_client: Cell::new(0),
        last: Cell::new(opened),
        clock,
        note,
    };
    let mut client = Side { inner: client, written: &moved.to_client, moved: &moved };
    let mut upstream = Side { inner: upstream, written: &moved.to_upstream, moved: &moved };
    let copy = async {
        upstream.write_all(&early).await?;
        copy_bidirectional_with_sizes(&mut client, &mut upstream, BUFFER, BUFFER).await
    };
    let silence = async {
        loop {
            let end = moved.last.get() + lifetime.idle;
            if end <= clock.instant() {
                return;
            }
            sleep_until(end.into()).await;
        }
    };
    let expiry = async {
        match lifetime.longest {
            Some(longest) => sleep(longest).await,
            None => std::future::pending().await,
        }
    };
    let how = {
        let (copy, silence, cut) = (pin!(copy), pin!(silence), pin!(cut));
        let expiry = pin!(expiry);
        tokio::select! {
            biased;
            result = copy => result.map_or_else(End::Broken, |_| End::Closed),
            end = cut => end,
            () = silence => End::Idle,
            () = expiry => End::Expired,
        }
    };
    Ended { sent: moved.to_upstream.get(), received: moved.to_client.get(), how }
}

impl<T, F: Fn(Instant)> Side<'_, T, F> {
    fn wrote(&self, n: usize) {
        self.written.set(self.written.get() + n as u64);
        let now = self.moved.clock.instant();
        self.moved.last.set(now);
        (self.moved.note)(now);
    }
}

impl<T: AsyncRead + Unpin, F> AsyncRead for Side<'_, T, F> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buf)
    }
}

impl<T: AsyncWrite + Unpin, F: Fn(Instant)> AsyncWrite for Side<'_, T, F> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let n = ready!(Pin::new(&mut self.inner).poll_write(cx, buf))?;
        self.wrote(n);
        Poll::Ready(Ok(n))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests;
