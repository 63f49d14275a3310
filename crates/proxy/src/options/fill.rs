//! Options of fetches for the cache.

use std::time::Duration;

/// The options of fetches for the cache.
#[derive(Clone, Debug)]
pub struct FillOptions {
    /// Bytes of a running fetch kept in memory for its readers. Default 512 KiB.
    pub window: usize,
    /// Bytes of an answer that is not stored which may go through the store because its client is
    /// slow; 0: none may. Default 64 MiB.
    pub spill_max: u64,
    /// A stored fetch whose last reader left goes on when at least this share of its body, in
    /// percent, has come. Default 50.
    pub finish_percent: u8,
    /// … or when at most this many bytes are missing. Default 1 MiB.
    pub finish_rest: u64,
    /// Time for which a key whose answer could not be shared is fetched by every client on its own,
    /// without waiting, unless an answer comes that can be. Default 30 s.
    pub unshareable_for: Duration,
    /// Keys remembered as not shareable; the oldest are forgotten first. Default 16,384.
    pub unshareable_keys: usize,
    /// A client that asks for a range of what is being fetched waits for it when it begins at most
    /// this many bytes ahead of what has come; a range further away is requested from the origin.
    /// Default 1 MiB.
    pub follow_distance: u64,
    /// Bytes of a window of an object that is stored in parts. Each has at most one part, which is
    /// always contiguous. Default 1 MiB: at 100 MB/s 10 ms.
    pub part_window: u32,
    /// Objects of at least this many bytes are fetched by whole windows from the second range on.
    /// Default 4 MiB.
    pub aligned_from: u64,
    /// A fetch that others wait for and that has no head after this time is begun once more, by one
    /// of them for all. Default 20 s.
    pub wait: Duration,
    /// Time after a failure of the origin for which stale answers are given at once, where they may
    /// be given in place of an error, while one request tries again; zero: each request waits.
    /// Default 10 s.
    pub stale_refresh_time: Duration,
    /// Neighbours of what is validated that may be validated in the background, for each second and
    /// site ([`semantics::Settings::validate_neighbours`] says how many at a time). Default 20.
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
