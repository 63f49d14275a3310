//! `clock`: first in, first out with a second chance. For reference.
//!
//! What was asked for since it entered, or since its last chance, goes to the young end once more
//! instead of being given up. One bit is all that a hit changes.

use super::links::{Links, List};
use super::{Entry, Id, Policy};

/// One list and a bit: twelve bytes per id.
pub struct Clock {
    /// Noted: whether it was asked for since the hand came by.
    links: Links<bool>,
    list: List,
}

impl Clock {
    /// An empty one.
    pub fn new() -> Clock {
        Clock { links: Links::new(), list: List::EMPTY }
    }
}

impl Default for Clock {
    fn default() -> Clock {
        Clock::new()
    }
}

impl Policy for Clock {
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
        // Twice round at most: the first time takes every chance away.
        for _ in 0..=2 * self.list.len() {
            let oldest = self.list.oldest()?;
            let pinned = spared(oldest);
            if !pinned && !self.links.note(oldest) {
                return Some(oldest);
            }
            self.links.set_note(oldest, pinned && self.links.note(oldest));
            self.links.renew(&mut self.list, oldest);
        }
        None
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
