//! Reasons why an origin gave no response, and the status for clients.

use http::StatusCode;
use upstream::failure::error::Reason;

use crate::observe::outcome::Error;
use crate::rules::access::Denial;

#[derive(Debug)]
pub(crate) enum Failure {
    /// Every address of the origin is forbidden to this client.
    Denied(Denial),
    /// Reason, and cause in words that follow the server's name.
    Failed(Error, String),
    /// The request's own body broke off or is invalid: the client's error. Holds the status for the
    /// client and a sentence.
    Request(StatusCode, String),
}

impl Failure {
    pub fn status(&self) -> StatusCode {
        match self {
            Failure::Denied(_) => StatusCode::FORBIDDEN,
            Failure::Request(status, _) => *status,
            Failure::Failed(
                Error::ConnectTimeout | Error::UpstreamTimeout | Error::DnsTimeout,
                _,
            ) => StatusCode::GATEWAY_TIMEOUT,
            Failure::Failed(Error::NoUpstream | Error::UpstreamBusy, _) => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            Failure::Failed(..) => StatusCode::BAD_GATEWAY,
        }
    }
}

impl From<Reason> for Error {
    fn from(reason: Reason) -> Error {
        match reason {
            Reason::Dns => Error::Dns,
            Reason::DnsTimeout => Error::DnsTimeout,
            Reason::Connect => Error::Connect,
            Reason::ConnectRefused => Error::ConnectRefused,
            Reason::ConnectTimeout => Error::ConnectTimeout,
            Reason::Tls => Error::Tls,
            Reason::TlsAlert => Error::TlsAlert,
            Reason::Certificate => Error::Certificate,
            Reason::NoUpstream => Error::NoUpstream,
            Reason::UpstreamBusy => Error::UpstreamBusy,
            Reason::Upstream => Error::Upstream,
            Reason::UpstreamTimeout => Error::UpstreamTimeout,
            Reason::BadAnswer => Error::BadAnswer,
            Reason::Internal => Error::Internal,
        }
    }
}
