//! The receiver of reports on every request: metrics, the access log.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use http::{Method, StatusCode, Version};

use crate::observe::event::Event;
use crate::observe::log_fields::LogFields;
use crate::observe::outcome::Outcome;
use crate::observe::tls_facts::TlsFacts;

/// A receiver of reports on every request, such as metrics and the access log.
pub trait Observer: Send + Sync + 'static {
    /// Returns whether [`RequestRecord::texts`] is wanted. Called once for each request, as it
    /// costs copies.
    fn wants_texts(&self) -> bool {
        false
    }

    /// Receives the record of a request that has ended.
    fn finished(&self, _finished: &RequestRecord<'_>) {}

    /// Receives that a client connection was accepted (`true`) or ended (`false`).
    fn connection(&self, _opened: bool) {}

    /// Receives that an event happened `n` times, or that `n` bytes moved.
    fn count(&self, _event: Event, _n: u64) {}

    /// Receives that a head was refused before there was a request: the status (`None` when the
    /// connection ended without a response) and the reason.
    fn refused(&self, _client: SocketAddr, _status: Option<StatusCode>, _why: &dyn fmt::Display) {}
}

/// An observer that ignores all reports.
pub struct Unobserved;

impl Observer for Unobserved {}

/// The record of a request that has ended.
pub struct RequestRecord<'a> {
    /// The client.
    pub client: SocketAddr,
    /// Another node of the fleet asked on the client's behalf: the client's own request is reported
    /// there.
    pub is_peer: bool,
    /// The method.
    pub method: &'a Method,
    /// The version the client speaks.
    pub version: Version,
    /// The TLS session of its connection.
    pub tls: Option<&'a TlsFacts>,
    /// The status that was sent.
    pub status: StatusCode,
    /// The outcome.
    pub outcome: Outcome,
    /// Body bytes handed to the connection.
    pub body_bytes: u64,
    /// False when the answer was cut, by the proxy or by the client.
    pub complete: bool,
    /// Time from the head of the request to the end of the answer's body.
    pub duration: Duration,
    /// Host and port of the upstream that was asked, of several servers the last one; `None` also
    /// unless [`Observer::wants_texts`].
    pub upstream: Option<&'a str>,
    /// The addresses and ports of all servers that were asked for it, with commas between.
    pub upstream_addresses: Option<&'a str>,
    /// Texts for a log; `None` unless [`Observer::wants_texts`].
    pub texts: Option<&'a LogFields>,
}
