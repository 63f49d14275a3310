//! The events of a simulation, ordered by time.
//!
//! A binary heap over a slab. A cancelled entry stays in the heap as a dead key until it surfaces
//! or until most keys are dead, so each of the thousands of timeouts that never fire costs only a
//! push.
//!
//! Guarantees: entries of equal time come out in the order of their ties, then in the order of
//! insertion.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use device::Nanos;

/// Identifies an entry until it comes out or is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    slot: u32,
    number: u64,
}

pub(crate) struct Timetable<T> {
    heap: BinaryHeap<Reverse<(Nanos, u64, u64, u32)>>,
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
    next_number: u64,
    dead: usize,
}

struct Slot<T> {
    number: u64,
    value: Option<T>,
}

/// Number of dead keys that are tolerated even if few live ones remain.
const DEAD_KEYS_TOLERATED: usize = 256;

impl<T> Timetable<T> {
    pub(crate) fn new() -> Timetable<T> {
        Timetable {
            heap: BinaryHeap::new(),
            slots: Vec::new(),
            free: Vec::new(),
            next_number: 0,
            dead: 0,
        }
    }

    /// Adds `value` at `time`; `tie` orders entries of equal time.
    pub(crate) fn insert(&mut self, time: Nanos, tie: u64, value: T) -> Key {
        let number = self.next_number;
        self.next_number += 1;
        let filled = Slot { number, value: Some(value) };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = filled;
                slot
            }
            None => {
                self.slots.push(filled);
                (self.slots.len() - 1) as u32
            }
        };
        self.heap.push(Reverse((time, tie, number, slot)));
        Key { slot, number }
    }

    /// Returns the value of an entry that is still in the queue.
    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        let slot = self.slots.get_mut(key.slot as usize)?;
        if slot.number == key.number { slot.value.as_mut() } else { None }
    }

    /// Removes an entry, unless it came out already.
    pub(crate) fn remove(&mut self, key: Key) -> Option<T> {
        let slot = self.slots.get_mut(key.slot as usize)?;
        let value = if slot.number == key.number { slot.value.take() } else { None }?;
        self.free.push(key.slot);
        self.dead += 1;
        if self.dead > self.heap.len() / 2 + DEAD_KEYS_TOLERATED {
            let slots = &self.slots;
            self.heap.retain(|Reverse((_, _, number, slot))| {
                let slot = &slots[*slot as usize];
                slot.number == *number && slot.value.is_some()
            });
            self.dead = 0;
        }
        Some(value)
    }

    /// Returns the time of the next entry.
    pub(crate) fn next_time(&mut self) -> Option<Nanos> {
        while let Some(Reverse((time, _, number, slot))) = self.heap.peek() {
            let slot = &self.slots[*slot as usize];
            if slot.number == *number && slot.value.is_some() {
                return Some(*time);
            }
            self.heap.pop();
            self.dead -= 1;
        }
        None
    }

    /// Removes and returns the next entry, and its time.
    pub(crate) fn pop(&mut self) -> Option<(Nanos, T)> {
        self.next_time()?;
        let Reverse((time, _, _, slot)) = self.heap.pop()?;
        let value = self.slots[slot as usize].value.take()?;
        self.free.push(slot);
        Some((time, value))
    }

    /// Removes all entries and returns their values, so that the caller drops them.
    pub(crate) fn take_all(&mut self) -> Vec<T> {
        self.heap.clear();
        self.free.clear();
        self.dead = 0;
        self.slots.drain(..).filter_map(|slot| slot.value).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_come_out_by_time_then_tie_then_arrival() {
        let mut table = Timetable::new();
        for (time, tie, value) in [(5, 0, 'c'), (3, 9, 'b'), (3, 2, 'a'), (5, 0, 'd')] {
            table.insert(time, tie, value);
        }
        let all: String = std::iter::from_fn(|| table.pop()).map(|(_, value)| value).collect();
        assert_eq!(all, "abcd");
    }

    #[test]
    fn removed_entries_never_come_out() {
        let mut table = Timetable::new();
        let mut kept = Vec::new();
        for round in 0..10_000_u64 {
            let key = table.insert(round * 7 % 1_000, 0, round);
            if round % 10 == 0 {
                kept.push(round);
            } else {
                assert_eq!(table.remove(key), Some(round));
                assert_eq!(table.remove(key), None);
                assert!(table.get_mut(key).is_none());
            }
            assert!(table.heap.len() < 2_000 + DEAD_KEYS_TOLERATED * 3, "dead keys are swept");
        }
        let mut found = Vec::new();
        let mut last = 0;
        while let Some((time, value)) = table.pop() {
            assert!(time >= last);
            last = time;
            found.push(value);
        }
        found.sort_unstable();
        assert_eq!(found, kept);
        assert_eq!(table.next_time(), None);
    }
}
