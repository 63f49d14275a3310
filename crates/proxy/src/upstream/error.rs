//! Why there is no answer from an origin, and what of it clients are told.

use http::StatusCode;

use crate::observe::outcome::Error as Reason;
use crate::rules::access::Denial;

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Every address of the origin is forbidden to this client.
    Denied(Denial),
    /// One of ours: the reason, and the cause in words that go behind the server's name.
    Failed(Reason, String),
    /// The request's own body broke off, or is not valid: a sentence. It is nobody's fault but the
    /// client's, who gets this status.
    Request(StatusCode, String),
}

impl Failure {
    /// The status that tells a client.
    pub fn status(&self) -> StatusCode {
        match self {
            Failure::Denied(_) => StatusCode::FORBIDDEN,
            Failure::Request(status, _) => *status,
            Failure::Failed(
                Reason::ConnectTimeout | Reason::UpstreamTimeout | Reason::DnsTimeout,
                _,
            ) => StatusCode::GATEWAY_TIMEOUT,
            Failure::Failed(Reason::NoUpstream | Reason::UpstreamBusy, _) => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            Failure::Failed(..) => StatusCode::BAD_GATEWAY,
        }
    }
}
