//! A connection's bytes, whatever carries them.

use tokio_rustls::client::TlsStream;

use net::socket::{Socket, transport};

/// One type for all, so that the HTTP code above exists once.
pub(crate) enum Stream {
    Plain(Socket),
    Tls(Box<TlsStream<Socket>>),
}

transport!(Stream { Plain, Tls });

impl Stream {
    /// True when both sides chose HTTP/2 within TLS.
    pub fn chose_http2(&self) -> bool {
        let chosen = match self {
            Stream::Plain(_) => None,
            Stream::Tls(stream) => stream.get_ref().1.alpn_protocol(),
        };
        chosen == Some(b"h2")
    }
}
