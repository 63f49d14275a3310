//! `fifo`: gives up what has been inside for longest, asked for or not. For reference.

use super::links::{Links, List};
use super::{Entry, Id, Policy};

/// First in, first out: one list, eight bytes per id.
pub struct Fifo {
    links: Links,
    list: List,
}

impl Fifo {
    /// An empty one.
    pub fn new() -> Fifo {
        Fifo { links: Links::new(), list: List::EMPTY }
    }
}

impl Default for Fifo {
    fn default() -> Fifo {
        Fifo::new()
    }
}

impl Policy for Fifo {
    #[inline]
    fn insert(&mut self, id: Id, _: Entry) {
        self.links.push(&mut self.list, id, ());
    }

    #[inline]
    fn contains(&self, id: Id) -> bool {
        self.links.contains(id)
    }

    #[inline]
    fn touch(&mut self, _: Id) {}

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
