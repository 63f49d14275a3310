//! The memory tier: whole objects in memory, in one list from most to least recently used that is
//! divided in three by bytes (systems C10): hot, medium and cold.
//!
//! New and prefetched objects enter at the top of medium, so that what is asked for once does not
//! displace what is asked for often. With [`TierAdmission::SecondUse`] prefetched objects enter at
//! the top of cold, where they displace one another, and the first hit moves them to the top of
//! medium, as a new object. Any other hit moves an object to the top of hot. What hot has too
//! much goes to the top of medium. What medium has too much goes to the bottom of hot while that
//! has room, from medium's recent end, and to the top of cold otherwise, from its old end. What
//! cold has too much is to be evicted.
//!
//! Nothing dirty is dropped silently: [`Tier::next_eviction`] hands a clean object out and names a
//! dirty one, which stays until its owner has taken it away to be written.
//!
//! It promises: bytes are exact (the weight that an object had when it entered), every level but
//! cold is within its share after every call, cold once `next_eviction` answers `None`, and every
//! call takes constant amortised time.

mod lists;
pub(crate) mod site_lists;

use hashbrown::HashTable;

use crate::base::digest::Digest;
use crate::config::options::{TierAdmission, TierShares};
use crate::read::window::{ALL_BANDS, DistanceBand, Memory};
use lists::{Id, List, Slab};
use site_lists::SiteLists;

/// Something whose bytes in memory are counted.
pub(crate) trait Weighed {
    /// Bytes in memory, overhead included.
    fn weight(&self) -> usize;
}

/// One of the three parts of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    /// Hit since it entered, and recently.
    Hot = 0,
    /// New, prefetched or no longer hot.
    Medium = 1,
    /// Next to be grouped, written or dropped.
    Cold = 2,
}

/// An object in memory with what eviction and grouping need to know of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Resident<T> {
    /// The object.
    pub object: T,
    /// Not on the device: may not be dropped, only written or given up.
    pub dirty: bool,
    /// Read from the device beside an object that was asked for, in this band of neighbours, and
    /// not asked for itself.
    pub prefetched: Option<DistanceBand>,
    /// A page that embeds others.
    pub html: bool,
    /// The cluster on the device that holds the object as well.
    pub cluster: Option<u32>,
    /// How often the object was asked for.
    pub accesses: u32,
    /// Hash of site and directory.
    pub group: u64,
    /// Hash of the site.
    pub site: u64,
}

/// What must leave the tier next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Eviction<'a, T> {
    /// Clean, and already out.
    Dropped(Digest, Resident<T>),
    /// Dirty, and still in: write it (alone or in a group), then [`Tier::remove`] it.
    Write(Digest, &'a Resident<T>),
}

/// What happened so far (systems C12).
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
    /// Those by the band that brought them.
    pub band_hits: [u64; ALL_BANDS],
    /// Bytes of all objects that entered.
    pub entered_bytes: u64,
    /// Bytes that came into cold, from medium or from the device.
    pub cold_bytes: u64,
    /// Hits of what would have left cold next: of what came into it before the last 70% of the
    /// bytes that it has room for.
    pub last_hits: u64,
    /// Clean objects dropped for room.
    pub dropped: u64,
}

struct Node<T> {
    digest: Digest,
    weight: usize,
    level: Level,
    /// [`TierCounters::cold_bytes`] when it came into cold.
    cold_since: u64,
    resident: Resident<T>,
}

/// The last part of cold, in percent: what would be lost first.
const LAST_PERCENT: u8 = 30;

#[derive(Clone, Copy)]
struct LevelState {
    list: List,
    bytes: usize,
    capacity: usize,
}

/// The memory tier. See the module for what it promises.
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
    /// An empty tier of `capacity` bytes.
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

    /// Changes the capacity in bytes. What is too much shows in [`Tier::next_eviction`].
    pub(crate) fn set_capacity(&mut self, capacity: usize) {
        let share = |percent: u8| (capacity as u128 * u128::from(percent) / 100) as usize;
        let (hot, medium) = (share(self.shares.hot), share(self.shares.medium));
        for (level, bytes) in self.levels.iter_mut().zip([hot, medium, capacity - hot - medium]) {
            level.capacity = bytes;
        }
        self.balance();
    }

    /// The capacity in bytes.
    pub(crate) fn capacity(&self) -> usize {
        self.levels.iter().map(|level| level.capacity).sum()
    }

    /// True when an object of this weight can stay: it fits each level that there is. A heavier
    /// one would push a whole level out and then leave itself.
    pub(crate) fn fits(&self, weight: usize) -> bool {
        let mut levels = self.levels.iter().filter(|level| level.capacity > 0);
        self.capacity() > 0 && levels.all(|level| weight <= level.capacity)
    }

    /// True when an object of this weight would push nothing out, nor come near it: each level
    /// of a full tier lacks a part of an object, and more where a large one has just left.
    pub(crate) fn has_room(&self, weight: usize) -> bool {
        let bytes = self.levels.iter().map(|level| level.bytes).sum::<usize>();
        bytes + weight <= self.capacity() - self.capacity() / 8
    }

    /// Looks an object up for a request: counts, and moves it up, to the top of hot unless it came
    /// along with another and this is its first use.
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

    /// Looks an object up without a trace.
    pub(crate) fn peek(&self, digest: &Digest) -> Option<&Resident<T>> {
        self.find(digest).map(|id| &self.slab.get(id).resident)
    }

    /// In which part of the list the object is.
    pub(crate) fn level(&self, digest: &Digest) -> Option<Level> {
        self.find(digest).map(|id| self.slab.get(id).level)
    }

    /// Puts an object at the top of medium, or of cold when it came along with another and enters
    /// by its second use only. Returns what was there under its digest, dirty or not:
    /// it is superseded, and the new one takes its place in the list of the site.
    pub(crate) fn insert(&mut self, digest: Digest, resident: Resident<T>) -> Option<Resident<T>> {
        let (before, old) = self.take_out(&digest).unzip();
        let site = resident.site;
        self.counters.prefetched += u64::from(resident.prefetched.is_some());
        let weight = resident.object.weight();
        self.counters.entered_bytes += weight as u64;
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

    /// Takes an object out.
    pub(crate) fn remove(&mut self, digest: &Digest) -> Option<Resident<T>> {
        let (id, resident) = self.take_out(digest)?;
        self.site_lists.remove(id);
        Some(resident)
    }

    /// Takes an object out of everything but its list.
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

    /// Notes that the object is (no longer) to be written. False when it is not here.
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

    /// Notes on which cluster of the device the object is as well. False when it is not here.
    pub(crate) fn set_cluster(&mut self, digest: &Digest, cluster: Option<u32>) -> bool {
        let Some(id) = self.find(digest) else { return false };
        self.slab.get_mut(id).resident.cluster = cluster;
        true
    }

    /// The object was placed, in `cluster` where there are any, and is clean from now on. It stays
    /// where it is in the list; `object` weighs what it weighed. False when it is not here.
    pub(crate) fn mark_placed(&mut self, digest: &Digest, object: T, cluster: Option<u32>) -> bool {
        let Some(id) = self.find(digest) else { return false };
        let node = self.slab.get_mut(id);
        debug_assert_eq!(node.weight, object.weight(), "its bytes are the same");
        node.resident.object = object;
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

    /// Bytes of objects that are to leave.
    pub(crate) fn excess(&self) -> usize {
        let cold = &self.levels[Level::Cold as usize];
        cold.bytes.saturating_sub(cold.capacity)
    }

    /// The object that must leave because cold has more than its share: its least recently used.
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

    /// The oldest `percent` of cold by bytes of its capacity, least recently used first: what
    /// grouping may choose from (systems C11, T4). At least one object when cold has one.
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

    /// The objects of the same site that came into memory before and behind one, the nearest
    /// first: at most `steps` each way.
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

    /// All objects, least recently used first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Digest, &Resident<T>)> {
        [Level::Cold, Level::Medium, Level::Hot]
            .into_iter()
            .flat_map(|level| self.upwards(self.levels[level as usize].list.oldest()))
            .map(|node| (&node.digest, &node.resident))
    }

    #[cfg(test)]
    /// Sum of the objects' weights in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.levels.iter().map(|level| level.bytes).sum()
    }

    /// Sum of the weights of the objects in one level, in bytes.
    pub(crate) fn level_bytes(&self, level: Level) -> usize {
        self.levels[level as usize].bytes
    }

    /// Sum of the weights of the dirty objects, in bytes.
    pub(crate) fn dirty_bytes(&self) -> usize {
        self.dirty_bytes
    }

    /// Bytes of memory of the tier's own structures, the objects not included.
    pub(crate) fn overhead_bytes(&self) -> usize {
        self.slab.memory_bytes() + self.table.allocation_size() + self.site_lists.memory_bytes()
    }

    /// Number of objects.
    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    /// What a byte costs that comes along with a read: what it pushes out, in the end. That is
    /// what the whole list would lose first, or what cold would, where it enters cold.
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
        Memory { band_hits: counters.band_hits, entered_bytes, cold_hits, capacity, cold_percent }
    }

    /// What happened so far.
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

    /// Moves what hot and medium have too much. Objects only cross a border of the one list, so
    /// the order of all of them stays as it is.
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
