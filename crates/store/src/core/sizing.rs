//! The sizes of the tables, and the division of memory.

use crate::config::options::Options;
use crate::format::device_layout::{Areas, DEAD_PER_CLUSTER};
use crate::format::staging_memory::StagingMemory;
use crate::index::IndexOptions;
use crate::purge::label_filters::LabelFilters;
use crate::purge::purges::Purges;
use crate::space::appender::REQUEST_MAX;
use crate::space::cluster_table::Policy;

/// Bytes of buffers that may be kept for reads, if an eighth of the memory is as much: three
/// buffers for half a megabyte of a large object each.
const BUFFERS_LEAST: usize = 2 << 20;

/// The division of memory; see `docs/architecture.md`.
pub(crate) struct MemoryPlan {
    pub(crate) unwritten_max: usize,
    pub(crate) buffers: usize,
    pub(crate) tier: usize,
    pub(crate) ahead: usize,
    /// Bytes for the filters of labels.
    pub(crate) label_filters: u64,
    /// Bytes of staging memory.
    pub(crate) staging: usize,
}

impl MemoryPlan {
    /// Divides `memory` bytes, of which the tables take `tables` bytes, and what belongs to labels
    /// besides, if there are `labelled` objects. An eighth, but at least two
    /// clusters, is for pending records; they take as much again in aligned buffers while they are
    /// written. An eighth is for reads and for the windows of fills; half of it, or all of it up to
    /// [`BUFFERS_LEAST`], may be buffers kept for the next reads. Where batches of `kept_batch`
    /// bytes are copied to staging memory, that holds one and a half of them; then half of the
    /// pending records are objects of the tier, and one write takes [`REQUEST_MAX`] bytes at most.
    /// The rest is for the tier, except for an eighth of it that first holds read-ahead, where that
    /// is kept apart.
    pub(super) fn new(
        memory: u64,
        tables: usize,
        labelled: Option<u64>,
        areas: &Areas,
        reads_ahead: bool,
        kept_batch: Option<u32>,
    ) -> MemoryPlan {
        let label_filters = labelled.map_or(0, |objects| LabelFilters::bytes_for(objects, memory));
        let purges = labelled.map_or(0, |_| table_bytes(memory));
        let tables = tables + usize::try_from(label_filters + purges).unwrap_or(usize::MAX);
        let memory = usize::try_from(memory).unwrap_or(usize::MAX);
        let unwritten_max = (memory / 8).max(2 * areas.cluster_size as usize);
        let (staging, pending) = match kept_batch {
            None => (0, 2 * unwritten_max),
            Some(batch) => {
                let batch = (batch as usize).min(unwritten_max / 2);
                let staging = StagingMemory::size_for(batch + batch / 2);
                (staging, unwritten_max / 2 + unwritten_max.min(REQUEST_MAX as usize))
            }
        };
        let reserved = tables + pending + memory / 8 + staging;
        let rest = memory.saturating_sub(reserved).max(memory / 8);
        let ahead = if reads_ahead { rest / 8 } else { 0 };
        let buffers = (memory / 16).max(BUFFERS_LEAST.min(memory / 8));
        MemoryPlan { unwritten_max, buffers, tier: rest - ahead, ahead, label_filters, staging }
    }
}

/// Returns the number of objects that a cache of `size` bytes is expected to hold: at least the
/// number of entries of the index, which may have been configured.
pub(crate) fn objects_of(index: IndexOptions, size: u64, mean_object: u32) -> u64 {
    let expected = size / u64::from(mean_object.max(1));
    expected.max(index.entries_for(size, mean_object))
}

/// Returns the replacement policy of a table of `clusters` clusters.
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

/// Number of purges of labels that no object bears that are remembered for fetches under way. When
/// there are more, the oldest quarter is merged into one purge of everything as old, and results of
/// fetches that began before it are not stored.
pub(super) const FETCH_PURGES: usize = 16_384;

/// Divisor of the memory that the purge table may take.
const TABLE_SHARE: u64 = 32;

/// Returns the bytes of memory for the purge table, and for the purges of labels that no object
/// bears.
fn table_bytes(memory: u64) -> u64 {
    memory / TABLE_SHARE + (FETCH_PURGES * Purges::ENTRY_BYTES) as u64
}

/// Returns how many entries the purge table may have if all memory is `memory` bytes.
pub(super) fn purges_in(memory: u64) -> u64 {
    memory / TABLE_SHARE / Purges::ENTRY_BYTES as u64
}
