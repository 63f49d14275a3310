//! The content and the arrangement of a cache: clusters on a disk that are filled in the order of
//! insertion and evicted from the oldest on, behind a memory with an LRU list.

use std::collections::{BTreeMap, HashMap, VecDeque};

use super::origin::Micros;
use workload::request::Request;

/// Bytes that such a read brings on either side.
const AROUND: u64 = 256 << 10;

/// Maximum number of steps to either side in the search for a neighbour, as in the product.
const STEPS: usize = 64;

/// Which objects are neighbours; all are of the same site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Neighbourhood {
    /// Objects in memory, in the same directory or the same cluster, that entered memory at about
    /// the same time.
    Memory,
    /// The product's neighbourhood: as `Memory`. If the validated object was not in memory, one
    /// read also brings in the objects around it in its cluster.
    Around,
    /// All stored objects of the same directory, which approximates the page; those not in memory
    /// cost a read.
    Page,
    /// All objects in the same cluster, as if each read brought in the whole cluster.
    Cluster,
}

/// A validation that no client waits for, planned or running.
#[derive(Clone, Copy, Debug)]
pub(super) struct Planned {
    pub(super) start: Micros,
    pub(super) done: Micros,
}

/// A stored object.
#[derive(Clone, Debug)]
pub(super) struct CachedObject {
    pub(super) version: u32,
    pub(super) received: Micros,
    pub(super) lifetime: Micros,
    pub(super) planned: Option<Planned>,
    /// True if it was validated as a neighbour and has not been requested since.
    pub(super) unasked: bool,
    site: u32,
    group: u32,
    size: u64,
    /// Its position in the order of writing.
    written: u64,
    cluster: u64,
    /// Offset of its first byte in the cluster.
    offset: u64,
    in_memory: Option<InMemory>,
}

#[derive(Clone, Copy, Debug)]
struct InMemory {
    /// When it entered memory; orders the objects of a site.
    came: u64,
    /// When it was last used.
    used: u64,
}

impl CachedObject {
    pub(super) fn is_fresh(&self, now: Micros) -> bool {
        self.received + self.lifetime > now
    }

    pub(super) fn is_in_memory(&self) -> bool {
        self.in_memory.is_some()
    }
}

/// Sizes in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    pub(super) memory: u64,
    pub(super) disk: u64,
    pub(super) cluster: u64,
}

/// A cache with clusters on a disk and an LRU memory.
pub(super) struct CacheModel {
    sizes: Sizes,
    objects: HashMap<u32, CachedObject>,
    /// Counts all events, to order them.
    clock: u64,
    /// The objects written into each cluster, oldest cluster first; the last one is open.
    clusters: VecDeque<Vec<u32>>,
    /// Number of the oldest cluster.
    oldest: u64,
    filled: u64,
    /// Objects by site or directory, and order of writing.
    sites: BTreeMap<(u32, u64), u32>,
    groups: BTreeMap<(u32, u64), u32>,
    /// Objects in memory by site and order of entry.
    rows: BTreeMap<(u32, u64), u32>,
    /// Objects in memory by last use.
    uses: BTreeMap<u64, u32>,
    memory: u64,
}

impl CacheModel {
    pub(super) fn new(sizes: Sizes) -> CacheModel {
        CacheModel {
            sizes,
            objects: HashMap::new(),
            clock: 0,
            clusters: VecDeque::from([Vec::new()]),
            oldest: 0,
            filled: 0,
            sites: BTreeMap::new(),
            groups: BTreeMap::new(),
            rows: BTreeMap::new(),
            uses: BTreeMap::new(),
            memory: 0,
        }
    }

    pub(super) fn get(&self, object: u32) -> Option<&CachedObject> {
        self.objects.get(&object)
    }

    pub(super) fn get_mut(&mut self, object: u32) -> Option<&mut CachedObject> {
        self.objects.get_mut(&object)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &CachedObject> {
        self.objects.values()
    }

    /// Returns whether the object may be stored.
    pub(super) fn takes(&self, request: &Request) -> bool {
        !request.uncacheable && request.size <= self.sizes.memory / 16
    }

    /// Stores a version; returns the evicted objects.
    pub(super) fn insert(&mut self, request: &Request, version: u32) -> Vec<CachedObject> {
        self.remove(request.object);
        let (site, group, size) = (request.site, request.group, request.size);
        let (received, lifetime, planned, unasked) = (0, 0, None, false);
        let held = CachedObject {
            version,
            received,
            lifetime,
            planned,
            unasked,
            site,
            group,
            size,
            written: 0,
            cluster: 0,
            offset: 0,
            in_memory: None,
        };
        self.objects.insert(request.object, held);
        self.write(request.object)
    }

    /// Rewrites the object with another version; returns the evicted objects.
    pub(super) fn rewrite(&mut self, object: u32, version: u32) -> Vec<CachedObject> {
        let Some(held) = self.objects.get_mut(&object) else { return Vec::new() };
        held.version = version;
        let (site, group, written) = (held.site, held.group, held.written);
        self.sites.remove(&(site, written));
        self.groups.remove(&(group, written));
        self.write(object)
    }

    fn write(&mut self, object: u32) -> Vec<CachedObject> {
        let mut gone = Vec::new();
        let size = self.objects[&object].size;
        if self.filled > 0 && self.filled + size > self.sizes.cluster {
            self.clusters.push_back(Vec::new());
            self.filled = 0;
            while self.clusters.len() as u64 * self.sizes.cluster > self.sizes.disk
                && self.clusters.len() > 2
            {
                gone.extend(self.give_up_oldest());
            }
        }
        let offset = self.filled;
        self.filled += size;
        self.clock += 1;
        let (written, cluster) = (self.clock, self.oldest + self.clusters.len() as u64 - 1);
        if let Some(open) = self.clusters.back_mut() {
            open.push(object);
        }
        if let Some(held) = self.objects.get_mut(&object) {
            (held.written, held.cluster, held.offset) = (written, cluster, offset);
            self.sites.insert((held.site, written), object);
            self.groups.insert((held.group, written), object);
        }
        gone
    }

    fn give_up_oldest(&mut self) -> Vec<CachedObject> {
        let number = self.oldest;
        self.oldest += 1;
        let objects = self.clusters.pop_front().unwrap_or_default();
        let here = objects
            .into_iter()
            .filter(|object| self.objects.get(object).is_some_and(|held| held.cluster == number))
            .collect::<Vec<u32>>();
        here.into_iter().filter_map(|object| self.remove(object)).collect()
    }

    fn remove(&mut self, object: u32) -> Option<CachedObject> {
        self.leave_memory(object);
        let held = self.objects.remove(&object)?;
        self.sites.remove(&(held.site, held.written));
        self.groups.remove(&(held.group, held.written));
        Some(held)
    }

    /// Uses an object, which enters memory if it is not there. Returns whether it was there.
    pub(super) fn touch(&mut self, object: u32) -> bool {
        self.clock += 1;
        let Some(held) = self.objects.get_mut(&object) else { return false };
        let was_there = held.in_memory;
        let came = was_there.map_or(self.clock, |place| place.came);
        held.in_memory = Some(InMemory { came, used: self.clock });
        match was_there {
            Some(InMemory { used, .. }) => _ = self.uses.remove(&used),
            None => {
                self.rows.insert((held.site, came), object);
                self.memory += held.size;
            }
        }
        self.uses.insert(self.clock, object);
        while self.memory > self.sizes.memory {
            let Some((_, oldest)) = self.uses.pop_first() else { break };
            self.leave_memory(oldest);
        }
        was_there.is_some()
    }

    fn leave_memory(&mut self, object: u32) {
        let Some(held) = self.objects.get_mut(&object) else { return };
        let Some(InMemory { came, used }) = held.in_memory.take() else { return };
        self.rows.remove(&(held.site, came));
        self.uses.remove(&used);
        self.memory -= held.size;
    }

    /// Brings the objects of the same site around an object in its cluster into memory, as a read
    /// does.
    pub(super) fn bring(&mut self, object: u32) {
        let Some(held) = self.objects.get(&object) else { return };
        let end = held.offset + held.size;
        let comes = |number: &u32| {
            self.objects.get(number).is_some_and(|other| {
                other.in_memory.is_none()
                    && other.cluster == held.cluster
                    && other.offset + other.size + AROUND > held.offset
                    && other.offset < end + AROUND
            })
        };
        let mut along = around(&self.sites, (held.site, held.written));
        along.retain(comes);
        // Nearest last, so that they are the most recently used.
        along.iter().rev().for_each(|number| _ = self.touch(*number));
    }

    /// Returns the neighbours of an object, nearest first.
    pub(super) fn beside(&self, object: u32, beside: Neighbourhood) -> Vec<u32> {
        let Some(held) = self.objects.get(&object) else { return Vec::new() };
        let other = |number: &u32| self.objects.get(number).map(|other| (*number, other));
        let near = match beside {
            Neighbourhood::Page => around(&self.groups, (held.group, held.written)),
            Neighbourhood::Cluster => around(&self.sites, (held.site, held.written)),
            Neighbourhood::Memory | Neighbourhood::Around => match held.in_memory {
                Some(place) => around(&self.rows, (held.site, place.came)),
                None => Vec::new(),
            },
        };
        let fits = |(_, other): &(u32, &CachedObject)| match beside {
            Neighbourhood::Page => true,
            Neighbourhood::Cluster => other.cluster == held.cluster,
            Neighbourhood::Memory | Neighbourhood::Around => {
                other.cluster == held.cluster || other.group == held.group
            }
        };
        near.iter().filter_map(other).filter(fits).map(|(number, _)| number).collect()
    }
}

/// Returns the objects around a position with the same first part, nearest first, alternating
/// between before and behind it.
fn around(order: &BTreeMap<(u32, u64), u32>, at: (u32, u64)) -> Vec<u32> {
    let mut before = order.range((at.0, 0)..at).rev().take(STEPS).map(|(_, object)| *object);
    let behind = order.range((at.0, at.1 + 1)..=(at.0, u64::MAX));
    let mut behind = behind.take(STEPS).map(|(_, object)| *object);
    let mut near = Vec::new();
    loop {
        let (one, other) = (before.next(), behind.next());
        if one.is_none() && other.is_none() {
            return near;
        }
        near.extend(one.into_iter().chain(other));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(object: u32, group: u32, size: u64) -> Request {
        Request { object, site: group / 10, group, size, ..Request::default() }
    }

    fn filled(sizes: Sizes, objects: &[(u32, u32)]) -> CacheModel {
        let mut holdings = CacheModel::new(sizes);
        for (object, group) in objects {
            holdings.insert(&request(*object, *group, 10), 0);
            holdings.touch(*object);
        }
        holdings
    }

    const ROOMY: Sizes = Sizes { memory: 1_000, disk: 1_000, cluster: 40 };

    #[test]
    fn neighbours_are_those_of_the_site_by_directory_or_cluster_the_nearest_first() {
        // Clusters of four objects: 0 to 3, 4 to 7.
        let objects = [(0, 10), (1, 11), (2, 10), (3, 20), (4, 10), (5, 11), (6, 10), (7, 20)];
        let holdings = filled(ROOMY, &objects);
        assert_eq!(holdings.beside(2, Neighbourhood::Page), [0, 4, 6]);
        assert_eq!(holdings.beside(2, Neighbourhood::Cluster), [1, 0]);
        assert_eq!(holdings.beside(2, Neighbourhood::Memory), [1, 4, 0, 6]);
        assert_eq!(holdings.beside(7, Neighbourhood::Memory), [3]);
    }

    #[test]
    fn a_read_brings_what_lies_near_in_the_cluster() {
        let large = 200 << 10;
        let sizes = Sizes { memory: 2 * large, disk: 1 << 30, cluster: 1 << 20 };
        let mut holdings = CacheModel::new(sizes);
        for object in 0..7 {
            holdings.insert(&request(object, 10, large), 0);
            holdings.touch(object);
        }
        // Objects 0 to 4 are one cluster; only 5 and 6 are in memory. From object 2, 256 KB reach
        // all others.
        holdings.touch(2);
        assert_eq!(holdings.beside(2, Neighbourhood::Around), [6]);
        holdings.bring(0);
        assert!(holdings.get(1).is_some_and(CachedObject::is_in_memory));
        assert!(!holdings.get(3).is_some_and(CachedObject::is_in_memory), "it lies too far away");
    }

    #[test]
    fn memory_loses_what_was_used_least_recently_and_the_disk_its_oldest_cluster() {
        let sizes = Sizes { memory: 30, disk: 120, cluster: 40 };
        let mut holdings = filled(sizes, &[(0, 10), (1, 10), (2, 10), (3, 10)]);
        assert!(!holdings.get(0).unwrap().is_in_memory());
        assert!(holdings.touch(1) && !holdings.touch(0));
        assert!(!holdings.get(2).unwrap().is_in_memory());
        assert_eq!(holdings.beside(0, Neighbourhood::Memory), [3, 1]);
        // A rewritten object outlives its first cluster.
        holdings.rewrite(1, 1);
        let gone: usize =
            (10..20).map(|object| holdings.insert(&request(object, 30, 10), 0).len()).sum();
        assert_eq!((gone, holdings.get(0).is_some(), holdings.get(1).is_some()), (3, false, true));
        assert_eq!(holdings.get(1).unwrap().version, 1);
        assert!(holdings.beside(1, Neighbourhood::Page).is_empty());
    }
}
