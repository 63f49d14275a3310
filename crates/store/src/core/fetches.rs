//! Fetches under way, so that a removal or a purge overtakes those that began before it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::base::digest::Digest;

/// Set once the key is removed after the fetch began.
pub(crate) type Overtaken = Arc<AtomicBool>;

/// The flags of running fetches by key.
#[derive(Default)]
pub(crate) struct Fetches {
    running: BTreeMap<Digest, Overtaken>,
}

impl Fetches {
    /// Begins a fetch of `digest`. Fetches that began since the last removal share a flag.
    pub(crate) fn begin(&mut self, digest: Digest) -> Overtaken {
        Arc::clone(self.running.entry(digest).or_default())
    }

    /// Ends a fetch; `flag` is the one that [`Fetches::begin`] returned.
    pub(crate) fn end(&mut self, digest: &Digest, flag: &Overtaken) {
        let last = self
            .running
            .get(digest)
            .is_some_and(|entry| Arc::ptr_eq(entry, flag) && Arc::strong_count(entry) <= 2);
        if last {
            self.running.remove(digest);
        }
    }

    /// Overtakes the fetches of `digest`, which was removed: their results must not be stored.
    pub(crate) fn overtake(&mut self, digest: &Digest) {
        if let Some(flag) = self.running.remove(digest) {
            flag.store(true, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_removal_overtakes_those_before_it_only() {
        let digest = Digest([1; 16]);
        let mut fetches = Fetches::default();
        let (one, two) = (fetches.begin(digest), fetches.begin(digest));
        fetches.overtake(&digest);
        let later = fetches.begin(digest);
        assert!(one.load(Ordering::Acquire) && two.load(Ordering::Acquire));
        assert!(!later.load(Ordering::Acquire));
    }

    #[test]
    fn the_last_fetch_takes_the_entry_along() {
        let digest = Digest([1; 16]);
        let mut fetches = Fetches::default();
        let (one, two) = (fetches.begin(digest), fetches.begin(digest));
        fetches.end(&digest, &one);
        drop(one);
        assert_eq!(fetches.running.len(), 1);
        fetches.end(&digest, &two);
        assert!(fetches.running.is_empty());
    }
}
