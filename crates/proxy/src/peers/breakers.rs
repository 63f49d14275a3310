//! The breakers of the other nodes: which of them failed lately and are passed by for a while.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fleet::MemberId;
use fleet::breaker::{Breaker, Permit, Settings};

/// When a node is passed by, and for how long: after three failures in a row, and then for longer
/// and longer.
const SETTINGS: Settings = Settings {
    failures: 3,
    first: Duration::from_millis(500),
    longest: Duration::from_secs(15),
    try_time: Duration::from_secs(5),
};

/// The breakers of one node for all others.
pub(super) struct Breakers {
    /// Makes the pauses of nodes differ.
    seed: u64,
    all: Mutex<BTreeMap<MemberId, Breaker>>,
    /// None has had a failure since it closed: there is nothing to look up.
    quiet: AtomicBool,
}

impl Breakers {
    pub fn new(seed: u64) -> Breakers {
        Breakers { seed, all: Mutex::default(), quiet: AtomicBool::new(true) }
    }

    /// Returns the nodes that are passed by now.
    pub fn open(&self, now: Duration) -> BTreeSet<MemberId> {
        if self.quiet.load(Ordering::Relaxed) {
            return BTreeSet::new();
        }
        let all = self.lock();
        let open = all.iter().filter(|(_, breaker)| breaker.is_open(now));
        open.map(|(member, _)| member.clone()).collect()
    }

    /// Returns whether `member` may be asked now; the end of the question must be told.
    pub fn permit(&self, member: &MemberId, now: Duration) -> Permit {
        if self.quiet.load(Ordering::Relaxed) {
            return Permit::Yes;
        }
        self.lock().get_mut(member).map_or(Permit::Yes, |breaker| breaker.permit(now))
    }

    /// Notes that a question with `permit` was answered.
    pub fn succeeded(&self, member: &MemberId, permit: Permit) {
        if self.quiet.load(Ordering::Relaxed) {
            return;
        }
        let mut all = self.lock();
        if let Some(breaker) = all.get_mut(member) {
            breaker.succeeded(permit);
        }
    }

    /// Notes that a question with `permit` failed.
    pub fn failed(&self, member: &MemberId, permit: Permit, now: Duration) {
        let mut all = self.lock();
        self.quiet.store(false, Ordering::Relaxed);
        if !all.contains_key(member) {
            // The settings are fixed, and good.
            let Ok(breaker) = Breaker::new(SETTINGS, self.seed) else { return };
            all.insert(member.clone(), breaker);
        }
        if let Some(breaker) = all.get_mut(member) {
            breaker.failed(permit, now);
        }
    }

    /// Forgets nodes that are no members any more.
    pub fn retain(&self, is_member: impl Fn(&MemberId) -> bool) {
        let mut all = self.lock();
        all.retain(|member, _| is_member(member));
        self.quiet.store(all.is_empty(), Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<MemberId, Breaker>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_fails_is_passed_by_and_tried_again() {
        let (breakers, member) = (Breakers::new(1), "a".parse().unwrap());
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
        assert_eq!(breakers.permit(&member, at(601)), Permit::Yes);
        breakers.failed(&member, Permit::Yes, at(700));
        breakers.retain(|_| false);
        assert!(breakers.open(at(700)).is_empty());
    }
}
