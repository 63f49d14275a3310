//! Interface through which every request is reported to metrics and access log.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::{Method, StatusCode, Version};
use upstream::connection::events::FetchPoint;

use crate::observe::access_log::Format;
use crate::observe::event::Event;
use crate::observe::log_fields::LogFields;
use crate::observe::outcome::Outcome;
use crate::observe::site_slots::SiteSlot;
use crate::observe::tls_facts::TlsFacts;

/// Receiver of request reports, such as metrics or the access log.
pub trait Observer: Send + Sync + 'static {
    /// Returns the format for which [`RequestRecord::texts`] is wanted, if any. Called once per
    /// request, because providing the texts costs copies.
    fn log_format(&self) -> Option<Arc<Format>> {
        None
    }

    /// Reports a request that has ended.
    fn finished(&self, _finished: &RequestRecord<'_>) {}

    /// Reports that a client connection was accepted (`true`) or ended (`false`).
    fn connection(&self, _opened: bool) {}

    /// Reports that an event happened `n` times, or that `n` bytes were transferred.
    fn count(&self, _event: Event, _n: u64) {}

    /// Reports the time from the begin of a request to an origin to this point of its response.
    fn fetched(&self, _site: SiteSlot, _until: FetchPoint, _time: Duration) {}

    /// Reports that a request head was refused before there was a request. The status is `None` if
    /// the connection ended without a response.
    fn refused(&self, _client: SocketAddr, _status: Option<StatusCode>, _why: &dyn fmt::Display) {}
}

/// Observer that ignores all reports.
pub struct Unobserved;

impl Observer for Unobserved {}

/// Record of a request that has ended.
pub struct RequestRecord<'a> {
    /// The client.
    pub client: SocketAddr,
    /// True if another node of the fleet sent the request on a client's behalf. That node reports
    /// the client's own request.
    pub is_peer: bool,
    /// The method.
    pub method: &'a Method,
    /// The HTTP version of the client's request.
    pub version: Version,
    /// The TLS session of the client's connection.
    pub tls: Option<&'a TlsFacts>,
    /// The status that was sent.
    pub status: StatusCode,
    /// The site of the request.
    pub site: SiteSlot,
    /// The outcome.
    pub outcome: Outcome,
    /// Body bytes handed to the connection.
    pub body_bytes: u64,
    /// True if the response was sent completely; false if the proxy or the client cut it short.
    pub complete: bool,
    /// Time from the request head to the end of the response body.
    pub duration: Duration,
    /// Host and port of the last upstream contacted; also `None` without
    /// [`Observer::log_format`].
    pub upstream: Option<&'a str>,
    /// Addresses and ports of all servers contacted, separated by commas.
    pub upstream_addresses: Option<&'a str>,
    /// Texts for a log; `None` without [`Observer::log_format`].
    pub texts: Option<&'a LogFields>,
}
