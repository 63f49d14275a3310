//! Places of tunnels, which limit how many are open at a time.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

/// The tunnels of all workers together, open or about to be.
#[derive(Debug, Default)]
pub(crate) struct Places(AtomicUsize);

/// A tunnel's place, which is freed when it is dropped.
#[derive(Debug)]
pub(crate) struct TunnelPermit(Arc<Places>);

impl Places {
    /// Takes a place, unless `max` are taken.
    pub fn take(self: &Arc<Places>, max: usize) -> Option<TunnelPermit> {
        let more = |taken: usize| (taken < max).then_some(taken + 1);
        self.0.fetch_update(Relaxed, Relaxed, more).ok().map(|_| TunnelPermit(self.clone()))
    }
}

impl Drop for TunnelPermit {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Relaxed);
    }
}
