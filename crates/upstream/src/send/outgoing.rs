//! Requests that are being sent to an origin.

use std::net::IpAddr;
use std::rc::{Rc, Weak};
use std::sync::Arc;

use http::header::HeaderValue;
use http::{Request, header};
use message::informational::Informational;
use message::upgrade::Upgrade;
use semantics::{Spellings, connection_login};

use crate::connection::pinned::PinnedConnection;
use crate::connection::request_body::{OutBody, Progress};
use crate::send::attempts::Attempts;
use crate::settings::endpoint::Endpoint;

/// A request, and the means to make it again when that is allowed.
pub struct Outgoing<'a> {
    /// `None` once it has been sent. In a box, as it is handed on a dozen times.
    pub request: Option<Box<Request<OutBody>>>,
    /// The spelling of its names, for a server in HTTP/1.1.
    pub spellings: Spellings,
    /// The progress of its body, if it has one.
    pub progress: Option<Rc<Progress>>,
    /// The receiver of its 1xx answers.
    pub interim: Option<&'a Arc<Informational>>,
    /// Makes an equal request, unless it has a body.
    pub again: Option<&'a dyn Fn() -> Box<Request<OutBody>>>,
    /// It is idempotent (RFC 9110 section 9.2.2).
    pub idempotent: bool,
    /// Its `Host` is the name of the server that gets it.
    pub rewrite_host: bool,
    /// No connection is opened for it.
    pub reuse_only: bool,
    /// The host that it is for, used when requests are balanced by URL.
    pub place: &'a str,
    /// The connection to an origin that belongs to its client's connection; `None`: a connection on
    /// which this request logs in is closed after its answer.
    pub pinned: Option<Weak<PinnedConnection>>,
    /// Bytes of the largest body that the caller would store; 0: it stores none.
    pub store_max: u64,
    /// It asks for another protocol.
    pub upgrade: Option<&'a Upgrade>,
    /// The list of servers that it was sent to.
    pub trail: Option<&'a Attempts>,
}

impl Outgoing<'_> {
    /// Returns the request as `endpoint` gets it; `None` when it cannot be sent once more.
    pub(super) fn next(&mut self, endpoint: &Endpoint) -> Option<Box<Request<OutBody>>> {
        let mut request = self.request.take().or_else(|| self.again.map(|again| again()))?;
        if self.rewrite_host
            && let Ok(host) = HeaderValue::try_from(endpoint.authority().to_string())
        {
            request.headers_mut().insert(header::HOST, host);
        }
        Some(request)
    }

    /// Returns whether it carries credentials that log in its connection.
    pub(super) fn is_login(&mut self) -> bool {
        if self.request.is_none() {
            self.request = self.again.map(|again| again());
        }
        let request = self.request.as_deref();
        request.is_some_and(|request| connection_login::has_credentials(request.headers()))
    }

    /// Notes a server that it is sent to.
    pub(super) fn note(&self, endpoint: &Arc<Endpoint>, address: Option<IpAddr>) {
        if let Some(trail) = self.trail {
            trail.note(endpoint, address);
        }
    }

    /// Returns whether it may be sent once more, though it may have had its effect.
    pub(crate) fn may_repeat(&self) -> bool {
        self.idempotent && (self.again.is_some() || self.request.is_some())
    }
}
