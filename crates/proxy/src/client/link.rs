//! The transport of a client's connection.

use message::scheme::Scheme;

use crate::observe::tls_facts::TlsFacts;

/// The facts of a connection that are known before its first request.
#[derive(Clone, Debug)]
pub(crate) struct Transport {
    /// The scheme of its requests' URLs, on a reverse proxy.
    pub scheme: Scheme,
    /// The facts of its TLS session; `None` without TLS.
    pub tls: Option<TlsFacts>,
    /// It is of another node of the fleet: its requests are questions.
    pub is_peer: bool,
}
