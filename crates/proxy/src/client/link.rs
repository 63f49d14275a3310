//! Transport of a client connection.

use crate::message::scheme::Scheme;

use crate::observe::tls_facts::TlsFacts;

/// Facts about a connection that are known before its first request.
#[derive(Clone, Debug)]
pub(crate) struct Transport {
    /// Scheme of the request URLs, on a reverse proxy.
    pub scheme: Scheme,
    /// Facts about the TLS session; `None` without TLS.
    pub tls: Option<TlsFacts>,
    /// True if the connection is from another node of the fleet, so that its requests are peer
    /// requests.
    pub is_peer: bool,
}
