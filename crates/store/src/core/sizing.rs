//! How large the tables are, and how memory is divided.

use crate::config::options::Options;
use crate::format::device_layout::{Areas, DEAD_PER_CLUSTER};
use crate::index::IndexOptions;
use crate::purge::purges::Purges;
use crate::space::cluster_table::Policy;

/// Bytes of buffers that may wait for reads, if an eighth of the memory is as much: three for half
/// a megabyte of a large object.
const BUFFERS_LEAST: usize = 2 << 20;

/// How memory is divided; see `docs/architecture.md`.
pub(crate) struct MemoryPlan {
    pub(crate) unwritten_max: usize,
    pub(crate) buffers: usize,
    pub(crate) tier: usize,
    /// Of what reads bring along.
    pub(crate) ahead: usize,
}

impl MemoryPlan {
    /// Divides `memory` bytes beside tables that take `tables` bytes. An eighth, but at least two
    /// clusters, is for records that wait; they are in aligned buffers once more while they are
    /// written. An eighth is for reads and what fills collect; half of that, but up to
    /// [`BUFFERS_LEAST`] all of it, may be buffers that wait for the next reads. The rest is the
    /// tier's, but for an eighth of it that keeps what reads bring along, where that is kept apart.
    pub(super) fn new(memory: u64, tables: usize, areas: &Areas, reads_ahead: bool) -> MemoryPlan {
        let memory = usize::try_from(memory).unwrap_or(usize::MAX);
        let unwritten_max = (memory / 8).max(2 * areas.cluster_size as usize);
        let reserved = tables + 2 * unwritten_max + memory / 8;
        let rest = memory.saturating_sub(reserved).max(memory / 8);
        let ahead = if reads_ahead { rest / 8 } else { 0 };
        let buffers = (memory / 16).max(BUFFERS_LEAST.min(memory / 8));
        MemoryPlan { unwritten_max, buffers, tier: rest - ahead, ahead }
    }
}

/// Objects that a cache of `size` bytes is expected to hold: as many as the index was made for, who
/// may have been configured otherwise.
pub(crate) fn objects_of(index: IndexOptions, size: u64, mean_object: u32) -> u64 {
    let expected = size / u64::from(mean_object.max(1));
    expected.max(index.entries_for(size, mean_object))
}

/// Returns the policy by which a table of `clusters` clusters replaces them.
pub(crate) fn cluster_policy(options: &Options, clusters: u32) -> Policy {
    Policy {
        half_life_percent: options.reference_half_life,
        mean_references: options.aging_mean,
        young_percent: options.young_percent,
        prefer: options.prefer,
        one_timer_seconds: options.one_timer_age.map(|age| age.as_secs() as u32),
        max_dead: (u64::from(clusters) * DEAD_PER_CLUSTER) as usize,
    }
}

/// Purges of what nothing bears that are remembered for fetches that had begun before. What began
/// before the oldest quarter of more of them is not kept.
pub(super) const FETCH_PURGES: usize = 16_384;

/// The part of the memory that the table of purges may take.
const TABLE_SHARE: u64 = 32;

/// Returns the bytes of memory for the table of purges, and for those of what nothing bears.
pub(super) fn table_bytes(memory: u64) -> u64 {
    memory / TABLE_SHARE + (FETCH_PURGES * Purges::ENTRY_BYTES) as u64
}

/// Entries that the table of purges may have in `memory` bytes for everything.
pub(super) fn purges_in(memory: u64) -> u64 {
    memory / TABLE_SHARE / Purges::ENTRY_BYTES as u64
}
