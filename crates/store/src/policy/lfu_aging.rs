//! `lfu-aging`: evicts the object that was asked for least often, and forgets with time (the
//! replacement of UCFS, systems C9, for objects).
//!
//! An object's count is 1 when it enters and rises by 1 with each access, to 65,535 at most. When
//! the mean of all counts is above a bound, all are halved, rounding down. Among equal counts the
//! object that has had it for longest goes first; a halving keeps the order of all objects.
//!
//! There is a list for each count. A halving joins them two by two without looking at the objects:
//! each notes its count and the number of halvings that there had been then.

use super::links::{Links, List};
use super::{Entry, Id, Parameters, Policy};

/// The note of an object: eight bytes.
#[derive(Clone, Copy, Default)]
struct Note {
    /// Halvings before `count` was noted.
    halvings: u32,
    count: u16,
}

/// Least frequently used with aging: 16 bytes per id, 12 per count that occurs.
pub struct LfuAging {
    links: Links<Note>,
    /// By count.
    lists: Vec<List>,
    /// No list before this one has anything.
    least: usize,
    len: usize,
    sum: u64,
    halvings: u32,
    mean_bound: u64,
}

impl LfuAging {
    /// Returns an empty policy.
    pub fn new(parameters: &Parameters) -> LfuAging {
        LfuAging {
            links: Links::new(),
            lists: Vec::new(),
            least: 0,
            len: 0,
            sum: 0,
            halvings: 0,
            mean_bound: u64::from(parameters.aging_mean),
        }
    }

    #[inline]
    fn count(&self, id: Id) -> usize {
        let note = self.links.note(id);
        usize::from(note.count.checked_shr(self.halvings - note.halvings).unwrap_or(0))
    }

    /// Returns the list of a count.
    #[inline]
    fn list(&mut self, count: usize) -> &mut List {
        if count >= self.lists.len() {
            self.lists.resize(count + 1, List::EMPTY);
        }
        &mut self.lists[count]
    }

    #[inline]
    fn age_if_due(&mut self) {
        if self.sum > self.mean_bound * self.len as u64 {
            self.halve();
        }
    }

    fn halve(&mut self) {
        let mut joined = Vec::with_capacity(self.lists.len().div_ceil(2));
        self.sum = 0;
        for (count, pair) in self.lists.chunks(2).enumerate() {
            let mut list = pair[0];
            self.links.append(&mut list, pair.get(1).copied().unwrap_or(List::EMPTY));
            self.sum += count as u64 * list.len() as u64;
            joined.push(list);
        }
        self.lists = joined;
        self.least /= 2;
        self.halvings = self.halvings.checked_add(1).expect("fewer than 2^32 halvings");
    }
}

impl Policy for LfuAging {
    #[inline]
    fn insert(&mut self, id: Id, _: Entry) {
        let mut list = *self.list(1);
        self.links.push(&mut list, id, Note { halvings: self.halvings, count: 1 });
        self.lists[1] = list;
        self.least = self.least.min(1);
        self.len += 1;
        self.sum += 1;
        self.age_if_due();
    }

    #[inline]
    fn contains(&self, id: Id) -> bool {
        self.links.contains(id)
    }

    #[inline]
    fn touch(&mut self, id: Id) {
        if !self.contains(id) {
            return;
        }
        let count = self.count(id);
        if count == usize::from(u16::MAX) {
            let list = &mut self.lists[count];
            self.links.renew(list, id);
            return;
        }
        let mut to = *self.list(count + 1);
        self.links.transfer(&mut self.lists[count], &mut to, id);
        self.lists[count + 1] = to;
        self.links.set_note(id, Note { halvings: self.halvings, count: count as u16 + 1 });
        self.sum += 1;
        self.age_if_due();
    }

    #[inline]
    fn victim(&mut self, spared: impl Fn(Id) -> bool) -> Option<Id> {
        // As the mean is bounded, so is the way to the least count.
        while self.lists.get(self.least).is_some_and(|list| list.len() == 0) {
            self.least += 1;
        }
        let lists = self.lists.get(self.least..)?;
        lists.iter().flat_map(|list| self.links.from(list.oldest())).find(|id| !spared(*id))
    }

    #[inline]
    fn evict(&mut self, id: Id) {
        let count = self.count(id);
        // The id's note is one of an id in a list: `unlink` panics otherwise.
        self.links.unlink(&mut self.lists[count], id);
        self.len -= 1;
        self.sum -= count as u64;
        self.age_if_due();
    }

    fn remove(&mut self, id: Id) {
        self.evict(id);
    }

    fn len(&self) -> usize {
        self.len
    }

    fn memory_bytes(&self) -> usize {
        self.links.memory_bytes() + self.lists.capacity() * size_of::<List>()
    }
}
