//! Virtual clusters (UCFS, section 2.4.4; C5): a cluster that was read whole stays valid on the
//! device while none of its objects is updated, invalidated or regrouped, and leaves memory
//! without a write once all its objects are cold. Otherwise the disk cluster becomes free at once
//! and its objects live in memory only. That is why there is never garbage and never a cleaner.
//!
//! In the memory tier the members of a virtual cluster count as dirty: they may not be dropped one
//! by one. Clusters that hold replaced metadata, or pieces of objects that memory does not take,
//! are no virtual clusters.

use super::insertion::Room;
use super::{Core, Now};
use crate::cluster_table::{ClusterId, State};
use crate::digest::Digest;
use crate::index::Slot;
use crate::options::WritePolicy;
use crate::tier::Level;

impl Core {
    /// All of `members`, which are what lives in the cluster, are in memory now. Without
    /// write-on-evict they stay ordinary copies that may be dropped one by one. So they do during
    /// recovery, too: a metadata record in the cluster is not known before its object is found.
    pub(super) fn join_memory(&mut self, cluster: ClusterId, members: Vec<Digest>) {
        if self.options.write_policy != WritePolicy::OnEvict || self.recovering.is_some() {
            return;
        }
        if self.space.table().state(cluster) != State::OnDisk || members.is_empty() {
            return;
        }
        for member in &members {
            self.tier.set_dirty(member, true);
        }
        self.space.table_mut().set_in_memory(cluster, true);
        self.space.virtual_clusters_mut().insert(cluster, members);
        self.counters.virtual_clusters += 1;
    }

    /// One of the cluster's objects changes: the cluster on the device becomes free at once, the
    /// others live in memory only. Nothing happens when it is no virtual cluster.
    pub(super) fn free_virtual(&mut self, cluster: ClusterId) {
        let Some(members) = self.space.virtual_clusters_mut().remove(&cluster) else { return };
        let granules = self.areas.granules_per_cluster();
        let first = self.areas.position(cluster, 0);
        for member in &members {
            let here = self
                .index
                .get(member)
                .is_some_and(|slot| slot.position.wrapping_sub(first) < granules);
            if here {
                self.index.remove(member);
                self.tier.set_cluster(member, None);
            }
        }
        self.counters.virtual_freed += 1;
        self.drop_cluster(cluster);
    }

    /// The object of `slot`, which is in memory, changes. When it is a member of a virtual cluster
    /// it lives in memory only from now on, and the cluster is free: true.
    pub(super) fn leave_device(&mut self, slot: Slot) -> bool {
        if !self.space.has_clusters() {
            return false;
        }
        let (cluster, _) = self.areas.locate(slot.position);
        let is_virtual = self.space.virtual_clusters().contains_key(&cluster);
        self.free_virtual(cluster);
        is_virtual
    }

    /// The cluster stays on the device, its objects become ordinary copies of what is there.
    pub(super) fn dissolve_virtual(&mut self, cluster: ClusterId) {
        for member in self.space.virtual_clusters_mut().remove(&cluster).unwrap_or_default() {
            self.tier.set_dirty(&member, false);
        }
        if self.space.table().state(cluster) == State::OnDiskAndInMemory {
            self.space.table_mut().set_in_memory(cluster, false);
        }
    }

    /// A member of a virtual cluster is the next to leave memory: the whole cluster leaves without
    /// a write when all of it is cold. True when it did.
    pub(super) fn leave_memory(&mut self, cluster: ClusterId) -> bool {
        let cold = |core: &Core, member: &Digest| core.tier.level(member) == Some(Level::Cold);
        let Some(members) = self.space.virtual_clusters().get(&cluster) else { return false };
        if !members.iter().all(|member| cold(self, member)) {
            return false;
        }
        for member in self.space.virtual_clusters_mut().remove(&cluster).unwrap_or_default() {
            self.expel(&member);
        }
        self.space.table_mut().set_in_memory(cluster, false);
        self.counters.virtual_kept += 1;
        true
    }

    /// The dirty object that must leave memory next goes: with its virtual cluster, or in a group
    /// that is written.
    pub(super) fn evict_dirty(&mut self, digest: Digest, now: Now) {
        let cluster = self.tier.peek(&digest).and_then(|resident| resident.cluster);
        if let Some(cluster) = cluster {
            if self.leave_memory(cluster) {
                return;
            }
            // Regrouping needs a place for the objects. Without one they keep the one they have.
            self.begin_cluster();
            let size = self.areas.cluster_size as usize / 2;
            if self.make_room(size, now) != Room::Ready {
                self.dissolve_virtual(cluster);
                return;
            }
            self.free_virtual(cluster);
        }
        self.write_group(digest, now);
    }
}
