//! Permits and shares of bandwidth that a request holds until its response has been sent.

use std::sync::Arc;
use std::time::{Duration, Instant};

use net::clock::TokioClock;

use crate::client::tunnel_permits::TunnelPermit;
use crate::rules::limits::Limit;
use crate::rules::limits::open_counts::OpenPermit;

/// Permits and shares of one request. Dropped with its response.
#[derive(Default)]
pub(crate) struct Held {
    pub tunnel: Option<TunnelPermit>,
    pub open: Vec<OpenPermit>,
    pub pacers: Vec<Pacer>,
    /// True once the limits have counted the request.
    pub is_counted: bool,
    /// When the request's turn comes, if it is in the queue of a limit.
    pub turn: Option<Instant>,
}

impl Held {
    /// Returns what is held by a tunnel without limits.
    pub fn of_tunnel(permit: TunnelPermit) -> Box<Held> {
        Box::new(Held { tunnel: Some(permit), ..Held::default() })
    }

    /// Gives the permit for a tunnel back.
    pub fn without_tunnel(mut self: Box<Held>) -> Box<Held> {
        self.tunnel = None;
        self
    }
}

/// Decides when the bytes of one response may be sent.
pub(crate) struct Pacer {
    limit: Arc<Limit>,
    /// The key that shares the bandwidth; `None`: this response by itself.
    key: Option<u64>,
    clock: TokioClock,
    /// Bytes that do not count.
    free: u64,
    /// For a response by itself: when all bytes so far are due.
    until: u64,
}

/// Pieces in a second of a body at its bandwidth.
const PIECES: u64 = 8;

/// Largest piece in bytes.
const PIECE_MAX: u64 = 128 << 10;

impl Pacer {
    pub fn new(limit: Arc<Limit>, key: Option<u64>, clock: TokioClock) -> Pacer {
        let free = limit.terms.bandwidth_after;
        Pacer { limit, key, clock, free, until: 0 }
    }

    /// Returns how many of the next `available` bytes are sent together, and the time until then.
    pub fn next(&mut self, available: u64) -> (u64, Duration) {
        if self.free > 0 {
            let bytes = self.free.min(available);
            self.free -= bytes;
            return (bytes, Duration::ZERO);
        }
        let piece = self.limit.terms.bandwidth.unwrap_or(u64::MAX) / PIECES;
        let bytes = available.min(piece.clamp(1, PIECE_MAX));
        let now = u64::try_from(self.clock.running().as_nanos()).unwrap_or(u64::MAX);
        let wait = match self.key {
            Some(key) => self.limit.reserve_bytes(key, now, bytes),
            None => {
                let due = self.until.max(now);
                self.until = due.saturating_add(self.limit.time_of(bytes).unwrap_or(0));
                Duration::from_nanos(due - now)
            }
        };
        (bytes, wait)
    }
}
