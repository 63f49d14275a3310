//! A cache that consists of a policy and a capacity only, for simulation.
//!
//! Rules: an object larger than the cache, or than its policy takes, is a miss and is not admitted.
//! On a miss, objects are evicted until the new one fits. An object keeps the size that it had when
//! it entered, and nothing else takes up capacity.

use super::{Entry, Id, Policy};

/// The unit of a [`PolicyCache`]'s capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Bytes of objects.
    Bytes,
    /// Number of objects, whatever their size.
    Objects,
}

/// A simulated cache. The caller assigns dense ids, one per object of the trace.
pub struct PolicyCache<P> {
    policy: P,
    unit: Unit,
    capacity: u64,
    used: u64,
    /// Sizes by id; empty if the unit is objects.
    sizes: Vec<u64>,
}

impl<P: Policy> PolicyCache<P> {
    /// Returns an empty cache of `capacity` bytes or objects, managed by `policy`, which must be
    /// empty.
    pub fn new(policy: P, unit: Unit, capacity: u64) -> PolicyCache<P> {
        PolicyCache { policy, unit, capacity, used: 0, sizes: Vec::new() }
    }

    /// Requests the object `id` of `bytes` bytes with this hash. Returns whether it is a hit.
    #[inline]
    pub fn request(&mut self, id: Id, hash: u64, bytes: u64) -> bool {
        if self.policy.contains(id) {
            self.policy.touch(id);
            self.drop_surplus();
            return true;
        }
        let size = if self.unit == Unit::Objects { 1 } else { bytes };
        if size <= self.capacity && self.policy.takes(size) {
            self.reserve(size);
            self.enter(id, Entry { hash, size });
            self.drop_surplus();
        }
        false
    }

    /// Prefetches the policy's data on objects that will be requested next into the processor
    /// cache. Has no other effect. Unlike the loads of the requests, these loads do not wait for
    /// one another.
    #[inline]
    pub fn look_ahead(&self, ids: impl Iterator<Item = Id>) {
        std::hint::black_box(ids.filter(|id| self.policy.contains(*id)).count());
    }

    /// Returns the number of bytes or objects in the cache.
    pub fn used(&self) -> u64 {
        self.used
    }

    /// Returns the policy.
    pub fn policy(&self) -> &P {
        &self.policy
    }

    /// Returns the memory of the policy and of the cache's own column, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.policy.memory_bytes() + self.sizes.capacity() * size_of::<u64>()
    }

    #[inline]
    fn reserve(&mut self, size: u64) {
        while self.used + size > self.capacity {
            let victim = self.policy.victim(|_| false).expect("what takes room can be given up");
            self.evict(victim);
        }
    }

    #[inline]
    fn drop_surplus(&mut self) {
        while let Some(surplus) = self.policy.surplus() {
            self.evict(surplus);
        }
    }

    #[inline]
    fn evict(&mut self, id: Id) {
        self.used -= match self.unit {
            Unit::Objects => 1,
            Unit::Bytes => self.sizes[id as usize],
        };
        self.policy.evict(id);
    }

    #[inline]
    fn enter(&mut self, id: Id, entry: Entry) {
        if self.unit == Unit::Bytes {
            let at = id as usize;
            if at >= self.sizes.len() {
                self.sizes.resize(at + 1, 0);
            }
            self.sizes[at] = entry.size;
        }
        self.used += entry.size;
        self.policy.insert(id, entry);
    }
}

#[cfg(test)]
mod tests {
    use super::super::Lru;
    use super::*;

    fn hits(cache: &mut PolicyCache<Lru>, requests: &[(Id, u64)]) -> Vec<bool> {
        requests.iter().map(|(id, bytes)| cache.request(*id, 0, *bytes)).collect()
    }

    #[test]
    fn room_is_made_until_the_new_object_fits() {
        let mut cache = PolicyCache::new(Lru::new(), Unit::Bytes, 10);
        let requests = [(0, 4), (1, 4), (0, 4), (2, 6), (0, 4), (1, 4)];
        assert_eq!(hits(&mut cache, &requests), [false, false, true, false, true, false]);
        assert_eq!(cache.used(), 8);
    }

    #[test]
    fn what_is_larger_than_the_cache_is_not_admitted() {
        let mut cache = PolicyCache::new(Lru::new(), Unit::Bytes, 10);
        let requests = [(0, 10), (1, 11), (0, 10), (1, 11)];
        assert_eq!(hits(&mut cache, &requests), [false, false, true, false]);
        assert_eq!(cache.used(), 10);
        let mut cache = PolicyCache::new(Lru::new(), Unit::Objects, 1);
        assert_eq!(hits(&mut cache, &requests), [false; 4]);
        assert_eq!(cache.used(), 1);
    }
}
