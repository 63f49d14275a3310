//! Transport of a client connection: a TCP or Unix socket, with or without TLS. Bytes that were
//! read too early can be put back.

use std::task::{Context, Poll};

use bytes::Bytes;
use net::socket::{PeerEnd, Socket, transport};
use tokio_rustls::server::TlsStream;
use upstream::connection::put_back::PutBack;

/// Socket with put-back bytes, which are read again before the socket.
pub(crate) type Raw = PutBack<Socket>;

/// Transport of a client's bytes.
pub(crate) enum Stream {
    Plain(Raw),
    Tls(Box<TlsStream<Raw>>),
}

transport!(Stream { Plain, Tls });

pub(crate) fn raw(socket: Socket) -> Raw {
    // Responses must not wait for acknowledgements.
    socket.send_at_once();
    PutBack::new(socket, Bytes::new())
}

impl Stream {
    /// Returns the socket if bytes written to it reach the client unchanged and it has a
    /// descriptor.
    pub fn bare_socket(&self) -> Option<&Socket> {
        match self {
            Stream::Plain(raw) => Some(raw.get_ref()).filter(|socket| socket.has_descriptor()),
            Stream::Tls(_) => None,
        }
    }

    /// Waits until the client closes its side, like [`Socket::poll_peer_end`].
    pub fn poll_peer_end(&self, cx: &mut Context<'_>) -> Poll<PeerEnd> {
        let raw = match self {
            Stream::Plain(raw) => raw,
            Stream::Tls(tls) => tls.get_ref().0,
        };
        raw.get_ref().poll_peer_end(cx)
    }

    /// Makes the close a reset, if possible. An orderly close would look like the end of a body.
    pub fn reset_at_close(&self) {
        match self {
            Stream::Plain(raw) => raw.get_ref().reset_at_close(),
            Stream::Tls(tls) => tls.get_ref().0.get_ref().reset_at_close(),
        }
    }
}
