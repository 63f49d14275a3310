//! Options of fetches for the cache.

use std::time::Duration;

/// Options of fetches for the cache.
#[derive(Clone, Debug)]
pub struct FillOptions {
    /// Bytes of a running fetch that are kept in memory for its readers. Default 512 KiB.
    pub window: usize,
    /// Maximum size in bytes of a response that is not stored but may be buffered in the store
    /// because its client is slow; 0 disables this. Default 64 MiB.
    pub spill_max: u64,
    /// Share of the body, in percent, from which on a stored fetch continues after its last reader
    /// has left. Default 50.
    pub finish_percent: u8,
    /// Missing bytes up to which a stored fetch also continues without readers. Default 1 MiB.
    pub finish_rest: u64,
    /// Time for which a key whose response could not be shared is fetched by each client
    /// separately, without waiting, unless a shareable response arrives. Default 30 s.
    pub unshareable_for: Duration,
    /// Number of keys remembered as not shareable; the oldest are forgotten first. Default 16,384.
    pub unshareable_keys: usize,
    /// Maximum distance in bytes between the received part of a running fetch and a requested range
    /// that waits for it. A range further ahead is requested from the origin. Default 1 MiB.
    pub follow_distance: u64,
    /// Bytes of a window of an object that is stored in parts. Each window has at most one part,
    /// which is always contiguous. Default 1 MiB: 10 ms at 100 MB/s.
    pub part_window: u32,
    /// Minimum size in bytes of objects that are fetched in whole windows from the second range on.
    /// Default 4 MiB.
    pub aligned_from: u64,
    /// Time after which a fetch without a head that others wait for is started once more, by one of
    /// them for all. Default 20 s.
    pub wait: Duration,
    /// Time after an origin failure during which stale responses are served at once, where they may
    /// replace an error, while one request retries. Zero makes each request wait. Default 10 s.
    pub stale_refresh_time: Duration,
    /// Neighbours of a validated object that may be validated in the background, per second and
    /// site ([`semantics::Settings::validate_neighbours`] limits how many at a time). Default 20.
    pub neighbour_rate: u32,
}

impl Default for FillOptions {
    fn default() -> Self {
        FillOptions {
            window: 512 * 1024,
            spill_max: 64 << 20,
            finish_percent: 50,
            finish_rest: 1 << 20,
            follow_distance: 1 << 20,
            part_window: 1 << 20,
            aligned_from: 4 << 20,
            unshareable_for: Duration::from_secs(30),
            unshareable_keys: 16_384,
            wait: Duration::from_secs(20),
            stale_refresh_time: Duration::from_secs(10),
            neighbour_rate: 20,
        }
    }
}
