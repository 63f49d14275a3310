//! A heap of ids ordered by rank, whose members can be moved and removed at any position.

use super::{ID_MAX, Id};

/// Children per position: four lie in about one cache line, and the heap is half as high as with
/// two.
const CHILDREN: usize = 4;
/// Stored instead of a position for an id that is not in the heap.
const ABSENT: u32 = ID_MAX + 1;

/// A key of the heap: the lower rank comes first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rank {
    /// A finite value.
    pub(super) value: f64,
    /// Breaks ties between equal values.
    pub(super) turn: u64,
}

impl Rank {
    #[inline]
    fn before(&self, other: &Rank) -> bool {
        self.value < other.value || self.value == other.value && self.turn < other.turn
    }
}

#[derive(Clone, Copy)]
struct Member {
    rank: Rank,
    id: Id,
}

/// The heap: 24 bytes per member and 4 per id.
pub(super) struct Heap {
    members: Vec<Member>,
    /// Positions by id.
    places: Vec<u32>,
}

impl Heap {
    pub(super) fn new() -> Heap {
        Heap { members: Vec::new(), places: Vec::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.members.len()
    }

    #[inline]
    pub(super) fn contains(&self, id: Id) -> bool {
        self.places.get(id as usize).is_some_and(|place| *place != ABSENT)
    }

    /// Returns the rank of an id that is in the heap.
    #[inline]
    pub(super) fn rank(&self, id: Id) -> Rank {
        self.members[self.places[id as usize] as usize].rank
    }

    /// Adds an id that is not in the heap.
    pub(super) fn push(&mut self, id: Id, rank: Rank) {
        assert!(!self.contains(id), "the id is in the heap already");
        let at = id as usize;
        if at >= self.places.len() {
            assert!(id <= ID_MAX, "the id is too large");
            self.places.resize(at + 1, ABSENT);
        }
        self.members.push(Member { rank, id });
        self.rise(self.members.len() - 1, Member { rank, id });
    }

    /// Changes the rank of an id in the heap to one that is not lower.
    #[inline]
    pub(super) fn postpone(&mut self, id: Id, rank: Rank) {
        let place = self.places[id as usize] as usize;
        self.sink(place, Member { rank, id });
    }

    /// Removes an id from the heap.
    pub(super) fn remove(&mut self, id: Id) {
        assert!(self.contains(id), "the id is not in the heap");
        let place = self.places[id as usize] as usize;
        self.places[id as usize] = ABSENT;
        let Some(last) = self.members.pop().filter(|last| last.id != id) else { return };
        if place > 0 && last.rank.before(&self.members[(place - 1) / CHILDREN].rank) {
            self.rise(place, last);
        } else {
            self.sink(place, last);
        }
    }

    /// Returns the first id that is not spared.
    #[inline]
    pub(super) fn first(&self, spared: impl Fn(Id) -> bool) -> Option<Id> {
        let first = self.members.first()?.id;
        if spared(first) { self.first_below(spared) } else { Some(first) }
    }

    /// Visits the heap in rank order: the next member is always a child of a visited one.
    fn first_below(&self, spared: impl Fn(Id) -> bool) -> Option<Id> {
        let mut seen = vec![0];
        while !seen.is_empty() {
            let rank = |place: &usize| self.members[*place].rank;
            let next = (1..seen.len()).fold(0, |least, at| {
                if rank(&seen[at]).before(&rank(&seen[least])) { at } else { least }
            });
            let place = seen.swap_remove(next);
            let id = self.members[place].id;
            if !spared(id) {
                return Some(id);
            }
            let below = CHILDREN * place + 1;
            seen.extend(below..self.members.len().min(below + CHILDREN));
        }
        None
    }

    /// Returns the memory it occupies, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.members.capacity() * size_of::<Member>() + self.places.capacity() * size_of::<u32>()
    }

    /// Writes `member` at `place`, or above it where the heap order requires.
    #[inline]
    fn rise(&mut self, mut place: usize, member: Member) {
        while place > 0 {
            let above = (place - 1) / CHILDREN;
            if !member.rank.before(&self.members[above].rank) {
                break;
            }
            self.set(place, self.members[above]);
            place = above;
        }
        self.set(place, member);
    }

    /// Writes `member` at `place`, or below it where the heap order requires.
    #[inline]
    fn sink(&mut self, mut place: usize, member: Member) {
        loop {
            let below = CHILDREN * place + 1;
            let Some(mut least) = self.members.get(below).copied() else { break };
            let mut at = below;
            for other in below + 1..self.members.len().min(below + CHILDREN) {
                if self.members[other].rank.before(&least.rank) {
                    (least, at) = (self.members[other], other);
                }
            }
            if !least.rank.before(&member.rank) {
                break;
            }
            self.set(place, least);
            place = at;
        }
        self.set(place, member);
    }

    #[inline]
    fn set(&mut self, place: usize, member: Member) {
        self.members[place] = member;
        self.places[member.id as usize] = place as u32;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::test_seed::seeds;

    #[test]
    fn a_heap_agrees_with_a_sorted_list() {
        for seed in seeds("heap", 20) {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut heap = Heap::new();
            let mut model: BTreeMap<Id, (u64, u64)> = BTreeMap::new();
            for turn in 0..2_000 {
                let id = random.u32(..60);
                let value = model.get(&id).map_or(0, |(value, _)| *value) + random.u64(..4);
                let rank = Rank { value: value as f64, turn };
                match model.contains_key(&id) {
                    true if random.u8(..3) == 0 => {
                        heap.remove(id);
                        model.remove(&id);
                    }
                    true => {
                        heap.postpone(id, rank);
                        model.insert(id, (value, turn));
                    }
                    false => {
                        heap.push(id, rank);
                        model.insert(id, (value, turn));
                    }
                }
                let spared = random.u32(..4);
                let expected = model
                    .iter()
                    .filter(|(id, _)| **id % 4 >= spared)
                    .min_by_key(|(_, rank)| **rank)
                    .map(|(id, _)| *id);
                assert_eq!(heap.first(|id| id % 4 < spared), expected);
                assert_eq!(heap.len(), model.len());
                assert_eq!(heap.contains(id), model.contains_key(&id));
            }
        }
    }
}
