//! A request on its way to an origin.

use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

use http::Request;
use message::informational::Informational;
use message::upgrade::Upgrade;

use crate::connection::request_body::{OutBody, Progress};
use crate::send::attempts::Attempts;
use crate::settings::endpoint::Endpoint;

/// A request, and how to make it again when that is allowed.
pub struct Outgoing<'a> {
    /// `None` once it has been sent.
    pub request: Option<Request<OutBody>>,
    /// Of a request with a body.
    pub progress: Option<Rc<Progress>>,
    /// Where its 1xx answers go.
    pub interim: Option<&'a Arc<Informational>>,
    /// Makes an equal request, unless it has a body.
    pub again: Option<&'a dyn Fn() -> Request<OutBody>>,
    /// Sent twice it does what it does once (RFC 9110 section 9.2.2).
    pub idempotent: bool,
    /// Its `Host` is the name of whichever server gets it.
    pub rewrite_host: bool,
    /// No connection is opened for it.
    pub reuse_only: bool,
    /// The host that it is for, for whoever balances by URLs.
    pub place: &'a str,
    /// It asks for another protocol.
    pub upgrade: Option<&'a Upgrade>,
    /// Where the servers are noted that it goes to.
    pub trail: Option<&'a Attempts>,
}

impl Outgoing<'_> {
    pub(super) fn next(&mut self) -> Option<Request<OutBody>> {
        self.request.take().or_else(|| self.again.map(|again| again()))
    }

    /// Notes a server that it goes to.
    pub(super) fn note(&self, endpoint: &Arc<Endpoint>, address: Option<IpAddr>) {
        if let Some(trail) = self.trail {
            trail.note(endpoint, address);
        }
    }

    /// It may be sent once more, though it may have had its effect.
    pub(crate) fn may_repeat(&self) -> bool {
        self.idempotent && self.again.is_some()
    }
}
