//! An engine whose disk hits are timed individually. The figures of a run are too coarse for flash,
//! which responds within a tenth of their millisecond.
//!
//! The head of a large object may be in memory while its pieces are on the disk, so a hit that
//! takes time counts as a disk hit here.

use std::cell::{Cell, RefCell};

use device::Clock;
use sim::Handle;

use crate::run::whole_cache::{CacheError, EngineCache, Outcome, WebCache};
use workload::request::Request;

/// An engine cache that times its disk hits.
pub(super) struct Timed {
    cache: EngineCache,
    clock: Handle,
    warm_up: u64,
    answered: Cell<u64>,
    disk_hits_ms: RefCell<Vec<f64>>,
    /// Bytes stored before the first request that counts.
    stored_before: Cell<u64>,
}

/// Times and bytes stored of the requests that count.
pub(super) struct Times {
    /// Time of each disk hit in milliseconds.
    pub(super) disk_hits_ms: Vec<f64>,
    /// Bytes of the objects stored: key, metadata and body.
    pub(super) stored: u64,
}

impl Timed {
    /// Wraps `cache`; requests count after the first `warm_up`.
    pub(super) fn new(cache: EngineCache, clock: Handle, warm_up: u64) -> Timed {
        let (answered, stored_before) = Default::default();
        Timed { cache, clock, warm_up, answered, disk_hits_ms: RefCell::default(), stored_before }
    }

    /// Returns the times; call it at the end.
    pub(super) fn times(self) -> Times {
        let stored = self.stored() - self.stored_before.get();
        Times { disk_hits_ms: self.disk_hits_ms.into_inner(), stored }
    }

    fn stored(&self) -> u64 {
        self.cache.stats().counters.inserted_bytes
    }
}

impl WebCache for Timed {
    async fn answer(&self, request: &Request) -> Result<Outcome, CacheError> {
        let number = self.answered.replace(self.answered.get() + 1);
        if number == self.warm_up {
            self.stored_before.set(self.stored());
        }
        let begun = self.clock.now();
        let found = self.cache.answer(request).await?;
        // Memory operations take no virtual time.
        let outcome = match found {
            Outcome::MemoryHit if self.clock.now() > begun => Outcome::DiskHit,
            found => found,
        };
        if outcome == Outcome::DiskHit && number >= self.warm_up {
            self.disk_hits_ms.borrow_mut().push((self.clock.now() - begun) as f64 / 1e6);
        }
        Ok(outcome)
    }

    fn prefetched(&self) -> (u64, u64) {
        self.cache.prefetched()
    }
}
