//! Policies that are one queue from old to young: `fifo`, `lru`, `clock`, `sieve`.
//!
//! They differ in two things: the effect of a request for an object (none, its place, a mark), and,
//! where there are marks, the place of an object that its mark has saved.

use super::links::{Links, List};
use super::{Entry, Id, Policy};

/// `fifo`: gives up what has been inside for longest, asked for or not. For reference.
pub type Fifo = Queue<false>;
/// `lru`: gives up what was not asked for the longest time. The papers' policy.
pub type Lru = Queue<true>;

/// `clock`: first in, first out with a second chance. For reference.
///
/// What was asked for since it entered, or since its last chance, goes to the young end once more
/// instead of being given up. One bit is all that a hit changes.
pub type Clock = MarkedQueue<false>;
/// `sieve` (Zhang and others, NSDI 2024): a queue that a hand goes through from old to young.
///
/// The hand takes the mark from what was asked for and gives up the first that has none. Unlike in
/// `clock`, what survives stays where it is: new objects are looked at before it, so that what is
/// asked for once leaves quickly.
pub type Sieve = MarkedQueue<true>;

/// One list, eight bytes per id. `RENEWS`: a request moves the object to the young end.
pub struct Queue<const RENEWS: bool> {
    links: Links,
    list: List,
}

impl<const RENEWS: bool> Queue<RENEWS> {
    /// Returns an empty one.
    pub fn new() -> Self {
        Queue { links: Links::new(), list: List::EMPTY }
    }
}

impl<const RENEWS: bool> Default for Queue<RENEWS> {
    fn default() -> Self {
        Queue::new()
    }
}

impl<const RENEWS: bool> Policy for Queue<RENEWS> {
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
        if RENEWS && self.links.contains(id) {
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

/// One list, a mark and a hand: twelve bytes per id. `STAYS`: an object that its mark has saved
/// keeps its place; else it moves to the young end.
pub struct MarkedQueue<const STAYS: bool> {
    /// Noted: whether it was asked for since the hand came by.
    links: Links<bool>,
    list: List,
    /// Next position of the hand; `None`: the oldest object.
    hand: Option<Id>,
}

impl<const STAYS: bool> MarkedQueue<STAYS> {
    /// Returns an empty one.
    pub fn new() -> Self {
        MarkedQueue { links: Links::new(), list: List::EMPTY, hand: None }
    }
}

impl<const STAYS: bool> Default for MarkedQueue<STAYS> {
    fn default() -> Self {
        MarkedQueue::new()
    }
}

impl<const STAYS: bool> Policy for MarkedQueue<STAYS> {
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
            if !spared(id) {
                if !self.links.note(id) {
                    self.hand = STAYS.then_some(id);
                    return Some(id);
                }
                self.links.set_note(id, false);
            }
            if STAYS {
                self.hand = self.links.newer(id);
            } else {
                self.links.renew(&mut self.list, id);
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
