//! An engine whose disk hits are timed one by one, which the figures of a run are too coarse for:
//! flash answers within a tenth of their millisecond.
//!
//! Of a large object the head may be in memory while its pieces are on the disk: what takes time is
//! a hit on the disk here.

use std::cell::{Cell, RefCell};

use device::Clock;
use sim::Handle;

use crate::run::whole_cache::{CacheError, EngineCache, Outcome, WebCache};
use workload::request::Request;

/// See the module.
pub(super) struct Timed {
    cache: EngineCache,
    clock: Handle,
    warm_up: u64,
    answered: Cell<u64>,
    disk_hits_ms: RefCell<Vec<f64>>,
    /// Bytes stored before requests counted.
    stored_before: Cell<u64>,
}

/// What was timed and stored of the requests that count.
pub(super) struct Times {
    /// Milliseconds of each disk hit.
    pub(super) disk_hits_ms: Vec<f64>,
    /// Bytes of stored objects: key, metadata and body.
    pub(super) stored: u64,
}

impl Timed {
    /// Counts from the request after `warm_up` others.
    pub(super) fn new(cache: EngineCache, clock: Handle, warm_up: u64) -> Timed {
        let (answered, stored_before) = Default::default();
        Timed { cache, clock, warm_up, answered, disk_hits_ms: RefCell::default(), stored_before }
    }

    /// To be called at the end.
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
        // Nothing in memory takes virtual time.
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
