//! Counts of what is open at the same time, by key. There are as many counts as things are open.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hashbrown::HashMap;

/// Counts by the number of a key.
#[derive(Clone, Debug, Default)]
pub(crate) struct OpenCounts {
    by_key: Arc<Mutex<HashMap<u64, u32, std::hash::RandomState>>>,
}

/// One counted thing, uncounted on drop.
#[derive(Debug)]
pub(crate) struct OpenPermit {
    counts: OpenCounts,
    key: u64,
}

impl OpenCounts {
    /// Counts one more of a key. Returns `None` if there are `max` already.
    pub fn enter(&self, key: u64, max: u32) -> Option<OpenPermit> {
        let mut by_key = self.lock();
        if by_key.get(&key).is_some_and(|count| *count >= max) || max == 0 {
            return None;
        }
        *by_key.entry(key).or_default() += 1;
        Some(OpenPermit { counts: self.clone(), key })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, u32, std::hash::RandomState>> {
        // Nothing under this lock can panic half-way.
        self.by_key.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for OpenPermit {
    fn drop(&mut self) {
        let mut by_key = self.counts.lock();
        if let Some(count) = by_key.get_mut(&self.key) {
            *count -= 1;
            if *count == 0 {
                by_key.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_has_its_own_count_and_dropped_permits_leave_nothing() {
        let counts = OpenCounts::default();
        let held = [counts.enter(1, 2), counts.enter(1, 2), counts.enter(2, 2)];
        assert!(held.iter().all(Option::is_some));
        assert!(counts.enter(1, 2).is_none() && counts.enter(3, 0).is_none());
        drop(held);
        assert!(counts.lock().is_empty());
    }
}
