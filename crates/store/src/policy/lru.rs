//! `lru`: gives up what was not asked for the longest time. The papers' policy.

use super::links::{Links, List};
use super::{Entry, Id, Policy};

/// Least recently used: one list, eight bytes per id.
pub struct Lru {
    links: Links,
    list: List,
}

impl Lru {
    /// An empty one.
    pub fn new() -> Lru {
        Lru { links: Links::new(), list: List::EMPTY }
    }
}

impl Default for Lru {
    fn default() -> Lru {
        Lru::new()
    }
}

impl Policy for Lru {
    #[inline]
    fn insert(&mut self, id: Id, _: Entry) {
        self.links.push(&mut self.list, id, ());
    }

    #[inline]
    fn contains(&self, id: Id) -> bool {
        self.links.contains(id)
    }

    #[inline]
    fn touch(&mut self, id: Id) {
        if self.links.contains(id) {
            self.links.renew(&mut self.list, id);
        }
    }

    #[inline]
    fn victim(&mut self, spared: impl Fn(Id) -> bool) -> Option<Id> {
        self.links.from(self.list.oldest()).find(|id| !spared(*id))
    }

    #[inline]
    fn evict(&mut self, id: Id) {
        self.links.unlink(&mut self.list, id);
    }

    fn remove(&mut self, id: Id) {
        self.evict(id);
    }

    fn len(&self) -> usize {
        self.list.len()
    }

    fn memory_bytes(&self) -> usize {
        self.links.memory_bytes()
    }
}
