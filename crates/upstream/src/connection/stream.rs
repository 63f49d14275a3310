//! A connection's bytes, whatever carries them.

use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::client::TlsStream;

use net::socket::transport;

/// One type for all, so that the HTTP code above exists once.
pub(crate) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls(Box<TlsStream<TcpStream>>),
}

transport!(Stream { Tcp, Unix, Tls });

impl Stream {
    /// True when both sides chose HTTP/2 within TLS.
    pub fn chose_http2(&self) -> bool {
        let chosen = match self {
            Stream::Tcp(_) | Stream::Unix(_) => None,
            Stream::Tls(stream) => stream.get_ref().1.alpn_protocol(),
        };
        chosen == Some(b"h2")
    }
}
