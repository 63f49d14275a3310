//! Other systems' caches on a modelled file system, as whole caches.

use super::{CacheError, Machine, Outcome, WebCache};
use crate::space::file_caches::{FileCache, Served};
use workload::request::Request;

/// A cache on a modelled file system. A hit that reads nothing from the drive counts as a memory
/// hit, because the file system had it in its buffers.
pub struct FilesCache<'a, C> {
    machine: &'a Machine,
    cache: C,
}

impl<'a, C: FileCache> FilesCache<'a, C> {
    /// Wraps `cache`, whose files are on the drive of `machine`.
    pub fn new(machine: &'a Machine, cache: C) -> FilesCache<'a, C> {
        FilesCache { machine, cache }
    }

    /// Returns the wrapped cache.
    pub fn cache(&self) -> &C {
        &self.cache
    }
}

impl<C: FileCache> WebCache for FilesCache<'_, C> {
    async fn answer(&self, request: &Request) -> Result<Outcome, CacheError> {
        let reads = self.machine.usage().reads.operations;
        let outdated = self.cache.counts().outdated;
        let served = self.cache.serve(request).await;
        let read = self.machine.usage().reads.operations > reads;
        Ok(match served.map_err(|error| CacheError(error.to_string()))? {
            Served::Memory => Outcome::MemoryHit,
            Served::Disk if read => Outcome::DiskHit,
            Served::Disk => Outcome::MemoryHit,
            Served::Stored if self.cache.counts().outdated > outdated => Outcome::DiskStale,
            Served::Stored => Outcome::Miss,
            Served::Passed => Outcome::Refused,
        })
    }
}
