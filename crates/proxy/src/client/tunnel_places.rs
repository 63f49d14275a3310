//! The places of tunnels: how many may be open at a time.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

/// The tunnels of all workers together, open or about to be.
#[derive(Debug, Default)]
pub(crate) struct Places(AtomicUsize);

/// A tunnel's place. Dropped, it is free.
#[derive(Debug)]
pub(crate) struct Place(Arc<Places>);

impl Places {
    /// A place, unless `max` are taken.
    pub fn take(self: &Arc<Places>, max: usize) -> Option<Place> {
        let more = |taken: usize| (taken < max).then_some(taken + 1);
        self.0.fetch_update(Relaxed, Relaxed, more).ok().map(|_| Place(self.clone()))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Relaxed);
    }
}
