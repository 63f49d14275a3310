//! State of a site's servers, for operators.

use crate::servers::health::Use;

/// State and counters of a server.
#[derive(Clone, Copy, Debug)]
pub struct ServerStatus {
    /// Availability.
    pub usage: Use,
    /// Requests in progress.
    pub active: u32,
    /// Requests sent to it.
    pub requests: u64,
    /// Requests that failed there.
    pub failures: u64,
    /// Number of times that it went out of use.
    pub outages: u64,
    /// Connections opened to it.
    pub connects: u64,
    /// Total time spent opening them, in microseconds.
    pub connect_us: u64,
}

/// State and counters of the queue for a site's servers.
#[derive(Clone, Copy, Debug)]
pub struct QueueStatus {
    /// Requests that wait now.
    pub waiting: u32,
    /// Requests that waited, whatever the result.
    pub waits: u64,
    /// Total time that they waited, in microseconds.
    pub wait_us: u64,
    /// Requests whose wait timed out.
    pub timeouts: u64,
    /// Requests that were refused because the queue was full.
    pub refused: u64,
}
