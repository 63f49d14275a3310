//! Tracks the readers of large objects, and holds dying pieces for them. See
//! [`super::reader_holds`].

use std::ops::Range;
use std::sync::Arc;

use device::Nanos;

use crate::base::digest::Digest;
use crate::base::now::Now;
use crate::core::read_plan::ReadPlan;
use crate::core::reader_holds::{Piece, ReaderId};
use crate::core::state::Core;
use crate::index::Slot;
use crate::memory::memory_tier::Resident;
use crate::memory::object::Object;

/// Number of pieces that are looked up under one lock.
pub(crate) const HOLD_STEP: u32 = 512;

/// A piece that only existing readers can find.
#[expect(clippy::large_enum_variant, reason = "it is matched at once and never kept")]
pub(crate) enum HeldPiece {
    /// On the device, to be read by this plan.
    Read(ReadPlan),
    /// In memory.
    Object(Arc<Object>),
}

/// The progress of a reader of a large object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReaderProgress {
    /// The reader has begun to read the body, rather than only having opened it.
    ReadsBody,
    /// The reader has read everything before this piece.
    ReadUpTo(u32),
    /// It has ended.
    Ended,
}

impl Core {
    /// Adds a reader of `object` at its first piece; returns `None` when a piece is missing. As far
    /// as there is space, the first pieces are held until the reader begins the body, which holds
    /// all pieces.
    pub(crate) fn open_reader(&mut self, object: &Object, now: Now) -> Option<ReaderId> {
        if !self.has_pieces(object) {
            return None;
        }
        let object_id = object.header.object_id;
        let id = self.begin_reading(object_id, 0, None, now);
        self.hold(object_id, 0..object.pieces().min(HOLD_STEP));
        Some(id)
    }

    /// Adds a reader of the version at piece `at`, with progress that is already known.
    pub(crate) fn begin_reading(
        &mut self,
        object_id: u64,
        at: u32,
        progress: Option<ReaderProgress>,
        now: Now,
    ) -> ReaderId {
        self.end_overdue(now.monotonic);
        let id = self.holds.begin(object_id, at, now.monotonic);
        if let Some(progress) = progress {
            self.reader_progressed(id, progress);
        }
        id
    }

    /// Records the progress of a reader.
    pub(crate) fn reader_progressed(&mut self, id: ReaderId, progress: ReaderProgress) {
        let done = match progress {
            ReaderProgress::ReadsBody => {
                self.holds.reads_body(id);
                return;
            }
            ReaderProgress::ReadUpTo(at) => self.holds.read_on(id, at),
            ReaderProgress::Ended => self.holds.end(id),
        };
        self.release_held(done);
    }

    /// Revokes the holds of readers that have taken too long.
    pub(super) fn end_overdue(&mut self, now: Nanos) {
        while let Some(done) = self.holds.end_overdue(now) {
            self.release_held(done);
            self.wake_background();
        }
    }

    /// Holds the pieces of a version that is being read: pins those that are placed, and shares
    /// those that live in memory only.
    pub(crate) fn hold(&mut self, object_id: u64, pieces: Range<u32>) {
        for number in pieces {
            let digest = self.digester.piece(object_id, number);
            match self.placed_slot(&digest) {
                Some(slot) if !self.hold_placed(object_id, number, slot) => return,
                Some(_) => {}
                // A dirty piece gets a place before it leaves memory.
                None => self.hold_resident(object_id, number, |resident| !resident.dirty),
            }
        }
    }

    /// Returns whether a piece is held for the readers of its version.
    pub(crate) fn is_held(&self, object_id: u64, number: u32) -> bool {
        self.holds.has(object_id, number)
    }

    /// Holds a piece that is about to die, for the readers of its version.
    pub(super) fn hold_dying(&mut self, object_id: u64, number: u32) {
        let digest = self.digester.piece(object_id, number);
        match self.placed_slot(&digest) {
            Some(slot) => {
                self.hold_placed(object_id, number, slot);
            }
            None => self.hold_resident(object_id, number, |_| true),
        }
    }

    fn placed_slot(&self, digest: &Digest) -> Option<Slot> {
        self.index.get(digest).filter(|slot| self.placement.place_at(slot.position).is_some())
    }

    /// Holds a piece in memory that `may_stay` there, as far as there is space.
    fn hold_resident(
        &mut self,
        object_id: u64,
        number: u32,
        may_stay: impl FnOnce(&Resident<Arc<Object>>) -> bool,
    ) {
        let digest = self.digester.piece(object_id, number);
        if !self.holds.has(object_id, number)
            && let Some(resident) = self.memory.tier.peek(&digest)
            && may_stay(resident)
        {
            self.holds.hold_in_memory(object_id, number, Arc::clone(&resident.object));
        }
    }

    /// Holds a piece in its place. Returns false when the version may hold no more.
    fn hold_placed(&mut self, object_id: u64, number: u32, slot: Slot) -> bool {
        let Some(place) = self.placement.place_at(slot.position) else { return true };
        if !self.holds.may_hold(object_id) {
            return false;
        }
        if self.holds.has(object_id, number) {
            return true;
        }
        let location = self.placement.locate(slot);
        let cluster = self.placement.cluster_held(place);
        while !self.holds.has_space(cluster, &location) {
            match self.holds.lowest_ranked_below(object_id) {
                Some(lower) => self.revoke(lower),
                None => return false,
            }
        }
        self.holds.hold_placed(object_id, number, cluster, (place, location));
        self.placement.pin(place.position);
        true
    }

    /// Revokes the hold of a version's readers.
    fn revoke(&mut self, object_id: u64) {
        if let Some(pieces) = self.holds.revoke(object_id) {
            self.release_held(pieces);
            self.wake_background();
        }
    }

    fn release_held(&mut self, pieces: Vec<Piece>) {
        if self.holds.release(pieces, &mut self.placement) {
            self.wake_waiters();
            self.wake_background();
        }
    }

    /// Finds piece `number` of a version that only existing readers can find; `None` when it is not
    /// held. A plan is pinned like any other.
    pub(crate) fn find_held(&mut self, object_id: u64, number: u32) -> Option<HeldPiece> {
        if !self.online() {
            return None;
        }
        let (place, location) = match self.holds.piece(object_id, number)? {
            Piece::InMemory(object) => return Some(HeldPiece::Object(Arc::clone(object))),
            Piece::Placed { place, location } => (*place, location.clone()),
        };
        let digest = self.digester.piece(object_id, number);
        if let Some(piece) = self.memory.in_transit.get(&digest) {
            return Some(HeldPiece::Object(piece));
        }
        if let Some(record) = self.placement.space.waiting(place) {
            let object = Object::from_record(record, Some(place));
            return Some(HeldPiece::Object(Arc::new(object)));
        }
        self.placement.pin(place.position);
        self.reads.count_exact();
        Some(HeldPiece::Read(ReadPlan::of_held(digest, place, location)))
    }
}
