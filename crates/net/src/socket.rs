//! The sockets of both sides, TCP or Unix, and a macro that makes an enum of transports a transport
//! itself.

use std::io::{self, Read};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};

use socket2::SockRef;
use tokio::net::{TcpStream, UnixStream};

/// A bare socket.
pub enum Socket {
    /// A socket of TCP.
    Tcp(TcpStream),
    /// A socket in the file system.
    Unix(UnixStream),
    /// A socket of another network than the system's.
    Other(Box<dyn OtherSocket>),
}

/// The end of the other side of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerEnd {
    /// It sends nothing more, but may still read.
    Half,
    /// It is gone: the connection was reset.
    Reset,
}

/// A connection of a network that is not the system's.
pub trait OtherSocket: AsyncRead + AsyncWrite + Send + Unpin {
    /// Waits until there is something to read: bytes, the end, or an error.
    fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<()>;

    /// Returns whether bytes that were written have not been acknowledged.
    fn has_unacknowledged(&self) -> bool {
        false
    }

    /// Makes the close a reset.
    fn reset_at_close(&self);

    /// Returns the address of the other end.
    fn peer_addr(&self) -> SocketAddr;
}

/// Makes an enum whose variants each hold a transport a transport: every call is forwarded to the
/// variant. Its callers need the crate `tokio`.
#[macro_export]
macro_rules! transport {
    ($type:ident { $($variant:ident),+ }) => {
        impl ::tokio::io::AsyncRead for $type {
            fn poll_read(
                self: ::std::pin::Pin<&mut Self>,
                cx: &mut ::std::task::Context<'_>,
                buf: &mut ::tokio::io::ReadBuf<'_>,
            ) -> ::std::task::Poll<::std::io::Result<()>> {
                match self.get_mut() {
                    $($type::$variant(inner) => ::std::pin::Pin::new(inner).poll_read(cx, buf),)+
                }
            }
        }

        impl ::tokio::io::AsyncWrite for $type {
            fn poll_write(
                self: ::std::pin::Pin<&mut Self>,
                cx: &mut ::std::task::Context<'_>,
                buf: &[u8],
            ) -> ::std::task::Poll<::std::io::Result<usize>> {
                match self.get_mut() {
                    $($type::$variant(inner) => ::std::pin::Pin::new(inner).poll_write(cx, buf),)+
                }
            }

            fn poll_write_vectored(
                self: ::std::pin::Pin<&mut Self>,
                cx: &mut ::std::task::Context<'_>,
                bufs: &[::std::io::IoSlice<'_>],
            ) -> ::std::task::Poll<::std::io::Result<usize>> {
                match self.get_mut() {
                    $($type::$variant(inner) => {
                        ::std::pin::Pin::new(inner).poll_write_vectored(cx, bufs)
                    })+
                }
            }

            fn is_write_vectored(&self) -> bool {
                match self {
                    $($type::$variant(inner) => inner.is_write_vectored(),)+
                }
            }

            fn poll_flush(
                self: ::std::pin::Pin<&mut Self>,
                cx: &mut ::std::task::Context<'_>,
            ) -> ::std::task::Poll<::std::io::Result<()>> {
                match self.get_mut() {
                    $($type::$variant(inner) => ::std::pin::Pin::new(inner).poll_flush(cx),)+
                }
            }

            fn poll_shutdown(
                self: ::std::pin::Pin<&mut Self>,
                cx: &mut ::std::task::Context<'_>,
            ) -> ::std::task::Poll<::std::io::Result<()>> {
                match self.get_mut() {
                    $($type::$variant(inner) => ::std::pin::Pin::new(inner).poll_shutdown(cx),)+
                }
            }
        }
    };
}

pub use crate::transport;

transport!(Socket { Tcp, Unix, Other });

impl Socket {
    /// Waits until there is something to read: bytes, the end, or an error.
    pub fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<()> {
        let polled = match self {
            Socket::Tcp(stream) => stream.poll_read_ready(cx),
            Socket::Unix(stream) => stream.poll_read_ready(cx),
            Socket::Other(stream) => return stream.poll_readable(cx),
        };
        // The next read returns the error.
        polled.map(drop)
    }

    /// Returns whether it has a descriptor, to which [`Socket::poll_write_with`] writes.
    pub fn has_descriptor(&self) -> bool {
        !matches!(self, Socket::Other(_))
    }

    /// Has `write` write to the descriptor, as soon as the system takes bytes. `write` returns
    /// `WouldBlock` when it does not, and may wait for other things.
    pub fn poll_write_with<T>(
        &self,
        cx: &mut Context<'_>,
        mut write: impl FnMut(&mut Context<'_>, BorrowedFd<'_>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        loop {
            let polled = match self {
                Socket::Tcp(stream) => {
                    ready!(stream.poll_write_ready(cx))?;
                    stream.try_io(Interest::WRITABLE, || pending_as_ok(write(cx, stream.as_fd())))
                }
                Socket::Unix(stream) => {
                    ready!(stream.poll_write_ready(cx))?;
                    stream.try_io(Interest::WRITABLE, || pending_as_ok(write(cx, stream.as_fd())))
                }
                Socket::Other(_) => return Poll::Ready(Err(io::ErrorKind::Unsupported.into())),
            };
            match polled {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                polled => return polled?.map(Ok),
            }
        }
    }

    /// Waits until the other side of a TCP connection ends, while nothing is read from it. Where
    /// there are bytes to read before that end, or the system does not tell, it never does.
    pub fn poll_peer_end(&self, cx: &mut Context<'_>) -> Poll<PeerEnd> {
        let Socket::Tcp(stream) = self else { return Poll::Pending };
        let mut byte = [0];
        match stream.poll_peek(cx, &mut ReadBuf::new(&mut byte)) {
            Poll::Ready(Ok(0)) => Poll::Ready(PeerEnd::Half),
            Poll::Ready(Ok(_)) | Poll::Pending => Poll::Pending,
            Poll::Ready(Err(_)) => Poll::Ready(PeerEnd::Reset),
        }
    }

    /// Reads what the system holds for this socket by now, which the runtime may not have heard of
    /// yet. `WouldBlock`: there is nothing.
    pub fn read_now(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(stream) => (&*SockRef::from(&*stream)).read(buf),
            Socket::Unix(stream) => (&*SockRef::from(&*stream)).read(buf),
            Socket::Other(stream) => {
                let mut buf = ReadBuf::new(buf);
                let mut cx = Context::from_waker(Waker::noop());
                match Pin::new(stream).poll_read(&mut cx, &mut buf) {
                    Poll::Ready(read) => read.map(|()| buf.filled().len()),
                    Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
                }
            }
        }
    }

    /// Returns whether bytes that were written have not reached the other end, as far as is known.
    /// Its acknowledgement comes at the latest with what it sends after them.
    pub fn has_unacknowledged(&self) -> bool {
        match self {
            Socket::Tcp(stream) => device::unacknowledged(stream).is_ok_and(|bytes| bytes > 0),
            Socket::Unix(_) => false,
            Socket::Other(stream) => stream.has_unacknowledged(),
        }
    }

    /// Makes the close a reset, if that is possible.
    pub fn reset_at_close(&self) {
        let linger = Some(Duration::ZERO);
        // Best effort: without it a plain end is seen.
        let _ = match self {
            Socket::Tcp(stream) => SockRef::from(stream).set_linger(linger),
            Socket::Unix(stream) => SockRef::from(stream).set_linger(linger),
            Socket::Other(stream) => {
                stream.reset_at_close();
                Ok(())
            }
        };
    }

    /// Makes the system send written bytes at once, not when the last ones were acknowledged.
    pub fn send_at_once(&self) {
        if let Socket::Tcp(stream) = self {
            // A failure only costs time.
            let _ = stream.set_nodelay(true);
        }
    }

    /// Makes the system acknowledge at once what it has received. The other end may hold back small
    /// pieces until then (Nagle's algorithm), and this end takes up to 40 ms.
    pub fn acknowledge_at_once(&self) {
        if let Socket::Tcp(stream) = self {
            // A failure only costs time.
            let _ = stream.set_quickack(true);
        }
    }

    /// Returns the address of the other end; `None` in the file system, or when it is gone.
    pub fn peer_addr(&self) -> Option<SocketAddr> {
        match self {
            Socket::Tcp(stream) => stream.peer_addr().ok(),
            Socket::Unix(_) => None,
            Socket::Other(stream) => Some(stream.peer_addr()),
        }
    }
}

/// Returns `Pending` as a success: it is no statement about the socket.
fn pending_as_ok<T>(polled: Poll<io::Result<T>>) -> io::Result<Poll<T>> {
    match polled {
        Poll::Ready(result) => result.map(Poll::Ready),
        Poll::Pending => Ok(Poll::Pending),
    }
}
