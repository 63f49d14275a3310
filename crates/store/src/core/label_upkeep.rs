//! Keeps the label filters up to date as records and objects in memory are added and removed. See
//! [`crate::purge::label_filters`].

use std::sync::Arc;

use crate::base::digest::Digest;
use crate::base::limits::ClusterId;
use crate::core::state::Core;
use crate::core::task::{EvictPlan, LabelsPlan, Task};
use crate::memory::memory_tier::Resident;
use crate::memory::object::Object;
use crate::space::Space;
use crate::space::cluster_table::State;

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

    /// Records that a record with these labels was placed, in this cluster if there are clusters.
    /// `resident`: its object is in memory and had no place before, so its labels were recorded
    /// when it was inserted.
    pub(super) fn note_record_labels(
        &mut self,
        cluster: Option<ClusterId>,
        sequence: u64,
        labels: &[u64],
        resident: bool,
    ) {
        if cluster.is_none() {
            self.rotate_label_eras(sequence);
        }
        let filters = &mut self.labels.filters;
        if resident && cluster.is_some_and(|cluster| filters.is_current(cluster)) {
            // With clusters, the current era has the labels of all objects that were inserted into
            // memory and have no place.
            return;
        }
        for label in labels {
            filters.add_at(cluster, *label);
        }
    }

    /// Records the labels of the objects in the cluster.
    pub(super) fn learn_labels(&mut self, cluster: ClusterId, incarnation: u64, labels: &[u64]) {
        if self.placement.is_current(cluster, incarnation) {
            self.rotate_label_eras(self.sequence.last());
            self.labels.filters.learnt(cluster, labels);
        }
    }

    /// Requests at once the labels that recovery did not find, if they are few.
    pub(super) fn recovered_labels(&mut self) {
        self.recount_unknown();
        if let Space::Clusters(space) = &self.placement.space
            && self.labels.exist()
        {
            let table = &space.table;
            let in_use = (0..table.clusters()).filter(|c| table.state(*c).in_use()).count();
            self.labels.filters.read_few(in_use as u32);
            self.wake_background();
        }
    }

    /// Begins a new era of labels when the current one is full, see [`ObjectLabels::rotate_eras`].
    ///
    /// [`ObjectLabels::rotate_eras`]: super::object_labels::ObjectLabels::rotate_eras
    pub(super) fn rotate_label_eras(&mut self, sequence: u64) {
        match self.labels.rotate_eras(&self.placement.space, sequence) {
            Some(true) => {
                let residents: Vec<Arc<Object>> = self
                    .memory
                    .tier
                    .iter()
                    .filter(|(digest, resident)| self.lives_in_memory(digest, resident))
                    .map(|(_, resident)| Arc::clone(&resident.object))
                    .collect();
                residents.iter().for_each(|object| self.labels.note_resident(object));
            }
            Some(false) if self.labels.filters.reading() => self.wake_background(),
            Some(false) | None => {}
        }
    }

    /// Counts anew the records or clusters with unknown labels.
    pub(super) fn recount_unknown(&mut self) {
        self.labels.recount_unknown(&self.placement.space, &self.recovery);
    }

    /// Returns the task that reads the labels of the next cluster. After the last one, drops the
    /// purges of labels that no object bears.
    pub(super) fn next_labels(&mut self) -> Option<Task> {
        let Space::Clusters(space) = &mut self.placement.space else { return None };
        let busy = self.recovery.is_running() || self.schedule.is_draining();
        if busy || !self.labels.filters.reading() {
            return None;
        }
        let table = &mut space.table;
        let readable =
            |cluster| matches!(table.state(cluster), State::OnDisk | State::OnDiskAndInMemory);
        let Some(cluster) = self.labels.filters.next_to_read(readable) else {
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
