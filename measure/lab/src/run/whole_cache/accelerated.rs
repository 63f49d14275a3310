//! TFS in front of a web server's file system (T1, T5): a document that was read once is read from
//! TFS until it changes.

use store::Source;

use super::{CacheError, EngineCache, FilesCache, Outcome, WebCache};
use crate::space::file_caches::Documents;
use workload::request::Request;

/// An engine cache in front of a web server's file system.
pub struct Accelerated<'a> {
    front: EngineCache,
    files: FilesCache<'a, Documents>,
}

impl<'a> Accelerated<'a> {
    /// Puts `front` in front of `files`.
    pub fn new(front: EngineCache, files: FilesCache<'a, Documents>) -> Accelerated<'a> {
        Accelerated { front, files }
    }

    /// Returns the cache in front.
    pub fn front(&self) -> &EngineCache {
        &self.front
    }
}

impl WebCache for Accelerated<'_> {
    async fn answer(&self, request: &Request) -> Result<Outcome, CacheError> {
        let found = self.front.find(request).await?;
        match found {
            Some((true, Source::Ram)) => return Ok(Outcome::MemoryHit),
            Some((true, Source::Disk)) => return Ok(Outcome::DiskHit),
            // The file system writes a changed document; its bytes are then available.
            Some((false, _)) | None => _ = self.files.answer(request).await?,
        }
        let kept = self.front.keep(request).await?;
        Ok(match found {
            Some((_, Source::Ram)) => Outcome::MemoryStale,
            Some((_, Source::Disk)) => Outcome::DiskStale,
            None if kept => Outcome::Miss,
            None => Outcome::Refused,
        })
    }

    fn prefetched(&self) -> (u64, u64) {
        self.front.prefetched()
    }
}
