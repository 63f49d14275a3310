//! Removal: records die in memory at once, and for recovery through the journal.

use std::sync::atomic::Ordering;

use crate::base::digest::Digest;
use crate::core::fetches::Overtaken;
use crate::core::state::Core;
use crate::format::journal::{Fact, JournalPosition};
use crate::index::{IndexKind, Slot};
use crate::memory::object::Object;
use crate::space::Space;

/// Maximum number of pieces that a lookup checks for: 64 MiB of body, some 50 µs.
const PIECES_CHECKED: u32 = 1024;

impl Core {
    /// Removes the version of `digest` and overtakes its running fetches. Returns whether there was
    /// one, and the position up to which the journal must be written before the removal counts as
    /// done.
    pub(crate) fn remove(&mut self, digest: &Digest) -> (bool, JournalPosition) {
        self.fetches.overtake(digest);
        // The journal accepts no facts any more: index and device must stay consistent.
        if !self.online() {
            return (false, JournalPosition::MAX);
        }
        let removed = self.forget_version(digest);
        self.counters.removals += u64::from(removed);
        self.wake_waiters();
        (removed, self.journal.now())
    }

    /// Removes the version of `digest` on behalf of a fetch of it, which was given `flag`, and
    /// overtakes all other running fetches. Also returns the fetch's new flag; `None` when it was
    /// overtaken before.
    pub(crate) fn remove_for_fetch(
        &mut self,
        digest: &Digest,
        flag: &Overtaken,
    ) -> (bool, JournalPosition, Option<Overtaken>) {
        let overtaken = flag.load(Ordering::Acquire);
        let (removed, up_to) = self.remove(digest);
        let renewed = (!overtaken).then(|| self.fetches.begin(*digest));
        (removed, up_to, renewed)
    }

    /// Makes the current version of `digest` dead; returns whether there was one.
    pub(super) fn forget_version(&mut self, digest: &Digest) -> bool {
        self.note_touched(digest);
        self.memory.evictions.withdraw(digest);
        self.clear_version(digest)
    }

    /// Makes a version dead like [`Core::forget_version`], for a digest that no older record can
    /// have.
    fn clear_version(&mut self, digest: &Digest) -> bool {
        self.release_kept(digest);
        let resident = self.remove_resident(digest);
        if let Some(resident) = &resident
            && resident.object.in_pieces()
        {
            let (id, pieces) = (resident.object.header.object_id, resident.object.pieces());
            self.forget_pieces(id, 0..pieces);
        }
        self.forget_place(digest) || resident.is_some()
    }

    /// Declares the record of `digest` and its replaced metadata dead; returns whether there was
    /// one.
    pub(super) fn forget_place(&mut self, digest: &Digest) -> bool {
        let Some(slot) = self.index.remove(digest) else { return false };
        self.mark_dead_under(digest, slot);
        if slot.refreshed
            && let Some(meta) = self.index.remove(&digest.derive_meta())
        {
            self.mark_dead(meta);
        }
        true
    }

    /// Declares dead the pieces of a version that no lookup can find any more, like any record that
    /// leaves the index: their bytes count as dead, and records with an equal tag do not come back.
    /// Existing readers of the version hold the pieces ([`super::reader_holds`]).
    pub(super) fn forget_pieces(&mut self, object_id: u64, pieces: std::ops::Range<u32>) {
        if self.holds.may_hold(object_id) {
            for number in pieces.clone() {
                self.hold_dying(object_id, number);
            }
        }
        self.discard_pieces(object_id, pieces);
    }

    /// Declares dead the pieces of a version that was never committed.
    pub(crate) fn discard_pieces(&mut self, object_id: u64, pieces: std::ops::Range<u32>) {
        for number in pieces {
            let digest = self.digester.piece(object_id, number);
            self.remove_resident(&digest);
            if let Some(slot) = self.index.remove(&digest) {
                self.mark_dead(slot);
            }
        }
    }

    /// Returns whether the first pieces of `object` are known, up to the number that is checked.
    /// For an object of ordinary size these are all pieces; checking all pieces of a huge one would
    /// take too long.
    pub(super) fn has_pieces(&self, object: &Object) -> bool {
        (0..object.pieces().min(PIECES_CHECKED))
            .all(|number| self.knows(&self.digester.piece(object.header.object_id, number)))
    }

    /// Returns whether there is a record of this digest, in memory or on the device.
    pub(crate) fn knows(&self, digest: &Digest) -> bool {
        // Entries may lead into a dropped cluster until they are swept.
        let on_device = |slot: Slot| self.placement.place_at(slot.position).is_some();
        self.memory.tier.peek(digest).is_some() || self.index.get(digest).is_some_and(on_device)
    }

    /// Removes a version that lost a piece, if it is still the current one, so that the next
    /// request is a miss and not another truncated response.
    pub(crate) fn forget_incomplete(&mut self, digest: &Digest, object: &Object) {
        // Recovery may still find the piece, in an older cluster than its head's. An offline device
        // serves nothing.
        if self.recovery.is_running() || !self.online() {
            return;
        }
        let id = object.header.object_id;
        if self.is_present(digest, object) {
            self.counters.incomplete_objects += 1;
            self.forget_version(digest);
            self.forget_pieces(id, 0..object.pieces());
            self.wake_waiters();
        }
    }

    /// Returns whether a lookup of `digest` would find `object` now.
    pub(crate) fn is_current_object(&mut self, digest: &Digest, object: &Object) -> bool {
        self.online() && self.is_alive(digest, object) && self.is_present(digest, object)
    }

    /// Returns whether `object` is the current version of `digest`.
    pub(super) fn is_present(&self, digest: &Digest, object: &Object) -> bool {
        match self.memory.tier.peek(digest) {
            Some(resident) => resident.object.header.object_id == object.header.object_id,
            None => {
                let slot = self.index.get(digest);
                slot.is_some_and(|slot| self.placement.is_at(slot.position, object.place))
            }
        }
    }

    /// Declares dead the record of `slot`, which has just left the index.
    pub(super) fn mark_dead(&mut self, slot: Slot) {
        self.mark_dead_known(None, slot);
    }

    /// Declares dead a record that the index found under `digest`. Only insertions under a digest
    /// that the index may take for it wait until that is written.
    fn mark_dead_under(&mut self, digest: &Digest, slot: Slot) {
        self.mark_dead_known(Some(digest), slot);
    }

    fn mark_dead_known(&mut self, digest: Option<&Digest>, slot: Slot) {
        match &self.placement.space {
            Space::Clusters(_) => self.mark_dead_in_cluster(digest, slot),
            Space::Slots(_) => self.mark_dead_at(slot.position),
        }
    }

    fn mark_dead_in_cluster(&mut self, digest: Option<&Digest>, slot: Slot) {
        let (cluster, granule) = self.placement.areas.locate(slot.position);
        if self.placement.space.virtual_clusters().contains_key(&cluster) {
            self.free_virtual(cluster);
            return;
        }
        let bytes = match self.index.kind() {
            IndexKind::Compact => slot.class.len(),
            // The length is unknown: assume the mean of the cluster's live records.
            IndexKind::Exact => self.placement.space.table().mean_live_bytes(cluster),
        };
        if self.placement.space.table_mut().mark_dead(cluster, granule, bytes) {
            let incarnation = self.placement.space.table().incarnation(cluster);
            let fact = Fact::Dead { cluster, incarnation, granule };
            match digest {
                Some(digest) => self.journal.note_deletion_of(&digest.tag_alone(), fact),
                None => self.journal.note(fact),
            }
            self.wake_background();
        }
    }

    /// Records for a recovery under way that any record of this digest found later is older than
    /// the present operation.
    pub(super) fn note_touched(&mut self, digest: &Digest) {
        let sequence = self.sequence.last() + 1;
        let Some(full) = self.recovery.note_removed(*digest, sequence) else { return };
        self.journal.note_deletion_of(digest, Fact::Removed { digest: *digest, sequence });
        self.wake_background();
        if full {
            self.abandon_recovery();
        }
    }

    /// Ends recovery early because more was removed than fits in a checkpoint: the unread clusters
    /// are dropped, and with them all records that the removals refer to.
    pub(super) fn abandon_recovery(&mut self) {
        let Some(unread) = self.recovery.abandon() else { return };
        if let Some(space) = self.placement.space.slots_mut() {
            space.abandon(self.sequence.last());
            return;
        }
        for (cluster, incarnation) in unread {
            if self.placement.is_current(cluster, incarnation) {
                self.counters.evicted_clusters += 1;
                self.drop_cluster(cluster);
            }
        }
    }

    /// Declares dead the record at `position`, which is damaged; returns whether the index led to
    /// it.
    pub(super) fn damaged(&mut self, digest: &Digest, position: u32) -> bool {
        self.counters.damaged_records += 1;
        let slot = self.index.get(digest).filter(|slot| slot.position == position);
        let Some(slot) = slot.filter(|_| self.online()) else { return false };
        self.index.remove(digest);
        self.mark_dead(slot);
        if slot.refreshed
            && let Some(meta) = self.index.remove(&digest.derive_meta())
        {
            self.mark_dead(meta);
        }
        true
    }
}
