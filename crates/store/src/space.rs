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

pub(crate) mod clusters;

use std::collections::BTreeMap;
use std::sync::Arc;

use device::Extent;

use crate::account::Account;
use crate::appender::Appender;
use crate::areas::Areas;
use crate::cluster_table::{ClusterId, ClusterTable};
use crate::digest::Digest;
use crate::index::{Index, Slot};
use crate::record::{Place, Record};
use clusters::ClusterSpace;

/// The space of one device.
pub(crate) enum Space {
    /// Reclaimed cluster by cluster.
    Clusters(ClusterSpace),
}

impl Space {
    /// The record at `position`, when it is not on the device yet.
    pub(crate) fn unwritten(&self, position: u32) -> Option<&Arc<Record>> {
        match self {
            Space::Clusters(space) => space.appender.get(position),
        }
    }

    /// Bytes of records that wait to be written.
    pub(crate) fn unwritten_bytes(&self) -> usize {
        match self {
            Space::Clusters(space) => space.appender.unwritten_bytes(),
        }
    }

    /// Whether a write is under way or must follow before everything is on the device.
    pub(crate) fn busy(&self) -> bool {
        match self {
            Space::Clusters(space) => space.appender.busy(),
        }
    }

    /// The place that a record at `position` has now; `None` when nothing lives there.
    pub(crate) fn place_at(&self, areas: &Areas, position: u32) -> Option<Place> {
        match self {
            Space::Clusters(space) => space.place_at(areas, position),
        }
    }

    /// How to read the record of `slot`, which lives: one read, at most an eighth too long.
    pub(crate) fn extent(&self, areas: &Areas, slot: Slot) -> Extent {
        match self {
            Space::Clusters(_) => clusters::extent(areas, slot),
        }
    }

    /// The cluster that `position` lies in, when all of it can be read at once.
    pub(crate) fn whole_cluster(&self, areas: &Areas, position: u32) -> Option<Extent> {
        match self {
            Space::Clusters(space) => space.whole(areas, position),
        }
    }

    /// A reader needs what is at `position` to stay as it is.
    pub(crate) fn pin(&mut self, areas: &Areas, position: u32) {
        match self {
            Space::Clusters(space) => space.table.pin(areas.locate(position).0),
        }
    }

    /// A reader is done. True when that made something free.
    pub(crate) fn unpin(&mut self, areas: &Areas, position: u32) -> bool {
        match self {
            Space::Clusters(space) => space.table.unpin(areas.locate(position).0),
        }
    }

    /// The record at `position` was asked for at `now`, in unix seconds.
    pub(crate) fn touch(&mut self, areas: &Areas, position: u32, now: u32) {
        match self {
            Space::Clusters(space) => space.table.touch(areas.locate(position).0, now),
        }
    }

    /// An object was found in memory whose record has, or had, `place`; `cluster` is where the
    /// memory tier knows it to live.
    pub(crate) fn touch_resident(
        &mut self,
        _place: Option<Place>,
        cluster: Option<ClusterId>,
        now: u32,
    ) {
        match self {
            Space::Clusters(space) => {
                if let Some(cluster) = cluster {
                    space.table.touch(cluster, now);
                }
            }
        }
    }

    /// Bytes of memory of its tables.
    pub(crate) fn memory_bytes(&self) -> usize {
        match self {
            Space::Clusters(space) => space.table.memory_bytes(),
        }
    }

    /// Where all its bytes are, counted anew; see [`crate::Store::account`].
    pub(crate) fn account(&self, areas: &Areas, index: &Index) -> Result<Account, String> {
        match self {
            Space::Clusters(space) => space.account(areas, index),
        }
    }

    // ---- What only the layout `cluster` has

    fn clusters(&self) -> &ClusterSpace {
        match self {
            Space::Clusters(space) => space,
        }
    }

    fn clusters_mut(&mut self) -> &mut ClusterSpace {
        match self {
            Space::Clusters(space) => space,
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
