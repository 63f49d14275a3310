//! The transport of a connection to an origin.

use tokio_rustls::client::TlsStream;

use net::socket::{Socket, transport};

/// A transport with or without TLS: one type, so that the HTTP code exists once.
pub(crate) enum Stream {
    Plain(Socket),
    Tls(Box<TlsStream<Socket>>),
}

transport!(Stream { Plain, Tls });

impl Stream {
    /// Returns whether both sides chose HTTP/2 within TLS.
    pub fn chose_http2(&self) -> bool {
        let chosen = match self {
            Stream::Plain(_) => None,
            Stream::Tls(stream) => stream.get_ref().1.alpn_protocol(),
        };
        chosen == Some(b"h2")
    }
}
