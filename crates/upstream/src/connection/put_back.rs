//! A stream to which bytes can be put back that were read too early. They are read again before any
//! others.

use std::io;
use std::io::IoSlice;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A stream with bytes that were read from it too early.
#[derive(Debug)]
pub struct PutBack<S> {
    stream: S,
    early: Bytes,
}

impl<S> PutBack<S> {
    /// Wraps a stream from which `early` was already read.
    pub fn new(stream: S, early: Bytes) -> PutBack<S> {
        PutBack { stream, early }
    }

    /// Puts bytes back, in front of those put back earlier.
    pub fn put_back(&mut self, bytes: Bytes) {
        self.early = match self.early.is_empty() {
            true => bytes,
            false => Bytes::from([bytes, self.early.clone()].concat()),
        };
    }

    /// Returns whether bytes that were put back are waiting to be read.
    pub fn has_early(&self) -> bool {
        !self.early.is_empty()
    }

    /// Returns the underlying stream.
    pub fn get_ref(&self) -> &S {
        &self.stream
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for PutBack<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.early.is_empty() {
            return Pin::new(&mut self.stream).poll_read(cx, buf);
        }
        let count = self.early.len().min(buf.remaining());
        buf.put_slice(&self.early[..count]);
        self.early.advance(count);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for PutBack<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    #[tokio::test]
    async fn what_is_put_back_is_read_first() {
        let (mut near, far) = duplex(64);
        near.write_all(b"last").await.expect("room");
        near.shutdown().await.expect("open");
        let mut stream = PutBack::new(far, Bytes::from_static(b"then "));
        stream.put_back(Bytes::from_static(b"first "));
        assert!(stream.has_early());
        let mut begin = [0; 3];
        stream.read_exact(&mut begin).await.expect("bytes that were put back");
        let mut rest = String::new();
        stream.read_to_string(&mut rest).await.expect("the other end was closed");
        assert_eq!((&begin, rest.as_str()), (b"fir", "st then last"));
        assert!(!stream.has_early());
    }
}
