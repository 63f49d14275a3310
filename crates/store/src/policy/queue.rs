//! Policies that consist of one queue from old to young: `fifo`, `lru`, `clock`, `sieve`.
//!
//! They differ in the effect of a request for an object (none, a new position, or a mark) and,
//! where there are marks, in the position of an object saved by its mark.

use super::links::{Links, List};
use super::{Entry, Id, Policy};

/// `fifo`: evicts the object that entered first, requested or not. For reference.
pub type Fifo = Queue<false>;
/// `lru`: evicts the least recently requested object. The papers' policy.
pub type Lru = Queue<true>;

/// `clock`: first in, first out with a second chance. For reference.
///
/// An object requested since it entered, or since its last chance, moves to the young end instead
/// of being evicted. A hit changes a single bit.
pub type Clock = MarkedQueue<false>;
/// `sieve` (Zhang and others, NSDI 2024): a queue that a hand traverses from old to young.
///
/// The hand clears the marks of requested objects and evicts the first one without a mark. Unlike
/// in `clock`, a surviving object keeps its position: new objects are visited before it, so objects
/// that are requested once leave quickly.
pub type Sieve = MarkedQueue<true>;

/// One list, eight bytes per id. `RENEWS`: a request moves the object to the young end.
pub struct Queue<const RENEWS: bool> {
    links: Links,
    list: List,
}

impl<const RENEWS: bool> Queue<RENEWS> {
    /// Returns an empty queue.
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

/// One list, a mark and a hand: twelve bytes per id. `STAYS`: an object saved by its mark keeps its
/// position; otherwise it moves to the young end.
pub struct MarkedQueue<const STAYS: bool> {
    /// The note is the mark: whether the object was requested since the hand passed.
    links: Links<bool>,
    list: List,
    /// Next position of the hand; `None` for the oldest object.
    hand: Option<Id>,
}

impl<const STAYS: bool> MarkedQueue<STAYS> {
    /// Returns an empty queue.
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
        // At most two rounds: the first one clears every mark.
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
