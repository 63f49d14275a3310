//! What answers a cache's requests: one server, a group of them, or whatever else has answers.
//!
//! It promises: a request that fails has an end; what is answered is read at the caller's pace, and
//! an answer that breaks off is told from one that ended.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use http::Response;

use crate::connection::origin_body::OriginBody;
use crate::failure::error::Failure;
use crate::send::client::Upstream;
use crate::send::outgoing::Outgoing;
use crate::settings::endpoint::{Authority, Endpoint};
use crate::settings::limits::{Check, UpstreamLimits};

/// What a worker lends an origin for one request.
#[derive(Clone, Copy)]
pub struct Connector<'a> {
    /// Its connections.
    pub upstream: &'a Upstream,
    /// What they may take and last.
    pub limits: &'a UpstreamLimits,
    /// Where they may lead for this request.
    pub check: Check<'a>,
}

/// A request under way.
pub type Sending<'a> = Pin<Box<dyn Future<Output = Result<Response<OriginBody>, Failure>> + 'a>>;

/// What answers requests. Shared by all workers; shown, it is named as in the configuration.
pub trait Origin: fmt::Debug + fmt::Display + Send + Sync {
    /// Sends a request and waits for the head of the answer.
    fn send<'a>(self: Arc<Self>, with: Connector<'a>, request: Outgoing<'a>) -> Sending<'a>;

    /// Returns one of the servers that requests may go to, by its number from 0 on; `None` beyond
    /// the last. What needs no connection has none.
    fn endpoint(&self, number: usize) -> Option<&Endpoint>;
}

/// The name of what is on this machine.
const LOCALHOST: &str = "localhost";

impl dyn Origin {
    /// Returns host and port as they stand in the `Host` of a request that names none.
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
