//! Recent demand for documents at this node: requests of the running second and of the one before.
//!
//! A node keeps its own estimate for a while, and an owner sends it to the nodes that ask: each of
//! them sees only its own clients' requests, and would otherwise keep asking one owner. A node
//! never passes on an estimate that it received, so no number circulates for ever.
//!
//! A count may be too high. It decides on how many owners a document is kept, so an error costs a
//! copy.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fleet::KeyHash;
use fleet::popularity::{Hotness, RequestCounts, SpanRequests};
use fleet::told_owners::ToldOwners;

/// Bytes of the sketch: at a million requests a second each of its cells has sixty.
const SKETCH: usize = 1 << 17;

/// Hot documents that are known.
const PLACES: usize = 4096;
/// For so long a number is held. While those that ask spread over several owners each of these sees
/// a part of the requests, and would come to fewer.
const HELD: Duration = Duration::from_secs(10);

/// The requests of two seconds.
pub(super) struct Demand {
    hotness: Hotness,
    counts: Mutex<RequestCounts>,
    /// Estimates of this node.
    own: Mutex<ToldOwners>,
    /// Estimates received from owners.
    told: Mutex<ToldOwners>,
}

impl Demand {
    pub fn new(hotness: Hotness) -> Demand {
        let counts = RequestCounts::new(SKETCH, Duration::from_secs(1));
        let table = || Mutex::new(ToldOwners::new(PLACES, HELD));
        Demand { hotness, counts: Mutex::new(counts), own: table(), told: table() }
    }

    /// Notes a request of a client here, and returns how many owners the document has by now.
    pub fn note(&self, key: KeyHash, now: Duration) -> usize {
        self.note_own(key, now);
        self.owners(key, now)
    }

    /// Returns how many owners a document has by now.
    pub fn owners(&self, key: KeyHash, now: Duration) -> usize {
        if self.hotness.owners_max.get() == 1 {
            return 1;
        }
        lock(&self.own).owners(key, now).max(lock(&self.told).owners(key, now)) as usize
    }

    /// Notes how many owners a document has, as an owner says.
    pub fn note_told(&self, key: KeyHash, owners: u32, now: Duration) {
        lock(&self.told).note(key, owners.min(self.hotness.owners_max.get()), now);
    }

    /// Notes a request, and returns how many owners the document has by those that this node saw.
    pub fn note_own(&self, key: KeyHash, now: Duration) -> u32 {
        if self.hotness.owners_max.get() == 1 {
            return 1;
        }
        let SpanRequests { running, before } = lock(&self.counts).note(key, now);
        let owners = self.hotness.owners(before, 1);
        // The running second is not over: what it has so far can only raise the number.
        let owners = self.hotness.owners(running.max(before), owners);
        let mut own = lock(&self.own);
        let owners = owners.max(self.owners_of_too_few(&own, key, before, now));
        own.note(key, owners, now);
        own.owners(key, now)
    }
}

impl Demand {
    /// Returns one owner more than there are when this one alone had more than enough in the whole
    /// second before, although there were as many: those that ask are not spread evenly.
    fn owners_of_too_few(&self, own: &ToldOwners, key: KeyHash, had: u64, now: Duration) -> u32 {
        let begin = Duration::from_secs(now.as_secs().saturating_sub(1));
        let too_few = had > u64::from(self.hotness.per_owner.get())
            && own.since(key, now).is_some_and(|since| since <= begin);
        match too_few {
            true => (own.owners(key, now) + 1).min(self.hotness.owners_max.get()),
            false => 1,
        }
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::num::NonZeroU32;

    use super::*;

    #[test]
    fn an_owner_that_has_too_much_with_others_gets_another_each_two_seconds() {
        let number = |n| NonZeroU32::new(n).unwrap();
        let demand = Demand::new(Hotness { per_owner: number(100), owners_max: number(4) });
        let key = KeyHash::from_bits(7);
        let mut by_second = Vec::new();
        for second in 1..9_u64 {
            // The counts that result if one of the two owners had most of the questions.
            let times: u64 = if second == 1 { 150 } else { 120 };
            let at = |number: u64| Duration::from_millis(second * 1000 + 10 + number);
            by_second.push((0..times).map(|number| demand.note_own(key, at(number))).max());
        }
        assert_eq!(by_second, [2, 2, 3, 3, 4, 4, 4, 4].map(Some));
    }

    #[test]
    fn what_is_asked_for_often_gets_more_owners_and_loses_them_again() {
        let number = |n| NonZeroU32::new(n).unwrap();
        let demand = Demand::new(Hotness { per_owner: number(100), owners_max: number(3) });
        let (hot, cold) = (KeyHash::from_bits(1 << 40 | 1), KeyHash::from_bits(2));
        let at = Duration::from_millis;
        for _ in 0..100 {
            assert_eq!(demand.note(hot, at(1_500)), 1);
        }
        assert_eq!(demand.note(hot, at(1_501)), 2);
        for _ in 0..500 {
            demand.note(hot, at(1_502));
        }
        assert_eq!(demand.note(hot, at(1_900)), 3);
        assert_eq!(demand.note(cold, at(1_900)), 1);
        assert_eq!(demand.note(hot, at(2_000)), 3, "it was so a moment ago");
        assert_eq!(demand.note(hot, at(11_499)), 3, "it is held");
        assert_eq!(demand.note(hot, at(12_000)), 1);
        // A received estimate is not passed on.
        demand.note_told(cold, 2, at(20_000));
        demand.note_told(hot, 9, at(20_000));
        assert_eq!((demand.note(cold, at(20_000)), demand.note_own(cold, at(20_000))), (2, 1));
        assert_eq!((demand.owners(hot, at(20_000)), demand.owners(cold, at(30_000))), (3, 1));
        let never = Demand::new(Hotness { per_owner: number(1), owners_max: number(1) });
        assert_eq!([never.note(hot, at(0)), never.note(hot, at(0))], [1, 1]);
    }
}
