//! The sockets that both sides speak through, TCP or Unix, and how a type that is one of several
//! transports is a transport itself.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

/// A bare socket.
pub(crate) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// Makes an enum whose variants each hold a transport a transport: every call goes to the one that
/// is there.
macro_rules! transport {
    ($type:ident { $($variant:ident),+ }) => {
        impl AsyncRead for $type {
            fn poll_read(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                buf: &mut ReadBuf<'_>,
            ) -> Poll<io::Result<()>> {
                match self.get_mut() {
                    $($type::$variant(inner) => Pin::new(inner).poll_read(cx, buf),)+
                }
            }
        }

        impl AsyncWrite for $type {
            fn poll_write(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                buf: &[u8],
            ) -> Poll<io::Result<usize>> {
                match self.get_mut() {
                    $($type::$variant(inner) => Pin::new(inner).poll_write(cx, buf),)+
                }
            }

            fn poll_write_vectored(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                bufs: &[IoSlice<'_>],
            ) -> Poll<io::Result<usize>> {
                match self.get_mut() {
                    $($type::$variant(inner) => Pin::new(inner).poll_write_vectored(cx, bufs),)+
                }
            }

            fn is_write_vectored(&self) -> bool {
                match self {
                    $($type::$variant(inner) => inner.is_write_vectored(),)+
                }
            }

            fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                match self.get_mut() {
                    $($type::$variant(inner) => Pin::new(inner).poll_flush(cx),)+
                }
            }

            fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                match self.get_mut() {
                    $($type::$variant(inner) => Pin::new(inner).poll_shutdown(cx),)+
                }
            }
        }
    };
}

pub(crate) use transport;

transport!(Socket { Tcp, Unix });

impl Socket {
    /// Waits until there is something to read: bytes, the end, or an error.
    pub fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<()> {
        let polled = match self {
            Socket::Tcp(stream) => stream.poll_read_ready(cx),
            Socket::Unix(stream) => stream.poll_read_ready(cx),
        };
        // Whoever reads is told of the error.
        polled.map(drop)
    }

    /// Makes the close a reset, if it can be had.
    pub fn reset_at_close(&self) {
        let linger = Some(Duration::ZERO);
        // Best effort: without it a plain end is seen.
        let _ = match self {
            Socket::Tcp(stream) => SockRef::from(stream).set_linger(linger),
            Socket::Unix(stream) => SockRef::from(stream).set_linger(linger),
        };
    }
}
