//! The space of the layout `cluster` (CFS): one cluster is open and receives records one after
//! another. The cluster table tracks which clusters are free and which to give up next.

use std::collections::{BTreeMap, BTreeSet};

use device::Extent;

use crate::base::digest::Digest;
use crate::base::limits::ClusterId;
use crate::base::record::Place;
use crate::base::size_class::SizeClass;
use crate::format::device_layout::Areas;
use crate::index::{Index, Slot};
use crate::space::appender::Appender;
use crate::space::cluster_table::{ClusterTable, State};
use crate::space::run_map::{Around, RunMap};
use crate::space::space_audit::{Account, AccountError};

/// The clusters, and the records on their way into them.
pub(crate) struct ClusterSpace {
    pub(crate) table: ClusterTable,
    pub(crate) appender: Appender,
    /// Runs of records that lie side by side because they belong together.
    pub(crate) runs: RunMap,
    /// Clusters opened in this run that hold metadata records.
    pub(crate) metas: BTreeSet<ClusterId>,
    /// Clusters that are on the device and whose objects are all in memory, with the digests of
    /// their live objects (C5).
    pub(crate) virtual_clusters: BTreeMap<ClusterId, Vec<Digest>>,
}

impl ClusterSpace {
    /// Returns the space that `table` describes; `labels` is the version of the rules for reading
    /// labels.
    pub(crate) fn new(table: ClusterTable, labels: Option<u64>) -> ClusterSpace {
        let runs = RunMap::new(table.clusters());
        ClusterSpace {
            table,
            appender: Appender::new(labels),
            runs,
            metas: BTreeSet::new(),
            virtual_clusters: BTreeMap::new(),
        }
    }

    /// Implements [`super::Space::place_at`].
    pub(crate) fn place_at(&self, areas: &Areas, position: u32) -> Option<Place> {
        let (cluster, _) = areas.locate(position);
        let in_use = cluster < self.table.clusters() && self.table.state(cluster).in_use();
        in_use.then(|| Place { position, incarnation: self.table.incarnation(cluster) })
    }

    /// Returns the cluster of `position`, if it is completely on the device and not in memory.
    pub(crate) fn whole(&self, areas: &Areas, position: u32) -> Option<Extent> {
        let (cluster, _) = areas.locate(position);
        (self.table.state(cluster) == State::OnDisk).then(|| areas.cluster(cluster))
    }

    /// Returns the extent that may be worth reading together with the record at `position`, if its
    /// cluster is completely on the device and not in memory: the run of its group if runs are
    /// known, else the whole cluster.
    pub(crate) fn run_around(&self, areas: &Areas, position: u32) -> Option<Extent> {
        let whole = self.whole(areas, position)?;
        let (cluster, granule) = areas.locate(position);
        match self.runs.around(cluster, granule * areas.granule) {
            Around::Unknown => Some(whole),
            Around::Alone => None,
            Around::Run(run) => {
                let (from, to) = (u64::from(run.start), u64::from(run.end).min(whole.len));
                Some(Extent { offset: whole.offset + from, len: to - from })
            }
        }
    }

    /// Records a request for the record of `slot`.
    pub(crate) fn touch(&mut self, areas: &Areas, slot: Slot, now: u32) {
        let (cluster, _) = areas.locate(slot.position);
        let bytes = match slot.class {
            // An exact index does not know the length of a record.
            SizeClass::LARGEST => self.table.mean_live_bytes(cluster).min(SizeClass::MAX_LEN),
            class => class.len(),
        };
        self.table.touch(cluster, bytes, now);
    }

    /// Returns whether the cluster is certain to hold no metadata records.
    pub(crate) fn is_plain(&self, cluster: ClusterId) -> bool {
        self.table.is_counted(cluster) && !self.metas.contains(&cluster)
    }

    /// Seals the open cluster, however full it is, so that it gets its summary.
    pub(crate) fn seal(&mut self, areas: &Areas) {
        let granule = areas.granule;
        if let Some((cluster, entries)) = self.appender.seal() {
            self.table.start_writing(cluster);
            self.runs.learn(cluster, granule, entries);
        }
    }

    /// Returns the number of free clusters, including those that wait to become free.
    pub(crate) fn nearly_free(&self) -> u32 {
        self.table.count(State::Free)
            + self.table.count(State::Quarantined)
            + self.table.count(State::Draining)
    }

    /// Implements [`crate::Store::account`].
    pub(crate) fn account(&self, areas: &Areas, index: &Index) -> Result<Account, AccountError> {
        self.table.recount()?;
        for slot in index.slots() {
            if self.place_at(areas, slot.position).is_none() {
                let (cluster, granule) = areas.locate(slot.position);
                return Err(AccountError::Granule { cluster, granule });
            }
        }
        let bytes = |states: &[State]| -> u64 {
            let clusters: u32 = states.iter().map(|state| self.table.count(*state)).sum();
            u64::from(clusters) * u64::from(areas.cluster_size)
        };
        Ok(Account {
            all: u64::from(areas.clusters) * u64::from(areas.cluster_size),
            used: bytes(&[State::Open, State::Writing, State::OnDisk, State::OnDiskAndInMemory]),
            free: bytes(&[State::Free]),
            quarantined: bytes(&[State::Quarantined]),
            pinned: bytes(&[State::Draining]),
            bad: bytes(&[State::Bad]),
        })
    }
}

/// Returns the extent of the record of `slot`. It does not extend beyond the record's cluster.
pub(crate) fn extent(areas: &Areas, slot: Slot) -> Extent {
    let (cluster, _) = areas.locate(slot.position);
    let offset = areas.offset(slot.position);
    let end = areas.cluster(cluster).end().min(offset + u64::from(slot.class.len()));
    Extent { offset, len: end - offset }
}
