//! A cache with a bound in bytes that evicts the least recently used documents: a node's memory,
//! and its disk if that is a cache.

use std::collections::HashMap;

/// Marks the absence of a slot.
const NONE: u32 = u32::MAX;

/// A document in the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cached {
    pub(super) document: u32,
    pub(super) size: u64,
    /// Number of moves between nodes since it was last used.
    pub(super) moves: u8,
}

struct Slot {
    cached: Cached,
    newer: u32,
    older: u32,
}

/// A cache with LRU eviction.
pub(super) struct Lru {
    capacity: u64,
    used: u64,
    places: HashMap<u32, u32>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    newest: u32,
    oldest: u32,
}

impl Lru {
    /// Creates an empty cache.
    pub(super) fn new(capacity: u64) -> Lru {
        Lru {
            capacity,
            used: 0,
            places: HashMap::new(),
            slots: Vec::new(),
            free: Vec::new(),
            newest: NONE,
            oldest: NONE,
        }
    }

    /// Returns whether it has the document; does not count as a use.
    pub(super) fn contains(&self, document: u32) -> bool {
        self.places.contains_key(&document)
    }

    /// Marks the document as used; returns whether it is there.
    pub(super) fn touch(&mut self, document: u32) -> bool {
        let Some(&place) = self.places.get(&document) else { return false };
        self.unlink(place);
        self.link(place);
        self.slots[place as usize].cached.moves = 0;
        true
    }

    /// Inserts a document as the newest. Returns the evicted documents, oldest first. A document
    /// that is already there is marked as used; one larger than the cache is not inserted.
    pub(super) fn insert(&mut self, cached: Cached) -> Vec<Cached> {
        if cached.size > self.capacity || self.touch(cached.document) {
            return Vec::new();
        }
        let mut gone = Vec::new();
        while self.used + cached.size > self.capacity && self.oldest != NONE {
            let oldest = self.slots[self.oldest as usize].cached;
            self.remove(oldest.document);
            gone.push(oldest);
        }
        self.used += cached.size;
        let slot = Slot { cached, newer: NONE, older: NONE };
        let place = match self.free.pop() {
            Some(place) => {
                self.slots[place as usize] = slot;
                place
            }
            None => {
                self.slots.push(slot);
                self.slots.len() as u32 - 1
            }
        };
        self.places.insert(cached.document, place);
        self.link(place);
        gone
    }

    /// Removes a document.
    pub(super) fn remove(&mut self, document: u32) {
        let Some(place) = self.places.remove(&document) else { return };
        self.unlink(place);
        self.used -= self.slots[place as usize].cached.size;
        self.free.push(place);
    }

    /// Returns all documents, newest first.
    pub(super) fn documents(&self) -> impl Iterator<Item = u32> {
        let slot = |place: u32| self.slots.get(place as usize);
        let after = move |slot_before: &&Slot| slot(slot_before.older);
        std::iter::successors(slot(self.newest), after).map(|slot| slot.cached.document)
    }

    fn link(&mut self, place: u32) {
        let before = std::mem::replace(&mut self.newest, place);
        self.slots[place as usize].older = before;
        self.slots[place as usize].newer = NONE;
        match self.slots.get_mut(before as usize) {
            Some(before) => before.newer = place,
            None => self.oldest = place,
        }
    }

    fn unlink(&mut self, place: u32) {
        let Slot { newer, older, .. } = self.slots[place as usize];
        match self.slots.get_mut(newer as usize) {
            Some(newer) => newer.older = older,
            None => self.newest = older,
        }
        match self.slots.get_mut(older as usize) {
            Some(older) => older.newer = newer,
            None => self.oldest = newer,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_keeps_what_a_list_in_the_order_of_use_keeps() {
        let mut dice = fastrand::Rng::with_seed(7);
        let mut lru = Lru::new(100);
        let mut model: Vec<(u32, u64)> = Vec::new();
        for _ in 0..20_000 {
            let document = dice.u32(..40);
            let size = u64::from(document % 30 + 1) * 4;
            match dice.u8(..3) {
                0 => {
                    let found = model.iter().position(|(known, _)| *known == document);
                    if let Some(at) = found {
                        let used = model.remove(at);
                        model.insert(0, used);
                    }
                    assert_eq!(lru.touch(document), found.is_some());
                }
                1 => {
                    model.retain(|(known, _)| *known != document);
                    lru.remove(document);
                }
                _ => {
                    let gone = lru.insert(Cached { document, size, moves: 0 });
                    let mut expected = Vec::new();
                    if let Some(at) = model.iter().position(|(known, _)| *known == document) {
                        let used = model.remove(at);
                        model.insert(0, used);
                    } else if size <= 100 {
                        model.insert(0, (document, size));
                        while model.iter().map(|(_, size)| size).sum::<u64>() > 100 {
                            expected.extend(model.pop().map(|(known, _)| known));
                        }
                    }
                    assert_eq!(gone.iter().map(|c| c.document).collect::<Vec<_>>(), expected);
                }
            }
            let kept: Vec<u32> = lru.documents().collect();
            assert_eq!(kept, model.iter().map(|(known, _)| *known).collect::<Vec<_>>());
            assert!(kept.iter().all(|document| lru.contains(*document)));
        }
    }
}
