//! Limits of clients and tunnels.

use std::time::Duration;

/// Time limits of a tunnel.
#[derive(Clone, Copy, Debug)]
pub struct Lifetime {
    /// Maximum time without a byte in either direction.
    pub idle: Duration,
    /// Maximum total time; `None`: no limit while bytes move.
    pub longest: Option<Duration>,
}

/// Limits of tunnels.
#[derive(Clone, Debug)]
pub struct TunnelLimits {
    /// Maximum number of open tunnels in the process, including those on HTTP/2 streams. A further
    /// one displaces an idle tunnel or gets a 503. Default 4,096.
    pub max: usize,
    /// Time without a byte after which a tunnel is closed. Default 15 minutes: browsers keep idle
    /// connections for minutes, and users notice if one is closed too early.
    pub idle: Duration,
    /// Time after which a tunnel is closed even though bytes move. `None`, the default: no limit.
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

/// Limits of clients.
#[derive(Clone, Debug)]
pub struct ClientLimits {
    /// Maximum number of open client connections in the process. For a further one an idle one is
    /// closed; if none is idle, it waits in the accept queue. Default 16,384.
    pub connections: usize,
    /// Maximum number of open connections per client address, or per /64 network in IPv6; further
    /// ones are closed. Default: no limit.
    pub per_address: Option<usize>,
    /// Maximum size of a request head in bytes, at least 8,192; a longer one gets a 431. Default
    /// 32 KiB.
    pub head_bytes: usize,
    /// Names of request fields that are passed on. Default: names that cannot collide with another
    /// field's at an origin behind CGI.
    pub field_names: semantics::FieldNames,
    /// Time from the first byte of a request head to its last; then the client gets a 408. Default
    /// 30 s.
    pub head_timeout: Duration,
    /// Time a connection may wait for its next request. Default 75 s.
    pub idle_timeout: Duration,
    /// While the proxy waits for a client to take or send body bytes, the client must move at least
    /// [`ClientLimits::rate_min`] × this time, or it is disconnected. Default 60 s.
    pub stall_timeout: Duration,
    /// Bytes per second a client must take or send while the proxy waits for it. 0 requires one
    /// byte in each [`ClientLimits::stall_timeout`]. Default 16.
    pub rate_min: u64,
    /// Bytes of a request body that are read before the origin is contacted; 0: none. Default
    /// 1 MiB.
    pub request_buffer: u64,
    /// Total bytes of request and response bodies that may be held in memory for slow clients.
    /// Default 64 MiB.
    pub buffers: u64,
    /// Time for running responses to finish after a shutdown began. Default 30 s.
    pub drain: Duration,
    /// Time from the announcement of a shutdown to its beginning. Default 0.
    pub drain_delay: Duration,
}

impl ClientLimits {
    /// Returns the bytes that must move within [`ClientLimits::stall_timeout`].
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
            drain_delay: Duration::ZERO,
        }
    }
}
