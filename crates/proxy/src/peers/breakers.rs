//! The breakers of other nodes, or of origins: which of them failed lately and are passed by for a
//! while.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fleet::breaker::{Breaker, Permit, Settings};

/// Maximum number of breakers with failures. Further ones stay closed.
const FAILED_MAX: usize = 4096;

/// When a node is passed by, and for how long: after three failures in a row, and then for longer
/// and longer.
const SETTINGS: Settings = Settings {
    failures: 3,
    first: Duration::from_millis(500),
    longest: Duration::from_secs(15),
    try_time: Duration::from_secs(5),
};

/// The breakers of one node, by what they are for. One without failures takes no memory.
pub(super) struct Breakers<K> {
    /// Makes the pauses of nodes differ.
    seed: u64,
    failed: Mutex<BTreeMap<K, Breaker>>,
    /// True if no breaker has had a failure since it closed.
    quiet: AtomicBool,
}

impl<K: Ord + Clone> Breakers<K> {
    pub fn new(seed: u64) -> Breakers<K> {
        Breakers { seed, failed: Mutex::default(), quiet: AtomicBool::new(true) }
    }

    /// Returns what is passed by now.
    pub fn open(&self, now: Duration) -> BTreeSet<K> {
        if self.quiet.load(Ordering::Relaxed) {
            return BTreeSet::new();
        }
        let failed = self.lock();
        let open = failed.iter().filter(|(_, breaker)| breaker.is_open(now));
        open.map(|(of, _)| of.clone()).collect()
    }

    /// Returns whether `of` may be asked now; the end of the question must be told.
    pub fn permit(&self, of: &K, now: Duration) -> Permit {
        if self.quiet.load(Ordering::Relaxed) {
            return Permit::Yes;
        }
        self.lock().get_mut(of).map_or(Permit::Yes, |breaker| breaker.permit(now))
    }

    /// Notes that a question with `permit` was answered.
    pub fn succeeded(&self, of: &K, permit: Permit) {
        if self.quiet.load(Ordering::Relaxed) {
            return;
        }
        let mut failed = self.lock();
        if let Some(breaker) = failed.get_mut(of) {
            breaker.succeeded(permit);
            if breaker.is_quiet() {
                failed.remove(of);
                self.quiet.store(failed.is_empty(), Ordering::Relaxed);
            }
        }
    }

    /// Notes that a question with `permit` failed.
    pub fn failed(&self, of: &K, permit: Permit, now: Duration) {
        let mut failed = self.lock();
        if !failed.contains_key(of) && failed.len() < FAILED_MAX {
            // The settings are fixed, and good.
            let Ok(breaker) = Breaker::new(SETTINGS, self.seed) else { return };
            failed.insert(of.clone(), breaker);
            self.quiet.store(false, Ordering::Relaxed);
        }
        if let Some(breaker) = failed.get_mut(of) {
            breaker.failed(permit, now);
        }
    }

    /// Forgets those of nodes that are no members any more.
    pub fn retain(&self, is_member: impl Fn(&K) -> bool) {
        let mut failed = self.lock();
        failed.retain(|of, _| is_member(of));
        self.quiet.store(failed.is_empty(), Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<K, Breaker>> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use fleet::MemberId;

    use super::*;

    #[test]
    fn a_node_that_fails_is_passed_by_and_tried_again() {
        let (breakers, member) = (Breakers::<MemberId>::new(1), "a".parse().unwrap());
        let at = Duration::from_millis;
        for _ in 0..3 {
            assert_eq!(breakers.permit(&member, at(0)), Permit::Yes);
            breakers.failed(&member, Permit::Yes, at(0));
        }
        assert_eq!(breakers.permit(&member, at(1)), Permit::No);
        assert_eq!(breakers.open(at(1)).len(), 1);
        assert_eq!(breakers.permit(&member, at(600)), Permit::Try);
        assert_eq!(breakers.permit(&member, at(600)), Permit::No);
        breakers.succeeded(&member, Permit::Try);
        assert!(breakers.lock().is_empty());
        assert_eq!(breakers.permit(&member, at(601)), Permit::Yes);
        breakers.failed(&member, Permit::Yes, at(700));
        breakers.retain(|_| false);
        assert!(breakers.open(at(700)).is_empty());
    }
}
