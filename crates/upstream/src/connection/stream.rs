//! The transport of a connection to an origin.

use std::task::{Context, Poll};

use tokio_rustls::client::TlsStream;

use net::socket::{Socket, transport};

/// A transport with or without TLS: one type, so that the HTTP code exists once.
pub(crate) enum Stream {
    Plain(Socket),
    Tls(Box<TlsStream<Socket>>),
}

transport!(Stream { Plain, Tls });

impl Stream {
    /// Waits until there is something to read, which within TLS may be less than a byte. To be
    /// called only after a read has found nothing: decrypted bytes that wait are not considered.
    pub fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<()> {
        match self {
            Stream::Plain(socket) => socket.poll_readable(cx),
            Stream::Tls(stream) => stream.get_ref().0.poll_readable(cx),
        }
    }

    /// Returns whether both sides chose HTTP/2 within TLS.
    pub fn chose_http2(&self) -> bool {
        let chosen = match self {
            Stream::Plain(_) => None,
            Stream::Tls(stream) => stream.get_ref().1.alpn_protocol(),
        };
        chosen == Some(b"h2")
    }
}
