//! Requests on their way to an origin.

use std::net::IpAddr;
use std::rc::{Rc, Weak};
use std::sync::Arc;

use crate::message::informational::Informational;
use crate::message::upgrade::Upgrade;
use http::header::HeaderValue;
use http::{Request, Response, header};
use semantics::{Spellings, connection_login};

use crate::connection::pinned::PinnedConnection;
use crate::connection::request_body::{OutBody, Progress};
use crate::send::attempts::Attempts;
use crate::servers::group::Next;
use crate::settings::endpoint::Endpoint;

/// A request, and the means to build it again if that is allowed.
pub struct Outgoing<'a> {
    /// `None` once it has been sent. Boxed because it is moved many times.
    pub request: Option<Box<Request<OutBody>>>,
    /// Spelling of its field names, for an HTTP/1.1 server.
    pub spellings: Spellings,
    /// Progress of its body, if it has one.
    pub progress: Option<Rc<Progress>>,
    /// Receiver of its 1xx responses.
    pub interim: Option<&'a Arc<Informational>>,
    /// Function that builds an equal request; `None` if the request has a body.
    pub again: Option<&'a dyn Fn() -> Box<Request<OutBody>>>,
    /// True if it is idempotent (RFC 9110, 9.2.2).
    pub idempotent: bool,
    /// True if `Host` is replaced by the name of the chosen server.
    pub rewrite_host: bool,
    /// True if no connection may be opened for it.
    pub reuse_only: bool,
    /// Host that the request is for; used when requests are balanced by URL.
    pub place: &'a str,
    /// Upstream connection pinned to the client's connection. `None`: a connection that this
    /// request authenticates is closed after the response.
    pub pinned: Option<Weak<PinnedConnection>>,
    /// Size in bytes of the largest body that the caller would store; 0: none.
    pub store_max: u64,
    /// Set if it asks for another protocol.
    pub upgrade: Option<&'a Upgrade>,
    /// List to record the servers that it is sent to.
    pub trail: Option<&'a Attempts>,
    /// When it is sent to another server; `None`: as the group of servers says.
    pub next_server: Option<&'a Next>,
}

impl<'a> Outgoing<'a> {
    /// Returns a request like this one that `again` makes.
    pub fn with_request(&self, again: &'a dyn Fn() -> Box<Request<OutBody>>) -> Outgoing<'a> {
        Outgoing {
            request: Some(again()),
            spellings: self.spellings.clone(),
            progress: None,
            interim: self.interim,
            again: Some(again),
            idempotent: self.idempotent,
            rewrite_host: self.rewrite_host,
            reuse_only: self.reuse_only,
            place: self.place,
            pinned: self.pinned.clone(),
            store_max: self.store_max,
            upgrade: self.upgrade,
            trail: self.trail,
            next_server: self.next_server,
        }
    }
}

impl Outgoing<'_> {
    /// Returns the request as sent to `endpoint`; `None` if it cannot be sent again.
    pub(super) fn next(&mut self, endpoint: &Endpoint) -> Option<Box<Request<OutBody>>> {
        let mut request = self.request.take().or_else(|| self.again.map(|again| again()))?;
        if self.rewrite_host
            && let Ok(host) = HeaderValue::try_from(endpoint.authority().to_string())
        {
            request.headers_mut().insert(header::HOST, host);
        }
        Some(request)
    }

    /// Returns whether it carries credentials that authenticate its connection.
    pub(super) fn is_login(&mut self) -> bool {
        if self.request.is_none() {
            self.request = self.again.map(|again| again());
        }
        let request = self.request.as_deref();
        request.is_some_and(|request| connection_login::has_credentials(request.headers()))
    }

    /// Records a server that it is sent to.
    pub(super) fn note(&self, endpoint: &Arc<Endpoint>, address: Option<IpAddr>) {
        if let Some(trail) = self.trail {
            trail.note(endpoint, address);
        }
    }

    /// Returns the response, whose status is recorded.
    pub(super) fn noted<T>(&self, response: Response<T>) -> Response<T> {
        if let Some(trail) = self.trail {
            trail.note_status(response.status());
        }
        response
    }

    /// Returns whether it may be sent again even though it may have had an effect.
    pub(crate) fn may_repeat(&self) -> bool {
        self.idempotent && (self.again.is_some() || self.request.is_some())
    }
}
