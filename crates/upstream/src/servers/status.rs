//! The state of a site's servers, for operators.

use crate::servers::health::Use;

/// The state of a server, and its counters.
#[derive(Clone, Copy, Debug)]
pub struct ServerStatus {
    /// Its use.
    pub usage: Use,
    /// Requests under way.
    pub active: u32,
    /// Requests sent to it.
    pub requests: u64,
    /// Requests that failed there.
    pub failures: u64,
    /// Times that it went out of use.
    pub outages: u64,
    /// Connections opened to it.
    pub connects: u64,
    /// Time spent on opening them, in microseconds.
    pub connect_us: u64,
}

/// The state of the queue for a site's servers, and its counters.
#[derive(Clone, Copy, Debug)]
pub struct QueueStatus {
    /// Requests that wait.
    pub waiting: u32,
    /// Requests that waited, whatever the result.
    pub waits: u64,
    /// Time that they waited, in microseconds.
    pub wait_us: u64,
    /// Requests that waited for too long.
    pub timeouts: u64,
    /// Requests for which there was no place.
    pub refused: u64,
}
