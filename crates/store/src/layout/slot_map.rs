//! A bit per slot: in use or free (the bit vector of systems U2; 1 = used).
//!
//! Two summaries lie above the bits: one of the words with a free slot, one of the words with a
//! used slot. Each has levels that shrink by a factor of 64. The next free slot and the ends of a
//! free run are therefore found in the same few steps in an empty, a full and a fragmented space,
//! with up to 2^32 slots (six levels). The summaries take a thirtieth of the memory of the bits.

use super::Run;

/// A set of numbers with fast access to the next and the previous member from any position.
struct Summary {
    /// Level 0 has a bit per number. Each further level has a bit per word of the level below, set
    /// if that word is not zero. The last level is one word.
    levels: Vec<Vec<u64>>,
}

impl Summary {
    /// Returns an empty set of numbers below `len`.
    fn new(len: usize) -> Summary {
        let mut levels = Vec::new();
        let mut words = len.div_ceil(64).max(1);
        loop {
            levels.push(vec![0; words]);
            if words == 1 {
                return Summary { levels };
            }
            words = words.div_ceil(64);
        }
    }

    fn set(&mut self, number: usize, member: bool) {
        let mut at = number;
        for level in &mut self.levels {
            let word = &mut level[at / 64];
            let (bit, before) = (1_u64 << (at % 64), *word);
            *word = if member { before | bit } else { before & !bit };
            if (before == 0) == (*word == 0) {
                return;
            }
            at /= 64;
        }
    }

    /// Returns the lowest member that is at least `from`.
    fn next(&self, from: usize) -> Option<usize> {
        let mut at = from;
        for (height, level) in self.levels.iter().enumerate() {
            let word = level.get(at / 64)? & (u64::MAX << (at % 64));
            if word != 0 {
                let mut found = at / 64 * 64 + word.trailing_zeros() as usize;
                for lower in self.levels[..height].iter().rev() {
                    found = found * 64 + lower[found].trailing_zeros() as usize;
                }
                return Some(found);
            }
            at = at / 64 + 1;
        }
        None
    }

    /// Returns the highest member that is at most `from`.
    fn previous(&self, from: usize) -> Option<usize> {
        let mut at = from;
        for (height, level) in self.levels.iter().enumerate() {
            let word = level[at / 64] & (u64::MAX >> (63 - at % 64));
            if word != 0 {
                let mut found = at / 64 * 64 + word.ilog2() as usize;
                for lower in self.levels[..height].iter().rev() {
                    found = found * 64 + lower[found].ilog2() as usize;
                }
                return Some(found);
            }
            at = (at / 64).checked_sub(1)?;
        }
        None
    }

    fn memory_bytes(&self) -> usize {
        self.levels.iter().map(|level| level.capacity() * 8).sum()
    }
}

/// The set of used slots. See the module documentation.
pub struct SlotMap {
    /// A bit per slot, set if the slot is used. The surplus bits of the last word are also set.
    words: Vec<u64>,
    some_free: Summary,
    some_used: Summary,
    slots: u32,
    used: u32,
    pieces: u32,
}

impl SlotMap {
    /// Returns a map of `slots` free slots.
    pub fn new(slots: u32) -> SlotMap {
        let words = (slots as usize).div_ceil(64);
        let mut map = SlotMap {
            words: vec![0; words],
            some_free: Summary::new(words),
            some_used: Summary::new(words),
            slots,
            used: 0,
            pieces: u32::from(slots > 0),
        };
        map.fill_last_word();
        map.summarise();
        map
    }

    /// Appends free slots, so that there are `slots` in all.
    pub fn grow(&mut self, slots: u32) {
        assert!(slots >= self.slots, "a space grows");
        if slots == self.slots {
            return;
        }
        self.pieces += u32::from(self.slots == 0 || self.is_used(self.slots - 1));
        if let (Some(last), rest @ 1..) = (self.words.last_mut(), self.slots % 64) {
            *last &= !(u64::MAX << rest);
        }
        let words = (slots as usize).div_ceil(64);
        self.words.resize(words, 0);
        self.slots = slots;
        self.fill_last_word();
        self.some_free = Summary::new(words);
        self.some_used = Summary::new(words);
        self.summarise();
    }

    fn fill_last_word(&mut self) {
        if let (Some(last), rest @ 1..) = (self.words.last_mut(), self.slots % 64) {
            *last |= u64::MAX << rest;
        }
    }

    fn summarise(&mut self) {
        for (number, word) in self.words.iter().enumerate() {
            self.some_free.set(number, *word != u64::MAX);
            self.some_used.set(number, *word != 0);
        }
    }

    /// Returns the number of slots.
    pub fn slots(&self) -> u32 {
        self.slots
    }

    /// Returns the number of slots in use.
    pub fn used(&self) -> u32 {
        self.used
    }

    /// Returns the number of free slots.
    pub fn free(&self) -> u32 {
        self.slots - self.used
    }

    /// Returns the number of maximal runs of free slots.
    pub fn pieces(&self) -> u32 {
        self.pieces
    }

    /// Returns whether the slot is in use.
    pub fn is_used(&self, slot: u32) -> bool {
        assert!(slot < self.slots, "slot {slot} of {}", self.slots);
        self.words[slot as usize / 64] >> (slot % 64) & 1 == 1
    }

    /// Returns whether the run lies within the map and all its slots are free.
    pub fn is_free_run(&self, run: Run) -> bool {
        let within = run.len > 0 && self.slots.checked_sub(run.first) >= Some(run.len);
        within && !self.is_used(run.first) && self.end_of_free(run.first, run.end()) == run.end()
    }

    /// Marks free slots as used.
    ///
    /// # Panics
    /// If one of the slots is in use.
    pub fn take(&mut self, run: Run) {
        let (left, right) = self.free_neighbours(run);
        for (number, mask) in masks(run) {
            let word = &mut self.words[number];
            assert!(*word & mask == 0, "{run:?} has a slot that is in use");
            let before = std::mem::replace(word, *word | mask);
            if before == 0 {
                self.some_used.set(number, true);
            }
            if *word == u64::MAX {
                self.some_free.set(number, false);
            }
        }
        self.pieces = self.pieces + u32::from(left) + u32::from(right) - 1;
        self.used += run.len;
    }

    /// Marks used slots as free.
    ///
    /// # Panics
    /// If one of the slots is free.
    pub fn give(&mut self, run: Run) {
        let (left, right) = self.free_neighbours(run);
        for (number, mask) in masks(run) {
            let word = &mut self.words[number];
            assert!(*word & mask == mask, "{run:?} has a slot that is free");
            let before = std::mem::replace(word, *word & !mask);
            if before == u64::MAX {
                self.some_free.set(number, true);
            }
            if *word == 0 {
                self.some_used.set(number, false);
            }
        }
        self.pieces = self.pieces + 1 - u32::from(left) - u32::from(right);
        self.used -= run.len;
    }

    /// Returns whether the slot before the run and the slot after it are free.
    pub fn free_neighbours(&self, run: Run) -> (bool, bool) {
        let within = run.len > 0 && self.slots.checked_sub(run.first) >= Some(run.len);
        assert!(within, "{run:?} is not within {} slots", self.slots);
        let left = run.first > 0 && !self.is_used(run.first - 1);
        (left, run.end() < self.slots && !self.is_used(run.end()))
    }

    /// Returns the lowest free slot that is at least `from`.
    pub fn next_free(&self, from: u32) -> Option<u32> {
        if from >= self.slots {
            return None;
        }
        let number = from as usize / 64;
        let word = !self.words[number] & (u64::MAX << (from % 64));
        if word != 0 {
            return Some(number as u32 * 64 + word.trailing_zeros());
        }
        let number = self.some_free.next(number + 1)?;
        Some(number as u32 * 64 + self.words[number].trailing_ones())
    }

    /// Returns the highest free slot that is at most `from`.
    pub fn previous_free(&self, from: u32) -> Option<u32> {
        let number = from as usize / 64;
        let word = !*self.words.get(number)? & (u64::MAX >> (63 - from % 64));
        if word != 0 {
            return Some(number as u32 * 64 + word.ilog2());
        }
        let number = self.some_free.previous(number.checked_sub(1)?)?;
        Some(number as u32 * 64 + (!self.words[number]).ilog2())
    }

    /// Returns the end of the run of free slots that starts at the free slot `from`; at most
    /// `limit`.
    pub fn end_of_free(&self, from: u32, limit: u32) -> u32 {
        let number = from as usize / 64;
        let word = self.words[number] & (u64::MAX << (from % 64));
        let limit = limit.min(self.slots);
        if word != 0 {
            return limit.min((number as u32 * 64).saturating_add(word.trailing_zeros()));
        }
        if limit as usize <= (number + 1) * 64 {
            return limit;
        }
        match self.some_used.next(number + 1) {
            // The last word's surplus ends at a multiple of 64, which may be 2^32.
            Some(number) => {
                let end = number as u64 * 64 + u64::from(self.words[number].trailing_zeros());
                end.min(u64::from(limit)) as u32
            }
            None => limit,
        }
    }

    /// Returns the start of the run of free slots that ends with the free slot `from`.
    pub fn start_of_free(&self, from: u32) -> u32 {
        let number = from as usize / 64;
        let word = self.words[number] & (u64::MAX >> (63 - from % 64));
        let found = if word != 0 {
            Some((number, word))
        } else {
            let below = number.checked_sub(1).and_then(|below| self.some_used.previous(below));
            below.map(|number| (number, self.words[number]))
        };
        found.map_or(0, |(number, word)| number as u32 * 64 + word.ilog2() + 1)
    }

    /// Returns the maximal free runs in ascending order.
    pub fn free_runs(&self) -> impl Iterator<Item = Run> + '_ {
        let mut at = 0;
        std::iter::from_fn(move || {
            let first = self.next_free(at)?;
            at = self.end_of_free(first, self.slots);
            Some(Run { first, len: at - first })
        })
    }

    /// Returns the memory that the map occupies, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.words.capacity() * 8 + self.some_free.memory_bytes() + self.some_used.memory_bytes()
    }
}

/// Returns the index of each word that a run touches, and the run's bits in it.
fn masks(run: Run) -> impl Iterator<Item = (usize, u64)> {
    let (first, last) = (run.first as usize, run.first as usize + run.len as usize - 1);
    (first / 64..=last / 64).map(move |number| {
        let low = if number == first / 64 { u64::MAX << (first % 64) } else { u64::MAX };
        let high = if number == last / 64 { u64::MAX >> (63 - last % 64) } else { u64::MAX };
        (number, low & high)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_seed::seeds;

    fn runs(plain: &[bool]) -> Vec<Run> {
        let mut runs: Vec<Run> = Vec::new();
        for slot in (0..plain.len()).filter(|slot| !plain[*slot]) {
            match runs.last_mut() {
                Some(run) if run.end() as usize == slot => run.len += 1,
                _ => runs.push(Run { first: slot as u32, len: 1 }),
            }
        }
        runs
    }

    #[test]
    fn answers_equal_those_of_a_plain_vector() {
        for seed in seeds("slot_map::answers_equal_those_of_a_plain_vector", 60) {
            let mut random = fastrand::Rng::with_seed(seed);
            // More than 64 * 64 slots need a second level of the summary.
            let most = *random.choice(&[100, 5_000, 20_000]).unwrap();
            let mut plain = vec![false; random.usize(1..most)];
            let mut map = SlotMap::new(plain.len() as u32);
            for step in 0..300 {
                if step % 50 == 49 {
                    plain.resize(plain.len() + random.usize(..200), false);
                    map.grow(plain.len() as u32);
                }
                let first = random.usize(..plain.len());
                let state = plain[first];
                let len = plain[first..].iter().take_while(|used| **used == state).count();
                let run = Run { first: first as u32, len: random.u32(1..=len as u32) };
                assert_eq!(map.is_free_run(run), !state);
                plain[first..run.end() as usize].fill(!state);
                if state {
                    map.give(run)
                } else {
                    map.take(run)
                }
                check(&map, &plain, random.usize(..plain.len()));
            }
        }
    }

    fn check(map: &SlotMap, plain: &[bool], at: usize) {
        let expected = runs(plain);
        assert_eq!(map.used() as usize, plain.iter().filter(|used| **used).count());
        assert_eq!(map.free() + map.used(), map.slots());
        assert_eq!(map.pieces() as usize, expected.len());
        assert_eq!(map.free_runs().collect::<Vec<_>>(), expected);
        assert_eq!(map.is_used(at as u32), plain[at]);
        let next = (at..plain.len()).find(|slot| !plain[*slot]);
        assert_eq!(map.next_free(at as u32), next.map(|slot| slot as u32));
        let previous = (0..=at).rev().find(|slot| !plain[*slot]);
        assert_eq!(map.previous_free(at as u32), previous.map(|slot| slot as u32));
        let piece = expected.iter().find(|run| (run.first..run.end()).contains(&(at as u32)));
        if let Some(piece) = piece {
            assert_eq!(map.start_of_free(at as u32), piece.first);
            assert_eq!(map.end_of_free(at as u32, u32::MAX), piece.end());
            assert_eq!(map.end_of_free(at as u32, at as u32 + 1), at as u32 + 1);
        }
    }

    #[test]
    fn a_run_outside_or_in_use_is_not_free() {
        let mut map = SlotMap::new(100);
        map.take(Run { first: 10, len: 5 });
        assert!(map.is_free_run(Run { first: 0, len: 10 }));
        assert!(!map.is_free_run(Run { first: 9, len: 2 }));
        assert!(!map.is_free_run(Run { first: 12, len: 1 }));
        assert!(map.is_free_run(Run { first: 90, len: 10 }));
        assert!(!map.is_free_run(Run { first: 90, len: 11 }));
        assert!(!map.is_free_run(Run { first: 100, len: 1 }));
        assert!(!map.is_free_run(Run { first: 50, len: u32::MAX }));
        assert!(!map.is_free_run(Run { first: 50, len: 0 }));
    }

    #[test]
    #[should_panic(expected = "has a slot that is free")]
    fn giving_back_twice_is_a_broken_invariant() {
        let mut map = SlotMap::new(200);
        map.take(Run { first: 60, len: 10 });
        map.give(Run { first: 65, len: 5 });
        map.give(Run { first: 60, len: 10 });
    }
}
