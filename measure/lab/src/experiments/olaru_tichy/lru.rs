//! A cache with a bound in bytes that evicts the least recently used documents: a node's memory,
//! and its disk if that is a cache.

use hashlink::LinkedHashMap;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cached {
    pub(super) document: u32,
    pub(super) size: u64,
    /// Number of moves between nodes since it was last used.
    pub(super) moves: u8,
}

pub(super) struct Lru {
    capacity: u64,
    used: u64,
    /// By document, oldest first.
    cached: LinkedHashMap<u32, Cached>,
}

impl Lru {
    pub(super) fn new(capacity: u64) -> Lru {
        Lru { capacity, used: 0, cached: LinkedHashMap::new() }
    }

    /// Returns whether it has the document; does not count as a use.
    pub(super) fn contains(&self, document: u32) -> bool {
        self.cached.contains_key(&document)
    }

    /// Marks the document as used; returns whether it is there.
    pub(super) fn touch(&mut self, document: u32) -> bool {
        self.cached.to_back(&document).map(|cached| cached.moves = 0).is_some()
    }

    /// Inserts a document as the newest. Returns the evicted documents, oldest first. A document
    /// that is already there is marked as used; one larger than the cache is not inserted.
    pub(super) fn insert(&mut self, cached: Cached) -> Vec<Cached> {
        if cached.size > self.capacity || self.touch(cached.document) {
            return Vec::new();
        }
        let mut gone = Vec::new();
        while self.used + cached.size > self.capacity
            && let Some((_, oldest)) = self.cached.pop_front()
        {
            self.used -= oldest.size;
            gone.push(oldest);
        }
        self.used += cached.size;
        self.cached.insert(cached.document, cached);
        gone
    }

    pub(super) fn documents(&self) -> impl Iterator<Item = u32> {
        self.cached.iter().rev().map(|(document, _)| *document)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cache_matches_a_list_in_order_of_use() {
        let mut dice = fastrand::Rng::with_seed(7);
        let mut lru = Lru::new(100);
        let mut model: Vec<(u32, u64)> = Vec::new();
        for _ in 0..20_000 {
            let document = dice.u32(..40);
            let size = u64::from(document % 30 + 1) * 4;
            match dice.u8(..2) {
                0 => {
                    let found = model.iter().position(|(known, _)| *known == document);
                    if let Some(at) = found {
                        let used = model.remove(at);
                        model.insert(0, used);
                    }
                    assert_eq!(lru.touch(document), found.is_some());
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
