//! Virtual clusters (UCFS, section 2.4.4; C5). A cluster that was read whole stays valid on the
//! device while none of its objects is updated or invalidated, and its objects leave memory without
//! a write. If all of it is cold, all objects leave at once. Otherwise one object leaves; its MEM
//! bit is 0 from then on, and its cluster index does not change. When one of its objects changes
//! while all of them are in memory, the cluster on the device becomes free at once and the objects
//! are in memory only: there is no garbage, and no need for a cleaner.
//!
//! If other objects have left memory by then, they are on the device only, and the cluster must
//! stay. Only the changed object leaves it: it is in memory only, and its old record is dead bytes
//! until the cluster is replaced, or read whole again and freed. The paper does not mention that
//! case. Avoiding these dead bytes would cost a read of the cluster before the update and a write
//! of all its objects after it.
//!
//! In the memory tier the members of a virtual cluster count as dirty, so that the tier asks before
//! one of them leaves. Clusters with replaced metadata, or with pieces of objects that memory does
//! not take, are not virtual clusters.

use crate::base::digest::Digest;
use crate::base::limits::ClusterId;
use crate::base::now::Now;
use crate::config::options::WritePolicy;
use crate::core::state::Core;
use crate::index::Slot;
use crate::memory::memory_tier::Level;
use crate::space::cluster_table::State;

impl Core {
    /// Records that all of `members`, the live records of the cluster, are in memory. Without
    /// write-on-evict they stay ordinary copies that may be dropped one by one. The same holds
    /// during recovery, because a metadata record in the cluster is not known before its object is
    /// found.
    pub(super) fn form_virtual(&mut self, cluster: ClusterId, members: Vec<Digest>) {
        if self.options.write_policy != WritePolicy::OnEvict || self.recovery.is_running() {
            return;
        }
        if self.placement.space.table().state(cluster) != State::OnDisk || members.is_empty() {
            return;
        }
        for member in &members {
            self.memory.tier.set_dirty(member, true);
        }
        self.placement.space.table_mut().set_in_memory(cluster, true);
        self.placement.space.virtual_clusters_mut().insert(cluster, members);
        self.counters.virtual_clusters += 1;
    }

    /// Frees the cluster because one of its objects changes: the cluster on the device becomes free
    /// at once, and the other objects are in memory only. Does nothing when it is not a virtual
    /// cluster.
    pub(super) fn free_virtual(&mut self, cluster: ClusterId) {
        let Some(members) = self.placement.space.virtual_clusters_mut().remove(&cluster) else {
            return;
        };
        let granules = self.placement.areas.granules_per_cluster();
        let first = self.placement.areas.position(cluster, 0);
        for member in &members {
            let here = self
                .index
                .get(member)
                .is_some_and(|slot| slot.position.wrapping_sub(first) < granules);
            if here {
                self.index.remove(member);
                self.memory.tier.set_cluster(member, None);
            }
        }
        self.counters.virtual_freed += 1;
        self.drop_cluster(cluster);
    }

    /// Records that the object of `digest`, which is in memory and has its record in `slot`,
    /// changes. With write-on-evict it is in memory only from now on, and this returns true. The
    /// cluster becomes free if all of it is in memory; otherwise only the record is dead.
    pub(super) fn drop_device_copy(&mut self, digest: &Digest, slot: Slot) -> bool {
        if !self.placement.space.has_clusters() {
            return false;
        }
        let (cluster, _) = self.placement.areas.locate(slot.position);
        if self.placement.space.virtual_clusters().contains_key(&cluster) {
            self.free_virtual(cluster);
            return true;
        }
        // Recovery may not have read an older version yet, which must not come back.
        if self.options.write_policy != WritePolicy::OnEvict || self.recovery.is_running() {
            return false;
        }
        self.forget_place(digest);
        self.memory.tier.set_cluster(digest, None);
        true
    }

    /// Keeps the cluster on the device; its objects become ordinary copies.
    pub(super) fn dissolve_virtual(&mut self, cluster: ClusterId) {
        for member in
            self.placement.space.virtual_clusters_mut().remove(&cluster).unwrap_or_default()
        {
            self.memory.tier.set_dirty(&member, false);
        }
        if self.placement.space.table().state(cluster) == State::OnDiskAndInMemory {
            self.placement.space.table_mut().set_in_memory(cluster, false);
        }
    }

    /// Evicts a virtual cluster whose member is the next to leave: if all of it is cold, all of it
    /// leaves without a write. Returns whether it did.
    fn evict_virtual(&mut self, cluster: ClusterId) -> bool {
        let cold =
            |core: &Core, member: &Digest| core.memory.tier.level(member) == Some(Level::Cold);
        let Some(members) = self.placement.space.virtual_clusters().get(&cluster) else {
            return false;
        };
        if !members.iter().all(|member| cold(self, member)) {
            return false;
        }
        for member in
            self.placement.space.virtual_clusters_mut().remove(&cluster).unwrap_or_default()
        {
            self.evict_resident(&member);
        }
        self.placement.space.table_mut().set_in_memory(cluster, false);
        self.counters.virtual_kept += 1;
        true
    }

    /// Evicts the dirty object that must leave memory next: with its virtual cluster, alone out of
    /// it, or in a group that is written. Returns false when it stays for lack of space.
    pub(super) fn evict_dirty(&mut self, digest: Digest, now: Now) -> bool {
        let cluster = self.memory.tier.peek(&digest).and_then(|resident| resident.cluster);
        let Some(cluster) = cluster else { return self.write_group(digest, now) };
        if !self.evict_virtual(cluster) {
            // The others stay, as copies of the records on the device.
            self.dissolve_virtual(cluster);
            self.evict_resident(&digest);
            self.counters.virtual_parted += 1;
        }
        true
    }
}
