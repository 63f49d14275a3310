//! An LRU cache over a space manager: Squid's way of choosing what to keep, with its memory for
//! whole objects, if it has one, in front.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;

use tokio::sync::Notify;

use super::{FileCache, Served, zeros};
use crate::space::manager::{Calls, Read, SpaceError, SpaceManager, Stored};
use workload::request::{Object, Request};
use workload::two_level::{CacheCounts, Operation, TwoLevel};

/// See the module. Operations on one object come one after another, whichever requests they belong
/// to; those on different objects go on together.
pub struct LeastRecent<M> {
    manager: M,
    largest: u64,
    cache: RefCell<TwoLevel>,
    /// Objects that are being worked on.
    busy: RefCell<HashSet<u32>>,
    freed: Notify,
    gone: Cell<u64>,
}

impl<M: SpaceManager> LeastRecent<M> {
    /// Keeps objects of up to `largest` bytes: `memory` bytes of them in memory, `disk` bytes with
    /// `manager`.
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

    /// The space manager.
    pub fn manager(&self) -> &M {
        &self.manager
    }

    /// Objects that should have been there and were not: refused when they were stored or, rarely,
    /// removed by an eviction that came late. They are fetched and not stored.
    pub fn gone(&self) -> u64 {
        self.gone.get()
    }

    /// Enters objects as if they had been stored before anything was measured, the oldest first:
    /// `adopt` brings one to the manager's disk. Those for which there is no room are passed over.
    ///
    /// # Errors
    /// That of `adopt`.
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

/// An object that is being worked on.
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
        // The last one is what the request is about; before it come removals.
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
