//! How many owners hot documents have, as it was last known: a table of fixed size.
//!
//! An owner holds what it has come to for a while, since those that ask spread over all owners then
//! and each of these sees a part of the requests only; who asks holds what an owner said. A number
//! is the largest of the last while. Documents share places: of two that fall on one place the
//! larger number stays, which costs balance and nothing else.

use std::time::Duration;

use crate::key::KeyHash;

/// What is known of one document.
#[derive(Clone, Copy, Debug)]
struct Told {
    key: KeyHash,
    owners: u32,
    /// Since when there are so many.
    since: Duration,
    until: Duration,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct ToldOwners {
    places: Box<[Option<Told>]>,
    held: Duration,
}

impl ToldOwners {
    /// Makes a table of so many places, at least one, in which a number is held for so long.
    pub fn new(places: usize, held: Duration) -> ToldOwners {
        ToldOwners { places: vec![None; places.max(1)].into(), held }
    }

    /// Notes that a document has so many owners now. One owner is what nothing needs to be known
    /// of.
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
        *place = Some(Told { key, owners, since, until });
    }

    /// Returns how many owners a document has by what was noted: 1 when nothing is known.
    pub fn owners(&self, key: KeyHash, now: Duration) -> u32 {
        self.told(key, now).map_or(1, |told| told.owners)
    }

    /// Returns since when a document has as many owners as it has, if those are several.
    pub fn since(&self, key: KeyHash, now: Duration) -> Option<Duration> {
        self.told(key, now).map(|told| told.since)
    }

    fn told(&self, key: KeyHash, now: Duration) -> Option<Told> {
        self.places[self.number(key)].filter(|told| told.key == key && told.until > now)
    }

    fn place(&mut self, key: KeyHash) -> &mut Option<Told> {
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
    fn it_does_not_grow_and_documents_of_one_place_are_kept_apart() {
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
        // A table of nothing is one of one place.
        let mut least = ToldOwners::new(0, second(1));
        least.note(one, 2, second(0));
        assert_eq!(least.owners(one, second(0)), 2);
    }
}
