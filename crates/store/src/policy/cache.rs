//! A cache that is only a policy and a capacity, for simulation.
//!
//! Its rules: an object larger than the cache, or than its policy takes, is a miss and not
//! admitted; on a miss, objects are evicted until the new one fits; an object has the size that it
//! had when it entered, and nothing else takes room.

use super::{Entry, Id, Policy};

/// The unit of a [`PolicyCache`]'s capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Bytes of objects.
    Bytes,
    /// Objects, whatever their size.
    Objects,
}

/// A simulated cache. Ids are the caller's, one per object of the trace, dense.
pub struct PolicyCache<P> {
    policy: P,
    unit: Unit,
    capacity: u64,
    used: u64,
    /// By id, of what is inside; empty when the unit is objects.
    sizes: Vec<u64>,
}

impl<P: Policy> PolicyCache<P> {
    /// Returns an empty cache of `capacity` bytes or objects, managed by `policy`, which is empty
    /// too.
    pub fn new(policy: P, unit: Unit, capacity: u64) -> PolicyCache<P> {
        PolicyCache { policy, unit, capacity, used: 0, sizes: Vec::new() }
    }

    /// Requests the object `id` of `bytes` bytes with this hash; returns whether it is a hit.
    #[inline]
    pub fn request(&mut self, id: Id, hash: u64, bytes: u64) -> bool {
        if self.policy.contains(id) {
            self.policy.touch(id);
            self.drop_surplus();
            return true;
        }
        let size = if self.unit == Unit::Objects { 1 } else { bytes };
        if size <= self.capacity && self.policy.takes(size) {
            self.make_room(size);
            self.enter(id, Entry { hash, size });
            self.drop_surplus();
        }
        false
    }

    /// Brings what is known of objects that are asked for next into the processor's cache. Nothing
    /// else happens: their loads do not wait for one another, as those of the requests would.
    #[inline]
    pub fn look_ahead(&self, ids: impl Iterator<Item = Id>) {
        std::hint::black_box(ids.filter(|id| self.policy.contains(*id)).count());
    }

    /// Returns the number of bytes or objects inside.
    pub fn used(&self) -> u64 {
        self.used
    }

    /// Returns the policy.
    pub fn policy(&self) -> &P {
        &self.policy
    }

    /// Returns the bytes of memory of the policy and of the cache's own column.
    pub fn memory_bytes(&self) -> usize {
        self.policy.memory_bytes() + self.sizes.capacity() * size_of::<u64>()
    }

    #[inline]
    fn make_room(&mut self, size: u64) {
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
