//! Decisions of the core for a space of slots: which records are evicted, and when they are dead.

use crate::base::digest::Digest;
use crate::base::record::RecordKind;
use crate::base::refusal::Refusal;
use crate::core::new_object::Reservation;
use crate::core::state::Core;
use crate::format::journal::{Fact, JournalPosition};
use crate::index::Slot;
use crate::space::Space;
use crate::space::slots::SlotSpace;
use crate::space::slots::page_write::{PageDone, PageJob};
use crate::space::slots::record_table::Listed;

/// Maximum number of records evicted in one step.
const EVICT_STEP: usize = 64;
/// Number of records evicted at a time for an insertion that finds no place.
const EVICT_FOR_SPACE: usize = 8;

impl Core {
    /// Reserves one or several runs of free slots; evicts records for them (systems U3: up to a
    /// bound).
    pub(super) fn reserve_slots(&mut self, len: usize) -> Reservation {
        let Some(space) = self.placement.space.slots_mut() else {
            return Reservation::Refused(Refusal::NoSpace);
        };
        if space.assembling() {
            return Reservation::Refused(Refusal::Busy);
        }
        if space.reserve(len) {
            return Reservation::Ready;
        }
        self.reclaim.set_starved(true);
        self.wake_background();
        if space_waits(self) {
            return Reservation::Wait;
        }
        for _ in 0..EVICT_FOR_SPACE {
            let Some(space) = self.placement.space.slots_mut() else { break };
            if !space.may_evict_for_space() || !self.evict_one() {
                return Reservation::Refused(Refusal::NoSpace);
            }
        }
        Reservation::Wait
    }

    /// Evicts records until no more slots are taken than allowed, a bounded number in each step.
    /// Returns true when there is more to do.
    pub(super) fn evict_overfull(&mut self) -> bool {
        for _ in 0..EVICT_STEP {
            if !self.placement.space.slots().is_some_and(|space| space.overfull()) {
                return false;
            }
            if !self.evict_one() {
                return false;
            }
        }
        true
    }

    /// Evicts the record that the policy chooses; returns false when there is none.
    fn evict_one(&mut self) -> bool {
        let Some(victim) = self.placement.space.slots_mut().and_then(|space| space.victim()) else {
            return false;
        };
        self.forget_listed(&victim);
        self.mark_dead_at(victim.run.first);
        true
    }

    /// Removes the index entries that lead to the record.
    fn forget_listed(&mut self, record: &Listed) {
        self.forget_record(record.kind, &record.digest, record.run.first);
    }

    /// Declares the record at `position` dead: the journal tells recovery, and its slots become
    /// free in time.
    pub(super) fn mark_dead_at(&mut self, position: u32) {
        let Some(listed) = self.placement.space.slots().and_then(|space| space.listed(position))
        else {
            return;
        };
        let listed = *listed;
        self.note_released(&listed);
        let up_to = self.journal.now();
        if let Some(space) = self.placement.space.slots_mut() {
            space.release(position, up_to);
        }
        self.wake_background();
    }

    /// Notes that the record is dead. Its key is remembered until that is written, so that
    /// insertions that replace it wait for it, see [`Core::unwritten_deletion`].
    fn note_released(&mut self, record: &Listed) {
        let fact = Fact::Released { position: record.run.first, sequence: record.sequence };
        match record.kind {
            RecordKind::Object => self.journal.note_deletion_of(&record.digest, fact),
            // No older record has the digest of a piece, and metadata apply only to the object that
            // they name.
            RecordKind::Piece | RecordKind::Meta => self.journal.note(fact),
        }
    }

    /// Returns the position up to which the journal must be written before an insertion of `digest`
    /// counts as done. Up to there, the journal covers every dead record that a lookup of this
    /// digest could find if the process died before the new record is on the device.
    pub(super) fn unwritten_deletion(&self, digest: &Digest) -> Option<JournalPosition> {
        match &self.placement.space {
            // A cluster dies as a whole, and its records are not listed. A single record is
            // recorded by its tag in the index, which other records may share.
            Space::Clusters(_) => {
                let alike = self.journal.unwritten_deletion_of(&digest.tag_alone());
                let own = self.journal.unwritten_deletion_of(digest);
                self.journal.unwritten_deletion().max(own).max(alike)
            }
            Space::Slots(_) => self.journal.unwritten_deletion_of(digest),
        }
    }

    /// Returns the position up to which the journal must be durable so that a power loss revives no
    /// dead record under `digest`; `None` when it is durable that far.
    pub(crate) fn undurable_deletion(&self, digest: &Digest) -> Option<JournalPosition> {
        if !self.online() {
            // It will never be durable.
            return Some(JournalPosition::MAX);
        }
        let own = self.journal.undurable_deletion_of(digest);
        match &self.placement.space {
            Space::Clusters(_) => {
                let alike = self.journal.undurable_deletion_of(&digest.tag_alone());
                self.journal.undurable_deletion().max(own).max(alike)
            }
            Space::Slots(_) => own,
        }
    }

    /// Notes that the object at `position` has new metadata, in the record placed last; `old` is
    /// the slot of the previous ones.
    pub(super) fn note_refresh(&mut self, position: u32, old: Option<Slot>) {
        let sequence = self.sequence.last();
        let Some(space) = self.placement.space.slots_mut() else { return };
        space.refreshed(position, sequence);
        if let Some(old) = old {
            space.supersede_meta(sequence, old.position);
        }
        self.journal.note(Fact::Refreshed { position, sequence });
    }

    /// Frees all slots except those of the listed records, which are all live records.
    pub(super) fn assembled(&mut self) {
        let Some(space) = self.placement.space.slots_mut() else { return };
        for record in space.assembled(true) {
            self.forget_listed(&record);
        }
    }

    /// Applies the result of a write job.
    pub(super) fn pages_written(&mut self, job: PageJob, done: Vec<PageDone>) {
        let Some(space) = self.placement.space.slots_mut() else { return };
        let written = job.writes.iter().zip(&done).filter(|(_, done)| done.whole);
        let bytes: u64 = written.map(|(write, _)| write.bytes()).sum();
        let lost = space.end_write(job, done);
        self.counters.record_bytes_written += bytes;
        for position in lost {
            let Some(space) = self.placement.space.slots() else { return };
            let Some(record) = space.listed(position).copied() else { continue };
            self.counters.lost_records += 1;
            self.forget_listed(&record);
            self.note_released(&record);
            if let Some(space) = self.placement.space.slots_mut() {
                space.condemn(position);
            }
        }
        self.schedule.note_written();
        self.wake_waiters();
    }

    /// Ends a flush: slots become free, and superseded metadata die.
    pub(super) fn slots_flushed(&mut self) {
        let durable = self.journal.durable();
        let Some(space) = self.placement.space.slots_mut() else { return };
        space.end_flush();
        space.journal_durable(durable);
        self.reclaim.set_starved(false);
        // Once offline no facts are noted any more: they die after the next start.
        if !self.online() {
            return;
        }
        let dead = self.placement.space.slots_mut().map(SlotSpace::dead_metas).unwrap_or_default();
        dead.into_iter().for_each(|position| self.mark_dead_at(position));
    }

    /// Removes the index entries that lead to a record of `kind` at `position`.
    pub(super) fn forget_record(&mut self, kind: RecordKind, digest: &Digest, position: u32) {
        if kind != RecordKind::Piece {
            // Recovery may not have found it yet. Then a record that it superseded, or the object
            // whose metadata it replaces, could still be found and take its place.
            self.note_touched(digest);
        }
        match kind {
            RecordKind::Meta => self.evict_meta(digest, position),
            RecordKind::Object | RecordKind::Piece => self.evict_object(digest, position),
        }
    }
}

fn space_waits(core: &Core) -> bool {
    core.placement.space.slots().is_some_and(|space| space.waits_for_journal())
}
