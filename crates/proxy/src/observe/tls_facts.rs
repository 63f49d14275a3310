//! Facts about a TLS session.

/// The result of a TLS handshake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFacts {
    /// `TLSv1.2` or `TLSv1.3`.
    pub version: &'static str,
    /// Registry name of the cipher suite, such as `TLS13_AES_128_GCM_SHA256`.
    pub cipher: &'static str,
    /// The host name that the client requested (SNI).
    pub sni: Option<Box<str>>,
}
