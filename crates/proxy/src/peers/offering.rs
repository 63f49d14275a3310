//! Bounds offers of evicted objects to other nodes, and keeps them from bringing back invalidated
//! objects.
//!
//! An offer is a copy on its way between two memories. It must not bring back an object that was
//! purged or invalidated meanwhile. An offer is therefore taken only from a node that knows of all
//! purges and invalidations that this one knows of, while none is being carried out here.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fleet::KeyHash;
use fleet::token_bucket::TokenBucket;

/// Copies from others of which the number of moves is remembered.
const MOVED_MAX: usize = 1 << 14;

/// See the module.
pub(crate) struct Offering {
    state: Mutex<State>,
    /// Purges being carried out, in the lower half; all that ever began, in the upper.
    purges: AtomicU64,
}

struct State {
    rate: TokenBucket,
    /// How often copies that are here were passed on.
    moved: BTreeMap<KeyHash, u8>,
    order: VecDeque<KeyHash>,
}

/// A purge that is being carried out.
pub(crate) struct Purging<'a>(&'a Offering);

impl Drop for Purging<'_> {
    fn drop(&mut self) {
        self.0.purges.fetch_sub(1, Ordering::AcqRel);
    }
}

/// The purges that had begun at some moment at which none was being carried out.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Quiet(u64);

impl Offering {
    pub fn new(rate: u64, now: Duration) -> Offering {
        let (moved, order) = (BTreeMap::new(), VecDeque::new());
        let state = State { rate: TokenBucket::new(rate, rate, now), moved, order };
        Offering { state: Mutex::new(state), purges: AtomicU64::new(0) }
    }

    /// Notes that a purge is being carried out here, until the guard is dropped: when this node's
    /// positions tell of it.
    pub fn begin_purge(&self) -> Purging<'_> {
        self.purges.fetch_add((1 << 32) + 1, Ordering::AcqRel);
        Purging(self)
    }

    /// Returns that no purge is being carried out, if so.
    pub fn quiet(&self) -> Option<Quiet> {
        let purges = self.purges.load(Ordering::Acquire);
        (purges & u64::from(u32::MAX) == 0).then_some(Quiet(purges))
    }

    /// Notes how often a copy that has come was passed on.
    pub fn note_moves(&self, key: KeyHash, moves: u8) {
        let mut state = self.lock();
        if state.moved.insert(key, moves).is_none() {
            state.order.push_back(key);
        }
        if state.order.len() > MOVED_MAX
            && let Some(oldest) = state.order.pop_front()
        {
            state.moved.remove(&oldest);
        }
    }

    /// Returns how often a copy that leaves was passed on.
    pub fn moves(&self, key: KeyHash) -> u8 {
        self.lock().moved.get(&key).copied().unwrap_or(0)
    }

    /// Calls `decide` with what is left of the rate.
    pub fn with_rate<T>(&self, decide: impl FnOnce(&mut TokenBucket) -> T) -> T {
        decide(&mut self.lock().rate)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_taken_while_a_purge_is_carried_out_or_just_was() {
        let offering = Offering::new(1, Duration::ZERO);
        let before = offering.quiet().unwrap();
        let purging = offering.begin_purge();
        assert!(offering.quiet().is_none());
        drop(purging);
        let after = offering.quiet().unwrap();
        assert!(before != after && offering.quiet() == Some(after));
    }

    #[test]
    fn moves_are_remembered_of_a_bounded_number() {
        let offering = Offering::new(1, Duration::ZERO);
        (0..=MOVED_MAX as u64).for_each(|n| offering.note_moves(KeyHash::from_bits(n), 2));
        assert_eq!(offering.moves(KeyHash::from_bits(0)), 0);
        assert_eq!(offering.moves(KeyHash::from_bits(1)), 2);
    }
}
