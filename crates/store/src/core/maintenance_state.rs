//! State that maintenance keeps between its steps.

use device::Nanos;

use crate::base::limits::ClusterId;
use crate::format::journal::JournalPosition;

/// State that maintenance keeps between its steps.
#[derive(Default)]
pub(super) struct MaintenanceState {
    /// True if the free reserve fell below its low mark and has not reached its high mark yet.
    pub(super) refilling: bool,
    /// True if anything was written since the last flush began.
    pub(super) unflushed: bool,
    /// Time at which the last flush ended.
    pub(super) last_flush: Nanos,
    /// Time at which pending facts were first seen.
    pub(super) facts_since: Option<Nanos>,
    /// True if everything must be written now, for an orderly stop.
    pub(super) draining: bool,
    /// True if the last step was for tasks that wait for the journal.
    pub(super) synced: bool,
    /// True if a write takes longer than it may, so that callers do not wait for the background.
    pub(super) writes_stall: bool,
    /// Reports on the purge table that the operator has received.
    pub(super) purges_reported: PurgesReported,
    /// True if an insertion found no place.
    pub(super) starved: bool,
    /// The sweep of clusters that are being evicted together.
    pub(super) sweep: Option<Sweep>,
    /// True if a checkpoint must be written now.
    pub(super) checkpoint_wanted: bool,
    /// Clusters with requested objects whose runs are not known.
    pub(super) unlearned: Vec<ClusterId>,
    /// Clusters to evict by their summaries; pinned.
    pub(super) summarized: Vec<(ClusterId, u64)>,
    /// The position that tasks wait for the journal to be written up to.
    pub(super) write_wanted: JournalPosition,
    /// The position that tasks wait for the journal to be durable up to.
    pub(super) flush_wanted: JournalPosition,
    /// The number of logged purges that tasks wait to be durable.
    pub(super) log_wanted: u64,
    /// The run of the store that tasks wait for the superblock to name.
    pub(super) run_wanted: u64,
}

/// Reports on the purge table that the operator has received.
#[derive(Default)]
pub(super) struct PurgesReported {
    /// True if the table was reported as nearly full.
    pub(super) filling: bool,
    /// Number of merges reported.
    pub(super) merged: u64,
}

/// Clusters that are evicted together. The journal has already been told. A sweep of the index
/// removes the entries that lead into them, so nothing must be read from them.
pub(super) struct Sweep {
    /// The clusters, pinned until the sweep has ended so that nothing is written there meanwhile.
    pub(super) victims: Vec<ClusterId>,
    /// One bit for each cluster of the device, set for these.
    pub(super) bits: Vec<u64>,
}
