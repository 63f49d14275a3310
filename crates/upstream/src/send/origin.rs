//! Origins, which answer a cache's requests: a single server, a group of them, or another
//! implementation.
//!
//! Guarantees: every request ends, with a response or a failure. A response is read at the caller's
//! pace, and one that breaks off is distinguishable from one that ended.

use std::borrow::Cow;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use http::Response;
pub use semantics::validators::VERSION;

use crate::connection::origin_body::OriginBody;
use crate::failure::error::Failure;
use crate::send::client::{Upstream, ask_server};
use crate::send::outgoing::Outgoing;
use crate::settings::endpoint::{Authority, Endpoint};
use crate::settings::limits::{Check, UpstreamLimits};

/// Resources of a worker for sending one request to an origin.
#[derive(Clone, Copy)]
pub struct Connector<'a> {
    /// The worker's connections.
    pub upstream: &'a Upstream,
    /// Limits on the connections.
    pub limits: &'a UpstreamLimits,
    /// Check of addresses for this request.
    pub check: Check<'a>,
}

/// A request in progress.
pub type Sending<'a> = Pin<Box<dyn Future<Output = Result<Response<OriginBody>, Failure>> + 'a>>;

/// An origin, which answers requests. Shared by all workers. Its `Display` is its name in the
/// configuration.
pub trait Origin: fmt::Debug + fmt::Display + Send + Sync {
    /// Sends a request and waits for the head of the response, which may carry a [`Group`] as an
    /// extension.
    fn send<'a>(self: Arc<Self>, with: Connector<'a>, request: Outgoing<'a>) -> Sending<'a>;

    /// Returns the server, if the origin is a single one. Requests then need no allocation for the
    /// future (`<dyn Origin>::ask`).
    fn server(self: Arc<Self>) -> Option<Arc<Endpoint>> {
        None
    }

    /// Returns one of the servers that requests may go to, numbered from 0; `None` beyond the last.
    /// An origin without connections has none.
    fn endpoint(&self, number: usize) -> Option<&Endpoint>;

    /// Returns the voucher for the origin's earlier responses, if it has one. Otherwise they are
    /// fresh for as long as HTTP specifies.
    fn voucher(&self) -> Option<&dyn Voucher> {
        None
    }

    /// Returns the origin's own counters, for operators. Must not block for long.
    fn figures(&self) -> Vec<Figure> {
        Vec::new()
    }
}

/// Group that a response belongs to, where the origin knows better than the URL; for a directory,
/// its path, which begins and ends with `/`. An extension of the response, and only a hint:
/// responses of one group are likely to be requested together and are stored together. The group
/// does not affect which response a URL returns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group(pub Arc<str>);

/// A metric of an origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Figure {
    /// Metric name, without the suffix of its kind.
    pub name: &'static str,
    /// Help text, one sentence.
    pub help: &'static str,
    /// Kind and value.
    pub amount: Amount,
}

/// Kind and value of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// A gauge: the current value.
    Now(u64),
    /// A counter: the total since the start.
    Total(u64),
}

impl Amount {
    /// Returns the number.
    pub fn value(self) -> u64 {
        match self {
            Amount::Now(value) | Amount::Total(value) => value,
        }
    }
}

/// An earlier response of an origin, as stored by a cache.
#[derive(Clone, Copy, Debug)]
pub struct Earlier<'a> {
    /// Value of its [`VERSION`] field.
    pub version: &'a [u8],
    /// True if request fields select among several responses (`Vary`).
    pub varies: bool,
    /// Path of the request, without the query.
    pub path: &'a str,
    /// Fields of the request.
    pub request: &'a http1::Fields,
}

/// Check in progress of whether an earlier response is current.
pub type Looking<'a> = Pin<Box<dyn Future<Output = bool> + 'a>>;

/// Part of an origin that decides whether its earlier responses are current, from change
/// notifications or by looking. Consulted before every use of a stored response, instead of
/// freshness lifetimes.
pub trait Voucher {
    /// Normalizes the request fields that select among responses, so that equivalent spellings
    /// share one stored response.
    fn tidy(&self, _request: &mut http1::Fields) {}

    /// Returns the canonical spelling of a URL path, shared by all spellings with the same
    /// response; `None` for a path that names nothing.
    fn canonical_path<'p>(&self, path: &'p str) -> Option<Cow<'p, str>>;

    /// Returns whether the response is known to be current, without waiting.
    fn is_current(&self, earlier: &Earlier<'_>) -> bool;

    /// Checks whether the origin would still give this response.
    fn look<'a>(&'a self, earlier: Earlier<'a>) -> Looking<'a>;
}

/// Name of an origin on this machine.
const LOCALHOST: &str = "localhost";

impl dyn Origin {
    /// Like [`Origin::send`], but allocates no future if the origin is a single server.
    pub async fn ask<'a>(
        self: &Arc<Self>,
        with: Connector<'a>,
        request: Outgoing<'a>,
    ) -> Result<Response<OriginBody>, Failure> {
        match self.clone().server() {
            Some(server) => ask_server(server, with, request).await,
            None => self.clone().send(with, request).await,
        }
    }

    /// Returns host and port for the `Host` of a request that names none.
    pub fn authority(&self) -> Authority<'_> {
        Authority(self.endpoint(0))
    }

    /// Returns the origin's name for URLs of requests that name no host.
    pub fn name(&self) -> String {
        self.endpoint(0).map_or_else(|| LOCALHOST.to_owned(), |first| first.to_string())
    }

    /// Returns whether requests may go to several servers.
    pub fn has_several(&self) -> bool {
        self.endpoint(1).is_some()
    }
}
