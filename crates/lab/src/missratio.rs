//! Miss ratios: caches that are nothing but an eviction policy, fed with a trace.
//!
//! All policies and sizes see the trace in one pass, which is read as a stream: memory grows with
//! the objects of the trace, not with its requests.

pub mod reference;

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use store::policy::{
    AnyPolicy, Clock, Fifo, Gdsf, LfuAging, Lru, Parameters, Policy, PolicyCache, PolicyName,
    S3Fifo, Sieve, Unit, WTinyLfu,
};

use crate::trace::Access;

/// Requests that a cache takes before the next one's turn: few enough to stay in the processor's
/// cache, many enough that the cache's own data come there as well.
const BATCH: usize = 4_096;

/// Requests that a cache looks at before it takes them.
const AHEAD: usize = 32;

/// A request whose object has a number.
#[derive(Clone, Copy, Debug)]
pub struct Numbered {
    /// The object, numbered densely in the order of first requests.
    pub id: u32,
    /// Uniform hash of its name.
    pub hash: u64,
    /// Bytes of the object.
    pub bytes: u64,
}

/// Numbers objects densely.
#[derive(Default)]
pub struct Numbers(HashTable<(u64, u32)>);

impl Numbers {
    /// The access with its object's number. `None` when 2^32 objects have one already.
    pub fn number(&mut self, access: Access) -> Option<Numbered> {
        let hash = mix(access.object);
        let next = self.0.len() as u32;
        let same = |known: &(u64, u32)| known.0 == access.object;
        let id = match self.0.entry(hash, same, |known| mix(known.0)) {
            Entry::Occupied(known) => known.get().1,
            Entry::Vacant(_) if next == store::policy::ID_MAX => return None,
            Entry::Vacant(place) => place.insert((access.object, next)).get().1,
        };
        Some(Numbered { id, hash, bytes: access.size })
    }

    /// Objects so far.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether no object was seen.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Bytes of memory.
    pub fn memory_bytes(&self) -> usize {
        self.0.allocation_size()
    }
}

/// Spreads a number over 64 bits (the finalizer of SplitMix64).
fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

/// What came of a trace in one cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Requests.
    pub requests: u64,
    /// Those of them that missed.
    pub misses: u64,
    /// Bytes asked for.
    pub bytes: u64,
    /// Bytes of misses.
    pub missed_bytes: u64,
}

impl Tally {
    /// Misses by requests; 0 without requests.
    pub fn miss_ratio(&self) -> f64 {
        self.misses as f64 / self.requests.max(1) as f64
    }

    /// Bytes of misses by bytes asked for; 0 without bytes.
    pub fn byte_miss_ratio(&self) -> f64 {
        self.missed_bytes as f64 / self.bytes.max(1) as f64
    }
}

/// A cache that takes requests, of whatever policy.
trait Simulated {
    fn take(&mut self, requests: &[Numbered]);
    fn tally(&self) -> Tally;
    fn memory_bytes(&self) -> usize;
}

struct Cache<P> {
    cache: PolicyCache<P>,
    tally: Tally,
}

impl<P: Policy> Simulated for Cache<P> {
    fn take(&mut self, requests: &[Numbered]) {
        let tally = &mut self.tally;
        for ahead in requests.chunks(AHEAD) {
            self.cache.look_ahead(ahead.iter().map(|request| request.id));
            for Numbered { id, hash, bytes } in ahead.iter().copied() {
                let missed = !self.cache.request(id, hash, bytes);
                tally.misses += u64::from(missed);
                tally.missed_bytes += if missed { bytes } else { 0 };
                tally.bytes += bytes;
            }
        }
        tally.requests += requests.len() as u64;
    }

    fn tally(&self) -> Tally {
        self.tally
    }

    fn memory_bytes(&self) -> usize {
        self.cache.memory_bytes()
    }
}

/// One cache of any policy, with its own loop for each.
pub struct Simulation(Box<dyn Simulated>);

impl Simulation {
    /// An empty cache with room for [`Parameters::capacity`] bytes or objects.
    pub fn new(name: PolicyName, parameters: &Parameters, unit: Unit) -> Simulation {
        fn boxed<P: Policy + 'static>(policy: P, unit: Unit, capacity: u64) -> Box<dyn Simulated> {
            let cache = PolicyCache::new(policy, unit, capacity);
            Box::new(Cache { cache, tally: Tally::default() })
        }
        let capacity = parameters.capacity;
        Simulation(match AnyPolicy::new(name, parameters) {
            AnyPolicy::Lru(policy) => boxed::<Lru>(policy, unit, capacity),
            AnyPolicy::Fifo(policy) => boxed::<Fifo>(policy, unit, capacity),
            AnyPolicy::Clock(policy) => boxed::<Clock>(policy, unit, capacity),
            AnyPolicy::Sieve(policy) => boxed::<Sieve>(policy, unit, capacity),
            AnyPolicy::S3Fifo(policy) => boxed::<S3Fifo>(policy, unit, capacity),
            AnyPolicy::LfuAging(policy) => boxed::<LfuAging>(policy, unit, capacity),
            AnyPolicy::Gdsf(policy) => boxed::<Gdsf>(policy, unit, capacity),
            AnyPolicy::WTinyLfu(policy) => boxed::<WTinyLfu>(policy, unit, capacity),
        })
    }

    /// Requests in their order.
    pub fn take(&mut self, requests: &[Numbered]) {
        self.0.take(requests);
    }

    /// What came of all requests so far.
    pub fn tally(&self) -> Tally {
        self.0.tally()
    }

    /// Bytes of memory of the cache.
    pub fn memory_bytes(&self) -> usize {
        self.0.memory_bytes()
    }
}

/// Any number of caches over one trace.
pub struct Sweep {
    numbers: Numbers,
    batch: Vec<Numbered>,
    caches: Vec<Simulation>,
}

impl Sweep {
    /// These caches, all empty.
    pub fn new(caches: Vec<Simulation>) -> Sweep {
        Sweep { numbers: Numbers::default(), batch: Vec::with_capacity(BATCH), caches }
    }

    /// The next request. False when the trace has too many objects: it was not taken.
    #[must_use]
    pub fn take(&mut self, access: Access) -> bool {
        let Some(request) = self.numbers.number(access) else { return false };
        self.batch.push(request);
        if self.batch.len() == BATCH {
            self.settle();
        }
        true
    }

    /// What came of it, cache by cache in the order given.
    pub fn finish(mut self) -> Vec<Tally> {
        self.settle();
        self.caches.iter().map(Simulation::tally).collect()
    }

    fn settle(&mut self) {
        self.caches.iter_mut().for_each(|cache| cache.take(&self.batch));
        self.batch.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cache_sees_the_whole_trace() {
        let arms = [(PolicyName::Lru, 10), (PolicyName::Lru, 100), (PolicyName::Fifo, 100)];
        let caches = arms
            .map(|(name, capacity)| Simulation::new(name, &Parameters::new(capacity), Unit::Bytes));
        let mut sweep = Sweep::new(caches.into());
        for request in 0..3 * BATCH as u64 + 1 {
            assert!(sweep.take(Access { object: (request % 2) << 40, size: 8 }));
        }
        let tallies = sweep.finish();
        let requests = 3 * BATCH as u64 + 1;
        let bytes = 8 * requests;
        let all = Tally { requests, misses: requests, bytes, missed_bytes: bytes };
        let two = Tally { misses: 2, missed_bytes: 16, ..all };
        assert_eq!(tallies, [all, two, two]);
        assert_eq!((all.miss_ratio(), Tally::default().byte_miss_ratio()), (1.0, 0.0));
    }
}
