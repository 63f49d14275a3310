//! What maintenance remembers between its steps.

use device::Nanos;

use crate::base::limits::ClusterId;
use crate::format::journal::JournalPosition;

/// What maintenance remembers between its steps.
#[derive(Default)]
pub(super) struct MaintenanceState {
    /// The free reserve fell below its low mark and has not reached its high one yet.
    pub(super) refilling: bool,
    /// Something was written since the last flush began.
    pub(super) unflushed: bool,
    /// When the last flush ended.
    pub(super) last_flush: Nanos,
    /// When facts were first seen waiting.
    pub(super) facts_since: Option<Nanos>,
    /// Everything is to be written now: an orderly stop.
    pub(super) draining: bool,
    /// The last step was for those who wait for the journal.
    pub(super) synced: bool,
    /// A write takes longer than it may: callers do not wait for the background.
    pub(super) writes_stall: bool,
    /// Reports on the table of purges that operators have had.
    pub(super) purges_reported: PurgesReported,
    /// An insertion found no place.
    pub(super) starved: bool,
    /// Clusters that are being given up together.
    pub(super) sweep: Option<Sweep>,
    /// A checkpoint is to be written now.
    pub(super) checkpoint_wanted: bool,
    /// Clusters in which something was asked for, and of which it is not known what lies together.
    pub(super) unlearned: Vec<ClusterId>,
    /// Clusters to be given up by what their summaries say, pinned.
    pub(super) summarized: Vec<(ClusterId, u64)>,
    /// Somebody waits for the journal to be written up to here.
    pub(super) write_wanted: JournalPosition,
    /// Somebody waits for the journal to be durable up to here.
    pub(super) flush_wanted: JournalPosition,
    /// Somebody waits for so many logged purges to be durable.
    pub(super) log_wanted: u64,
    /// Somebody waits for the superblock to name this run of the store.
    pub(super) run_wanted: u64,
}

/// Reports on the table of purges that operators have had.
#[derive(Default)]
pub(super) struct PurgesReported {
    /// The table is nearly full.
    pub(super) filling: bool,
    /// Number of merges that were reported.
    pub(super) merged: u64,
}

/// Clusters that are given up together. The journal says so already; a sweep of the index forgets
/// what leads there, so that nothing has to be read for it.
pub(super) struct Sweep {
    /// Pinned until the sweep has ended: nothing is written there meanwhile.
    pub(super) victims: Vec<ClusterId>,
    /// A bit per cluster: set for those.
    pub(super) bits: Vec<u64>,
}
