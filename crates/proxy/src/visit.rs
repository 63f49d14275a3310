//! One request on its way through the decisions: what is known of it, in one place.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use http::request::Parts;
use semantics::{RequestFacts, Time, Url};
use store::Key;

use crate::access::{Denial, Query};
use crate::cache::{self, Store};
use crate::connection::Connection;
use crate::errand::Errand;
use crate::options::{Front, Options};
use crate::request::Target;
use crate::upstream::Origin;
use crate::worker::{Context, Worker};

/// See the module.
pub(crate) struct Visit<'a> {
    pub connection: &'a Rc<Connection>,
    pub context: &'a Rc<Context>,
    pub parts: &'a Parts,
    pub target: Target<'a>,
    pub facts: RequestFacts,
    pub now: Time,
}

impl<'a> Visit<'a> {
    pub fn worker(&self) -> &'a Rc<Worker> {
        &self.connection.worker
    }

    pub fn options(&self) -> &'a Options {
        &self.context.options
    }

    pub fn store(&self) -> Option<Store> {
        self.worker().store()
    }

    /// The name of the reverse site; `None` on a forward proxy.
    pub fn site(&self) -> Option<&'a str> {
        match &self.options().front {
            Front::Forward => None,
            Front::Reverse(sites) => Some(&sites[self.target.site].name),
        }
    }

    /// The URL that names the object.
    pub fn url(&self) -> Option<Url> {
        let Target { scheme, host, path, .. } = self.target;
        if host.is_empty() {
            let origin = self.origin();
            return Url::new(scheme.name(), &origin.to_string(), path).ok();
        }
        Url::new(scheme.name(), &self.target.authority(), path).ok()
    }

    /// The key of an object behind this request's front.
    pub fn key(&self, url: &Url) -> Option<Key> {
        cache::primary_key(self.site(), url)
    }

    /// The server that this request leads to.
    pub fn origin(&self) -> Arc<Origin> {
        Errand::origin(self.options(), &self.target)
    }

    /// The request for the origin.
    pub fn errand(&self) -> Errand {
        Errand::new(self.connection, self.options(), self.parts, &self.target)
    }

    /// What the access rules are asked.
    pub fn query(&self) -> Query<'a> {
        Query {
            client: self.connection.client.ip(),
            method: &self.parts.method,
            host: self.target.host,
            port: self.target.port,
        }
    }

    /// Whether this client may have this request sent to an address.
    pub fn check(&self, address: SocketAddr) -> Result<(), Denial> {
        self.options().access.at(&self.query(), address)
    }
}
