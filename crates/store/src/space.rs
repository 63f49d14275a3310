//! The placement of records on the device, and the reuse of their bytes. There are two kinds of
//! space:
//!
//! * [`clusters`]: records are packed into clusters, and a cluster becomes free as a whole. Until
//!   then its dead records take up their bytes (the layout `cluster`).
//! * [`slots`]: every record has its own slots, which become free when it is dead (the layouts
//!   `stream`, `unified` and `buddy`, which differ in the slots they choose).
//!
//! The core asks a space for places and keeps everything else: index, memory tier, journal.
//!
//! Guarantees: the bytes of a place do not change while they are being read, and a place is not
//! reused before the journal has made the reason durable.

pub(crate) mod appender;
pub(crate) mod cluster_table;
pub(crate) mod clusters;
pub(crate) mod restored_tables;
pub(crate) mod run_map;
pub(crate) mod slot_dump;
pub(crate) mod slot_stats;
pub(crate) mod slots;
pub(crate) mod space_audit;

use std::collections::BTreeMap;
use std::sync::Arc;

use device::{Extent, Nanos};

use crate::base::digest::Digest;
use crate::base::limits::ClusterId;
use crate::base::record::{Place, Record};
use crate::base::summary::Entry;
use crate::format::device_layout::Areas;
use crate::index::{Index, Slot};
use crate::layout::Run;
use crate::space::appender::Appender;
use crate::space::cluster_table::ClusterTable;
use crate::space::space_audit::{Account, AccountError};
use clusters::ClusterSpace;
use slots::SlotSpace;

#[expect(clippy::large_enum_variant, reason = "there is one per device, and it never moves")]
pub(crate) enum Space {
    /// Reclaimed cluster by cluster.
    Clusters(ClusterSpace),
    /// Reclaimed record by record.
    Slots(Box<SlotSpace>),
}

/// Position of a record's bytes on the device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Location {
    /// Extent of the record, or of its first run.
    pub(crate) extent: Extent,
    /// All runs, and the extents of those after the first, if the record lies in several.
    pub(crate) split: Option<Box<Split>>,
}

/// A record that lies in several runs of slots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Split {
    pub(crate) runs: Vec<Run>,
    pub(crate) further: Vec<Extent>,
}

impl Location {
    /// Returns the total size of all runs, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        let further = self.split.iter().flat_map(|split| &split.further);
        self.extent.len + further.map(|extent| extent.len).sum::<u64>()
    }
}

impl Space {
    /// Returns the record that is, or was, placed at the pinned `place`, if it is not on the device
    /// yet.
    pub(crate) fn waiting(&self, place: Place) -> Option<&Arc<Record>> {
        match self {
            Space::Clusters(space) => space.appender.get(place.position),
            Space::Slots(space) => space
                .batches()
                .get(place.position)
                .filter(|record| record.header.sequence == place.incarnation),
        }
    }

    /// Returns the record at `position`, if it is not on the device yet.
    pub(crate) fn unwritten(&self, position: u32) -> Option<&Arc<Record>> {
        match self {
            Space::Clusters(space) => space.appender.get(position),
            Space::Slots(space) => space.unwritten(position),
        }
    }

    /// Returns the size of all unwritten records, in bytes.
    pub(crate) fn unwritten_bytes(&self) -> usize {
        match self {
            Space::Clusters(space) => space.appender.unwritten_bytes(),
            Space::Slots(space) => space.batches().bytes(),
        }
    }

    /// Returns whether a write is in progress, or must follow before everything is on the device.
    pub(crate) fn busy(&self) -> bool {
        match self {
            Space::Clusters(space) => space.appender.busy(),
            Space::Slots(space) => space.batches().busy(),
        }
    }

    /// Returns when a cluster or packet that still has space must be written.
    pub(crate) fn deadline(&self) -> Option<Nanos> {
        match self {
            Space::Clusters(space) => space.appender.deadline(),
            Space::Slots(space) => space.batches().deadline(),
        }
    }

    /// Speeds up writing because a caller waits for memory that unwritten records hold: the open
    /// packet is written before it is full. A cluster is still filled first; it takes less than
    /// half of that memory.
    pub(crate) fn expedite(&mut self) {
        match self {
            Space::Clusters(_) => {}
            Space::Slots(space) => space.batches_mut().seal(),
        }
    }

    /// Returns the maximum size of a record that fits into the open cluster, in bytes; `None` if
    /// there is no limit.
    pub(crate) fn room(&self, areas: &Areas) -> Option<usize> {
        match self {
            Space::Clusters(space) => space.appender.room(areas),
            Space::Slots(_) => None,
        }
    }

    /// Seals the open cluster or batch, so that it is written as it is.
    pub(crate) fn seal(&mut self, areas: &Areas) {
        match self {
            Space::Clusters(space) => space.seal(areas),
            Space::Slots(space) => space.batches_mut().seal(),
        }
    }

    /// Returns the current place of the record at `position`; `None` if no live record is there.
    pub(crate) fn place_at(&self, areas: &Areas, position: u32) -> Option<Place> {
        match self {
            Space::Clusters(space) => space.place_at(areas, position),
            Space::Slots(space) => space.place_at(position),
        }
    }

    /// Returns the location to read for the live record of `slot`: at most an eighth too much.
    pub(crate) fn locate(&self, areas: &Areas, slot: Slot) -> Location {
        match self {
            Space::Clusters(_) => Location { extent: clusters::extent(areas, slot), split: None },
            Space::Slots(space) => space.locate(areas, slot.position),
        }
    }

    /// Returns the cluster that contains `position`, if it can be read as a whole.
    pub(crate) fn whole_cluster(&self, areas: &Areas, position: u32) -> Option<Extent> {
        match self {
            Space::Clusters(space) => space.whole(areas, position),
            Space::Slots(_) => None,
        }
    }

    /// Returns the bounds within which the surroundings of the record at `position` may be read
    /// along with it. In slots, the surroundings may be overwritten meanwhile. In clusters, the
    /// bounds are the run of the record's group if `runs` is set, else the whole cluster.
    pub(crate) fn surroundings(&self, areas: &Areas, position: u32, runs: bool) -> Option<Extent> {
        match self {
            Space::Clusters(space) if runs => space.run_around(areas, position),
            Space::Clusters(space) => space.whole(areas, position),
            Space::Slots(space) => Some(space.surroundings(areas, position)),
        }
    }

    /// Keeps the bytes at `position` unchanged for a reader.
    pub(crate) fn pin(&mut self, areas: &Areas, position: u32) {
        match self {
            Space::Clusters(space) => space.table.pin(areas.locate(position).0),
            Space::Slots(space) => space.pin(position),
        }
    }

    /// Releases a pin. Returns whether that made space free.
    pub(crate) fn unpin(&mut self, areas: &Areas, position: u32) -> bool {
        match self {
            Space::Clusters(space) => space.table.unpin(areas.locate(position).0),
            Space::Slots(space) => space.unpin(position),
        }
    }

    /// Records a request for the record of `slot` at `now`, in unix seconds.
    pub(crate) fn touch(&mut self, areas: &Areas, slot: Slot, now: u32) {
        match self {
            Space::Clusters(space) => space.touch(areas, slot, now),
            Space::Slots(space) => space.touch(slot.position),
        }
    }

    /// Records a memory hit on an object of `bytes` bytes whose record has, or had, `place`.
    pub(crate) fn touch_resident(
        &mut self,
        areas: &Areas,
        place: Option<Place>,
        bytes: usize,
        now: u32,
    ) {
        let Some(place) = place else { return };
        match self {
            // Its cluster may have been given up since, and hold other records.
            Space::Clusters(space) if space.place_at(areas, place.position) == Some(place) => {
                let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
                space.table.touch(areas.locate(place.position).0, bytes, now);
            }
            Space::Clusters(_) => {}
            Space::Slots(space) => space.touch_place(place),
        }
    }

    /// Returns the cluster of the record at `position`, in a space of clusters.
    pub(crate) fn cluster_of(&self, areas: &Areas, position: u32) -> Option<ClusterId> {
        match self {
            Space::Clusters(_) => Some(areas.locate(position).0),
            Space::Slots(_) => None,
        }
    }

    /// Records the start of a device flush.
    pub(crate) fn begin_flush(&mut self) {
        match self {
            Space::Clusters(_) => {}
            Space::Slots(space) => space.begin_flush(),
        }
    }

    /// Appends the content of a checkpoint. `sequence` is the last sequence number assigned.
    pub(crate) fn encode(&mut self, sequence: u64, out: &mut Vec<u8>) {
        match self {
            Space::Clusters(space) => space.table.encode(out),
            Space::Slots(space) => space.image(sequence).encode(out),
        }
    }

    /// Returns the cluster on the device that contains `position`, if the runs in it are not known.
    pub(crate) fn unlearnt(&self, areas: &Areas, position: u32) -> Option<ClusterId> {
        let Space::Clusters(space) = self else { return None };
        space.whole(areas, position)?;
        let (cluster, _) = areas.locate(position);
        (!space.runs.knows(cluster)).then_some(cluster)
    }

    /// Learns the runs of a cluster from its summary.
    pub(crate) fn learn_runs(&mut self, areas: &Areas, cluster: ClusterId, entries: &[Entry]) {
        if let Space::Clusters(space) = self {
            space.runs.learn(cluster, areas.granule, entries);
        }
    }

    /// Returns the memory of the tables, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        match self {
            Space::Clusters(space) => space.table.memory_bytes() + space.runs.memory_bytes(),
            Space::Slots(space) => space.memory_bytes(),
        }
    }

    /// Accounts for all bytes of the space by recounting; see [`crate::Store::account`].
    pub(crate) fn account(&self, areas: &Areas, index: &Index) -> Result<Account, AccountError> {
        match self {
            Space::Clusters(space) => space.account(areas, index),
            Space::Slots(space) => space.account(index),
        }
    }

    /// Returns the expected memory of the tables for `objects` objects, in bytes.
    pub(crate) fn expected_memory(&self, objects: u64) -> usize {
        let records = usize::try_from(objects).unwrap_or(usize::MAX);
        match self {
            Space::Clusters(space) => space.table.memory_bytes(),
            Space::Slots(_) => records.saturating_mul(slots::RECORD_MEMORY),
        }
    }

    // ---- Specific to one kind of space

    /// Returns the slots, if it is a space of slots.
    pub(crate) fn slots(&self) -> Option<&SlotSpace> {
        match self {
            Space::Clusters(_) => None,
            Space::Slots(space) => Some(space),
        }
    }

    pub(crate) fn slots_mut(&mut self) -> Option<&mut SlotSpace> {
        match self {
            Space::Clusters(_) => None,
            Space::Slots(space) => Some(space),
        }
    }

    /// Returns whether it is a space of clusters. The methods that follow require one.
    pub(crate) fn has_clusters(&self) -> bool {
        matches!(self, Space::Clusters(_))
    }

    fn clusters(&self) -> &ClusterSpace {
        match self {
            Space::Clusters(space) => space,
            Space::Slots(_) => unreachable!("only the layout `cluster` has clusters"),
        }
    }

    fn clusters_mut(&mut self) -> &mut ClusterSpace {
        match self {
            Space::Clusters(space) => space,
            Space::Slots(_) => unreachable!("only the layout `cluster` has clusters"),
        }
    }

    /// Returns the number of free clusters, including those that wait to become free.
    pub(crate) fn nearly_free(&self) -> u32 {
        self.clusters().nearly_free()
    }

    pub(crate) fn table(&self) -> &ClusterTable {
        &self.clusters().table
    }

    pub(crate) fn table_mut(&mut self) -> &mut ClusterTable {
        &mut self.clusters_mut().table
    }

    /// Records that the cluster was opened and is empty.
    pub(crate) fn opened(&mut self, cluster: ClusterId) {
        self.clusters_mut().metas.remove(&cluster);
    }

    /// Returns whether the cluster is certain to hold no metadata records.
    pub(crate) fn is_plain(&self, cluster: ClusterId) -> bool {
        self.clusters().is_plain(cluster)
    }

    /// Returns the appender, which holds the records on their way into clusters.
    pub(crate) fn appender(&self) -> &Appender {
        &self.clusters().appender
    }

    pub(crate) fn appender_mut(&mut self) -> &mut Appender {
        &mut self.clusters_mut().appender
    }

    /// Returns the clusters that are on the device and whose objects are all in memory, with the
    /// digests of their live objects (C5).
    pub(crate) fn virtual_clusters(&self) -> &BTreeMap<ClusterId, Vec<Digest>> {
        &self.clusters().virtual_clusters
    }

    pub(crate) fn virtual_clusters_mut(&mut self) -> &mut BTreeMap<ClusterId, Vec<Digest>> {
        &mut self.clusters_mut().virtual_clusters
    }
}
