//! `lfu-aging`: evicts the least frequently requested object, and lets counts age (the replacement
//! of UCFS, systems C9, applied to objects).
//!
//! An object's count is 1 when it enters and rises by 1 with each access, to at most 65,535. When
//! the mean of all counts exceeds a bound, all are halved, rounding down. Among equal counts, the
//! object that has had its count for longest goes first. Halving keeps the order of all objects.
//!
//! There is a list per count. Halving joins them in pairs without visiting the objects: each object
//! stores its count and the number of halvings at the time the count was set.

use super::links::{Links, List};
use super::{Entry, Id, Parameters, Policy};

/// State of an object: eight bytes.
#[derive(Clone, Copy, Default)]
struct Note {
    /// Number of halvings before `count` was set.
    halvings: u32,
    count: u16,
}

/// Least frequently used with aging: 16 bytes per id, 12 per count up to the largest one.
pub struct LfuAging {
    links: Links<Note>,
    lists: Vec<List>,
    /// All lists before this one are empty.
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
        // The mean is bounded, and so is the distance to the least count.
        while self.lists.get(self.least).is_some_and(|list| list.len() == 0) {
            self.least += 1;
        }
        let lists = self.lists.get(self.least..)?;
        lists.iter().flat_map(|list| self.links.from(list.oldest())).find(|id| !spared(*id))
    }

    #[inline]
    fn evict(&mut self, id: Id) {
        let count = self.count(id);
        // `count` requires an id that is in a list; `unlink` panics otherwise.
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
