//! Reasons why an origin gave no response.

use http::StatusCode;

/// Why there is no response.
#[derive(Debug)]
pub enum Failure {
    /// The caller's check permits none of the origin's addresses.
    Denied,
    /// The server or the proxy failed: the reason, and the cause in words that follow the server's
    /// name.
    Failed(Reason, String),
    /// The request body broke off or is invalid, which the client caused: the status for the
    /// client, and a message as a sentence.
    Request(StatusCode, String),
}

impl Failure {
    /// Returns whether no connection to the server came about.
    pub fn is_of_connection(&self) -> bool {
        let Failure::Failed(reason, _) = self else { return false };
        match reason {
            Reason::Dns
            | Reason::DnsTimeout
            | Reason::Connect
            | Reason::ConnectRefused
            | Reason::ConnectTimeout
            | Reason::Tls
            | Reason::TlsAlert
            | Reason::Certificate
            | Reason::NoUpstream => true,
            Reason::UpstreamBusy
            | Reason::Upstream
            | Reason::UpstreamTimeout
            | Reason::BadAnswer
            | Reason::Internal => false,
        }
    }
}

/// Kind of failure of a server or of the path to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The server's name could not be resolved.
    Dns,
    /// The server's name was not resolved in time.
    DnsTimeout,
    /// The connection could not be established.
    Connect,
    /// The server refused the connection: nothing listens there.
    ConnectRefused,
    /// The connection could not be established in time.
    ConnectTimeout,
    /// The TLS connection could not be established: no common version or cipher, or another
    /// handshake failure.
    Tls,
    /// The server ended the TLS handshake with an alert.
    TlsAlert,
    /// The server's certificate does not prove its identity.
    Certificate,
    /// All servers of the site are out of use.
    NoUpstream,
    /// All servers of the site have reached their limit of concurrent requests.
    UpstreamBusy,
    /// The server closed or broke the connection before the response was complete.
    Upstream,
    /// The server sent no response, or no more of it, in time.
    UpstreamTimeout,
    /// The response is not valid HTTP, or exceeds a limit.
    BadAnswer,
    /// A broken invariant of the proxy, or unusable settings.
    Internal,
}
