//! The transport of a client's connection: a TCP or Unix socket, with or without TLS, and with
//! bytes put back that were read too early.

use std::io;
use std::io::IoSlice;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use net::socket::{Socket, transport};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::server::TlsStream;

/// A socket, and bytes that were read from it too early.
pub(crate) struct Raw {
    socket: Socket,
    early: Bytes,
}

/// The transport of a client's bytes.
pub(crate) enum Stream {
    Plain(Raw),
    Tls(Box<TlsStream<Raw>>),
}

transport!(Stream { Plain, Tls });

impl Raw {
    pub fn new(socket: Socket) -> Raw {
        // Answers must not wait for acknowledgements.
        socket.send_at_once();
        Raw { socket, early: Bytes::new() }
    }

    /// Puts bytes back: they are read again, before any other.
    pub fn put_back(&mut self, bytes: Bytes) {
        self.early = match self.early.is_empty() {
            true => bytes,
            false => Bytes::from([bytes, self.early.clone()].concat()),
        };
    }
}

impl Stream {
    /// Waits until there are bytes to read, which may be less than a TLS record. To be called only
    /// after a read has found nothing: decrypted bytes that wait here are not considered.
    pub fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<()> {
        let raw = match self {
            Stream::Plain(raw) => raw,
            Stream::Tls(tls) => tls.get_ref().0,
        };
        match raw.early.is_empty() {
            true => raw.socket.poll_readable(cx),
            false => Poll::Ready(()),
        }
    }

    /// Makes the close a reset, if that is possible: a plain end would look like the end of a body.
    pub fn reset_at_close(&self) {
        match self {
            Stream::Plain(raw) => raw.socket.reset_at_close(),
            Stream::Tls(tls) => tls.get_ref().0.socket.reset_at_close(),
        }
    }
}

impl AsyncRead for Raw {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.early.is_empty() {
            let n = self.early.len().min(buf.remaining());
            buf.put_slice(&self.early[..n]);
            self.early.advance(n);
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.socket).poll_read(cx, buf)
    }
}

impl AsyncWrite for Raw {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}
