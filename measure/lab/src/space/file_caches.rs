//! Other systems' proxies and web servers as caches on a file system: their work for a request, and
//! its cost on a modelled disk.
//!
//! Unlike space managers they decide themselves what to keep: Squid's LRU (C15, U8), SQUIDML's
//! cyclic replacement in memory-mapped files (C15), a web server that always has its documents
//! (T5). All implement [`FileCache`], so experiments drive them alike: one request after another
//! ([`measure`]), or many concurrently from tasks of their own.

mod diskd;
mod documents;
mod latency;
mod least_recent;
mod segments;
mod setups;
mod squid_ml;

use std::future::Future;

use bytes::Bytes;
use device::Clock;

pub use diskd::{Diskd, Limits};
pub use documents::Documents;
pub use latency::{Latencies, Report};
pub use least_recent::LeastRecent;
pub use setups::{
    LARGEST, Machine, OnModel, UCFS_MEMORY, changed_drive, disk, drive, squid_diskd, squid_ml,
    squid_on_ffs, web_server, write_through_drive,
};
pub use squid_ml::SquidMl;

use crate::space::manager::{Calls, SpaceError};
use workload::request::Request;
use workload::two_level::CacheCounts;

/// A cache on a file system. Several requests may be in flight at a time.
pub trait FileCache {
    /// Serves a request, from the cache or by storing the response of an origin that responds at
    /// once. Returns when the file system has completed its work.
    ///
    /// # Errors
    /// The file system failed.
    fn serve(&self, request: &Request) -> impl Future<Output = Result<Served, SpaceError>>;

    /// Returns the counts of the cache's decisions so far.
    fn counts(&self) -> CacheCounts;

    /// Returns the calls to the file system so far.
    fn calls(&self) -> Calls;
}

/// The source of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Served {
    /// The cache's own memory. Content in the file system's memory counts as the disk.
    Memory,
    /// The file system.
    Disk,
    /// The origin; the response is now stored.
    Stored,
    /// The origin; the response is not stored: too large, no space, or the cache was too busy.
    Passed,
}

/// Serves `requests` one after another and measures each with `clock`. Calls `progress` from time
/// to time with the number done.
///
/// # Errors
/// The file system failed.
pub async fn measure<C: Clock>(
    cache: &impl FileCache,
    clock: &C,
    requests: impl IntoIterator<Item = Request>,
    mut progress: impl FnMut(u64),
) -> Result<Report, SpaceError> {
    let (counts, calls) = (cache.counts(), cache.calls());
    let begun = clock.now();
    let mut report = Report::default();
    for (number, request) in (1..).zip(requests) {
        let before = clock.now();
        let served = cache.serve(&request).await?;
        report.add(served, clock.now() - before);
        if number % 1_024 == 0 {
            progress(number);
        }
    }
    report.cache = cache.counts() - counts;
    report.calls = cache.calls() - calls;
    report.time = clock.now() - begun;
    Ok(report)
}

/// Returns `len` zero bytes; the models use lengths only.
fn zeros(len: u64) -> Bytes {
    static ZEROS: [u8; 1 << 18] = [0; 1 << 18];
    match ZEROS.get(..len as usize) {
        Some(zeros) => Bytes::from_static(zeros),
        None => vec![0; len as usize].into(),
    }
}

#[cfg(test)]
mod tests;
