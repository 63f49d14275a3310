//! Relays bytes through a tunnel opened by `CONNECT` or a protocol change (`upgrade`), in both
//! directions, until both sides have ended.
//!
//! Each side may close its own direction and still receive (half-close). A tunnel also closes when
//! it is idle or open for too long, or is cut from outside, for example at the end of a drain. The
//! byte counts are known however it ends. `TunnelPermits` limits the number of open tunnels.

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

/// How a tunnel ended, and the bytes relayed through it.
#[derive(Debug)]
pub struct Ended {
    /// Bytes from the client that were written to the upstream.
    pub sent: u64,
    /// Bytes from the upstream that were written to the client.
    pub received: u64,
    /// Why it ended.
    pub how: End,
}

/// Why a tunnel ended.
#[derive(Debug)]
pub enum End {
    /// Both sides closed their direction.
    Closed,
    /// No byte moved for the idle time.
    Idle,
    /// Open for the maximum time.
    Expired,
    /// Cut from outside.
    Cut,
    /// Another tunnel took its permit.
    Displaced,
    /// A connection failed.
    Broken(io::Error),
}

/// Bytes relayed in each direction, and the time of the last one.
struct Moved<F> {
    to_upstream: Cell<u64>,
    to_client: Cell<u64>,
    last: Cell<Instant>,
    clock: TokioClock,
    /// Called with the time of each move.
    note: F,
}

/// One side of the tunnel. Counts the bytes written to it.
struct Side<'a, T, F> {
    inner: T,
    written: &'a Cell<u64>,
    moved: &'a Moved<F>,
}

/// Relays bytes between a client and its upstream. `early` holds bytes that the client sent after
/// its request head. Returns when both directions have ended, `lifetime` is exceeded, a connection
/// fails, or `cut` completes; the result of `cut` is then the reason. Closes both connections on
/// return. Calls `note` with the current time when the tunnel opens and whenever bytes move.
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
