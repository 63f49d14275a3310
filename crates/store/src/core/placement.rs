//! The places of records: the space of the device together with the division that positions refer
//! to.

use device::Extent;

use crate::base::limits::{ClusterId, PIECE_MAX};
use crate::base::record::Place;
use crate::base::size_class::SizeClass;
use crate::base::summary::Entry;
use crate::core::read_plan::Scope;
use crate::core::reclaim::Reclaim;
use crate::format::device_layout::Areas;
use crate::index::{Index, Slot};
use crate::memory::locality_staging::LocalityStaging;
use crate::space::appender::Appender;
use crate::space::cluster_table::State;
use crate::space::space_audit::{Account, AccountError};
use crate::space::{Location, Space};

/// The space of the device, its areas, and the bound of what waits to be written to it.
pub(super) struct Placement {
    pub(super) space: Space,
    pub(super) areas: Areas,
    /// Maximum number of bytes of records that wait to be written.
    unwritten_max: usize,
}

impl Placement {
    pub(super) fn new(space: Space, areas: Areas, unwritten_max: usize) -> Placement {
        Placement { space, areas, unwritten_max }
    }

    /// Returns the current place of the record at `position`; `None` if no live record is there.
    #[inline]
    pub(super) fn place_at(&self, position: u32) -> Option<Place> {
        self.space.place_at(&self.areas, position)
    }

    /// Returns whether the record at `position` is the one at `place`.
    #[inline]
    pub(super) fn is_at(&self, position: u32, place: Option<Place>) -> bool {
        place.is_some() && self.place_at(position) == place
    }

    /// Returns the location to read for the live record of `slot`: at most an eighth too much.
    #[inline]
    pub(super) fn locate(&self, slot: Slot) -> Location {
        self.space.locate(&self.areas, slot)
    }

    /// Keeps the bytes at `position` unchanged for a reader.
    #[inline]
    pub(super) fn pin(&mut self, position: u32) {
        self.space.pin(&self.areas, position);
    }

    /// Releases a pin. Returns whether that made space free.
    #[inline]
    pub(super) fn unpin(&mut self, position: u32) -> bool {
        self.space.unpin(&self.areas, position)
    }

    /// Records a request for the record of `slot` at `now`, in unix seconds.
    #[inline]
    pub(super) fn touch(&mut self, slot: Slot, now: u32) {
        self.space.touch(&self.areas, slot, now);
    }

    /// Records a memory hit on an object of `bytes` bytes whose record has, or had, `place`.
    #[inline]
    pub(super) fn touch_resident(&mut self, place: Option<Place>, bytes: usize, now: u32) {
        self.space.touch_resident(&self.areas, place, bytes, now);
    }

    /// Returns the cluster of the record at `position`, in a space of clusters.
    #[inline]
    pub(super) fn cluster_of(&self, position: u32) -> Option<ClusterId> {
        self.space.cluster_of(&self.areas, position)
    }

    /// Returns the cluster that contains `place`, in a space of clusters.
    #[inline]
    pub(super) fn cluster_at(&self, place: Option<Place>) -> Option<ClusterId> {
        place.and_then(|place| self.cluster_of(place.position))
    }

    /// Returns the cluster that is pinned with a record at `place`, and the cluster's size in
    /// bytes.
    pub(super) fn cluster_held(&self, place: Place) -> Option<(ClusterId, u32)> {
        let cluster = self.cluster_of(place.position)?;
        Some((cluster, self.areas.cluster_size))
    }

    /// Returns the scope of `extent`, which holds the record at `position`.
    pub(super) fn scope_of(&self, position: u32, extent: Extent) -> Scope {
        match self.cluster_of(position) {
            Some(cluster) if extent == self.areas.cluster(cluster) => Scope::Cluster(cluster),
            Some(_) => Scope::Part,
            None => Scope::Slots,
        }
    }

    /// Returns whether the cluster is in use with this incarnation.
    pub(super) fn is_current(&self, cluster: ClusterId, incarnation: u64) -> bool {
        let table = self.space.table();
        table.incarnation(cluster) == incarnation && table.state(cluster).in_use()
    }

    /// Learns the runs of a cluster from its summary.
    pub(super) fn learn_runs(&mut self, cluster: ClusterId, entries: &[Entry]) {
        self.space.learn_runs(&self.areas, cluster, entries);
    }

    /// Seals the open cluster or batch, so that it is written as it is.
    pub(super) fn seal(&mut self) {
        self.space.seal(&self.areas);
    }

    /// Makes the next record start a new cluster (section 2.4.2 of the UCFS paper: the write buffer
    /// is a whole number of clusters).
    pub(super) fn begin_cluster(&mut self) {
        if self.space.has_clusters() && self.space.appender().begun() {
            self.seal();
        }
    }

    /// Returns the extent of the cluster of `position` for a read of all of it; `None` as in
    /// [`Space::whole_cluster`]. If the read `seeks`, the disk position is behind the cluster then
    /// (section 2.4.9 of the UCFS paper).
    pub(super) fn read_whole_cluster(&mut self, position: u32, seeks: bool) -> Option<Extent> {
        let whole = self.space.whole_cluster(&self.areas, position)?;
        let (cluster, _) = self.areas.locate(position);
        if seeks {
            self.space.table_mut().read_past(cluster);
        }
        Some(whole)
    }

    /// Pins and returns at most `most` clusters, the least valuable ones.
    pub(super) fn victims(&mut self, most: u32) -> Vec<ClusterId> {
        let mut victims = Vec::new();
        while (victims.len() as u32) < most
            && let Some(cluster) = self.space.table_mut().victim(|_| false)
        {
            self.space.table_mut().pin(cluster);
            victims.push(cluster);
        }
        victims
    }

    /// Returns the maximum length of a record in bytes.
    pub(super) fn record_max(&self) -> usize {
        match &self.space {
            Space::Clusters(_) => Appender::record_max(&self.areas),
            Space::Slots(_) => SizeClass::MAX_LEN as usize,
        }
    }

    /// Returns the number of body bytes in a piece of a large object: small enough for a reader's
    /// buffer and for the clusters; large enough for a read to be worthwhile.
    pub(super) fn piece_size(&self) -> u32 {
        match &self.space {
            Space::Clusters(_) => Appender::piece_size(&self.areas),
            Space::Slots(_) => PIECE_MAX,
        }
    }

    /// Returns the lowest incarnation of clusters opened from now on.
    pub(super) fn next_incarnation(&self) -> u64 {
        match &self.space {
            Space::Clusters(space) => space.table.next_incarnation(),
            Space::Slots(_) => 0,
        }
    }

    /// Returns whether a record of `len` bytes must wait because too many bytes wait already.
    pub(super) fn exceeds_unwritten(&self, len: usize) -> bool {
        let unwritten = self.space.unwritten_bytes();
        unwritten > 0 && unwritten + len > self.unwritten_max
    }

    /// Returns whether more than half of the permitted bytes wait to be written. Half of the bound
    /// is more than the open cluster, so some other records are about to be written.
    pub(super) fn is_half_unwritten(&self) -> bool {
        self.space.unwritten_bytes() > self.unwritten_max / 2
    }

    /// Returns the bytes that may be placed now: never less than an insertion would find. With
    /// `late`, insertions stop at half of the bound.
    pub(super) fn available(&self, late: bool) -> usize {
        let placed = match &self.space {
            Space::Clusters(space) => {
                space.table.count(State::Free) > 0 || space.appender.has_space(&self.areas, 1)
            }
            Space::Slots(_) => true,
        };
        let most = if late { self.unwritten_max / 2 + 1 } else { self.unwritten_max };
        if placed { most.saturating_sub(self.space.unwritten_bytes()) } else { 0 }
    }

    /// Returns whether a flush of the journal would make space free that is needed.
    pub(super) fn waits_for_journal(&self, reclaim: &Reclaim) -> bool {
        match &self.space {
            Space::Clusters(space) => {
                space.table.count(State::Quarantined) > 0
                    && space.table.count(State::Free) < reclaim.low_mark()
            }
            Space::Slots(space) => {
                space.waits_for_journal() && (reclaim.is_starved() || space.is_short())
            }
        }
    }

    /// Returns whether there is space without evicting anything; staged objects wait for a place.
    pub(super) fn has_unused_space(
        &self,
        reclaim: &Reclaim,
        staged: Option<&LocalityStaging>,
        index: &Index,
    ) -> bool {
        match &self.space {
            Space::Clusters(space) => {
                let staged = staged.map_or(0, LocalityStaging::bytes);
                let wanted = staged.div_ceil(u64::from(self.areas.cluster_size)) as u32;
                reclaim.has_unused_space(space.table.count(State::Free), wanted, index.load())
            }
            Space::Slots(space) => space.has_unused_space(),
        }
    }

    /// Accounts for all bytes of the space by recounting; see [`crate::Store::account`].
    pub(super) fn account(&self, index: &Index) -> Result<Account, AccountError> {
        let account = self.space.account(&self.areas, index)?;
        if account.balanced() { Ok(account) } else { Err(AccountError::Sum(account)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::superblock::tests::sample;
    use crate::space::cluster_table::{ClusterTable, Policy};
    use crate::space::clusters::ClusterSpace;

    #[test]
    fn victims_are_pinned_and_chosen_once() {
        let areas = sample().areas;
        let mut table = ClusterTable::new(areas.clusters, areas.cluster_size, Policy::default());
        for cluster in table.take_free_run(3, 1).unwrap() {
            table.written(cluster);
        }
        let space = Space::Clusters(ClusterSpace::new(table, None));
        let mut placement = Placement::new(space, areas, 1 << 20);
        let mut victims = placement.victims(2);
        victims.extend(placement.victims(u32::MAX));
        victims.sort_unstable();
        assert_eq!(victims, [0, 1, 2]);
        assert!(placement.victims(1).is_empty());
        assert_eq!(placement.available(false), 1 << 20);
        assert_eq!(placement.available(true), (1 << 19) + 1, "insertions stop at half");
    }
}
