//! Recovery of a space of clusters: rebuilds the index from the summaries. See
//! [`crate::shell::recovery`] for what is read, and in which order.

use std::collections::BTreeMap;

use crate::base::digest::Digest;
use crate::base::limits::ClusterId;
use crate::base::record::RecordKind;
use crate::base::size_class::SizeClass;
use crate::base::summary::Entry;
use crate::core::state::Core;
use crate::index::Slot;
use crate::space::cluster_table::State;

/// The progress of a scan of clusters.
pub(crate) struct ClusterScan {
    done: u32,
    /// Metadata records found so far whose object has not been found.
    metas: BTreeMap<Digest, FoundMeta>,
}

/// The next step of a scan of clusters.
pub(crate) enum NextClusters {
    /// Read these clusters, given with their incarnations. They are pinned, so they do not change
    /// meanwhile.
    Read(Vec<(ClusterId, u64)>),
    /// Nothing: all clusters are read; the index has this many records.
    Complete { records: usize },
    /// Nothing: the device is offline.
    Offline,
}

/// A metadata record whose object has not been found yet.
struct FoundMeta {
    slot: Slot,
    target: u32,
    target_sequence: u64,
    /// The cluster it was found in.
    cluster: ClusterId,
    incarnation: u64,
}

impl ClusterScan {
    pub(crate) fn new() -> ClusterScan {
        ClusterScan { done: 0, metas: BTreeMap::new() }
    }

    /// Drops the cluster, whose contents cannot be known.
    fn abandon(&mut self, core: &mut Core, cluster: ClusterId, incarnation: u64) {
        let unchanged = core.placement.space.table().incarnation(cluster) == incarnation
            && core.placement.space.table().state(cluster) == State::OnDisk;
        if unchanged {
            core.counters.evicted_clusters += 1;
            core.drop_cluster(cluster);
        }
    }

    /// Applies the entries of a cluster, the newest record first.
    fn apply(&mut self, core: &mut Core, cluster: ClusterId, incarnation: u64, entries: &[Entry]) {
        if !core.placement.is_current(cluster, incarnation) {
            return;
        }
        core.placement.learn_runs(cluster, entries);
        for entry in entries.iter().rev() {
            if entry.granule >= core.placement.areas.granules_per_cluster()
                || entry.len > SizeClass::MAX_LEN
                || core.placement.space.table().is_dead(cluster, entry.granule)
            {
                continue;
            }
            let position = core.placement.areas.position(cluster, entry.granule);
            let slot = Slot { position, class: SizeClass::for_len(entry.len), refreshed: false };
            self.apply_record(core, entry, slot, incarnation);
        }
    }

    fn apply_record(&mut self, core: &mut Core, entry: &Entry, slot: Slot, opened: u64) {
        match entry.kind {
            RecordKind::Piece => {
                if let Ok(inserted) = core.index.insert_if_absent(&entry.digest, slot) {
                    core.retire(inserted);
                }
            }
            // Metadata are newer than their object, so the record found before is not theirs.
            RecordKind::Meta if core.index.get(&entry.digest).is_some() => {}
            RecordKind::Meta => {
                let found = FoundMeta {
                    slot,
                    target: entry.target,
                    target_sequence: entry.target_sequence,
                    cluster: core.placement.areas.locate(slot.position).0,
                    incarnation: opened,
                };
                self.metas.entry(entry.digest).or_insert(found);
            }
            RecordKind::Object => self.apply_object(core, entry, slot),
        }
    }

    fn apply_object(&mut self, core: &mut Core, entry: &Entry, slot: Slot) {
        if core.recovery.was_removed(&entry.digest, entry.sequence) {
            core.mark_dead(slot);
            return;
        }
        let meta = self
            .metas
            .remove(&entry.digest)
            .filter(|meta| meta.target == slot.position && meta.target_sequence == entry.sequence);
        // The metadata were evicted meanwhile: the object would fall back to outdated ones.
        if meta
            .as_ref()
            .is_some_and(|meta| !core.placement.is_current(meta.cluster, meta.incarnation))
        {
            core.mark_dead(slot);
            return;
        }
        let slot = Slot { refreshed: meta.is_some(), ..slot };
        match core.index.insert_if_absent(&entry.digest, slot) {
            // Known already, or a newer record of the key (or of an equal tag) was found before.
            Err(known) if known.position == slot.position => {}
            Err(_) => core.mark_dead(slot),
            Ok(inserted) => {
                core.retire(inserted);
                if let Some(meta) = meta {
                    let inserted = core.index.insert(&entry.digest.derive_meta(), meta.slot);
                    core.retire(inserted);
                }
            }
        }
    }
}

impl ClusterScan {
    /// Returns whether no cluster is left to read.
    pub(crate) fn is_complete(core: &Core) -> bool {
        core.recovery.is_complete()
    }

    /// Returns the clusters to read next, at most `most`. Ends recovery after the last.
    pub(crate) fn next(&mut self, core: &mut Core, most: usize) -> NextClusters {
        if ClusterScan::is_complete(core) {
            return NextClusters::Complete { records: core.recovered() };
        }
        if !core.online() {
            return NextClusters::Offline;
        }
        let mut batch = core.recovery.take_next(most);
        self.done += batch.len() as u32;
        // Some may have been dropped since the scan was planned.
        batch.retain(|(cluster, incarnation)| core.placement.is_current(*cluster, *incarnation));
        batch.iter().for_each(|(cluster, _)| core.placement.space.table_mut().pin(*cluster));
        core.recovery.begin_reading(&batch);
        NextClusters::Read(batch)
    }

    /// Applies a cluster that was read: its records, and their labels if these are known.
    /// `contents` is `None` when they cannot be known.
    pub(crate) fn take_in(
        &mut self,
        core: &mut Core,
        (cluster, incarnation): (ClusterId, u64),
        contents: Option<(&[Entry], Option<&[u64]>)>,
    ) {
        match contents {
            Some((entries, labels)) => {
                self.apply(core, cluster, incarnation, entries);
                if let Some(labels) = labels {
                    core.learn_labels(cluster, incarnation, labels);
                }
            }
            None => self.abandon(core, cluster, incarnation),
        }
        if core.placement.space.table_mut().unpin(cluster) {
            core.wake_waiters();
        }
        core.recovery.cluster_read(cluster, self.done);
    }
}

impl Core {
    /// Ends recovery; returns the number of records.
    pub(super) fn recovered(&mut self) -> usize {
        self.recovery.end();
        self.recovered_labels();
        self.index.len()
    }
}

#[cfg(test)]
mod tests;
