//! Figures of one device's store at one moment.

use device::PoolCounts;

use crate::base::counters::Counters;
use crate::config::layout_name::LayoutName;
use crate::core::HeldStats;
use crate::core::state::Core;
use crate::format::staging_memory::StagingMemory;
use crate::memory::locality_staging::LocalityStaging;
use crate::memory::memory_tier::Level;
use crate::read::device_cost::ReadCost;
use crate::read::reads::ReadCounters;
use crate::space::cluster_table::{ClusterTable, Policy, State};
use crate::space::slot_stats::SlotStats;
use crate::space::slots::SlotSpace;

/// Figures of one device's store at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Stats {
    /// Totals since the store was opened.
    pub counters: Counters,
    /// Counters of the reads for lookups.
    pub reads: ReadCounters,
    /// The measured cost of a read on the device, and the number of reads that it is based on.
    pub read_cost: (ReadCost, u64),
    /// Holds of the readers of large objects.
    pub held: HeldStats,
    /// Bytes in memory of pieces of large objects that are being sent.
    pub transit_bytes: usize,
    /// True if the device is in use.
    pub online: bool,
    /// True if a write or flush takes longer than it may, so that nothing waits for the device.
    pub writes_stall: bool,
    /// Clusters or windows that recovery has read, and their total; equal when it is complete.
    pub recovered: (u32, u32),
    /// True if recovery is under way.
    pub recovering: bool,
    /// Number of records in the index.
    pub index_entries: usize,
    /// Load of the index: the share of its slots that are taken, 0 to 1.
    pub index_load: f64,
    /// Bytes of memory that the index takes.
    pub index_bytes: usize,
    /// Bytes of memory that the cluster table, or the tables of the slots, take.
    pub cluster_table_bytes: usize,
    /// Bytes of objects in memory: hot, medium, cold.
    pub tier_bytes: [usize; 3],
    /// Capacity of the memory tier in bytes.
    pub tier_capacity: usize,
    /// Bytes of read-ahead that is kept beside the memory tier.
    pub read_ahead_bytes: usize,
    /// Number of objects in memory.
    pub tier_objects: usize,
    /// Bytes of memory that the tier's own structures and its doorkeeper take.
    pub tier_overhead_bytes: usize,
    /// Bytes of objects in memory that are not on the device yet (write-on-evict).
    pub dirty_bytes: usize,
    /// Bytes of objects that wait for others to be placed beside.
    pub staged_bytes: u64,
    /// Bytes of stored objects that a kill of the process would lose.
    pub exposed_bytes: usize,
    /// Number of objects of which memory that outlives the process has a copy.
    pub kept_objects: usize,
    /// Bytes of that memory.
    pub staging_bytes: usize,
    /// Bytes of records that wait to be written.
    pub unwritten_bytes: usize,
    /// Counters of the read buffers.
    pub buffers: PoolCounts,
    /// Size of a cluster in bytes.
    pub cluster_size: u32,
    /// Number of clusters.
    pub clusters: u32,
    /// Number of clusters that hold records.
    pub clusters_in_use: u32,
    /// Number of clusters that are free, or become free with the next flush.
    pub clusters_free: u32,
    /// Number of clusters that the device could not write.
    pub clusters_bad: u32,
    /// Number of dead records on the device, in clusters.
    pub dead_records: usize,
    /// The layout of objects.
    pub layout: LayoutName,
    /// Figures of the slots, in slot layouts; there are no clusters then.
    pub slots: Option<SlotStats>,
    /// Number of purges of labels, prefixes and everything in force.
    pub purges: usize,
    /// Number of purges above which the oldest are merged.
    pub purges_max: usize,
    /// Number of times that the cache was opened.
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
    /// Returns the current figures; `buffers` are those of the read buffers.
    pub(crate) fn stats(&self, buffers: PoolCounts) -> Stats {
        let empty = ClusterTable::new(0, 1, Policy::default());
        let clusters =
            if self.placement.space.has_clusters() { self.placement.space.table() } else { &empty };
        let mut counters = self.counters;
        counters.prefetched = self.memory.tier.counters().prefetched + self.reads.ahead().brought;
        counters.prefetch_hits =
            self.memory.tier.counters().prefetch_hits + self.reads.ahead().hits;
        Stats {
            counters,
            reads: self.reads.counters(),
            read_cost: self.reads.cost(),
            held: self.holds.stats(),
            transit_bytes: self.memory.in_transit.bytes(),
            online: self.online(),
            writes_stall: self.health.writes_stall(),
            recovered: self.recovery.progress(),
            recovering: self.recovery.is_running(),
            index_entries: self.index.len(),
            index_load: self.index.load(),
            index_bytes: self.index.memory_bytes(),
            cluster_table_bytes: self.placement.space.memory_bytes(),
            tier_bytes: [Level::Hot, Level::Medium, Level::Cold]
                .map(|level| self.memory.tier.level_bytes(level)),
            tier_capacity: self.memory.tier.capacity(),
            read_ahead_bytes: self.reads.ahead().bytes(),
            tier_objects: self.memory.tier.len(),
            tier_overhead_bytes: self.memory.overhead_bytes(),
            dirty_bytes: self.memory.tier.dirty_bytes(),
            staged_bytes: self.memory.staging.as_ref().map_or(0, LocalityStaging::bytes),
            exposed_bytes: self.exposed_bytes(),
            kept_objects: self.kept.as_ref().map_or(0, StagingMemory::len),
            staging_bytes: self.kept.as_ref().map_or(0, StagingMemory::size),
            unwritten_bytes: self.placement.space.unwritten_bytes(),
            buffers,
            cluster_size: self.placement.areas.cluster_size,
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
            layout: LayoutName::of(self.superblock.get().layout),
            slots: self.placement.space.slots().map(SlotSpace::stats),
            purges: self.purges.tables.len(),
            purges_max: self.purges.tables.max(),
            generation: self.superblock.get().generation,
        }
    }
}
