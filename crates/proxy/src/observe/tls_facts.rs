//! The facts of a TLS session.

/// The result of a TLS handshake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFacts {
    /// `TLSv1.2` or `TLSv1.3`.
    pub version: &'static str,
    /// The cipher suite by its name in the registry, such as `TLS13_AES_128_GCM_SHA256`.
    pub cipher: &'static str,
    /// The host that the client asked for.
    pub sni: Option<Box<str>>,
}
