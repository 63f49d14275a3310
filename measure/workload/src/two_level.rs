//! M10, the two-level cache of the paper's evaluation: requests go to a memory cache, and those
//! that miss there to a disk cache; both are LRU. The actions of the disk cache become operations
//! of a space manager. A miss of both stores, a hit on the disk reads, an eviction or a new version
//! deletes.
//!
//! Pure bookkeeping: the cache decides, its caller carries the operations out. The space manager
//! never decides what to keep.

use std::ops::{AddAssign, Sub};

use hashlink::LinkedHashMap;

use crate::request::{Object, Request};

/// An operation for a space manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Store a new object.
    Store(Object),
    /// Read a stored object.
    Read(Object),
    /// Delete a stored object.
    Delete(Object),
}

impl Operation {
    /// Returns the object of the operation.
    pub fn object(&self) -> &Object {
        match self {
            Operation::Store(object) | Operation::Read(object) | Operation::Delete(object) => {
                object
            }
        }
    }
}

/// Counts since the cache was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheCounts {
    /// Requests.
    pub gets: u64,
    /// Bytes of the requested objects.
    pub get_bytes: u64,
    /// Hits in memory.
    pub memory_hits: u64,
    /// Hits on disk.
    pub disk_hits: u64,
    /// Requests that hit neither, including the first requests for a new version.
    pub misses: u64,
    /// Misses of objects larger than the disk cache, which are not stored.
    pub too_large: u64,
    /// Objects deleted to make room.
    pub evictions: u64,
    /// Objects deleted because a newer version was requested.
    pub outdated: u64,
}

impl Sub for CacheCounts {
    type Output = CacheCounts;

    fn sub(self, earlier: CacheCounts) -> CacheCounts {
        CacheCounts {
            gets: self.gets - earlier.gets,
            get_bytes: self.get_bytes - earlier.get_bytes,
            memory_hits: self.memory_hits - earlier.memory_hits,
            disk_hits: self.disk_hits - earlier.disk_hits,
            misses: self.misses - earlier.misses,
            too_large: self.too_large - earlier.too_large,
            evictions: self.evictions - earlier.evictions,
            outdated: self.outdated - earlier.outdated,
        }
    }
}

impl AddAssign for CacheCounts {
    fn add_assign(&mut self, other: CacheCounts) {
        self.gets += other.gets;
        self.get_bytes += other.get_bytes;
        self.memory_hits += other.memory_hits;
        self.disk_hits += other.disk_hits;
        self.misses += other.misses;
        self.too_large += other.too_large;
        self.evictions += other.evictions;
        self.outdated += other.outdated;
    }
}

impl CacheCounts {
    /// Returns the number of objects deleted from the disk.
    pub fn deletes(&self) -> u64 {
        self.evictions + self.outdated
    }
}

/// A memory cache above a disk cache.
pub struct TwoLevel {
    memory: Level,
    disk: Level,
    counts: CacheCounts,
}

impl TwoLevel {
    /// Returns empty caches of `memory` and `disk` bytes; only object bytes count.
    pub fn new(memory: u64, disk: u64) -> TwoLevel {
        let counts = CacheCounts::default();
        TwoLevel { memory: Level::new(memory), disk: Level::new(disk), counts }
    }

    /// Returns the counts so far.
    pub fn counts(&self) -> CacheCounts {
        self.counts
    }

    /// Handles a request; appends the resulting operations of the space manager, in order.
    pub fn request(&mut self, request: &Request, operations: &mut Vec<Operation>) {
        self.counts.gets += 1;
        self.counts.get_bytes += request.size;
        let object = request.object();
        let in_memory = self.memory.find(&object);
        if let Found::Current = in_memory {
            self.counts.memory_hits += 1;
            return;
        }
        if let Found::Outdated(old) = in_memory {
            self.memory.remove(&old);
        }
        let on_disk = self.disk.find(&object);
        if let Found::Current = on_disk {
            self.counts.disk_hits += 1;
            operations.push(Operation::Read(object));
        } else {
            self.counts.misses += 1;
            if let Found::Outdated(old) = on_disk {
                self.counts.outdated += 1;
                self.disk.remove(&old);
                operations.push(Operation::Delete(old));
            }
            self.keep(object, operations);
        }
        if object.size <= self.memory.capacity {
            self.memory.enter(object, |_| {});
        }
    }

    /// Stores a new object on the disk.
    fn keep(&mut self, object: Object, operations: &mut Vec<Operation>) {
        if object.size > self.disk.capacity {
            self.counts.too_large += 1;
            return;
        }
        let evictions = &mut self.counts.evictions;
        self.disk.enter(object, |victim| {
            *evictions += 1;
            operations.push(Operation::Delete(victim));
        });
        operations.push(Operation::Store(object));
    }

    /// Puts an object on the disk as the most recently used one, if there is room and no other
    /// version of it, without counting. Returns whether it did.
    pub fn install(&mut self, object: Object) -> bool {
        let room = self.disk.used + object.size <= self.disk.capacity;
        let install = room && matches!(self.disk.find(&object), Found::Nothing);
        if install {
            self.disk.enter(object, |_| {});
        }
        install
    }

    /// Returns the number of objects on the disk and their bytes.
    pub fn on_disk(&self) -> (usize, u64) {
        (self.disk.objects.len(), self.disk.used)
    }
}

struct Level {
    capacity: u64,
    used: u64,
    /// Cached objects by id, least recently used first.
    objects: LinkedHashMap<u32, Object>,
}

/// Result of looking up an object's id.
enum Found {
    Current,
    Outdated(Object),
    Nothing,
}

impl Level {
    fn new(capacity: u64) -> Level {
        Level { capacity, used: 0, objects: LinkedHashMap::new() }
    }

    /// Looks an object up; a current one becomes the most recently used.
    fn find(&mut self, object: &Object) -> Found {
        match self.objects.get(&object.id).copied() {
            Some(held) if held.version == object.version => {
                self.objects.to_back(&object.id);
                Found::Current
            }
            Some(held) => Found::Outdated(held),
            None => Found::Nothing,
        }
    }

    /// Makes room for an object and adds it. The object must not be cached and must fit the cache.
    fn enter(&mut self, object: Object, mut evicted: impl FnMut(Object)) {
        while self.used + object.size > self.capacity {
            let (_, victim) = self.objects.pop_front().expect(
                "an object that takes space can be \
                                                               evicted",
            );
            self.used -= victim.size;
            evicted(victim);
        }
        self.used += object.size;
        self.objects.insert(object.id, object);
    }

    fn remove(&mut self, object: &Object) {
        self.objects.remove(&object.id);
        self.used -= object.size;
    }
}

#[cfg(test)]
mod tests {
    use super::Operation::{Delete, Read, Store};
    use super::*;

    fn request(object: u32, version: u32, size: u64) -> Request {
        Request { object, version, size, ..Request::default() }
    }

    /// Returns the operations for each of these requests.
    fn run(cache: &mut TwoLevel, requests: &[Request]) -> Vec<Vec<Operation>> {
        let one = |request: &Request| {
            let mut operations = Vec::new();
            cache.request(request, &mut operations);
            operations
        };
        requests.iter().map(one).collect()
    }

    #[test]
    fn a_miss_stores_a_disk_hit_reads_an_eviction_deletes() {
        let mut cache = TwoLevel::new(10, 20);
        let [a, b, c] = [0, 1, 2].map(|object| request(object, 0, 8));
        let [oa, ob, oc] = [a, b, c].map(|request| request.object());
        let done = run(&mut cache, &[a, a, b, a, c, a]);
        let expected: [&[Operation]; 6] =
            [&[Store(oa)], &[], &[Store(ob)], &[Read(oa)], &[Delete(ob), Store(oc)], &[Read(oa)]];
        assert_eq!(done, expected);
        let counts = CacheCounts {
            gets: 6,
            get_bytes: 48,
            memory_hits: 1,
            disk_hits: 2,
            misses: 3,
            evictions: 1,
            ..CacheCounts::default()
        };
        assert_eq!(cache.counts(), counts);
        assert_eq!(cache.on_disk(), (2, 16));
    }

    #[test]
    fn a_new_version_deletes_the_old_one() {
        let mut cache = TwoLevel::new(100, 100);
        let (old, new) = (request(3, 0, 8), request(3, 1, 9));
        let done = run(&mut cache, &[old, new, new]);
        assert_eq!(
            done,
            [vec![Store(old.object())], vec![Delete(old.object()), Store(new.object())], vec![]]
        );
        assert_eq!((cache.counts().outdated, cache.counts().misses), (1, 2));
        assert_eq!(cache.on_disk(), (1, 9));
    }

    #[test]
    fn objects_that_do_not_fit_are_not_kept() {
        let mut cache = TwoLevel::new(10, 20);
        // In no cache, on the disk alone, in both.
        let done = run(&mut cache, &[request(0, 0, 21), request(1, 0, 20), request(1, 0, 20)]);
        let big = request(1, 0, 20).object();
        assert_eq!(done, [vec![], vec![Store(big)], vec![Read(big)]]);
        assert_eq!(cache.counts().too_large, 1);
    }

    #[test]
    fn a_memory_hit_does_not_count_as_a_use_on_the_disk() {
        let mut cache = TwoLevel::new(100, 20);
        let [a, b, c] = [0, 1, 2].map(|object| request(object, 0, 8));
        let done = run(&mut cache, &[a, b, a, c]);
        assert_eq!(done[3], [Delete(a.object()), Store(c.object())]);
    }
}
