//! Staging: gathers objects that belong together before they are placed. See
//! [`crate::memory::locality_staging`].

use device::Nanos;

use crate::base::digest::Digest;
use crate::base::now::Now;
use crate::base::record::Header;
use crate::core::state::Core;
use crate::memory::locality_staging::{LocalityStaging, Outgoing};

/// Number of objects of a batch that are placed under one lock.
const PLACED_AT_ONCE: usize = 64;

impl Core {
    /// Stages an object that has entered memory as dirty. Writes a buffer that is full with it.
    pub(super) fn stage(&mut self, digest: Digest, header: &Header, len: usize, now: Now) {
        let due = self.due_of(header, now);
        let Some(staging) = &mut self.memory.staging else { return };
        staging.push(digest, header, len, due);
        // Batches are left to the background: they hold too many objects to place under one lock.
        if staging.in_buffers() {
            self.place_staged(usize::MAX, now);
        }
    }

    /// Sends out the staged objects if one of them must be written by `due`, and places some of
    /// them. Returns true when there are more to place.
    pub(super) fn send_staged(&mut self, due: Option<Nanos>, now: Now) -> bool {
        let Some(staging) = &mut self.memory.staging else { return false };
        staging.send_due(due);
        let stuck = staging.is_stuck();
        let more = self.place_staged(PLACED_AT_ONCE, now);
        if stuck && !self.memory.staging_is_stuck() {
            self.wake_waiters();
        }
        more
    }

    /// Evicts a dirty object that must leave memory next. A staged one is sent out with all others.
    /// Pieces, members of virtual clusters and objects whose record on the device was dropped are
    /// dirty without being staged. Returns false when there is no place for the object: it stays in
    /// memory, and others leave before it.
    pub(super) fn evict_staged(&mut self, digest: &Digest, now: Now) -> bool {
        let Some(resident) = self.memory.tier.peek(digest) else { return true };
        let header = &resident.object.header;
        let on_evict = self.memory.delays_write(header);
        if resident.cluster.is_none() && self.memory.stages(header) {
            self.place_all_staged(now);
        }
        let is_dirty = self.memory.tier.peek(digest).is_some_and(|resident| resident.dirty);
        let leaves = !is_dirty || on_evict && self.evict_dirty(*digest, now);
        if !leaves {
            self.memory.tier.reinsert(digest);
        }
        leaves
    }

    /// Places all staged objects, as far as there is space.
    pub(super) fn place_all_staged(&mut self, now: Now) {
        if let Some(staging) = &mut self.memory.staging {
            staging.send();
        }
        self.place_staged(usize::MAX, now);
    }

    /// Places objects that are leaving, as far as there is room, at most `most`. Returns true when
    /// it stopped at `most` with more to place.
    fn place_staged(&mut self, mut most: usize, now: Now) -> bool {
        let Some(staging) = &self.memory.staging else { return false };
        let due = staging.leaving_due();
        while let Some(mut leaving) =
            self.memory.staging.as_mut().and_then(LocalityStaging::pop_outgoing)
        {
            if leaving.seek() {
                self.seek_place(&leaving);
            }
            while most > 0
                && let Some(next) = leaving.next(self.placement.space.room(&self.placement.areas))
            {
                most -= 1;
                if self.memory.awaits_place(&next.0) && !self.place_resident(&next.0, due, now) {
                    leaving.requeue(next);
                    self.requeue(leaving);
                    return false;
                }
            }
            if leaving.items().next().is_some() {
                self.requeue(leaving);
                return true;
            }
        }
        false
    }

    fn requeue(&mut self, leaving: Outgoing) {
        if let Some(staging) = &mut self.memory.staging {
            staging.requeue(leaving);
        }
    }

    /// Looks for one free run for the leaving objects, in a space of slots.
    fn seek_place(&mut self, leaving: &Outgoing) {
        let waiting = leaving.items().filter(|(digest, _)| self.memory.awaits_place(digest));
        let lens: Vec<usize> = waiting.map(|(_, len)| *len as usize).collect();
        if let Some(space) = self.placement.space.slots_mut() {
            space.seek(&lens);
        }
    }
}
