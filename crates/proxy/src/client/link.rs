//! How a client is connected.

use message::scheme::Scheme;

use crate::observe::tls_facts::TlsFacts;

/// What is known of a connection before its first request.
#[derive(Clone, Debug)]
pub(crate) struct Transport {
    /// What its requests' URLs begin with, on a reverse proxy.
    pub scheme: Scheme,
    /// How it is secured.
    pub tls: Option<TlsFacts>,
}
