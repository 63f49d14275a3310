//! A ghost queue: hashes of what was given up lately, oldest forgotten first.
//!
//! It promises: the sizes of what it remembers, and of what was taken back out of it meanwhile, sum
//! up to its capacity at most, so that it is as long as the part of the cache that it shadows.

use std::collections::VecDeque;

use hashbrown::HashTable;
use hashbrown::hash_table::Entry as Place;

#[derive(Clone, Copy)]
struct Ghost {
    hash: u64,
    /// In the unit of the capacity, at least 1.
    size: u64,
}

/// The queue. See the module.
pub(super) struct Ghosts {
    capacity: u64,
    used: u64,
    /// Oldest first; those taken out stay until their turn comes.
    queue: VecDeque<Ghost>,
    /// Number of the queue's first ghost, counted from the first ever, modulo 2^32.
    first: u32,
    /// Numbers of the ghosts that count, by hash.
    numbers: HashTable<u32>,
}

impl Ghosts {
    pub(super) fn new(capacity: u64) -> Ghosts {
        let (queue, numbers) = (VecDeque::new(), HashTable::new());
        Ghosts { capacity, used: 0, queue, first: 0, numbers }
    }

    /// Remembers `hash` as the youngest. What is larger than the whole queue is forgotten at once.
    pub(super) fn remember(&mut self, hash: u64, size: u64) {
        let size = size.max(1);
        if size > self.capacity {
            return;
        }
        while self.used + size > self.capacity || self.queue.len() == u32::MAX as usize {
            self.forget_oldest();
        }
        let (queue, first) = (&self.queue, self.first);
        let hash_of = |number: &u32| queue[number.wrapping_sub(first) as usize].hash;
        let place =
            self.numbers.entry(hash, |number| hash_of(number) == hash, |number| hash_of(number));
        let number = first.wrapping_add(queue.len() as u32);
        match place {
            Place::Occupied(mut known) => *known.get_mut() = number,
            Place::Vacant(place) => {
                place.insert(number);
            }
        }
        self.queue.push_back(Ghost { hash, size });
        self.used += size;
    }

    /// Forgets `hash`; true when it was remembered.
    pub(super) fn take(&mut self, hash: u64) -> bool {
        let (queue, first) = (&self.queue, self.first);
        let same = |number: &u32| queue[number.wrapping_sub(first) as usize].hash == hash;
        match self.numbers.find_entry(hash, same) {
            Ok(known) => {
                known.remove();
                true
            }
            Err(_) => false,
        }
    }

    /// Bytes of memory.
    pub(super) fn memory_bytes(&self) -> usize {
        self.queue.capacity() * size_of::<Ghost>() + self.numbers.allocation_size()
    }

    fn forget_oldest(&mut self) {
        let Some(ghost) = self.queue.pop_front() else { return };
        self.used -= ghost.size;
        let number = self.first;
        self.first = self.first.wrapping_add(1);
        // Its hash may have been remembered once more since, under another number.
        if let Ok(known) = self.numbers.find_entry(ghost.hash, |other| *other == number) {
            known.remove();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hashes as uniform as the real ones.
    fn hash(number: u64) -> u64 {
        (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    #[test]
    fn the_oldest_is_forgotten_first() {
        let mut ghosts = Ghosts::new(10);
        for number in 0..5 {
            ghosts.remember(hash(number), 3);
        }
        assert_eq!(
            [0, 1, 2, 3, 4, 5].map(|n| ghosts.take(hash(n))),
            [false, false, true, true, true, false]
        );
        assert!(!ghosts.take(hash(2)), "a ghost is taken once");
    }

    #[test]
    fn what_comes_back_counts_from_its_last_time() {
        let mut ghosts = Ghosts::new(4);
        for number in [0, 1, 0, 2, 3, 4] {
            ghosts.remember(hash(number), 1);
        }
        assert_eq!([0, 1, 2, 3].map(|n| ghosts.take(hash(n))), [true, false, true, true]);
        ghosts.remember(hash(9), 5);
        assert!(!ghosts.take(hash(9)), "larger than the queue");
    }

    #[test]
    fn memory_is_bounded_whatever_is_taken() {
        let mut ghosts = Ghosts::new(1_000);
        ghosts.remember(hash(0), 1);
        for number in 1..100_000 {
            ghosts.remember(hash(number), 1);
            assert!(ghosts.take(hash(number)));
        }
        assert!(!ghosts.take(hash(0)));
        assert!(ghosts.memory_bytes() < 64 * 1_000, "{}", ghosts.memory_bytes());
    }
}
