//! Limits of upstream connections, and the check of their addresses.

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

/// A check whether connecting to an address is permitted for the request at hand. Called for each
/// address, including those of open connections.
pub type Check<'a> = &'a dyn Fn(SocketAddr) -> bool;

/// Limits of upstream connections.
#[derive(Clone, Debug)]
pub struct UpstreamLimits {
    /// Time to resolve a name and connect to one of its addresses. After that the client gets a
    /// 504. Default 10 s.
    pub connect_timeout: Duration,
    /// Head start of each address before the next one is tried as well (RFC 8305, 5). Default
    /// 250 ms.
    pub stagger: Duration,
    /// Time from the request to the response head. After that the client gets a 504. Default 60 s.
    pub head_timeout: Duration,
    /// Maximum time without a byte of a response body. After that the transfer is aborted. Default
    /// 60 s.
    pub body_timeout: Duration,
    /// Maximum size of a response head in bytes, at least 8,192; a longer one is a 502. Default
    /// 64 KiB.
    pub head_bytes: usize,
    /// HTTP/2 flow-control window of a response, in bytes. Default 1 MiB.
    pub stream_window: u32,
    /// HTTP/2 flow-control window of a connection, in bytes, at most 2 GiB - 1. Default 16 MiB.
    pub connection_window: u32,
    /// Interval of pings on an HTTP/2 connection while responses are awaited. Default 15 s.
    pub ping_every: Duration,
    /// Time to answer a ping. After that the connection counts as broken. Default 10 s.
    pub ping_wait: Duration,
    /// Maximum number of idle connections per origin and worker. Default 32.
    pub idle_per_origin: usize,
    /// Maximum number of idle connections per worker; `usize::MAX` is unlimited, and not counted
    /// for the limit of others. Default 512.
    pub idle_total: usize,
    /// Time after which a TCP connection is closed if the other end acknowledges nothing, whether
    /// or not a response is awaited. Default `None`: the system's, many minutes.
    pub loss_bound: Option<Duration>,
    /// Time an idle connection is kept. Default 30 s: less than the usual 60 s or more of servers,
    /// so that requests are rarely sent on a connection that is being closed.
    pub idle_timeout: Duration,
    /// Time for which addresses are cached if their own lifetime is not known. Default 30 s.
    pub dns_ttl: Duration,
    /// Lower bound on the lifetime that records state. Default 1 s.
    pub dns_ttl_min: Duration,
    /// Upper bound on the lifetime that records state. Default 1 h.
    pub dns_ttl_max: Duration,
    /// How names are looked up. Default: the system's resolver.
    pub lookup: Arc<dyn Lookup>,
    /// TLS settings for servers that clients of a forward proxy name by `https` URLs. Default:
    /// trust the system's certificate authorities.
    pub tls: Tls,
    /// Use of HTTP/2 with those servers. Default: if both sides choose it.
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
            loss_bound: None,
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

/// Waits for a connection within the time allowed. The error depends on the phase.
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
