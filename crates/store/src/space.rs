//! Where records lie on the device, and how their bytes become free again. There are two ways:
//!
//! * [`clusters`]: records are packed into clusters, and a cluster becomes free as a whole. What
//!   dies in it costs its bytes until then (the layout `cluster`).
//! * [`slots`]: every record has slots of its own, which are free as soon as it is dead (the
//!   layouts `stream`, `unified` and `buddy`, which differ in which slots they give).
//!
//! The core asks a space for places and keeps all the rest: index, memory tier, journal. It
//! promises that a place stays what it is while somebody reads there, and that it is not given
//! again before the journal has made durable why.

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
use crate::space::space_audit::Account;
use clusters::ClusterSpace;
use slots::SlotSpace;

/// The space of one device.
#[expect(clippy::large_enum_variant, reason = "there is one per device, and it never moves")]
pub(crate) enum Space {
    /// Reclaimed cluster by cluster.
    Clusters(ClusterSpace),
    /// Reclaimed record by record.
    Slots(Box<SlotSpace>),
}

/// Where the bytes of a record are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Location {
    /// The record, or its first run.
    pub(crate) extent: Extent,
    /// When it lies in several runs: all of them, and the extents of those after the first.
    pub(crate) split: Option<Box<Split>>,
}

/// A record that lies in several runs of slots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Split {
    pub(crate) runs: Vec<Run>,
    pub(crate) further: Vec<Extent>,
}

impl Location {
    /// Bytes of all runs.
    pub(crate) fn bytes(&self) -> u64 {
        let further = self.split.iter().flat_map(|split| &split.further);
        self.extent.len + further.map(|extent| extent.len).sum::<u64>()
    }
}

impl Space {
    /// The record that is, or was, placed at `place`, which is pinned, when it is not on the device
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

    /// The record at `position`, when it is not on the device yet.
    pub(crate) fn unwritten(&self, position: u32) -> Option<&Arc<Record>> {
        match self {
            Space::Clusters(space) => space.appender.get(position),
            Space::Slots(space) => space.unwritten(position),
        }
    }

    /// Bytes of records that wait to be written.
    pub(crate) fn unwritten_bytes(&self) -> usize {
        match self {
            Space::Clusters(space) => space.appender.unwritten_bytes(),
            Space::Slots(space) => space.batches().bytes(),
        }
    }

    /// Whether a write is under way or must follow before everything is on the device.
    pub(crate) fn busy(&self) -> bool {
        match self {
            Space::Clusters(space) => space.appender.busy(),
            Space::Slots(space) => space.batches().busy(),
        }
    }

    /// When something must be written that still takes more, for a bound of so many nanoseconds.
    pub(crate) fn deadline(&self, bound: Nanos) -> Option<Nanos> {
        match self {
            Space::Clusters(space) => space.appender.deadline(bound),
            Space::Slots(space) => space.batches().deadline(bound),
        }
    }

    /// Somebody waits for memory that unwritten records hold: a packet is not filled up first. A
    /// cluster is: it takes less than half of that memory.
    pub(crate) fn expedite(&mut self) {
        match self {
            Space::Clusters(_) => {}
            Space::Slots(space) => space.batches_mut().seal(),
        }
    }

    /// Bytes that a record may have to be added to what is being filled; `None`: any.
    pub(crate) fn room(&self, areas: &Areas) -> Option<usize> {
        match self {
            Space::Clusters(space) => space.appender.room(areas),
            Space::Slots(_) => None,
        }
    }

    /// Nothing more is added to what is being filled: it is to be written as it is.
    pub(crate) fn seal(&mut self, areas: &Areas) {
        match self {
            Space::Clusters(space) => space.seal(areas),
            Space::Slots(space) => space.batches_mut().seal(),
        }
    }

    /// The place that a record at `position` has now; `None` when nothing lives there.
    pub(crate) fn place_at(&self, areas: &Areas, position: u32) -> Option<Place> {
        match self {
            Space::Clusters(space) => space.place_at(areas, position),
            Space::Slots(space) => space.place_at(position),
        }
    }

    /// How to read the record of `slot`, which lives: at most an eighth too much.
    pub(crate) fn locate(&self, areas: &Areas, slot: Slot) -> Location {
        match self {
            Space::Clusters(_) => Location { extent: clusters::extent(areas, slot), split: None },
            Space::Slots(space) => space.locate(areas, slot.position),
        }
    }

    /// The cluster that `position` lies in, when all of it can be read at once.
    pub(crate) fn whole_cluster(&self, areas: &Areas, position: u32) -> Option<Extent> {
        match self {
            Space::Clusters(space) => space.whole(areas, position),
            Space::Slots(_) => None,
        }
    }

    /// Within which bounds what surrounds the record at `position` may be read along with it. In
    /// slots that may be written over meanwhile; in clusters it is the run of its group, with
    /// `runs`.
    pub(crate) fn surroundings(&self, areas: &Areas, position: u32, runs: bool) -> Option<Extent> {
        match self {
            Space::Clusters(space) if runs => space.run_around(areas, position),
            Space::Clusters(space) => space.whole(areas, position),
            Space::Slots(space) => Some(space.surroundings(areas, position)),
        }
    }

    /// A reader needs what is at `position` to stay as it is.
    pub(crate) fn pin(&mut self, areas: &Areas, position: u32) {
        match self {
            Space::Clusters(space) => space.table.pin(areas.locate(position).0),
            Space::Slots(space) => space.pin(position),
        }
    }

    /// A reader is done. True when that made something free.
    pub(crate) fn unpin(&mut self, areas: &Areas, position: u32) -> bool {
        match self {
            Space::Clusters(space) => space.table.unpin(areas.locate(position).0),
            Space::Slots(space) => space.unpin(position),
        }
    }

    /// The record of `slot` was asked for at `now`, in unix seconds.
    pub(crate) fn touch(&mut self, areas: &Areas, slot: Slot, now: u32) {
        match self {
            Space::Clusters(space) => space.touch(areas, slot, now),
            Space::Slots(space) => space.touch(slot.position),
        }
    }

    /// An object of `bytes` bytes was found in memory whose record has, or had, `place`.
    pub(crate) fn touch_resident(
        &mut self,
        areas: &Areas,
        place: Option<Place>,
        bytes: usize,
        now: u32,
    ) {
        let Some(place) = place else { return };
        match self {
            // Its cluster may have been given up since, and hold other things.
            Space::Clusters(space) if space.place_at(areas, place.position) == Some(place) => {
                let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
                space.table.touch(areas.locate(place.position).0, bytes, now);
            }
            Space::Clusters(_) => {}
            Space::Slots(space) => space.touch_place(place),
        }
    }

    /// The cluster of a record at `position`, in a space of clusters.
    pub(crate) fn cluster_of(&self, areas: &Areas, position: u32) -> Option<ClusterId> {
        match self {
            Space::Clusters(_) => Some(areas.locate(position).0),
            Space::Slots(_) => None,
        }
    }

    /// A flush of the device begins.
    pub(crate) fn begin_flush(&mut self) {
        match self {
            Space::Clusters(_) => {}
            Space::Slots(space) => space.begin_flush(),
        }
    }

    /// What a checkpoint must say; `sequence` is the last sequence number given out.
    pub(crate) fn encode(&mut self, sequence: u64, out: &mut Vec<u8>) {
        match self {
            Space::Clusters(space) => space.table.encode(out),
            Space::Slots(space) => space.image(sequence).encode(out),
        }
    }

    /// The cluster on the device that `position` lies in, when it is not known what lies together
    /// there.
    pub(crate) fn unlearnt(&self, areas: &Areas, position: u32) -> Option<ClusterId> {
        let Space::Clusters(space) = self else { return None };
        space.whole(areas, position)?;
        let (cluster, _) = areas.locate(position);
        (!space.runs.knows(cluster)).then_some(cluster)
    }

    /// What a summary says of a cluster is known from now on.
    pub(crate) fn learn_runs(&mut self, areas: &Areas, cluster: ClusterId, entries: &[Entry]) {
        if let Space::Clusters(space) = self {
            space.runs.learn(cluster, areas.granule, entries);
        }
    }

    /// Bytes of memory of its tables.
    pub(crate) fn memory_bytes(&self) -> usize {
        match self {
            Space::Clusters(space) => space.table.memory_bytes() + space.runs.memory_bytes(),
            Space::Slots(space) => space.memory_bytes(),
        }
    }

    /// Where all its bytes are, counted anew; see [`crate::Store::account`].
    pub(crate) fn account(&self, areas: &Areas, index: &Index) -> Result<Account, String> {
        match self {
            Space::Clusters(space) => space.account(areas, index),
            Space::Slots(space) => space.account(index),
        }
    }

    /// Bytes of memory of its tables once they hold so many objects.
    pub(crate) fn expected_memory(&self, objects: u64) -> usize {
        let records = usize::try_from(objects).unwrap_or(usize::MAX);
        match self {
            Space::Clusters(space) => space.table.memory_bytes(),
            Space::Slots(_) => records.saturating_mul(slots::RECORD_MEMORY),
        }
    }

    // ---- What only one of the two has

    /// The slots, when it is a space of slots.
    pub(crate) fn slots(&self) -> Option<&SlotSpace> {
        match self {
            Space::Clusters(_) => None,
            Space::Slots(space) => Some(space),
        }
    }

    /// The slots, to be changed.
    pub(crate) fn slots_mut(&mut self) -> Option<&mut SlotSpace> {
        match self {
            Space::Clusters(_) => None,
            Space::Slots(space) => Some(space),
        }
    }

    /// Whether it is a space of clusters. What follows asks for one.
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

    /// Free clusters, those that wait to become free included.
    pub(crate) fn nearly_free(&self) -> u32 {
        self.clusters().nearly_free()
    }

    /// The cluster table.
    pub(crate) fn table(&self) -> &ClusterTable {
        &self.clusters().table
    }

    /// The cluster table, to be changed.
    pub(crate) fn table_mut(&mut self) -> &mut ClusterTable {
        &mut self.clusters_mut().table
    }

    /// The cluster was opened: nothing is in it.
    pub(crate) fn opened(&mut self, cluster: ClusterId) {
        self.clusters_mut().metas.remove(&cluster);
    }

    /// Whether it is certain that the cluster holds no metadata apart from their objects.
    pub(crate) fn is_plain(&self, cluster: ClusterId) -> bool {
        self.clusters().is_plain(cluster)
    }

    /// The records on their way into clusters.
    pub(crate) fn appender(&self) -> &Appender {
        &self.clusters().appender
    }

    /// The records on their way into clusters, to be changed.
    pub(crate) fn appender_mut(&mut self) -> &mut Appender {
        &mut self.clusters_mut().appender
    }

    /// Clusters that are on the device and whole in memory, with what lives in them (C5).
    pub(crate) fn virtual_clusters(&self) -> &BTreeMap<ClusterId, Vec<Digest>> {
        &self.clusters().virtual_clusters
    }

    /// Virtual clusters, to be changed.
    pub(crate) fn virtual_clusters_mut(&mut self) -> &mut BTreeMap<ClusterId, Vec<Digest>> {
        &mut self.clusters_mut().virtual_clusters
    }
}
