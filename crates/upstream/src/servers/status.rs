//! What the servers of a site show of themselves.

use crate::servers::health::Use;

/// How a server is, and what has been counted of it.
#[derive(Clone, Copy, Debug)]
pub struct ServerStatus {
    /// Whether it is in use.
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

/// How the queue for a site's servers is, and what has been counted of it.
#[derive(Clone, Copy, Debug)]
pub struct QueueStatus {
    /// Requests that wait.
    pub waiting: u32,
    /// Requests that waited, however it ended.
    pub waits: u64,
    /// How long they did, in microseconds.
    pub wait_us: u64,
    /// Requests that waited for too long.
    pub timeouts: u64,
    /// Requests that found no place to wait in.
    pub refused: u64,
}
