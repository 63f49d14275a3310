//! The network, in which connections are made and accepted: the system's, or another one, such as a
//! simulation's. No other code of the product opens a socket of HTTP.

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
    /// The system's.
    #[default]
    System,
    /// Another one.
    Other(Arc<dyn OtherNetwork>),
}

/// A connection that is being made.
pub type Connecting<'a> = Pin<Box<dyn Future<Output = io::Result<Box<dyn OtherSocket>>> + 'a>>;

/// A network that is not the system's.
pub trait OtherNetwork: fmt::Debug + Send + Sync {
    /// Connects to an address.
    fn connect(&self, to: SocketAddr) -> Connecting<'_>;
}

impl Network {
    /// Connects to an address.
    ///
    /// # Errors
    ///
    /// When no connection can be made.
    pub async fn connect(&self, to: SocketAddr) -> io::Result<Socket> {
        match self {
            Network::System => TcpStream::connect(to).await.map(Socket::Tcp),
            Network::Other(network) => network.connect(to).await.map(Socket::Other),
        }
    }

    /// Connects to a socket in the file system, of which only the system has any.
    ///
    /// # Errors
    ///
    /// When no connection can be made.
    pub async fn connect_path(&self, path: &Path) -> io::Result<Socket> {
        match self {
            Network::System => UnixStream::connect(path).await.map(Socket::Unix),
            Network::Other(_) => Err(io::ErrorKind::NotFound.into()),
        }
    }
}

/// A listener of a network that is not the system's. A clone accepts from the same queue.
pub trait OtherListener: fmt::Debug + Send + Sync {
    /// Waits for the next connection, and returns it with its client's address.
    fn poll_accept(
        &self,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<(Box<dyn OtherSocket>, SocketAddr)>>;

    /// Returns the address that it listens on.
    fn local_addr(&self) -> SocketAddr;
}

/// A listening socket.
#[derive(Debug)]
pub enum ListenSocket {
    /// A socket of an IP address and a port.
    Tcp(std::net::TcpListener),
    /// A socket of a path.
    Unix(std::os::unix::net::UnixListener),
    /// A socket of another network than the system's.
    Other(Arc<dyn OtherListener>),
}

impl ListenSocket {
    /// Makes accepts return at once when there is no connection.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn set_nonblocking(&self) -> io::Result<()> {
        match self {
            ListenSocket::Tcp(socket) => socket.set_nonblocking(true),
            ListenSocket::Unix(socket) => socket.set_nonblocking(true),
            ListenSocket::Other(_) => Ok(()),
        }
    }

    /// Makes another handle on the same socket.
    ///
    /// # Errors
    ///
    /// When the process has no descriptor left.
    pub fn try_clone(&self) -> io::Result<ListenSocket> {
        Ok(match self {
            ListenSocket::Tcp(socket) => ListenSocket::Tcp(socket.try_clone()?),
            ListenSocket::Unix(socket) => ListenSocket::Unix(socket.try_clone()?),
            ListenSocket::Other(socket) => ListenSocket::Other(socket.clone()),
        })
    }

    /// Moves the socket into the runtime that calls.
    ///
    /// # Errors
    ///
    /// When the runtime does not take it.
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
    /// A socket of an IP address and a port.
    Tcp(TcpListener),
    /// A socket of a path.
    Unix(UnixListener),
    /// A socket of another network than the system's.
    Other(Arc<dyn OtherListener>),
}

/// The peer's address; a client of a Unix socket is on this machine.
pub const PEER_OF_UNIX_SOCKET: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

impl AcceptSocket {
    /// Waits for the next connection, and returns it with its client's address.
    ///
    /// # Errors
    ///
    /// When a connection was lost, or a resource is lacking for it.
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

    /// Returns the address that it listens on; `None` for a path.
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
    /// Over IP.
    Tcp(std::net::TcpStream),
    /// On this machine.
    Unix(std::os::unix::net::UnixStream),
    /// A socket of another network than the system's.
    Other(Box<dyn OtherSocket>),
}

impl MovingSocket {
    /// Takes a socket out of its runtime.
    ///
    /// # Errors
    ///
    /// When the runtime does not release it.
    pub fn pack(socket: Socket) -> io::Result<MovingSocket> {
        Ok(match socket {
            Socket::Tcp(stream) => MovingSocket::Tcp(stream.into_std()?),
            Socket::Unix(stream) => MovingSocket::Unix(stream.into_std()?),
            Socket::Other(stream) => MovingSocket::Other(stream),
        })
    }

    /// Puts it into the runtime that calls.
    ///
    /// # Errors
    ///
    /// When the runtime does not take it.
    pub fn unpack(self) -> io::Result<Socket> {
        Ok(match self {
            MovingSocket::Tcp(stream) => Socket::Tcp(TcpStream::from_std(stream)?),
            MovingSocket::Unix(stream) => Socket::Unix(UnixStream::from_std(stream)?),
            MovingSocket::Other(stream) => Socket::Other(stream),
        })
    }
}
