//! Keeps the label filters up to date as records and objects in memory come and go. See
//! [`crate::purge::label_filters`].

use std::sync::Arc;

use crate::base::digest::Digest;
use crate::base::labels::reading;
use crate::base::limits::ClusterId;
use crate::base::record::{Record, RecordKind};
use crate::base::summary::LABEL_LEN;
use crate::core::state::Core;
use crate::core::task::{EvictPlan, LabelsPlan, Task};
use crate::memory::memory_tier::Resident;
use crate::memory::object::Object;
use crate::purge::label_filters::{ERAS, LabelFilters};
use crate::space::Space;
use crate::space::cluster_table::State;

/// Capacity of the buffer for the labels of one object that is kept for the next, in labels.
const LABELS_BUFFER: usize = 1024;

/// Labels that are kept with a staged object take at most one in this many bytes of its record. If
/// there are more, they are read again when the object is placed.
const KEPT_LABELS_SHARE: usize = 8;

impl Core {
    /// Returns whether `resident`, in memory under `digest` or about to be, has no record on the
    /// device, so that it alone bears its labels.
    pub(super) fn lives_in_memory(
        &self,
        digest: &Digest,
        resident: &Resident<Arc<Object>>,
    ) -> bool {
        let object = &resident.object;
        let placed = || {
            let slot = self.index.get(digest);
            slot.is_some_and(|slot| self.placement.is_at(slot.position, object.place))
        };
        resident.dirty || !placed()
    }

    /// Replaces the content of `all` by the digests of an object's labels; a piece has none.
    pub(super) fn read_labels(
        &self,
        kind: RecordKind,
        key: &[u8],
        meta: &[u8],
        all: &mut Vec<u64>,
    ) {
        all.clear();
        all.shrink_to(LABELS_BUFFER);
        if let Some(labels) = self.options.labels.as_deref().filter(|_| kind != RecordKind::Piece) {
            self.digester.labels(labels, key, meta, all);
        }
    }

    /// Records that a record with these labels was placed, in this cluster if there are clusters.
    /// `resident`: its object is in memory and had no place before, so its labels were recorded
    /// when it was inserted.
    pub(super) fn note_record_labels(
        &mut self,
        cluster: Option<ClusterId>,
        seq: u64,
        labels: &[u64],
        resident: bool,
    ) {
        if cluster.is_none() {
            self.rotate_label_eras(seq);
        }
        let is_current = |cluster| self.label_filters.is_current(cluster);
        if resident && cluster.is_some_and(is_current) {
            // With clusters, the current era has the labels of all objects that were inserted into
            // memory and have no place.
            return;
        }
        for label in labels {
            self.label_filters.add_at(cluster, *label);
        }
    }

    /// Records the labels of the object of `record`, which is about to live in memory only. For an
    /// object that is `staged`, returns their digests, to be kept until it is placed, unless they
    /// are too many.
    pub(super) fn note_unplaced(&mut self, record: &Record, staged: bool) -> Option<Box<[u64]>> {
        let mut labels = std::mem::take(&mut self.labels_buffer);
        self.read_labels(record.header.kind, &record.key, &record.meta, &mut labels);
        labels.iter().for_each(|label| self.label_filters.add(*label));
        let fit = labels.len() * LABEL_LEN <= record.len() / KEPT_LABELS_SHARE;
        let kept = (staged && fit).then(|| labels.as_slice().into());
        self.labels_buffer = labels;
        kept
    }

    /// Records the labels of `object`, which is in memory only.
    pub(super) fn note_resident(&mut self, object: &Object) {
        let mut labels = std::mem::take(&mut self.labels_buffer);
        self.read_labels(object.header.kind, &object.key, &object.meta, &mut labels);
        labels.iter().for_each(|label| self.label_filters.add(*label));
        self.labels_buffer = labels;
    }

    /// Records the labels of the objects in the cluster.
    pub(super) fn learn_labels(&mut self, cluster: ClusterId, incarnation: u64, labels: &[u64]) {
        if self.placement.is_current(cluster, incarnation) {
            self.rotate_label_eras(self.sequence.last());
            self.label_filters.learnt(cluster, labels);
        }
    }

    /// Records the labels of a record that a scan of slots found and that may be alive.
    pub(super) fn learn_scanned(&mut self, labels: &[u64]) {
        self.label_filters.scanned(labels);
    }

    /// Records that the scan of the slots has listed every live record.
    pub(super) fn scanned_all(&mut self) {
        self.label_filters.all_scanned(self.sequence.last() + 1);
    }

    /// Has the labels that recovery did not find read at once, if they are few.
    pub(super) fn recovered_labels(&mut self) {
        self.recount_unknown();
        if let Space::Clusters(space) = &self.placement.space
            && self.options.labels.is_some()
        {
            let table = &space.table;
            let in_use = (0..table.clusters()).filter(|c| table.state(*c).in_use()).count();
            self.label_filters.read_few(in_use as u32);
            self.wake_background();
        }
    }

    /// Returns the label filters to dump, and the version of the way their labels were read; `None`
    /// when there is nothing to save.
    pub(super) fn label_filters_to_save(&mut self) -> Option<(&LabelFilters, u64)> {
        let version = reading(self.options.labels.as_deref()?);
        self.recount_unknown();
        Some((&self.label_filters, version))
    }

    /// Begins a new era of labels when the current one is full; the era starts with the record of
    /// this sequence number, or with the cluster that is about to be opened.
    pub(super) fn rotate_label_eras(&mut self, sequence: u64) {
        if !self.label_filters.rotation_due() {
            return;
        }
        let mut places = [0; ERAS];
        let mut count = |era: Option<usize>| {
            if let Some(era) = era {
                places[era] += 1;
            }
        };
        match &self.placement.space {
            Space::Clusters(space) => (0..space.table.clusters())
                .filter(|cluster| space.table.state(*cluster).in_use())
                .for_each(|cluster| count(self.label_filters.era_of_cluster(cluster))),
            Space::Slots(space) => space
                .sequences()
                .filter(|other| *other != sequence)
                .flat_map(|sequence| self.label_filters.eras_of_record(sequence))
                .for_each(|era| count(Some(era))),
        }
        if self.label_filters.turn(&places, sequence) {
            let here: Vec<Arc<Object>> = self
                .memory
                .tier
                .iter()
                .filter(|(digest, resident)| self.lives_in_memory(digest, resident))
                .map(|(_, resident)| Arc::clone(&resident.object))
                .collect();
            here.iter().for_each(|object| self.note_resident(object));
        } else if self.label_filters.reading() {
            self.wake_background();
        }
    }

    /// Counts anew the records or clusters with unknown labels.
    pub(super) fn recount_unknown(&mut self) {
        match &self.placement.space {
            Space::Clusters(space) => {
                let table = &space.table;
                self.label_filters.recount_clusters(|cluster| table.state(cluster).in_use());
            }
            Space::Slots(space) => {
                let all = !self.recovery.is_running();
                let oldest = all.then(|| space.sequences().min().unwrap_or(u64::MAX));
                self.label_filters.recount_slots(oldest);
            }
        }
    }

    /// Returns the task that reads the labels of the next cluster. After the last one, drops the
    /// purges of labels that no object bears.
    pub(super) fn next_labels(&mut self) -> Option<Task> {
        let Space::Clusters(space) = &mut self.placement.space else { return None };
        let busy = self.recovery.is_running() || self.schedule.is_draining();
        if busy || !self.label_filters.reading() {
            return None;
        }
        let table = &mut space.table;
        let readable =
            |cluster| matches!(table.state(cluster), State::OnDisk | State::OnDiskAndInMemory);
        let Some(cluster) = self.label_filters.next_to_read(readable) else {
            self.forget_unused_purges();
            return Some(Task::Again);
        };
        table.pin(cluster);
        let dead = table.dead_records(cluster).collect();
        let incarnation = table.incarnation(cluster);
        let extent = self.placement.areas.cluster(cluster);
        let evict = EvictPlan { cluster, incarnation, extent, all_dead: false };
        Some(Task::ReadLabels(LabelsPlan { evict, dead }))
    }

    /// Records the labels of the plan's cluster; `None` when it could not be read completely.
    pub(super) fn labels_read(&mut self, plan: &LabelsPlan, labels: Option<&[u64]>) {
        let Some(labels) = labels else {
            self.evict(&plan.evict, None);
            return;
        };
        let cluster = plan.evict.cluster;
        if self.placement.space.table_mut().unpin(cluster) {
            self.wake_waiters();
        }
        self.learn_labels(cluster, plan.evict.incarnation, labels);
    }
}
