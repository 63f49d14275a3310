//! Limits of connections to origin servers, and the check of their addresses.

use std::cell::Cell;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use crate::failure::error::Failure;
use crate::failure::error::Reason;
use crate::failure::failure_log::Phase;
use crate::settings::endpoint::Http2;
use crate::settings::lookup::{Lookup, SystemLookup};
use crate::settings::tls::{Tls, TlsOptions};

/// A check whether an address may be connected to for the request at hand. It is called for each
/// address, also of an open connection.
pub type Check<'a> = &'a dyn Fn(SocketAddr) -> bool;

/// The limits of connections to origins.
#[derive(Clone, Debug)]
pub struct UpstreamLimits {
    /// Time to resolve a name and connect to one of its addresses; then a 504. Default 10 s.
    pub connect_timeout: Duration,
    /// Head start of each address before the next one is tried as well. Default 250 ms
    /// (RFC 8305 section 5).
    pub stagger: Duration,
    /// Time from the request to the head of the answer; then a 504. Default 60 s.
    pub head_timeout: Duration,
    /// Longest silence within a body; then the transfer is cut. Default 60 s.
    pub body_timeout: Duration,
    /// Bytes of an answer's head, at least 8,192; a longer one is a 502. Default 64 KiB.
    pub head_bytes: usize,
    /// Bytes that a server may send of one answer in HTTP/2 before they are read. Default 1 MiB.
    pub stream_window: u32,
    /// Bytes that it may send so of all answers on one connection, at most 2 GiB less one. Default
    /// 16 MiB.
    pub connection_window: u32,
    /// While answers are awaited in HTTP/2 the other end is asked so often whether it is there.
    /// Default 15 s.
    pub ping_every: Duration,
    /// Time in which it must answer that; then the connection counts as broken. Default 10 s.
    pub ping_wait: Duration,
    /// Idle connections kept per origin and worker. Default 32.
    pub idle_per_origin: usize,
    /// Idle connections kept per worker. Default 512.
    pub idle_total: usize,
    /// Time an idle connection is kept. Default 30 s: less than the usual 60 s or more of servers,
    /// so that requests are seldom sent on a connection that is being closed.
    pub idle_timeout: Duration,
    /// Time the addresses of a name are remembered where their own lifetime is not known. Default
    /// 30 s.
    pub dns_ttl: Duration,
    /// The bounds of the lifetimes that records say of themselves. Default 1 s and 1 h.
    pub dns_ttl_min: Duration,
    /// The upper bound: see `dns_ttl_min`.
    pub dns_ttl_max: Duration,
    /// The lookup of names. Default: the system's resolver.
    pub lookup: Arc<dyn Lookup>,
    /// The TLS settings that prove the identity of servers which a forward proxy's clients name by
    /// `https` URLs. Default: the system's authorities.
    pub tls: Tls,
    /// Whether those servers are spoken to in HTTP/2. Default: where both sides choose it.
    pub http2: Http2,
}

impl Default for UpstreamLimits {
    fn default() -> Self {
        UpstreamLimits {
            connect_timeout: Duration::from_secs(10),
            stagger: Duration::from_millis(250),
            head_timeout: Duration::from_secs(60),
            body_timeout: Duration::from_secs(60),
            head_bytes: 64 * 1024,
            stream_window: 1 << 20,
            connection_window: 16 << 20,
            ping_every: Duration::from_secs(15),
            ping_wait: Duration::from_secs(10),
            idle_per_origin: 32,
            idle_total: 512,
            idle_timeout: Duration::from_secs(30),
            dns_ttl: Duration::from_secs(30),
            dns_ttl_min: Duration::from_secs(1),
            dns_ttl_max: Duration::from_secs(3600),
            lookup: Arc::new(SystemLookup),
            tls: Tls::new(TlsOptions::default(), Http2::default()),
            http2: Http2::default(),
        }
    }
}

/// Waits for a connection no longer than allowed; the error depends on the phase.
pub(crate) async fn in_time<T>(
    limits: &UpstreamLimits,
    phase: &Cell<Phase>,
    connecting: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    if let Ok(result) = timeout(limits.connect_timeout, connecting).await {
        return result;
    }
    let seconds = limits.connect_timeout.as_secs_f32();
    let (reason, what) = match phase.get() {
        Phase::Resolve => (Reason::DnsTimeout, "its name was not resolved"),
        Phase::Tls => (Reason::ConnectTimeout, "the TLS handshake did not end"),
        _ => (Reason::ConnectTimeout, "there was no connection"),
    };
    Err(Failure::Failed(reason, format!("{what} within {seconds} s")))
}
