//! The state of recovery: clusters still to read, and removals that it must not revert.
//!
//! While recovery runs, the index does not know every record. Each removal is remembered by digest
//! and sequence number, so that an older record found later stays dead.

use std::collections::{BTreeMap, VecDeque};

use crate::base::digest::Digest;
use crate::base::limits::ClusterId;
use crate::space::cluster_table::ClusterTable;

/// The work of a recovery under way.
pub(crate) struct Recovering {
    /// Digests touched since the cache was opened, with the sequence number before which their
    /// records are dead; also those left by an earlier, unfinished recovery.
    removed: BTreeMap<Digest, u64>,
    /// The same for objects that were found in staging memory. Their copies are the proof: they are
    /// in no checkpoint and have no bound of their own.
    restaged: BTreeMap<Digest, u64>,
    /// Clusters still to read with their incarnations, newest first.
    left: VecDeque<(ClusterId, u64)>,
    under_way: Vec<(ClusterId, u64)>,
    /// Total number of clusters or windows.
    total: u32,
    /// True if more was removed than can be remembered: records not found by now are lost.
    abandoned: bool,
}

impl Recovering {
    /// Begins a recovery that reads every cluster in use.
    pub(crate) fn new(removed: BTreeMap<Digest, u64>, clusters: &ClusterTable) -> Recovering {
        let mut left: Vec<(ClusterId, u64)> = (0..clusters.clusters())
            .filter(|cluster| clusters.state(*cluster).in_use())
            .map(|cluster| (cluster, clusters.incarnation(cluster)))
            .collect();
        left.sort_by_key(|(_, incarnation)| std::cmp::Reverse(*incarnation));
        Recovering {
            total: left.len() as u32,
            left: left.into(),
            ..Recovering::of_slots(removed, 0)
        }
    }

    /// Begins a recovery that reads a whole space of slots, in `total` windows.
    pub(crate) fn of_slots(removed: BTreeMap<Digest, u64>, total: u32) -> Recovering {
        let (left, under_way) = (VecDeque::new(), Vec::new());
        let restaged = BTreeMap::new();
        Recovering { removed, restaged, left, under_way, total, abandoned: false }
    }
}

/// The recovery of one device, if it still runs, and its progress.
pub(super) struct Recovery {
    running: Option<Recovering>,
    /// Clusters or windows read, and their total.
    progress: (u32, u32),
    /// Number of removed digests that a checkpoint has space for.
    removed_max: u64,
}

impl Recovery {
    pub(super) fn new(running: Option<Recovering>, removed_max: u64) -> Recovery {
        Recovery { running, progress: (0, 0), removed_max }
    }

    pub(super) fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// Ends recovery: the index knows every live record.
    pub(super) fn end(&mut self) {
        self.running = None;
    }

    /// Returns the number of clusters or windows read, and their total.
    pub(super) fn progress(&self) -> (u32, u32) {
        self.progress
    }

    pub(super) fn set_progress(&mut self, progress: (u32, u32)) {
        self.progress = progress;
    }

    /// Remembers that records of `digest` older than `sequence` are dead. Returns `None` if
    /// recovery does not run, else whether too many removals are remembered for a checkpoint.
    pub(super) fn note_removed(&mut self, digest: Digest, sequence: u64) -> Option<bool> {
        let running = self.running.as_mut()?;
        running.removed.insert(digest, sequence);
        Some(running.removed.len() as u64 > self.removed_max)
    }

    /// Remembers that records of `digest` older than `sequence` are dead, because a newer one was
    /// found in staging memory.
    pub(super) fn note_restaged(&mut self, digest: Digest, sequence: u64) {
        if let Some(running) = &mut self.running {
            running.restaged.insert(digest, sequence);
        }
    }

    /// Returns whether the record of `digest` with this sequence number was removed since.
    pub(super) fn was_removed(&self, digest: &Digest, sequence: u64) -> bool {
        self.running.as_ref().is_some_and(|running| {
            let before = [running.removed.get(digest), running.restaged.get(digest)];
            before.into_iter().flatten().any(|before| sequence < *before)
        })
    }

    /// Returns the number of removals remembered.
    pub(super) fn removed_len(&self) -> usize {
        self.running.as_ref().map_or(0, |running| running.removed.len())
    }

    /// Returns the removals remembered, with the sequence number before which records are dead.
    pub(super) fn removed(&self) -> Vec<(Digest, u64)> {
        let removed = self.running.iter().flat_map(|running| &running.removed);
        removed.map(|(digest, sequence)| (*digest, *sequence)).collect()
    }

    /// Forgets the removals and returns the clusters not yet read, which must be dropped: the
    /// removals refer to records in them. Returns `None` if recovery does not run.
    pub(super) fn abandon(&mut self) -> Option<Vec<(ClusterId, u64)>> {
        let running = self.running.as_mut()?;
        running.abandoned = true;
        running.removed.clear();
        let mut unread: Vec<_> = std::mem::take(&mut running.left).into();
        unread.append(&mut running.under_way);
        Some(unread)
    }

    /// Returns whether recovery runs and was abandoned.
    pub(super) fn is_abandoned(&self) -> bool {
        self.running.as_ref().is_some_and(|running| running.abandoned)
    }

    /// Returns whether recovery has still to read the cluster.
    pub(super) fn is_unread(&self, cluster: ClusterId) -> bool {
        self.running.as_ref().is_some_and(|running| {
            let mut unread = running.left.iter().chain(&running.under_way);
            unread.any(|(other, _)| *other == cluster)
        })
    }

    /// Returns whether no cluster is left to read.
    pub(super) fn is_complete(&self) -> bool {
        self.running.as_ref().is_none_or(|running| running.left.is_empty())
    }

    /// Takes at most `most` of the clusters to read, the newest ones.
    pub(super) fn take_next(&mut self, most: usize) -> Vec<(ClusterId, u64)> {
        let Some(running) = &mut self.running else { return Vec::new() };
        running.left.drain(..running.left.len().min(most)).collect()
    }

    /// Records that these clusters are being read.
    pub(super) fn begin_reading(&mut self, clusters: &[(ClusterId, u64)]) {
        if let Some(running) = &mut self.running {
            running.under_way.clear();
            running.under_way.extend_from_slice(clusters);
        }
    }

    /// Records that the cluster was read, the last of `done`.
    pub(super) fn cluster_read(&mut self, cluster: ClusterId, done: u32) {
        if let Some(running) = &mut self.running {
            running.under_way.retain(|(other, _)| *other != cluster);
            self.progress = (done, running.total);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn abandoning_returns_every_unread_cluster_and_forgets_removals() {
        let left = VecDeque::from([(7, 30), (5, 20), (3, 10)]);
        let running = Recovering { left, total: 3, ..Recovering::of_slots(BTreeMap::new(), 0) };
        let mut recovery = Recovery::new(Some(running), 1);
        let digest = Digest([1; 16]);
        assert_eq!(recovery.note_removed(digest, 9), Some(false));
        assert!(recovery.was_removed(&digest, 8) && !recovery.was_removed(&digest, 9));
        assert_eq!(recovery.note_removed(Digest([2; 16]), 9), Some(true));

        let batch = recovery.take_next(2);
        recovery.begin_reading(&batch);
        recovery.cluster_read(7, 1);
        assert_eq!(recovery.progress(), (1, 3));
        assert!(!recovery.is_unread(7) && recovery.is_unread(5) && recovery.is_unread(3));
        assert_eq!(recovery.abandon(), Some(vec![(3, 10), (5, 20)]));
        assert!(!recovery.was_removed(&digest, 8) && recovery.is_abandoned());
        recovery.end();
        assert!(!recovery.is_abandoned() && recovery.abandon().is_none());
    }
}
