//! Limits of clients and tunnels.

use std::time::Duration;

/// The time limits of a tunnel.
#[derive(Clone, Copy, Debug)]
pub struct Lifetime {
    /// Time without a byte either way.
    pub idle: Duration,
    /// Time in all; `None`: no limit while bytes move.
    pub longest: Option<Duration>,
}

/// Limits of tunnels.
#[derive(Clone, Debug)]
pub struct TunnelLimits {
    /// Tunnels of the whole process at a time, on HTTP/2 each on a stream; further requests for one
    /// are a 503. Default 4,096.
    pub max: usize,
    /// Time without a byte after which a tunnel is ended. Default 15 minutes: idle connections of
    /// browsers live for minutes, and ending one too early costs its user.
    pub idle: Duration,
    /// Time after which a tunnel is ended although bytes move; `None`, the default: no limit.
    pub longest: Option<Duration>,
}

impl TunnelLimits {
    pub(crate) fn lifetime(&self) -> Lifetime {
        Lifetime { idle: self.idle, longest: self.longest }
    }
}

impl Default for TunnelLimits {
    fn default() -> Self {
        TunnelLimits { max: 4096, idle: Duration::from_secs(900), longest: None }
    }
}

/// The limits of clients.
#[derive(Clone, Debug)]
pub struct ClientLimits {
    /// Open client connections of the whole process; for a further one an idle one is closed, and
    /// where there is none it waits in the accept queue. Default 16,384.
    pub connections: usize,
    /// Open connections of one client address, a network of 64 bits in IPv6; further ones are
    /// closed. Default no limit.
    pub per_address: Option<usize>,
    /// Bytes of a request head, at least 8,192; a longer one is a 431. Default 32 KiB.
    pub head_bytes: usize,
    /// Names of request fields that are let through. Default: those that no other field has at an
    /// origin behind CGI.
    pub field_names: semantics::FieldNames,
    /// Time from the first byte of a head to its last; then a 408. Default 30 s.
    pub head_timeout: Duration,
    /// Time a connection may wait for its next request. Default 75 s.
    pub idle_timeout: Duration,
    /// While the proxy waits for a client to take or send body bytes, the client must move at least
    /// [`ClientLimits::rate_min`] × this time, else it is cut. Default 60 s.
    pub stall_timeout: Duration,
    /// Bytes per second a client must take or send while the proxy waits for it; 0 asks for one
    /// byte in each [`ClientLimits::stall_timeout`]. Default 16.
    pub rate_min: u64,
    /// Bytes of a request's body that are read before an origin is asked; 0: none are. Default
    /// 1 MiB.
    pub request_buffer: u64,
    /// Bytes of all bodies, of requests and answers, that wait in memory because their clients are
    /// slow. Default 64 MiB.
    pub buffers: u64,
    /// Time for running answers to end after a shutdown began. Default 30 s.
    pub drain: Duration,
}

impl ClientLimits {
    /// Returns the bytes that must move in [`ClientLimits::stall_timeout`].
    pub(crate) fn least_in_stall_timeout(&self) -> u64 {
        self.rate_min.saturating_mul(self.stall_timeout.as_secs()).max(1)
    }
}

impl Default for ClientLimits {
    fn default() -> Self {
        ClientLimits {
            connections: 16_384,
            per_address: None,
            head_bytes: 32 * 1024,
            field_names: semantics::FieldNames::default(),
            head_timeout: Duration::from_secs(30),
            idle_timeout: Duration::from_secs(75),
            stall_timeout: Duration::from_secs(60),
            rate_min: 16,
            request_buffer: 1 << 20,
            buffers: 64 << 20,
            drain: Duration::from_secs(30),
        }
    }
}
