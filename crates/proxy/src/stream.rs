//! The transport of a client's connection: a TCP or Unix socket, with or without TLS on it, and
//! with what was read from it too early put back in front.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf, Bytes};
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::server::TlsStream;

/// Applies an expression to whichever socket there is.
macro_rules! on_socket {
    ($self:expr, $socket:ident => $do:expr) => {
        match &mut $self.get_mut().socket {
            Socket::Tcp($socket) => $do,
            Socket::Unix($socket) => $do,
        }
    };
}

/// A bare socket.
pub(crate) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// A socket, and bytes that were read from it already.
pub(crate) struct Raw {
    socket: Socket,
    early: Bytes,
}

/// What a client's bytes go through.
pub(crate) enum Stream {
    Plain(Raw),
    Tls(Box<TlsStream<Raw>>),
}

impl Raw {
    pub fn new(socket: Socket) -> Raw {
        if let Socket::Tcp(stream) = &socket {
            // Answers must not wait for acknowledgements; a failure only costs time.
            let _ = stream.set_nodelay(true);
        }
        Raw { socket, early: Bytes::new() }
    }

    /// Puts bytes back: they are read again, before any other.
    pub fn put_back(&mut self, bytes: Bytes) {
        self.early = match self.early.is_empty() {
            true => bytes,
            false => Bytes::from([bytes, self.early.clone()].concat()),
        };
    }

    fn reset_at_close(&self) {
        let linger = Some(Duration::ZERO);
        // Best effort: without it a plain end is seen.
        let _ = match &self.socket {
            Socket::Tcp(stream) => SockRef::from(stream).set_linger(linger),
            Socket::Unix(stream) => SockRef::from(stream).set_linger(linger),
        };
    }
}

impl Stream {
    /// Makes the close a reset, if it can be had: a plain end would pass for the end of a body.
    pub fn reset_at_close(&self) {
        match self {
            Stream::Plain(raw) => raw.reset_at_close(),
            Stream::Tls(tls) => tls.get_ref().0.reset_at_close(),
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
        on_socket!(self, socket => Pin::new(socket).poll_read(cx, buf))
    }
}

impl AsyncWrite for Raw {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        on_socket!(self, socket => Pin::new(socket).poll_write(cx, buf))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        on_socket!(self, socket => Pin::new(socket).poll_write_vectored(cx, bufs))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_socket!(self, socket => Pin::new(socket).poll_shutdown(cx))
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(raw) => Pin::new(raw).poll_read(cx, buf),
            Stream::Tls(tls) => Pin::new(tls).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Stream::Plain(raw) => Pin::new(raw).poll_write(cx, buf),
            Stream::Tls(tls) => Pin::new(tls).poll_write(cx, buf),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Stream::Plain(raw) => Pin::new(raw).poll_write_vectored(cx, bufs),
            Stream::Tls(tls) => Pin::new(tls).poll_write_vectored(cx, bufs),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(raw) => Pin::new(raw).poll_flush(cx),
            Stream::Tls(tls) => Pin::new(tls).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(raw) => Pin::new(raw).poll_shutdown(cx),
            Stream::Tls(tls) => Pin::new(tls).poll_shutdown(cx),
        }
    }
}
