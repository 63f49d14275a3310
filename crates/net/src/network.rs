//! The network in which connections are made and accepted: the system's, or another one such as a
//! simulation's. No other production code opens a socket for HTTP.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

use crate::socket::{OtherSocket, Socket};

/// The network that a proxy connects through.
#[derive(Clone, Debug, Default)]
pub enum Network {
    /// The system's network.
    #[default]
    System,
    /// A network other than the system's.
    Other(Arc<dyn OtherNetwork>),
}

/// A connection that is being established.
pub type Connecting<'a> = Pin<Box<dyn Future<Output = io::Result<Box<dyn OtherSocket>>> + 'a>>;

/// A network other than the system's.
pub trait OtherNetwork: fmt::Debug + Send + Sync {
    /// Connects to an address.
    fn connect(&self, to: SocketAddr) -> Connecting<'_>;
}

impl Network {
    /// Connects to an address.
    ///
    /// # Errors
    ///
    /// Fails if no connection can be established.
    pub async fn connect(&self, to: SocketAddr) -> io::Result<Socket> {
        match self {
            Network::System => TcpStream::connect(to).await.map(Socket::Tcp),
            Network::Other(network) => network.connect(to).await.map(Socket::Other),
        }
    }

    /// Connects to a Unix socket by path. Only the system's network has such sockets.
    ///
    /// # Errors
    ///
    /// Fails if no connection can be established.
    pub async fn connect_path(&self, path: &Path) -> io::Result<Socket> {
        match self {
            Network::System => UnixStream::connect(path).await.map(Socket::Unix),
            Network::Other(_) => Err(io::ErrorKind::NotFound.into()),
        }
    }
}

/// A listener of a network other than the system's. Clones accept from the same queue.
pub trait OtherListener: fmt::Debug + Send + Sync {
    /// Waits for the next connection and returns it with its client's address.
    fn poll_accept(
        &self,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<(Box<dyn OtherSocket>, SocketAddr)>>;

    /// Returns the address that the listener is bound to.
    fn local_addr(&self) -> SocketAddr;
}

/// A listening socket.
#[derive(Debug)]
pub enum ListenSocket {
    /// A TCP socket.
    Tcp(std::net::TcpListener),
    /// A Unix socket.
    Unix(std::os::unix::net::UnixListener),
    /// A socket of a network other than the system's.
    Other(Arc<dyn OtherListener>),
}

impl ListenSocket {
    /// Makes accept return immediately if no connection is waiting.
    ///
    /// # Errors
    ///
    /// Fails with the system's error.
    pub fn set_nonblocking(&self) -> io::Result<()> {
        match self {
            ListenSocket::Tcp(socket) => socket.set_nonblocking(true),
            ListenSocket::Unix(socket) => socket.set_nonblocking(true),
            ListenSocket::Other(_) => Ok(()),
        }
    }

    /// Creates another handle to the same socket.
    ///
    /// # Errors
    ///
    /// Fails if the process has no descriptor left.
    pub fn try_clone(&self) -> io::Result<ListenSocket> {
        Ok(match self {
            ListenSocket::Tcp(socket) => ListenSocket::Tcp(socket.try_clone()?),
            ListenSocket::Unix(socket) => ListenSocket::Unix(socket.try_clone()?),
            ListenSocket::Other(socket) => ListenSocket::Other(socket.clone()),
        })
    }

    /// Registers the socket with the calling runtime.
    ///
    /// # Errors
    ///
    /// Fails if the runtime rejects the socket.
    pub fn into_tokio(self) -> io::Result<AcceptSocket> {
        Ok(match self {
            ListenSocket::Tcp(socket) => AcceptSocket::Tcp(TcpListener::from_std(socket)?),
            ListenSocket::Unix(socket) => AcceptSocket::Unix(UnixListener::from_std(socket)?),
            ListenSocket::Other(socket) => AcceptSocket::Other(socket),
        })
    }
}

/// A listening socket within a runtime.
#[derive(Debug)]
pub enum AcceptSocket {
    /// A TCP socket.
    Tcp(TcpListener),
    /// A Unix socket.
    Unix(UnixListener),
    /// A socket of a network other than the system's.
    Other(Arc<dyn OtherListener>),
}

/// The client address reported for a Unix socket: such a client is on this machine.
pub const PEER_OF_UNIX_SOCKET: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

impl AcceptSocket {
    /// Waits for the next connection and returns it with its client's address.
    ///
    /// # Errors
    ///
    /// Fails if the connection was lost, or if a resource for it is lacking.
    pub async fn accept(&self) -> io::Result<(Socket, SocketAddr)> {
        Ok(match self {
            AcceptSocket::Tcp(socket) => {
                let (stream, client) = socket.accept().await?;
                (Socket::Tcp(stream), client)
            }
            AcceptSocket::Unix(socket) => {
                let (stream, _) = socket.accept().await?;
                (Socket::Unix(stream), PEER_OF_UNIX_SOCKET)
            }
            AcceptSocket::Other(socket) => {
                let accepted = std::future::poll_fn(|cx| socket.poll_accept(cx)).await?;
                (Socket::Other(accepted.0), accepted.1)
            }
        })
    }

    /// Returns the address that the socket is bound to; `None` for a Unix socket.
    pub fn local_addr(&self) -> Option<SocketAddr> {
        match self {
            AcceptSocket::Tcp(socket) => socket.local_addr().ok(),
            AcceptSocket::Unix(_) => None,
            AcceptSocket::Other(socket) => Some(socket.local_addr()),
        }
    }
}

/// A socket that is being moved from one runtime to another.
pub enum MovingSocket {
    /// A TCP socket.
    Tcp(std::net::TcpStream),
    /// A Unix socket.
    Unix(std::os::unix::net::UnixStream),
    /// A socket of a network other than the system's.
    Other(Box<dyn OtherSocket>),
}

impl MovingSocket {
    /// Removes a socket from its runtime.
    ///
    /// # Errors
    ///
    /// Fails if the runtime does not release the socket.
    pub fn pack(socket: Socket) -> io::Result<MovingSocket> {
        Ok(match socket {
            Socket::Tcp(stream) => MovingSocket::Tcp(stream.into_std()?),
            Socket::Unix(stream) => MovingSocket::Unix(stream.into_std()?),
            Socket::Other(stream) => MovingSocket::Other(stream),
        })
    }

    /// Registers the socket with the calling runtime.
    ///
    /// # Errors
    ///
    /// Fails if the runtime rejects the socket.
    pub fn unpack(self) -> io::Result<Socket> {
        Ok(match self {
            MovingSocket::Tcp(stream) => Socket::Tcp(TcpStream::from_std(stream)?),
            MovingSocket::Unix(stream) => Socket::Unix(UnixStream::from_std(stream)?),
            MovingSocket::Other(stream) => Socket::Other(stream),
        })
    }
}
