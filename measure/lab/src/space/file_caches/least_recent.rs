//! An LRU cache over a space manager: Squid's policy, optionally with its memory for whole objects
//! in front.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;

use tokio::sync::Notify;

use super::{FileCache, Served, zeros};
use crate::space::manager::{Calls, Read, SpaceError, SpaceManager, Stored};
use workload::request::{Object, Request};
use workload::two_level::{CacheCounts, Operation, TwoLevel};

/// An LRU cache over a space manager. Operations on one object run one after another, even for
/// different requests; those on different objects run concurrently.
pub struct LeastRecent<M> {
    manager: M,
    largest: u64,
    cache: RefCell<TwoLevel>,
    busy: RefCell<HashSet<u32>>,
    freed: Notify,
    gone: Cell<u64>,
}

impl<M: SpaceManager> LeastRecent<M> {
    /// Creates a cache of objects of up to `largest` bytes: `memory` bytes in memory, `disk` bytes
    /// with `manager`.
    pub fn new(manager: M, memory: u64, disk: u64, largest: u64) -> LeastRecent<M> {
        LeastRecent {
            manager,
            largest,
            cache: RefCell::new(TwoLevel::new(memory, disk)),
            busy: RefCell::default(),
            freed: Notify::new(),
            gone: Cell::new(0),
        }
    }

    /// Returns the space manager.
    pub fn manager(&self) -> &M {
        &self.manager
    }

    /// Returns the number of objects that should have been there and were not: refused when they
    /// were stored or, rarely, removed by a late eviction. They are fetched and not stored.
    pub fn gone(&self) -> u64 {
        self.gone.get()
    }

    /// Enters objects as if they had been stored before the measurement, oldest first; `adopt`
    /// brings an object to the manager's disk. Objects without space are skipped.
    ///
    /// # Errors
    /// The error of `adopt`.
    pub fn fill(
        &self,
        objects: impl IntoIterator<Item = Object>,
        mut adopt: impl FnMut(&M, &Object) -> Result<(), SpaceError>,
    ) -> Result<(), SpaceError> {
        for object in objects {
            if object.size <= self.largest && self.cache.borrow_mut().install(object) {
                adopt(&self.manager, &object)?;
            }
        }
        Ok(())
    }

    async fn carry_out(&self, operation: &Operation) -> Result<Served, SpaceError> {
        let _claim = self.claim(operation.object().id).await;
        Ok(match operation {
            Operation::Delete(object) => {
                self.manager.delete(object).await?;
                Served::Passed
            }
            Operation::Store(object) => {
                match self.manager.store(object, zeros(object.size)).await? {
                    Stored::Kept => Served::Stored,
                    Stored::Refused(_) => Served::Passed,
                }
            }
            Operation::Read(object) => match self.manager.read(object).await? {
                Read::Body(_) | Read::Unseen => Served::Disk,
                Read::Gone => {
                    self.gone.set(self.gone.get() + 1);
                    Served::Passed
                }
            },
        })
    }

    async fn claim(&self, id: u32) -> Claim<'_, M> {
        while !self.busy.borrow_mut().insert(id) {
            self.freed.notified().await;
        }
        Claim { cache: self, id }
    }
}

/// Exclusive use of an object.
struct Claim<'a, M> {
    cache: &'a LeastRecent<M>,
    id: u32,
}

impl<M> Drop for Claim<'_, M> {
    fn drop(&mut self) {
        self.cache.busy.borrow_mut().remove(&self.id);
        self.cache.freed.notify_waiters();
    }
}

impl<M: SpaceManager> FileCache for LeastRecent<M> {
    async fn serve(&self, request: &Request) -> Result<Served, SpaceError> {
        if request.size > self.largest {
            return Ok(Served::Passed);
        }
        let mut operations = Vec::new();
        let hits = self.counts().memory_hits;
        self.cache.borrow_mut().request(request, &mut operations);
        if self.counts().memory_hits > hits {
            return Ok(Served::Memory);
        }
        // The last operation is the one that the request is about; removals precede it.
        let mut served = Served::Passed;
        for operation in &operations {
            served = self.carry_out(operation).await?;
        }
        Ok(served)
    }

    fn counts(&self) -> CacheCounts {
        self.cache.borrow().counts()
    }

    fn calls(&self) -> Calls {
        self.manager.calls()
    }
}
