//! TLS stream that returns bytes decrypted before an error ahead of the error. rustls decrypts
//! everything received at once, and a server may end its response with a fatal alert.

use std::io::{self, IoSlice, Read as _};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use rustls::ClientConnection;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::client;

use crate::connection::tls_transport::TlsTransport;

pub(crate) struct TlsStream {
    inner: client::TlsStream<TlsTransport>,
    /// Error to return after the decrypted bytes.
    failed: Option<io::Error>,
}

impl TlsStream {
    /// Wraps a connection whose handshake is complete.
    pub fn new(inner: client::TlsStream<TlsTransport>) -> TlsStream {
        TlsStream { inner, failed: None }
    }

    pub fn get_ref(&self) -> (&TlsTransport, &ClientConnection) {
        self.inner.get_ref()
    }

    pub fn get_mut(&mut self) -> (&mut TlsTransport, &mut ClientConnection) {
        self.inner.get_mut()
    }
}

impl AsyncRead for TlsStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let TlsStream { inner, failed } = &mut *self;
        if failed.is_none() {
            match ready!(Pin::new(&mut *inner).poll_read(cx, buf)) {
                Ok(()) => return Poll::Ready(Ok(())),
                Err(error) => *failed = Some(error),
            }
        }
        let decrypted = inner.get_mut().1.reader().read(buf.initialize_unfilled());
        match (decrypted, failed.take()) {
            (Ok(count @ 1..), error) => {
                buf.advance(count);
                *failed = error;
                Poll::Ready(Ok(()))
            }
            (_, Some(error)) => Poll::Ready(Err(error)),
            (read, None) => Poll::Ready(read.map(drop)),
        }
    }
}

impl AsyncWrite for TlsStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}
