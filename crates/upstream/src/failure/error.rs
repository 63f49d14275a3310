//! The reasons why there is no answer from an origin.

use http::StatusCode;

/// The reason why there is no answer.
#[derive(Debug)]
pub enum Failure {
    /// The caller's check permits no address of the origin.
    Denied,
    /// The server or the proxy failed: the reason, and the cause in words that go behind the
    /// server's name.
    Failed(Reason, String),
    /// The request's own body broke off, or is not valid: a sentence. The client caused it, and
    /// gets this status.
    Request(StatusCode, String),
}

/// The kind of a failure of a server, or of the way to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Its name could not be resolved.
    Dns,
    /// Its name was not resolved in time.
    DnsTimeout,
    /// No connection to it.
    Connect,
    /// It refused the connection: nothing listens there.
    ConnectRefused,
    /// No connection to it in time.
    ConnectTimeout,
    /// No TLS connection to it: the two have no common version or cipher, or the handshake failed
    /// otherwise.
    Tls,
    /// It ended the TLS handshake with an alert.
    TlsAlert,
    /// Its certificate does not prove its identity.
    Certificate,
    /// All servers of the site are out of use.
    NoUpstream,
    /// All servers of the site have as many requests as they may.
    UpstreamBusy,
    /// It closed or broke the connection before a whole answer.
    Upstream,
    /// It sent no answer, or no more of it, in time.
    UpstreamTimeout,
    /// Its answer is not HTTP, or over a limit.
    BadAnswer,
    /// A broken invariant of the proxy, or settings that cannot be used.
    Internal,
}
