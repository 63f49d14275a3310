//! Origins, which answer a cache's requests: one server, a group of them, or another
//! implementation.
//!
//! It promises: a request that fails ends; an answer is read at the caller's pace, and one that
//! breaks off is told from one that ended.

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

/// The means of a worker to connect to an origin for one request.
#[derive(Clone, Copy)]
pub struct Connector<'a> {
    /// The worker's connections.
    pub upstream: &'a Upstream,
    /// The limits on them.
    pub limits: &'a UpstreamLimits,
    /// The check of their addresses for this request.
    pub check: Check<'a>,
}

/// A request under way.
pub type Sending<'a> = Pin<Box<dyn Future<Output = Result<Response<OriginBody>, Failure>> + 'a>>;

/// An origin, which answers requests. Shared by all workers; displayed, it is named as in the
/// configuration.
pub trait Origin: fmt::Debug + fmt::Display + Send + Sync {
    /// Sends a request and waits for the head of the answer, which may have a [`Group`] as an
    /// extension.
    fn send<'a>(self: Arc<Self>, with: Connector<'a>, request: Outgoing<'a>) -> Sending<'a>;

    /// Returns the server, if the origin is a single one: requests go to it without an allocation
    /// (`<dyn Origin>::ask`).
    fn server(self: Arc<Self>) -> Option<Arc<Endpoint>> {
        None
    }

    /// Returns one of the servers that requests may go to, by its number from 0 on; `None` beyond
    /// the last. An origin without connections has none.
    fn endpoint(&self, number: usize) -> Option<&Endpoint>;

    /// Returns what vouches for its earlier answers, if it does so itself; else they are current
    /// for as long as HTTP says.
    fn voucher(&self) -> Option<&dyn Voucher> {
        None
    }

    /// Returns what it counts beside requests, for operators. Must not block for long.
    fn figures(&self) -> Vec<Figure> {
        Vec::new()
    }
}

/// A name for what an answer belongs together with, when the origin knows better than the URL
/// tells; a directory's is its path, which begins and ends with `/`. An extension of the answer,
/// and a hint: answers of one group are likely to be asked for together and are stored so. What is
/// found under a URL does not depend on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group(pub Arc<str>);

/// A number that an origin has of itself, as a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Figure {
    /// The name of the metric, without the suffix of its kind.
    pub name: &'static str,
    /// What it says, in a sentence.
    pub help: &'static str,
    /// Its kind and value.
    pub amount: Amount,
}

/// The kinds of figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// What is at the moment.
    Now(u64),
    /// What was counted since the start.
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

/// An earlier answer of an origin, as a cache has it.
#[derive(Clone, Copy, Debug)]
pub struct Earlier<'a> {
    /// Its [`VERSION`].
    pub version: &'a [u8],
    /// It says that the fields of requests choose among several (`Vary`).
    pub varies: bool,
    /// The path of the request, without query.
    pub path: &'a str,
    /// The fields of the request.
    pub request: &'a http1::Fields,
}

/// A look at what an earlier answer was made of.
pub type Looking<'a> = Pin<Box<dyn Future<Output = bool> + 'a>>;

/// The part of an origin that tells whether its earlier answers are current: it knows of changes,
/// or looks. Asked before every use of a stored answer, in place of lifetimes.
pub trait Voucher {
    /// Gives the fields that choose among its answers one spelling for all that mean the same, so
    /// that no request makes it answer anew by a spelling.
    fn tidy(&self, _request: &mut http1::Fields) {}

    /// Returns the one spelling of the path of a URL that all spellings with the same answer share;
    /// `None` for a path that names nothing.
    fn canonical_path<'p>(&self, path: &'p str) -> Option<Cow<'p, str>>;

    /// Returns whether the answer is known to be current, without waiting for anything.
    fn is_current(&self, earlier: &Earlier<'_>) -> bool;

    /// Looks whether the answer is what the origin would answer by now.
    fn look<'a>(&'a self, earlier: Earlier<'a>) -> Looking<'a>;
}

/// The name of an origin on this machine.
const LOCALHOST: &str = "localhost";

impl dyn Origin {
    /// Does as [`Origin::send`], and allocates no future where the origin is a single server.
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

    /// Returns host and port as they are written in the `Host` of a request that names none.
    pub fn authority(&self) -> Authority<'_> {
        Authority(self.endpoint(0))
    }

    /// Returns its name in URLs of requests that name no host.
    pub fn name(&self) -> String {
        self.endpoint(0).map_or_else(|| LOCALHOST.to_owned(), |first| first.to_string())
    }

    /// Returns whether requests may go to several servers.
    pub fn has_several(&self) -> bool {
        self.endpoint(1).is_some()
    }
}
