//! The memory tier: whole objects in memory, in one list from most to least recently used that is
//! divided by bytes into three levels (systems C10): hot, medium and cold.
//!
//! New and prefetched objects enter at the top of medium, so that objects requested once do not
//! displace those requested often. With [`TierAdmission::SecondUse`], prefetched objects enter at
//! the top of cold, where they displace one another; the first hit moves them to the top of medium,
//! like a new object. Any other hit moves an object to the top of hot. The excess of hot moves to
//! the top of medium. The excess of medium moves from its recent end to the bottom of hot while
//! that has space, and otherwise from its old end to the top of cold. The excess of cold is to be
//! evicted.
//!
//! Dirty objects are never dropped silently: [`Tier::next_eviction`] removes and returns a clean
//! object, but only names a dirty one, which stays until its owner removes it to write it.
//!
//! Guarantees: byte counts are exact (they use the weight that an object had when it entered);
//! after every call hot and medium are within their shares, and cold is once `next_eviction`
//! returns `None`; every call takes constant amortised time.

mod lists;
pub(crate) mod site_lists;

use hashbrown::HashTable;

use crate::base::digest::Digest;
use crate::config::options::{TierAdmission, TierShares};
use crate::read::window::{ALL_BANDS, DistanceBand, Memory};
use lists::{Id, List, Slab};
use site_lists::SiteLists;

/// A value whose memory is counted.
pub(crate) trait Weighed {
    /// Returns the bytes in memory, including overhead.
    fn weight(&self) -> usize;
}

/// One of the three levels of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    /// Hit since it entered, and recently.
    Hot = 0,
    /// New, prefetched or no longer hot.
    Medium = 1,
    /// Next to be grouped, written or dropped.
    Cold = 2,
}

/// An object in memory with the data that eviction and grouping need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Resident<T> {
    pub object: T,
    /// Not on the device: it may be written or given up, but not dropped.
    pub dirty: bool,
    /// Set if the object was read beside a requested object and has not been requested itself: the
    /// band of neighbours that it came from.
    pub prefetched: Option<DistanceBand>,
    /// True if the object is a page that embeds others.
    pub html: bool,
    /// The cluster on the device that also holds the object.
    pub cluster: Option<u32>,
    /// Number of requests for the object.
    pub accesses: u32,
    /// Hash of site and directory.
    pub group: u64,
    /// Hash of the site.
    pub site: u64,
}

/// The object that must leave the tier next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Eviction<'a, T> {
    /// A clean object, already removed.
    Dropped(Digest, Resident<T>),
    /// A dirty object, still in the tier: write it (alone or in a group), then [`Tier::remove`] it.
    Write(Digest, &'a Resident<T>),
}

/// Counters of the tier since it was created (systems C12).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TierCounters {
    /// Hits by [`Level`].
    pub hits: [u64; 3],
    /// Lookups that found nothing.
    pub misses: u64,
    /// Objects that entered as prefetched.
    pub prefetched: u64,
    /// Prefetched objects that were hit later, each counted once.
    pub prefetch_hits: u64,
    /// `prefetch_hits` by the band that the object came from.
    pub band_hits: [u64; ALL_BANDS],
    /// Total size of all objects that entered, in bytes.
    pub entered_bytes: u64,
    /// Total size of those that entered as prefetched.
    pub prefetched_bytes: u64,
    /// Bytes that entered cold, from medium or from the device.
    pub cold_bytes: u64,
    /// Hits in the last part of cold: on objects that entered it before the most recent bytes that
    /// amount to 70% of its capacity.
    pub last_hits: u64,
    /// Clean objects dropped to make space.
    pub dropped: u64,
}

struct Node<T> {
    digest: Digest,
    weight: usize,
    level: Level,
    /// [`TierCounters::cold_bytes`] when the object entered cold.
    cold_since: u64,
    resident: Resident<T>,
}

/// The last part of cold, in percent of its capacity, which would be lost first.
const LAST_PERCENT: u8 = 30;

#[derive(Clone, Copy)]
struct LevelState {
    list: List,
    bytes: usize,
    capacity: usize,
}

/// The memory tier. See the module documentation for its guarantees.
pub(crate) struct Tier<T> {
    slab: Slab<Node<T>>,
    table: HashTable<Id>,
    site_lists: SiteLists,
    levels: [LevelState; 3],
    shares: TierShares,
    admission: TierAdmission,
    dirty_bytes: usize,
    counters: TierCounters,
}

impl<T: Weighed> Tier<T> {
    /// Returns an empty tier of `capacity` bytes.
    pub(crate) fn new(capacity: usize, shares: TierShares, admission: TierAdmission) -> Tier<T> {
        assert!(usize::from(shares.hot) + usize::from(shares.medium) <= 100, "shares are percents");
        let level = LevelState { list: List::EMPTY, bytes: 0, capacity: 0 };
        let mut tier = Tier {
            slab: Slab::new(),
            table: HashTable::new(),
            site_lists: SiteLists::default(),
            levels: [level; 3],
            shares,
            admission,
            dirty_bytes: 0,
            counters: TierCounters::default(),
        };
        tier.set_capacity(capacity);
        tier
    }

    /// Changes the capacity, in bytes. [`Tier::next_eviction`] then returns the excess.
    pub(crate) fn set_capacity(&mut self, capacity: usize) {
        let share = |percent: u8| (capacity as u128 * u128::from(percent) / 100) as usize;
        let (hot, medium) = (share(self.shares.hot), share(self.shares.medium));
        for (level, bytes) in self.levels.iter_mut().zip([hot, medium, capacity - hot - medium]) {
            level.capacity = bytes;
        }
        self.balance();
    }

    /// Returns the capacity in bytes.
    pub(crate) fn capacity(&self) -> usize {
        self.levels.iter().map(|level| level.capacity).sum()
    }

    /// Returns whether an object of this weight can stay: it fits into every level with a capacity.
    /// A heavier object would push out a whole level and then leave itself.
    pub(crate) fn fits(&self, weight: usize) -> bool {
        let mut levels = self.levels.iter().filter(|level| level.capacity > 0);
        self.capacity() > 0 && levels.all(|level| weight <= level.capacity)
    }

    /// Returns whether an object of this weight leaves an eighth of the capacity free. Less does
    /// not count as space: each level of a full tier lacks part of an object, and more after a
    /// large one has left.
    pub(crate) fn has_space(&self, weight: usize) -> bool {
        let bytes = self.levels.iter().map(|level| level.bytes).sum::<usize>();
        bytes + weight <= self.capacity() - self.capacity() / 8
    }

    /// Looks up an object for a request. Counts the request and moves the object to the top of hot;
    /// with [`TierAdmission::SecondUse`], the first use of a prefetched object moves it to the top
    /// of medium instead.
    pub(crate) fn get(&mut self, digest: &Digest) -> Option<&Resident<T>> {
        let Some(id) = self.find(digest) else {
            self.counters.misses += 1;
            return None;
        };
        let node = self.slab.get_mut(id);
        self.counters.hits[node.level as usize] += 1;
        if node.level == Level::Cold {
            let room = self.levels[Level::Cold as usize].capacity as u128;
            let behind = u128::from(self.counters.cold_bytes - node.cold_since);
            let last = behind * 100 > room * u128::from(100 - LAST_PERCENT);
            self.counters.last_hits += u64::from(last);
        }
        node.resident.accesses = node.resident.accesses.saturating_add(1);
        let came_along = node.resident.prefetched.take();
        if let Some(band) = came_along {
            self.counters.prefetch_hits += 1;
            self.counters.band_hits[band.number()] += 1;
        }
        let first = came_along.is_some() && self.admission == TierAdmission::SecondUse;
        self.unlink(id);
        self.link(id, if first { Level::Medium } else { Level::Hot }, End::Newest);
        self.balance();
        Some(&self.slab.get(id).resident)
    }

    /// Looks up an object without counting or moving it.
    pub(crate) fn peek(&self, digest: &Digest) -> Option<&Resident<T>> {
        self.find(digest).map(|id| &self.slab.get(id).resident)
    }

    /// Returns the level that the object is in.
    pub(crate) fn level(&self, digest: &Digest) -> Option<Level> {
        self.find(digest).map(|id| self.slab.get(id).level)
    }

    /// Inserts an object at the top of medium, or of cold if it is prefetched and admission is by
    /// second use. Returns the object that it supersedes under the same digest, dirty or not; the
    /// new one takes its position in the list of the site.
    pub(crate) fn insert(&mut self, digest: Digest, resident: Resident<T>) -> Option<Resident<T>> {
        let (before, old) = self.take_out(&digest).unzip();
        let site = resident.site;
        self.counters.prefetched += u64::from(resident.prefetched.is_some());
        let weight = resident.object.weight();
        self.counters.entered_bytes += weight as u64;
        self.counters.prefetched_bytes +=
            if resident.prefetched.is_some() { weight as u64 } else { 0 };
        self.dirty_bytes += if resident.dirty { weight } else { 0 };
        let guarded = self.admission == TierAdmission::SecondUse && resident.prefetched.is_some();
        let level = if guarded { Level::Cold } else { Level::Medium };
        let id = self.slab.add(Node { digest, weight, level, cold_since: 0, resident });
        let slab = &self.slab;
        self.table.insert_unique(hash(&digest), id, |id| hash(&slab.get(*id).digest));
        if before != Some(id) || old.as_ref().is_none_or(|old| old.site != site) {
            before.into_iter().for_each(|before| self.site_lists.remove(before));
            self.site_lists.add(id, site);
        }
        self.link(id, level, End::Newest);
        self.balance();
        old
    }

    /// Removes and returns an object.
    pub(crate) fn remove(&mut self, digest: &Digest) -> Option<Resident<T>> {
        let (id, resident) = self.take_out(digest)?;
        self.site_lists.remove(id);
        Some(resident)
    }

    /// Removes an object from everything but its site's list.
    fn take_out(&mut self, digest: &Digest) -> Option<(Id, Resident<T>)> {
        let slab = &self.slab;
        let same = |id: &Id| slab.get(*id).digest == *digest;
        let entry = self.table.find_entry(hash(digest), same).ok()?;
        let (id, _) = entry.remove();
        self.unlink(id);
        let node = self.slab.take(id);
        self.dirty_bytes -= if node.resident.dirty { node.weight } else { 0 };
        Some((id, node.resident))
    }

    /// Sets whether the object is still to be written. Returns false if it is not in the tier.
    pub(crate) fn set_dirty(&mut self, digest: &Digest, dirty: bool) -> bool {
        let Some(id) = self.find(digest) else { return false };
        let node = self.slab.get_mut(id);
        match (std::mem::replace(&mut node.resident.dirty, dirty), dirty) {
            (false, true) => self.dirty_bytes += node.weight,
            (true, false) => self.dirty_bytes -= node.weight,
            _ => {}
        }
        true
    }

    /// Sets the cluster on the device that also holds the object. Returns false if the object is
    /// not in the tier.
    pub(crate) fn set_cluster(&mut self, digest: &Digest, cluster: Option<u32>) -> bool {
        let Some(id) = self.find(digest) else { return false };
        self.slab.get_mut(id).resident.cluster = cluster;
        true
    }

    /// Records that the object was placed, in `cluster` if the space has clusters, and marks it
    /// clean. It keeps its position in the list; `place` updates the object and must not change its
    /// weight. Returns false if the object is not in the tier.
    pub(crate) fn mark_placed(
        &mut self,
        digest: &Digest,
        cluster: Option<u32>,
        place: impl FnOnce(&mut T),
    ) -> bool {
        let Some(id) = self.find(digest) else { return false };
        let node = self.slab.get_mut(id);
        place(&mut node.resident.object);
        debug_assert_eq!(node.weight, node.resident.object.weight(), "its bytes are the same");
        node.resident.cluster = cluster;
        self.set_dirty(digest, false)
    }

    /// Moves an object to the top of medium, as if it had just entered.
    pub(crate) fn reinsert(&mut self, digest: &Digest) {
        let Some(id) = self.find(digest) else { return };
        self.unlink(id);
        self.link(id, Level::Medium, End::Newest);
        self.balance();
    }

    /// Returns the bytes by which cold exceeds its share.
    pub(crate) fn excess(&self) -> usize {
        let cold = &self.levels[Level::Cold as usize];
        cold.bytes.saturating_sub(cold.capacity)
    }

    /// Returns the least recently used object of cold if cold exceeds its share.
    pub(crate) fn next_eviction(&mut self) -> Option<Eviction<'_, T>> {
        let cold = &self.levels[Level::Cold as usize];
        let oldest = cold.list.oldest().filter(|_| cold.bytes > cold.capacity)?;
        let digest = self.slab.get(oldest).digest;
        if self.slab.get(oldest).resident.dirty {
            return Some(Eviction::Write(digest, &self.slab.get(oldest).resident));
        }
        self.counters.dropped += 1;
        self.remove(&digest).map(|resident| Eviction::Dropped(digest, resident))
    }

    /// Returns the oldest objects of cold that make up `percent` of its capacity, least recently
    /// used first: the candidates of grouping (systems C11, T4). At least one object unless cold is
    /// empty.
    pub(crate) fn oldest_of_cold(
        &self,
        percent: u8,
    ) -> impl Iterator<Item = (&Digest, &Resident<T>)> {
        let cold = &self.levels[Level::Cold as usize];
        let mut before = 0;
        let bound = (cold.capacity as u128 * u128::from(percent) / 100) as usize;
        self.upwards(cold.list.oldest())
            .take_while(move |node| {
                let within = before == 0 || before < bound;
                before += node.weight;
                within
            })
            .map(|node| (&node.digest, &node.resident))
    }

    /// Returns the objects of the same site that entered memory before and after this one, nearest
    /// first: at most `steps` in each direction.
    pub(crate) fn beside(
        &self,
        digest: &Digest,
        steps: usize,
    ) -> impl Iterator<Item = (&Digest, &Resident<T>)> {
        let around = self.find(digest).map(|id| self.site_lists.around(id, steps));
        around.into_iter().flatten().map(|id| {
            let node = self.slab.get(id);
            (&node.digest, &node.resident)
        })
    }

    /// Returns all objects, least recently used first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Digest, &Resident<T>)> {
        [Level::Cold, Level::Medium, Level::Hot]
            .into_iter()
            .flat_map(|level| self.upwards(self.levels[level as usize].list.oldest()))
            .map(|node| (&node.digest, &node.resident))
    }

    #[cfg(test)]
    /// Returns the total weight of all objects, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.levels.iter().map(|level| level.bytes).sum()
    }

    /// Returns the total weight of the objects in one level, in bytes.
    pub(crate) fn level_bytes(&self, level: Level) -> usize {
        self.levels[level as usize].bytes
    }

    /// Returns the total weight of the dirty objects, in bytes.
    pub(crate) fn dirty_bytes(&self) -> usize {
        self.dirty_bytes
    }

    /// Returns the memory of the tier's own structures, in bytes, without the objects.
    pub(crate) fn overhead_bytes(&self) -> usize {
        self.slab.memory_bytes() + self.table.allocation_size() + self.site_lists.memory_bytes()
    }

    /// Returns the number of objects.
    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    /// Returns the data that price a prefetched byte by the objects that it finally pushes out: the
    /// last ones of the whole list or, if it enters cold, of cold.
    pub(crate) fn space_price(&self) -> Memory {
        let counters = &self.counters;
        let (entered_bytes, cold_hits, capacity, cold_percent) = match self.admission {
            TierAdmission::All => {
                let cold_percent = 100 - self.shares.hot - self.shares.medium;
                let cold_hits = counters.hits[Level::Cold as usize];
                (counters.entered_bytes, cold_hits, self.capacity(), cold_percent)
            }
            TierAdmission::SecondUse => {
                let capacity = self.levels[Level::Cold as usize].capacity;
                (counters.cold_bytes, counters.last_hits, capacity, LAST_PERCENT)
            }
        };
        let TierCounters { band_hits, prefetched_bytes, .. } = *counters;
        Memory { band_hits, prefetched_bytes, entered_bytes, cold_hits, capacity, cold_percent }
    }

    pub(crate) fn counters(&self) -> &TierCounters {
        &self.counters
    }

    fn find(&self, digest: &Digest) -> Option<Id> {
        self.table.find(hash(digest), |id| self.slab.get(*id).digest == *digest).copied()
    }

    fn upwards(&self, oldest: Option<Id>) -> impl Iterator<Item = &Node<T>> {
        std::iter::successors(oldest, |id| self.slab.newer(*id)).map(|id| self.slab.get(id))
    }

    fn link(&mut self, id: Id, level: Level, end: End) {
        let state = &mut self.levels[level as usize];
        let node = self.slab.get_mut(id);
        node.level = level;
        state.bytes += node.weight;
        if level == Level::Cold {
            self.counters.cold_bytes += node.weight as u64;
            node.cold_since = self.counters.cold_bytes;
        }
        match end {
            End::Newest => self.slab.push_newest(&mut state.list, id),
            End::Oldest => self.slab.push_oldest(&mut state.list, id),
        }
    }

    fn unlink(&mut self, id: Id) {
        let node = self.slab.get(id);
        let state = &mut self.levels[node.level as usize];
        state.bytes -= node.weight;
        self.slab.unlink(&mut state.list, id);
    }

    /// Moves the excess of hot and medium. Objects only cross a border within the one list, so
    /// their overall order does not change.
    fn balance(&mut self) {
        const HOT: usize = Level::Hot as usize;
        const MEDIUM: usize = Level::Medium as usize;
        while self.levels[HOT].bytes > self.levels[HOT].capacity {
            let Some(oldest) = self.levels[HOT].list.oldest() else { break };
            self.unlink(oldest);
            self.link(oldest, Level::Medium, End::Newest);
        }
        while self.levels[MEDIUM].bytes > self.levels[MEDIUM].capacity {
            let list = self.levels[MEDIUM].list;
            let (Some(newest), Some(oldest)) = (list.newest(), list.oldest()) else { break };
            let hot = self.levels[HOT].bytes + self.slab.get(newest).weight;
            if hot <= self.levels[HOT].capacity {
                self.unlink(newest);
                self.link(newest, Level::Hot, End::Oldest);
            } else {
                self.unlink(oldest);
                self.link(oldest, Level::Cold, End::Newest);
            }
        }
    }
}

#[derive(Clone, Copy)]
enum End {
    Newest,
    Oldest,
}

fn hash(digest: &Digest) -> u64 {
    digest.halves().0
}

#[cfg(test)]
mod tests;
