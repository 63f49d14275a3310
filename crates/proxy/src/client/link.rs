//! Transport of a client connection.

use std::sync::Arc;

use crate::message::scheme::Scheme;

use crate::observe::tls_facts::TlsFacts;

/// Facts about a connection that are known before its first request.
#[derive(Clone, Debug)]
pub(crate) struct Transport {
    /// Scheme of the request URLs, on a reverse proxy.
    pub scheme: Scheme,
    pub tls: Option<TlsFacts>,
    /// The address of the listener, as configured.
    pub listener: Option<Arc<str>>,
    /// True for a connection from another fleet node; its requests are peer requests.
    pub is_peer: bool,
}
