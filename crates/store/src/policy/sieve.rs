//! `sieve` (Zhang and others, NSDI 2024): a queue that a hand goes through from old to young.
//!
//! The hand takes the mark from what was asked for and gives up the first that has none. Unlike in
//! `clock`, what survives stays where it is: new objects are looked at before it, so that what is
//! asked for once leaves quickly.

use super::links::{Links, List};
use super::{Entry, Id, Policy};

/// One list, a bit and a hand: twelve bytes per id.
pub struct Sieve {
    /// Noted: whether it was asked for since the hand came by.
    links: Links<bool>,
    list: List,
    /// Where the hand looks next; `None`: at the oldest.
    hand: Option<Id>,
}

impl Sieve {
    /// An empty one.
    pub fn new() -> Sieve {
        Sieve { links: Links::new(), list: List::EMPTY, hand: None }
    }
}

impl Default for Sieve {
    fn default() -> Sieve {
        Sieve::new()
    }
}

impl Policy for Sieve {
    #[inline]
    fn insert(&mut self, id: Id, _: Entry) {
        self.links.push(&mut self.list, id, false);
    }

    #[inline]
    fn contains(&self, id: Id) -> bool {
        self.links.contains(id)
    }

    #[inline]
    fn touch(&mut self, id: Id) {
        if let Some(asked) = self.links.note_mut(id) {
            *asked = true;
        }
    }

    #[inline]
    fn victim(&mut self, spared: impl Fn(Id) -> bool) -> Option<Id> {
        // Twice round at most: the first time takes every mark away.
        for _ in 0..=2 * self.list.len() {
            let id = self.hand.or(self.list.oldest())?;
            if spared(id) {
                self.hand = self.links.newer(id);
            } else if self.links.note(id) {
                self.links.set_note(id, false);
                self.hand = self.links.newer(id);
            } else {
                self.hand = Some(id);
                return Some(id);
            }
        }
        None
    }

    #[inline]
    fn evict(&mut self, id: Id) {
        if self.hand == Some(id) {
            self.hand = self.links.newer(id);
        }
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
