//! Client and upstream sockets, TCP or Unix, and a macro that implements a transport for an enum of
//! transports.

use std::io::{self, Read};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};

use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpStream, UnixStream};

/// A plain socket without TLS.
pub enum Socket {
    /// A TCP socket.
    Tcp(TcpStream),
    /// A Unix socket.
    Unix(UnixStream),
    /// A socket of a network other than the system's.
    Other(Box<dyn OtherSocket>),
}

/// How the peer ended a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerEnd {
    /// The peer sends nothing more but may still read.
    Half,
    /// The peer reset the connection.
    Reset,
}

/// A connection of a network other than the system's.
pub trait OtherSocket: AsyncRead + AsyncWrite + Send + Unpin {
    /// Waits until a read would return immediately: with bytes, the end, or an error.
    fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<()>;

    /// Returns whether written bytes are not acknowledged yet.
    fn has_unacknowledged(&self) -> bool {
        false
    }

    /// Makes closing send a reset.
    fn reset_at_close(&self);

    /// Returns the address of the peer.
    fn peer_addr(&self) -> SocketAddr;
}

/// Implements `AsyncRead` and `AsyncWrite` for an enum whose variants each hold a transport, by
/// forwarding every call to the variant. Callers need the crate `tokio`.
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
    /// Waits until a read would return immediately: with bytes, the end, or an error.
    pub fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<()> {
        let polled = match self {
            Socket::Tcp(stream) => stream.poll_read_ready(cx),
            Socket::Unix(stream) => stream.poll_read_ready(cx),
            Socket::Other(stream) => return stream.poll_readable(cx),
        };
        // The next read returns the error.
        polled.map(drop)
    }

    /// Returns whether the socket has a descriptor for [`Socket::poll_write_with`].
    pub fn has_descriptor(&self) -> bool {
        !matches!(self, Socket::Other(_))
    }

    /// Calls `write` with the descriptor whenever the system accepts bytes. `write` returns
    /// `WouldBlock` if the system does not, and may itself wait for other things.
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

    /// Waits until the peer ends a TCP connection, without reading from it. Stays pending if there
    /// are unread bytes before the end, or if the system cannot tell.
    pub fn poll_peer_end(&self, cx: &mut Context<'_>) -> Poll<PeerEnd> {
        let Socket::Tcp(stream) = self else { return Poll::Pending };
        let mut byte = [0];
        match stream.poll_peek(cx, &mut ReadBuf::new(&mut byte)) {
            Poll::Ready(Ok(0)) => Poll::Ready(PeerEnd::Half),
            Poll::Ready(Ok(_)) | Poll::Pending => Poll::Pending,
            Poll::Ready(Err(_)) => Poll::Ready(PeerEnd::Reset),
        }
    }

    /// Reads bytes that the system already holds for this socket, even if the runtime has not
    /// noticed them yet. Returns `WouldBlock` if there are none.
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

    /// Returns whether written bytes have not reached the peer, as far as is known. Their
    /// acknowledgement arrives no later than the data that the peer sends after them.
    pub fn has_unacknowledged(&self) -> bool {
        match self {
            Socket::Tcp(stream) => device::unacknowledged(stream).is_ok_and(|bytes| bytes > 0),
            Socket::Unix(_) => false,
            Socket::Other(stream) => stream.has_unacknowledged(),
        }
    }

    /// Makes closing send a reset, if possible.
    pub fn reset_at_close(&self) {
        let linger = Some(Duration::ZERO);
        // Best effort: otherwise the peer sees an ordinary close.
        let _ = match self {
            Socket::Tcp(stream) => SockRef::from(stream).set_linger(linger),
            Socket::Unix(stream) => SockRef::from(stream).set_linger(linger),
            Socket::Other(stream) => {
                stream.reset_at_close();
                Ok(())
            }
        };
    }

    /// Disables Nagle's algorithm, so that written bytes are sent without waiting for
    /// acknowledgements.
    pub fn send_at_once(&self) {
        if let Socket::Tcp(stream) = self {
            // A failure only costs latency.
            let _ = stream.set_nodelay(true);
        }
    }

    /// Makes the system close a TCP connection whose other end acknowledges nothing for about
    /// `bound`, also while nothing is sent. Waiting reads then fail.
    pub fn notice_loss(&self, bound: Duration) {
        if let Socket::Tcp(stream) = self {
            let second = Duration::from_secs(1);
            let probes = bound.saturating_sub(second).as_secs().clamp(1, 100) as u32;
            let keepalive = TcpKeepalive::new().with_time(second).with_interval(second);
            let socket = SockRef::from(stream);
            // Best effort: otherwise a loss is noticed later.
            let _ = socket.set_tcp_keepalive(&keepalive.with_retries(probes));
            let _ = socket.set_tcp_user_timeout(Some(bound));
        }
    }

    /// Makes the system acknowledge received bytes immediately. The peer may hold back small
    /// segments until then (Nagle's algorithm), and the system otherwise delays an acknowledgement
    /// by up to 40 ms.
    pub fn acknowledge_at_once(&self) {
        if let Socket::Tcp(stream) = self {
            // A failure only costs latency.
            let _ = stream.set_quickack(true);
        }
    }

    /// Returns the address of the peer; `None` for a Unix socket, or if the peer is gone.
    pub fn peer_addr(&self) -> Option<SocketAddr> {
        match self {
            Socket::Tcp(stream) => stream.peer_addr().ok(),
            Socket::Unix(_) => None,
            Socket::Other(stream) => Some(stream.peer_addr()),
        }
    }
}

/// Returns `Pending` as a success, because it says nothing about the socket.
fn pending_as_ok<T>(polled: Poll<io::Result<T>>) -> io::Result<Poll<T>> {
    match polled {
        Poll::Ready(result) => result.map(Poll::Ready),
        Poll::Pending => Ok(Poll::Pending),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_system_is_told_how_long_a_silent_peer_is_waited_for() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (socket, bound) = (Socket::Tcp(stream), Duration::from_secs(4));
        socket.notice_loss(bound);
        let Socket::Tcp(stream) = &socket else { unreachable!() };
        let set = SockRef::from(stream);
        assert_eq!(set.tcp_user_timeout().unwrap(), Some(bound));
        // A probe after a second, and three without an answer.
        assert!(set.keepalive().unwrap());
        assert_eq!(set.tcp_keepalive_time().unwrap(), Duration::from_secs(1));
        assert_eq!(set.tcp_keepalive_interval().unwrap(), Duration::from_secs(1));
        assert_eq!(set.tcp_keepalive_retries().unwrap(), 3);
    }
}
