//! Figures of one device's store at one moment.

use device::PoolCounts;

use crate::base::counters::Counters;
use crate::config::layout_name::LayoutName;
use crate::core::HeldStats;
use crate::core::state::Core;
use crate::memory::doorkeeper::Doorkeeper;
use crate::memory::memory_tier::Level;
use crate::read::device_cost::ReadCost;
use crate::read::reads::ReadCounters;
use crate::space::cluster_table::{ClusterTable, Policy, State};
use crate::space::slot_stats::SlotStats;
use crate::space::slots::SlotSpace;

/// Figures of one device's store.
#[derive(Clone, Copy, Debug)]
pub struct Stats {
    /// Totals since the store was opened.
    pub counters: Counters,
    /// How the reads for lookups went.
    pub reads: ReadCounters,
    /// What a read costs on the device, as measured by so many reads.
    pub read_cost: (ReadCost, u64),
    /// What the readers of large objects hold.
    pub held: HeldStats,
    /// Bytes of memory of pieces of large objects that are being sent.
    pub transit_bytes: usize,
    /// The device is in use.
    pub online: bool,
    /// A write or flush takes longer than it may: nothing waits for the device.
    pub writes_stall: bool,
    /// Clusters that recovery has read, and how many there are; equal when it is complete.
    pub recovered: (u32, u32),
    /// Recovery goes on.
    pub recovering: bool,
    /// Records in the index.
    pub index_entries: usize,
    /// Share of the index's slots that is taken, 0 to 1.
    pub index_load: f64,
    /// Bytes of memory of the index.
    pub index_bytes: usize,
    /// Bytes of memory of the cluster table, or of the tables of the slots.
    pub cluster_table_bytes: usize,
    /// Bytes of objects in memory: hot, medium, cold.
    pub tier_bytes: [usize; 3],
    /// Bytes that the memory tier may hold.
    pub tier_capacity: usize,
    /// Bytes of what reads brought along beside what was asked for.
    pub read_ahead_bytes: usize,
    /// Objects in memory.
    pub tier_objects: usize,
    /// Bytes of memory of the tier's own structures, and of what says what enters it.
    pub tier_overhead_bytes: usize,
    /// Bytes of objects in memory that are not on the device yet (write-on-evict).
    pub dirty_bytes: usize,
    /// Bytes of records that wait to be written.
    pub unwritten_bytes: usize,
    /// Buffers for reads.
    pub buffers: PoolCounts,
    /// Bytes of a cluster.
    pub cluster_size: u32,
    /// Clusters in all.
    pub clusters: u32,
    /// Clusters that hold records.
    pub clusters_in_use: u32,
    /// Clusters that are free, or become so at the next flush.
    pub clusters_free: u32,
    /// Clusters that the device could not write.
    pub clusters_bad: u32,
    /// Records on the device that are dead.
    pub dead_records: usize,
    /// How objects are laid out.
    pub layout: LayoutName,
    /// Slots, in the layouts that have them; clusters are none then.
    pub slots: Option<SlotStats>,
    /// Purges of labels, prefixes and everything in force.
    pub purges: usize,
    /// How many there may be before the oldest are merged.
    pub purges_max: usize,
    /// How often the cache was opened.
    pub generation: u64,
}

impl Stats {
    /// Returns the percentage of the space that is in use.
    pub fn percent_full(&self) -> u64 {
        let (used, all) = match &self.slots {
            Some(slots) => (slots.slots - slots.free.min(slots.slots), slots.slots),
            None => (u64::from(self.clusters_in_use), u64::from(self.clusters)),
        };
        used * 100 / all.max(1)
    }
}

impl Core {
    /// Returns the figures at this moment; `buffers` are those for reads.
    pub(crate) fn stats(&self, buffers: PoolCounts) -> Stats {
        let empty = ClusterTable::new(0, 1, Policy::default());
        let clusters = if self.space.has_clusters() { self.space.table() } else { &empty };
        let mut counters = self.counters;
        counters.prefetched = self.memory.tier.counters().prefetched + self.reads.ahead().brought;
        counters.prefetch_hits =
            self.memory.tier.counters().prefetch_hits + self.reads.ahead().hits;
        Stats {
            counters,
            reads: self.reads.counters(),
            read_cost: self.reads.cost(),
            held: self.held.stats(),
            transit_bytes: self.memory.in_transit.bytes(),
            online: self.online(),
            writes_stall: self.maintenance.writes_stall,
            recovered: self.scanned,
            recovering: self.recovering.is_some(),
            index_entries: self.index.len(),
            index_load: self.index.load(),
            index_bytes: self.index.memory_bytes(),
            cluster_table_bytes: self.space.memory_bytes(),
            tier_bytes: [Level::Hot, Level::Medium, Level::Cold]
                .map(|level| self.memory.tier.level_bytes(level)),
            tier_capacity: self.memory.tier.capacity(),
            read_ahead_bytes: self.reads.ahead().bytes(),
            tier_objects: self.memory.tier.len(),
            tier_overhead_bytes: self.memory.tier.overhead_bytes()
                + self.memory.doorkeeper.as_ref().map_or(0, Doorkeeper::memory_bytes),
            dirty_bytes: self.memory.tier.dirty_bytes(),
            unwritten_bytes: self.space.unwritten_bytes(),
            buffers,
            cluster_size: self.areas.cluster_size,
            clusters: clusters.clusters(),
            clusters_in_use: [State::Open, State::Writing, State::OnDisk, State::OnDiskAndInMemory]
                .iter()
                .map(|state| clusters.count(*state))
                .sum(),
            clusters_free: [State::Free, State::Quarantined, State::Draining]
                .iter()
                .map(|state| clusters.count(*state))
                .sum(),
            clusters_bad: clusters.count(State::Bad),
            dead_records: clusters.total_dead(),
            layout: LayoutName::of(self.superblock.layout),
            slots: self.space.slots().map(SlotSpace::stats),
            purges: self.purges.len(),
            purges_max: self.purges.max(),
            generation: self.superblock.generation,
        }
    }
}
