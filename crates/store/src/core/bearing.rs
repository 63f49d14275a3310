//! Which labels are borne, kept up as records and objects in memory come and go: see
//! [`crate::bearers`].

use std::collections::BTreeSet;
use std::sync::Arc;

use super::Core;
use super::maintenance::{EvictPlan, Task};
use crate::bearers::ERAS;
use crate::cluster_table::{ClusterId, State};
use crate::digest::Digest;
use crate::object::Object;
use crate::record::{Record, RecordKind};
use crate::space::Space;
use crate::tier::Resident;

/// A cluster to be read for the labels of what lives in it.
pub(crate) struct LabelsPlan {
    pub(crate) evict: EvictPlan,
    /// Granules of its dead records.
    pub(crate) dead: BTreeSet<u32>,
}

impl Core {
    /// Whether what is to be kept in memory under `digest`, or is, has no record that will be found
    /// after it: its labels are borne by it alone.
    pub(super) fn lives_in_memory(
        &self,
        digest: &Digest,
        resident: &Resident<Arc<Object>>,
    ) -> bool {
        let object = &resident.object;
        let placed = || {
            let slot = self.index.get(digest);
            slot.is_some_and(|slot| self.is_at(slot.position, object.place))
        };
        resident.dirty || !placed()
    }

    fn labels_of(&self, key: &[u8], meta: &[u8]) -> Vec<u64> {
        let mut all = Vec::new();
        if let Some(labels) = self.options.labels.as_deref() {
            labels.labels(key, meta, &mut |l| all.push(self.digester.label(l.kind, l.name)));
        }
        all
    }

    /// `record` was placed, in this cluster where there are clusters.
    pub(super) fn note_bearer(&mut self, record: &Record, cluster: Option<ClusterId>) {
        if record.header.kind == RecordKind::Piece {
            return;
        }
        if cluster.is_none() {
            self.turn_labels(record.header.sequence);
        }
        for label in self.labels_of(&record.key, &record.meta) {
            self.bearers.add_at(cluster, label);
        }
    }

    /// `object` lives in memory alone.
    pub(super) fn note_resident(&mut self, object: &Object) {
        if object.header.kind == RecordKind::Piece {
            return;
        }
        for label in self.labels_of(&object.key, &object.meta) {
            self.bearers.add(label);
        }
    }

    /// Begins another era of labels when the present one is full, with the record of this sequence
    /// number or the cluster that is about to be opened.
    pub(super) fn turn_labels(&mut self, sequence: u64) {
        if !self.bearers.turn_due() {
            return;
        }
        let mut places = [0; ERAS];
        let mut count = |era: Option<usize>| {
            if let Some(era) = era {
                places[era] += 1;
            }
        };
        match &self.space {
            Space::Clusters(space) => (0..space.table.clusters())
                .filter(|cluster| space.table.state(*cluster).in_use())
                .for_each(|cluster| count(self.bearers.era_of_cluster(cluster))),
            Space::Slots(space) => space
                .sequences()
                .filter(|other| *other != sequence)
                .for_each(|sequence| count(self.bearers.era_of_record(sequence))),
        }
        if self.bearers.turn(&places, sequence) {
            let here: Vec<Arc<Object>> = self
                .tier
                .iter()
                .filter(|(digest, resident)| self.lives_in_memory(digest, resident))
                .map(|(_, resident)| Arc::clone(&resident.object))
                .collect();
            here.iter().for_each(|object| self.note_resident(object));
        } else if self.bearers.reading() {
            self.kick();
        }
    }

    /// Counts again of what the labels are not known.
    pub(super) fn recount_unknown(&mut self) {
        match &self.space {
            Space::Clusters(space) => {
                let table = &space.table;
                self.bearers.recount_clusters(|cluster| table.state(cluster).in_use());
            }
            Space::Slots(space) => {
                let all = self.recovering.is_none();
                let oldest = all.then(|| space.sequences().min().unwrap_or(u64::MAX));
                self.bearers.recount_slots(oldest);
            }
        }
    }

    /// The next cluster whose labels are to be read. After the last of them the purges of labels
    /// that nothing bears are dropped.
    pub(super) fn next_labels(&mut self) -> Option<Task> {
        let Space::Clusters(space) = &mut self.space else { return None };
        let busy = self.recovering.is_some() || self.maintenance.draining;
        if busy || !self.bearers.reading() {
            return None;
        }
        let table = &mut space.table;
        let readable =
            |cluster| matches!(table.state(cluster), State::OnDisk | State::OnDiskAndInMemory);
        let Some(cluster) = self.bearers.next_to_read(readable) else {
            self.forget_unborne();
            return Some(Task::Again);
        };
        table.pin(cluster);
        let dead = table.dead_records(cluster).collect();
        let incarnation = table.incarnation(cluster);
        let extent = self.areas.cluster(cluster);
        let evict = EvictPlan { cluster, incarnation, extent, all_dead: false };
        Some(Task::ReadLabels(LabelsPlan { evict, dead }))
    }

    /// The plan's cluster was read; `None`: it could not be, or not all of it.
    pub(crate) fn labels_read(&mut self, plan: &LabelsPlan, labels: Option<&[u64]>) {
        let Some(labels) = labels else {
            self.evict(&plan.evict, None);
            return;
        };
        let cluster = plan.evict.cluster;
        if self.space.table_mut().unpin(cluster) {
            self.wake();
        }
        if self.still(cluster, plan.evict.incarnation) {
            self.bearers.learnt(cluster, labels);
        }
    }
}
