//! Table of leaky buckets with a fixed maximum number of keys.
//!
//! A key has its place in one of many small sets. A new key takes the place of the key with the
//! least debt in its set: in most cases one whose time is over, so that nothing is lost. Thus new
//! keys are never refused for want of memory, and a key in debt is displaced only by keys that
//! together made more requests than it may make.

use std::sync::{Mutex, PoisonError};

/// Keys of one set.
const WAYS: usize = 8;

/// Sets of a large table: 65,536 keys in 1.1 MiB.
const SETS: usize = 8192;

/// Buckets by the number of their key.
#[derive(Debug)]
pub(super) struct RateTable {
    sets: Box<[Mutex<[Bucket; WAYS]>]>,
}

/// State of one key.
#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    /// 0 if there is none.
    key: u64,
    /// Time in nanoseconds until which the key has used up its rate.
    until: u64,
}

/// Something that is counted.
#[derive(Clone, Copy)]
pub(super) struct Reservation {
    /// Time in nanoseconds that it takes up.
    pub cost: u64,
    /// Largest time until it is due.
    pub tolerance: u64,
}

impl RateTable {
    /// Creates a table for many keys.
    pub fn large() -> RateTable {
        RateTable { sets: (0..SETS).map(|_| Mutex::default()).collect() }
    }

    /// Creates a table for few keys.
    pub fn small() -> RateTable {
        RateTable { sets: [Mutex::default()].into() }
    }

    /// Adds a reservation at `now`. Returns the nanoseconds until it is due.
    ///
    /// # Errors
    ///
    /// The nanoseconds until it would be accepted.
    pub fn reserve(&self, key: u64, now: u64, asked: Reservation) -> Result<u64, u64> {
        self.with(key, |bucket| {
            let due = bucket.until.saturating_sub(now);
            match due.checked_sub(asked.tolerance) {
                None | Some(0) => {
                    bucket.until = bucket.until.max(now).saturating_add(asked.cost);
                    Ok(due)
                }
                Some(excess) => Err(excess),
            }
        })
    }

    /// Takes a reservation back.
    pub fn give_back(&self, key: u64, cost: u64) {
        self.with(key, |bucket| bucket.until = bucket.until.saturating_sub(cost));
    }

    fn with<T>(&self, key: u64, change: impl FnOnce(&mut Bucket) -> T) -> T {
        let set = &self.sets[(key >> 32) as usize % self.sets.len()];
        // Nothing under this lock can panic half-way.
        let mut set = set.lock().unwrap_or_else(PoisonError::into_inner);
        let known = set.iter().position(|bucket| bucket.key == key);
        let place = known.unwrap_or_else(|| {
            let least = (0..WAYS).min_by_key(|place| set[*place].until).unwrap_or(0);
            set[least] = Bucket { key, until: 0 };
            least
        });
        change(&mut set[place])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_in_debt_outlast_a_flood_of_others_and_new_keys_are_accepted() {
        let table = RateTable::small();
        let asked = Reservation { cost: 100, tolerance: 200 };
        while table.reserve(1, 0, asked).is_ok() {}
        for key in 2..10_000 {
            assert_eq!(table.reserve(key, 0, asked), Ok(0));
        }
        assert_eq!(table.reserve(1, 0, asked), Err(100));
    }
}
