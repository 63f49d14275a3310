//! Whoever wants to know of every request: metrics, the access log.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use http::header::HeaderValue;
use http::{Method, StatusCode, Version};

use crate::observe::event::Event;
use crate::observe::outcome::Outcome;
use crate::observe::tls_facts::TlsFacts;

/// Whoever wants to know of every request: metrics, the access log.
pub trait Observer: Send + Sync + 'static {
    /// True when [`RequestRecord::texts`] is wanted. Asked once for each request, as it costs
    /// copies.
    fn wants_texts(&self) -> bool {
        false
    }

    /// An answer is done with.
    fn finished(&self, _finished: &RequestRecord<'_>) {}

    /// A client connection was accepted (`true`) or ended (`false`).
    fn connection(&self, _opened: bool) {}

    /// Something happened `n` times, or `n` bytes moved.
    fn count(&self, _event: Event, _n: u64) {}

    /// hyper refused a head before there was a request: its status (none when the connection just
    /// ended) and what was wrong.
    fn refused(&self, _client: SocketAddr, _status: Option<StatusCode>, _why: &dyn fmt::Display) {}
}

/// An observer that does not look.
pub struct Unobserved;

impl Observer for Unobserved {}

/// One request, when all is over.
pub struct RequestRecord<'a> {
    /// The client.
    pub client: SocketAddr,
    /// The method.
    pub method: &'a Method,
    /// The version the client speaks.
    pub version: Version,
    /// How its connection is secured.
    pub tls: Option<&'a TlsFacts>,
    /// The status we sent.
    pub status: StatusCode,
    /// What became of it.
    pub outcome: Outcome,
    /// Body bytes handed to the connection.
    pub body_bytes: u64,
    /// False when the answer was cut, by us or by the client.
    pub complete: bool,
    /// From the head of the request to the end of the answer's body.
    pub duration: Duration,
    /// Host and port of the upstream that was asked, of several servers the last one; `None` also
    /// unless [`Observer::wants_texts`].
    pub upstream: Option<&'a str>,
    /// The addresses and ports of all servers that were asked for it, with commas between.
    pub upstream_addresses: Option<&'a str>,
    /// What only a log wants; `None` unless [`Observer::wants_texts`].
    pub texts: Option<&'a LogFields>,
}

/// Texts of a request for the log. The URL is without user information.
#[derive(Clone, Debug, Default)]
pub struct LogFields {
    /// The whole URL; of a CONNECT host and port.
    pub url: String,
    /// `Referer`.
    pub referer: Option<HeaderValue>,
    /// `User-Agent`.
    pub user_agent: Option<HeaderValue>,
    /// `Content-Type` of the answer.
    pub content_type: Option<HeaderValue>,
    /// Bytes of the answer's head, without the fields that hyper adds (Date, framing).
    pub head_bytes: u64,
}
