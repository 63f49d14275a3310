//! Fixed-size table of the number of owners of hot documents, as last reported.
//!
//! An owner remembers the number it decided on for a while, because afterwards the asking nodes
//! spread over all owners and each sees only part of the requests. An asking node remembers what an
//! owner reported. An entry is the largest recent number. Documents share slots: on a collision the
//! larger number stays, which costs only balance.

use std::time::Duration;

use crate::key::KeyHash;

#[derive(Clone, Copy, Debug)]
struct ReportedOwners {
    key: KeyHash,
    owners: u32,
    /// Time since which the document has this number of owners.
    since: Duration,
    until: Duration,
}

/// Table of reported owner counts; see the module documentation.
#[derive(Clone, Debug)]
pub struct ToldOwners {
    places: Box<[Option<ReportedOwners>]>,
    held: Duration,
}

impl ToldOwners {
    /// Makes a table of `places` slots, at least one, that remembers a number for `held`.
    pub fn new(places: usize, held: Duration) -> ToldOwners {
        ToldOwners { places: vec![None; places.max(1)].into(), held }
    }

    /// Records the current number of owners of a document. One owner is the default and is not
    /// recorded.
    pub fn note(&mut self, key: KeyHash, owners: u32, now: Duration) {
        if owners < 2 {
            return;
        }
        let until = now.saturating_add(self.held);
        let place = self.place(key);
        let known = place.filter(|told| told.until > now);
        if known.is_some_and(|told| told.owners > owners) {
            return;
        }
        let same = known.filter(|told| told.key == key && told.owners == owners);
        let since = same.map_or(now, |told| told.since);
        *place = Some(ReportedOwners { key, owners, since, until });
    }

    /// Returns the last recorded number of owners; 1 if none.
    pub fn owners(&self, key: KeyHash, now: Duration) -> u32 {
        self.current(key, now).map_or(1, |told| told.owners)
    }

    /// Returns since when a document has had its current number of owners, if that is more than
    /// one.
    pub fn since(&self, key: KeyHash, now: Duration) -> Option<Duration> {
        self.current(key, now).map(|told| told.since)
    }

    fn current(&self, key: KeyHash, now: Duration) -> Option<ReportedOwners> {
        self.places[self.number(key)].filter(|told| told.key == key && told.until > now)
    }

    fn place(&mut self, key: KeyHash) -> &mut Option<ReportedOwners> {
        let number = self.number(key);
        &mut self.places[number]
    }

    fn number(&self, key: KeyHash) -> usize {
        (key.bits() % self.places.len() as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_number_of_the_last_while_counts() {
        let (second, key) = (Duration::from_secs, KeyHash::from_bits(5));
        let mut told = ToldOwners::new(16, second(10));
        assert_eq!(told.owners(key, second(0)), 1);
        told.note(key, 3, second(1));
        told.note(key, 2, second(5));
        assert_eq!(told.owners(key, second(10)), 3);
        assert_eq!(told.owners(key, second(11)), 1, "it was said ten seconds ago");
        told.note(key, 2, second(12));
        told.note(key, 2, second(20));
        assert_eq!(told.owners(key, second(29)), 2, "it was said again");
        assert_eq!(told.since(key, second(29)), Some(second(12)));
        assert_eq!(told.since(key, second(30)), None);
        told.note(key, 1, second(29));
        assert_eq!(told.owners(key, second(29)), 2);
    }

    #[test]
    fn the_table_does_not_grow_and_colliding_documents_are_distinguished() {
        let second = Duration::from_secs;
        let [one, other] = [5, 5 + 16].map(KeyHash::from_bits);
        let mut told = ToldOwners::new(16, second(10));
        told.note(one, 3, second(1));
        assert_eq!(told.owners(other, second(1)), 1);
        told.note(other, 2, second(1));
        assert_eq!((told.owners(one, second(2)), told.owners(other, second(2))), (3, 1));
        told.note(other, 4, second(2));
        assert_eq!((told.owners(one, second(2)), told.owners(other, second(2))), (1, 4));
        (0..1_000).for_each(|bits| told.note(KeyHash::from_bits(bits), 2, second(3)));
        assert_eq!(told.places.len(), 16);
        // A requested size of zero gives one slot.
        let mut least = ToldOwners::new(0, second(1));
        least.note(one, 2, second(0));
        assert_eq!(least.owners(one, second(0)), 2);
    }
}
