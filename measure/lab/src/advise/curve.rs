//! Miss ratios of LRU caches of all sizes at once, from one pass over a trace.
//!
//! LRU is a stack algorithm (Mattson and others 1970): the content of a cache is also in every
//! larger one. An access hits in all caches with space for the object and for everything accessed
//! since its last access. That space is the depth of the access, and a histogram of depths is the
//! curve. It counts bytes or objects.
//!
//! Guarantees: the counts equal those of [`crate::advise::missratio`] if objects keep their size,
//! at sizes not smaller than the largest object and with up to eleven significant bits (64 MiB or
//! 1.5 GiB; other sizes are rounded down). If objects are larger than the cache, no curve exists:
//! an object that is not admitted takes no space, so more space may mean fewer hits.
//! [`LruCurve::with_largest`] leaves out objects above a bound, as caches with such a bound do.
//!
//! [`Sample`] bounds time and memory: with a share of the objects (SHARDS), or with a number of
//! objects whose share falls while the trace grows (SHARDS with fixed size). Memory per object: 32
//! to 48 bytes for its place in the stack and 17 to 35 for its number.

mod histogram;

use std::collections::BinaryHeap;

use hashbrown::HashTable;
use store::policy::Unit;

use crate::advise::missratio::{Sampling, Tally, name_hash, sample_hash};
use histogram::{Amount, Histogram};
use workload::lru_stack::{Id, Stack};
use workload::trace::Access;

/// The objects that a curve is made from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Sample {
    /// A fixed share of the objects; [`Sampling::ALL`] for an exact curve.
    Share(Sampling),
    /// At most this many objects, at least 1. All objects at first; the share falls with each
    /// object in excess.
    Objects(usize),
}

/// An LRU curve under construction.
pub struct LruCurve {
    unit: Unit,
    largest: u64,
    /// Objects with a hash up to this one are in the sample.
    last: u64,
    /// Number of requests of the whole trace that one request in the sample stands for.
    weight: f64,
    most: usize,
    /// Objects in the sample, highest hash first; used only if their number is bounded.
    order: BinaryHeap<(u64, u64)>,
    numbers: HashTable<(u64, Id)>,
    free: Vec<Id>,
    stack: Stack,
    depths: Histogram,
    /// Accesses that miss in every cache.
    cold: Amount,
    requests: u64,
    bytes: u64,
}

impl LruCurve {
    /// Creates an empty curve over sizes in this unit.
    pub fn new(unit: Unit, sample: Sample) -> LruCurve {
        let (sampling, most) = match sample {
            Sample::Share(sampling) => (sampling, usize::MAX),
            Sample::Objects(most) => (Sampling::ALL, most.max(1)),
        };
        LruCurve {
            unit,
            largest: u64::MAX,
            last: sampling.last(),
            weight: 1.0 / sampling.rate(),
            most,
            order: BinaryHeap::new(),
            numbers: HashTable::new(),
            free: Vec::new(),
            stack: Stack::new(),
            depths: Histogram::default(),
            cold: Amount::default(),
            requests: 0,
            bytes: 0,
        }
    }

    /// Sets the largest object in bytes; larger ones are never admitted.
    #[must_use]
    pub fn with_largest(self, largest: u64) -> LruCurve {
        LruCurve { largest, ..self }
    }

    /// Takes the next request. Returns false, without taking it, if the sample has too many objects
    /// (2^30).
    #[must_use]
    pub fn take(&mut self, access: Access) -> bool {
        self.request(access, false)
    }

    /// Takes the next request, for a new version of the object: the stored version is out of date,
    /// so every cache misses and replaces it. Returns false as [`LruCurve::take`] does.
    #[must_use]
    pub fn take_changed(&mut self, access: Access) -> bool {
        self.request(access, true)
    }

    fn request(&mut self, access: Access, is_changed: bool) -> bool {
        let hash = sample_hash(access.object);
        if hash > self.last {
            self.count(access);
            return true;
        }
        let (weight, room) = (self.weight, self.room(access.size));
        let amount = Amount { requests: weight, bytes: weight * access.size as f64 };
        if access.size > self.largest {
            self.cold.add(amount);
            self.count(access);
            return true;
        }
        let Some(id) = self.number(access.object) else { return false };
        match self.stack.access(id, room) {
            None => {
                self.cold.add(amount);
                if self.most < usize::MAX {
                    self.order.push((hash, access.object));
                    self.lower_share();
                }
            }
            Some(_) if is_changed => self.cold.add(amount),
            Some(above) => {
                // The object itself counts once, whatever the sample; a product beyond the range of
                // sizes becomes the largest size.
                let depth = room.saturating_add((above as f64 * weight).round() as u64);
                let exact = if weight == 1.0 { room + above } else { depth };
                self.depths.add(exact, amount);
            }
        }
        self.count(access);
        true
    }

    /// Returns the curve of all requests so far.
    pub fn finish(self) -> Curve {
        let mut missed = self.cold;
        let mut steps: Vec<(u64, Amount)> = Vec::new();
        for (size, amount) in self.depths.falling() {
            steps.push((size, missed));
            missed.add(amount);
        }
        steps.push((0, missed));
        steps.reverse();
        Curve { requests: self.requests, bytes: self.bytes, steps }
    }

    /// Returns the number of objects in the sample.
    pub fn objects(&self) -> usize {
        self.numbers.len()
    }

    /// Returns the share of all objects that is in the sample, above 0 and up to 1.
    pub fn rate(&self) -> f64 {
        1.0 / self.weight
    }

    /// Returns the memory used, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.order.capacity() * size_of::<(u64, u64)>()
            + self.numbers.allocation_size()
            + self.free.capacity() * size_of::<Id>()
            + self.stack.memory_bytes()
            + self.depths.memory_bytes()
    }

    fn count(&mut self, access: Access) {
        self.requests += 1;
        self.bytes += access.size;
    }

    fn room(&self, bytes: u64) -> u64 {
        match self.unit {
            Unit::Bytes => bytes,
            Unit::Objects => 1,
        }
    }

    fn number(&mut self, object: u64) -> Option<Id> {
        use hashbrown::hash_table::Entry;
        const MOST: usize = 1 << 30;
        let len = self.numbers.len();
        let same = |known: &(u64, Id)| known.0 == object;
        match self.numbers.entry(name_hash(object), same, |known| name_hash(known.0)) {
            Entry::Occupied(known) => Some(known.get().1),
            Entry::Vacant(_) if len == MOST => None,
            Entry::Vacant(place) => {
                // If no number is free, the numbers in use are dense.
                let id = self.free.pop().unwrap_or(len as Id);
                place.insert((object, id));
                Some(id)
            }
        }
    }

    /// While there are too many objects, removes those with the highest hash and lowers the
    /// sample's bound below that hash.
    fn lower_share(&mut self) {
        while self.numbers.len() > self.most
            || self.order.peek().is_some_and(|(hash, _)| *hash > self.last)
        {
            let Some((hash, object)) = self.order.pop() else { return };
            self.last = hash.saturating_sub(1).min(self.last);
            self.weight = 2_f64.powi(64) / (self.last as f64 + 1.0);
            let same = |known: &(u64, Id)| known.0 == object;
            if let Ok(known) = self.numbers.find_entry(name_hash(object), same) {
                let ((_, id), _) = known.remove();
                self.stack.take_out(id);
                self.free.push(id);
            }
        }
    }
}

/// Miss ratios by size; they never rise with the size.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    requests: u64,
    bytes: u64,
    /// Sizes, rising from 0, and the misses from each size on.
    steps: Vec<(u64, Amount)>,
}

impl Curve {
    /// Returns the result of the trace in a cache of this size.
    pub fn at(&self, size: u64) -> Tally {
        let after = self.steps.partition_point(|(step, _)| *step <= size);
        // The first step is at 0, so `after` is at least 1.
        self.tally(self.steps[after - 1].1)
    }

    /// Returns the sizes at which the result changes, from 0, and the result at each: at most about
    /// 1,000 for each power of two.
    pub fn steps(&self) -> impl Iterator<Item = (u64, Tally)> {
        self.steps.iter().map(|(size, missed)| (*size, self.tally(*missed)))
    }

    /// Returns the smallest size beyond which more space would not have helped.
    pub fn enough(&self) -> u64 {
        self.steps.last().map_or(0, |(size, _)| *size)
    }

    fn tally(&self, missed: Amount) -> Tally {
        Tally {
            requests: self.requests,
            misses: (missed.requests.round() as u64).min(self.requests),
            bytes: self.bytes,
            missed_bytes: (missed.bytes.round() as u64).min(self.bytes),
        }
    }
}

#[cfg(test)]
mod tests;
