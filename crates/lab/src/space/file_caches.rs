//! Other people's proxies and web servers as caches on a file system: what they do for a request,
//! and what that takes on a modelled disk.
//!
//! They exist beside the space managers because what they keep is their own decision: Squid's LRU
//! (C15, U8), SQUIDML's cyclic replacement in memory-mapped files (C15), a web server whose
//! documents are simply there (T5). All answer to [`FileCache`], so that an experiment drives them
//! alike: one request after another ([`measure`]), or many at a time from tasks of its own.

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

/// A cache that somebody keeps on a file system. Several requests may be under way at a time.
pub trait FileCache {
    /// Answers a request, from the cache or by storing what an origin answers at once; returns when
    /// the file system is done with it.
    ///
    /// # Errors
    /// The file system is broken.
    fn serve(&self, request: &Request) -> impl Future<Output = Result<Served, SpaceError>>;

    /// What the cache decided so far.
    fn counts(&self) -> CacheCounts;

    /// The calls to the file system so far.
    fn calls(&self) -> Calls;
}

/// Where an answer came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Served {
    /// The cache's own memory. What the file system has in memory counts as the disk.
    Memory,
    /// The file system.
    Disk,
    /// The origin; it is stored now.
    Stored,
    /// The origin; it is not stored: too large, or there was no room or no time.
    Passed,
}

/// Serves `requests` one after another and measures each in the time of `clock`. `progress` is told
/// how many are done, every now and then.
///
/// # Errors
/// The file system is broken.
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

/// `len` zero bytes: the models look at lengths only.
fn zeros(len: u64) -> Bytes {
    static ZEROS: [u8; 1 << 18] = [0; 1 << 18];
    match ZEROS.get(..len as usize) {
        Some(zeros) => Bytes::from_static(zeros),
        None => vec![0; len as usize].into(),
    }
}

#[cfg(test)]
mod tests;
