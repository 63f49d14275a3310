//! A ghost queue: hashes of recently evicted objects, the oldest forgotten first.
//!
//! Guarantees: the sizes of the remembered objects add up to at most the capacity, so the queue is
//! as long as the part of the cache that it shadows; it takes memory for at most about twice as
//! many ghosts as there are.

use std::collections::VecDeque;

use hashbrown::HashTable;

/// Maximum number of ghosts: even with gaps, their numbers stay distinct.
const MOST: usize = 1 << 30;
/// Number of gaps that are not worth closing.
const SPARE: usize = 64;

#[derive(Clone, Copy)]
struct Ghost {
    hash: u64,
    /// In the unit of the capacity, at least 1; 0 marks a gap left by a removed ghost.
    size: u64,
}

/// The ghost queue. See the module documentation.
pub(super) struct Ghosts {
    capacity: u64,
    used: u64,
    /// Ghosts, oldest first, with gaps.
    queue: VecDeque<Ghost>,
    /// Number of the queue's first entry, counted from the first one ever, modulo 2^32.
    first: u32,
    /// Numbers of the ghosts, by hash.
    numbers: HashTable<u32>,
}

impl Ghosts {
    pub(super) fn new(capacity: u64) -> Ghosts {
        let (queue, numbers) = (VecDeque::new(), HashTable::new());
        Ghosts { capacity, used: 0, queue, first: 0, numbers }
    }

    /// Remembers `hash` as the youngest. An object larger than the whole queue is forgotten at
    /// once.
    pub(super) fn remember(&mut self, hash: u64, size: u64) {
        let size = size.max(1);
        self.take(hash);
        if size > self.capacity {
            return;
        }
        while self.used + size > self.capacity || self.numbers.len() == MOST {
            self.forget_oldest();
        }
        let number = self.first.wrapping_add(self.queue.len() as u32);
        self.queue.push_back(Ghost { hash, size });
        self.used += size;
        let (queue, first) = (&self.queue, self.first);
        self.numbers.insert_unique(hash, number, |other| ghost(queue, first, *other).hash);
    }

    /// Forgets `hash`. Returns whether it was remembered.
    #[inline]
    pub(super) fn take(&mut self, hash: u64) -> bool {
        let (queue, first) = (&self.queue, self.first);
        let same = |number: &u32| ghost(queue, first, *number).hash == hash;
        let Ok(known) = self.numbers.find_entry(hash, same) else { return false };
        let (number, _) = known.remove();
        let taken = &mut self.queue[number.wrapping_sub(first) as usize];
        self.used -= std::mem::take(&mut taken.size);
        if self.queue.len() > 2 * self.numbers.len() + SPARE {
            self.close_gaps();
        }
        true
    }

    /// Returns the memory it occupies, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.queue.capacity() * size_of::<Ghost>() + self.numbers.allocation_size()
    }

    fn forget_oldest(&mut self) {
        while let Some(ghost) = self.queue.pop_front() {
            let number = self.first;
            self.first = self.first.wrapping_add(1);
            // Gaps have neither a size nor a number.
            if ghost.size > 0 {
                self.used -= ghost.size;
                if let Ok(known) = self.numbers.find_entry(ghost.hash, |other| *other == number) {
                    known.remove();
                }
                return;
            }
        }
    }

    /// Renumbers all ghosts without gaps. Takes time proportional to the number of ghosts removed
    /// since the last call.
    fn close_gaps(&mut self) {
        self.queue.retain(|ghost| ghost.size > 0);
        self.first = 0;
        self.numbers.clear();
        let queue = &self.queue;
        for (number, ghost) in (0..).zip(queue) {
            self.numbers.insert_unique(ghost.hash, number, |other| queue[*other as usize].hash);
        }
    }
}

/// Returns the ghost with this number.
#[inline]
fn ghost(queue: &VecDeque<Ghost>, first: u32, number: u32) -> &Ghost {
    &queue[number.wrapping_sub(first) as usize]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a hash as uniform as real ones.
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
        assert!(ghosts.take(hash(0)), "what was taken meanwhile takes no room");
        assert!(ghosts.memory_bytes() < 10_000, "{}", ghosts.memory_bytes());
    }
}
