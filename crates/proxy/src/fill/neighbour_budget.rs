//! Budgets for validating neighbours, and marks of those validated ahead of any request.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Instant;

/// Maximum number of keys marked as validated and not requested since: 64 KiB of hashes.
pub(crate) const MARKS: usize = 8192;

/// Maximum number of site budgets. When the table is full, full budgets are dropped; if none is
/// full, further sites get no validations.
pub(crate) const BUDGETS_MAX: usize = 4096;

/// Validations of neighbours, shared by all workers.
#[derive(Default)]
pub(crate) struct Neighbours {
    /// Budgets by the hash of the site.
    budgets: Mutex<HashMap<u64, Budget>>,
    /// Hashes of keys. Each slot holds at most one; a later key in the same slot replaces it.
    marks: OnceLock<Box<[AtomicU64]>>,
    hasher: RandomState,
}

/// Number of validations that may still be sent to a site's servers.
pub(crate) struct Budget {
    left: f64,
    at: Instant,
}

impl Neighbours {
    /// Takes one validation from the budget of `site`, which refills at `rate` per second and holds
    /// at most `rate`. Returns false if none is left.
    pub(crate) fn take(&self, site: u64, rate: u32, now: Instant) -> bool {
        let mut budgets = self.budgets.lock().unwrap_or_else(PoisonError::into_inner);
        let full = f64::from(rate);
        let refilled = |budget: &Budget| {
            let since = now.saturating_duration_since(budget.at).as_secs_f64();
            (budget.left + since * full).min(full)
        };
        if budgets.len() >= BUDGETS_MAX && !budgets.contains_key(&site) {
            budgets.retain(|_, budget| refilled(budget) < full);
            if budgets.len() >= BUDGETS_MAX {
                return false;
            }
        }
        let budget = budgets.entry(site).or_insert(Budget { left: full, at: now });
        *budget = Budget { left: refilled(budget), at: now };
        let enough = budget.left >= 1.0;
        budget.left -= f64::from(u8::from(enough));
        enough
    }

    /// Marks `key` as validated and not requested since.
    pub(crate) fn mark(&self, key: &[u8]) {
        let marks = self.marks.get_or_init(|| (0..MARKS).map(|_| AtomicU64::new(0)).collect());
        let hash = self.hash(key);
        marks[place(hash)].store(hash, Ordering::Relaxed);
    }

    pub(crate) fn is_marked(&self, key: &[u8]) -> bool {
        let Some(marks) = self.marks.get() else { return false };
        let hash = self.hash(key);
        marks[place(hash)].load(Ordering::Relaxed) == hash
    }

    /// Removes the mark of `key`, for a client's request. Returns true if this is the first request
    /// since the validation.
    pub fn take_mark(&self, key: &[u8]) -> bool {
        let Some(marks) = self.marks.get() else { return false };
        let hash = self.hash(key);
        let mark = &marks[place(hash)];
        mark.load(Ordering::Relaxed) == hash
            && mark.compare_exchange(hash, 0, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Returns the hash of a key. Zero stands for no mark and is never returned.
    fn hash(&self, key: &[u8]) -> u64 {
        self.hasher.hash_one(key) | 1
    }
}

pub(crate) fn place(hash: u64) -> usize {
    (hash >> 32) as usize % MARKS
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::time::Duration;

    use super::*;
    use net::clock::TokioClock;

    #[test]
    fn a_site_never_exceeds_its_rate() {
        let (known, began) = (Neighbours::default(), TokioClock::system().instant());
        let taken = |site, after: u64| {
            let now = began + Duration::from_millis(after);
            (0..100).filter(|_| known.take(site, 5, now)).count()
        };
        assert_eq!((taken(1, 0), taken(2, 0)), (5, 5));
        assert_eq!((taken(1, 199), taken(1, 401)), (0, 2));
        assert_eq!((taken(1, 60_000), taken(1, 60_000)), (5, 0));
    }

    #[test]
    fn a_full_table_admits_no_further_sites() {
        let (known, began) = (Neighbours::default(), TokioClock::system().instant());
        for site in 0..BUDGETS_MAX as u64 {
            assert!(known.take(site, 1, began));
        }
        assert!(!known.take(u64::MAX, 1, began));
        assert!(known.take(u64::MAX, 1, began + Duration::from_secs(1)));
    }

    #[test]
    fn a_mark_stays_until_the_first_request() {
        let known = Neighbours::default();
        assert!(!known.is_marked(b"a") && !known.take_mark(b"a"));
        known.mark(b"a");
        assert!(known.is_marked(b"a") && !known.is_marked(b"b"));
        assert!(!known.take_mark(b"b"));
        assert!(known.take_mark(b"a") && !known.take_mark(b"a") && !known.is_marked(b"a"));
    }
}
