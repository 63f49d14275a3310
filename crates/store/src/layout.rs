//! Places for objects' bytes: allocators of *slots*, for the layouts that reuse space record by
//! record.
//!
//! The space is numbered in slots of one size (512 bytes, or the size that was chosen when the
//! cache was made). A layout decides which free slots the next object takes, and is told when slots
//! are free again; their contents, readers and the device are the engine's. The rules are those of
//! the papers:
//!
//! - [`Stream`]: in turn over the free slots (systems M6);
//! - [`Unified`]: the largest free piece, contiguous (systems U2 to U5);
//! - [`Buddy`]: the first free place of the object's size class (systems M4).
//!
//! All are plain `&mut self` code without clock and randomness: the same calls give the same runs.
//! They promise that no slot is in two runs, that released slots are free at once and merged with
//! their free neighbours, that counts are exact, and that a refusal takes nothing.

mod any;
pub mod batch;
mod buddy;
pub mod locality;
#[cfg(test)]
mod reference_model;
mod slot_map;
mod stream;
mod unified;

pub use any::{AnyLayout, LayoutKind};
pub use buddy::{Buddy, region_for};
pub use slot_map::SlotMap;
pub use stream::Stream;
pub use unified::Unified;

/// Adjacent slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Run {
    /// The first slot.
    pub first: u32,
    /// How many; at least one.
    pub len: u32,
}

impl Run {
    /// Returns the slot after the last one.
    pub fn end(self) -> u32 {
        self.first + self.len
    }
}

/// The space that a layout manages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// How many slots there are, at least one.
    pub slots: u32,
    /// Bytes of a slot, at least one.
    pub slot_bytes: u32,
    /// Bytes at the start of every run of an object but the first that its own bytes cannot have,
    /// because a header that ties the runs together lies there. Less than a slot.
    pub run_header: u32,
}

impl Space {
    /// Returns the slots that `bytes` take when they lie in one run; `None` if that is more than a
    /// run counts.
    pub fn slots_for(self, bytes: u64) -> Option<u32> {
        u32::try_from(bytes.div_ceil(u64::from(self.slot_bytes))).ok()
    }

    /// Returns the bytes of an object that `slots` slots in `runs` runs hold.
    fn capacity(self, slots: u64, runs: usize) -> u64 {
        slots * u64::from(self.slot_bytes) - (runs as u64 - 1) * u64::from(self.run_header)
    }

    fn check(self) {
        assert!(self.slots > 0 && self.slot_bytes > 0, "a space has slots, and they have bytes");
        assert!(self.run_header < self.slot_bytes, "a run has room behind its header");
    }
}

/// An allocator of slots. At the beginning every slot is free.
pub trait Layout {
    /// Takes slots for an object of `bytes` bytes (at least one), whole slots, and appends their
    /// runs to `runs` in the order in which the object's bytes lie in them. In all runs together
    /// there is room for the bytes and for [`Space::run_header`] bytes in every run but the first,
    /// and the last run is no longer than that takes.
    ///
    /// False when the layout's rule gives no place: then no slot was taken and `runs` is as it was.
    #[must_use]
    fn place(&mut self, bytes: u64, runs: &mut Vec<Run>) -> bool;

    /// The next objects, which take `slots` slots together, are to lie side by side: they go into
    /// a free run that holds them all, if the layout's rule has one to offer.
    fn seek(&mut self, slots: u32);

    /// A run of an object that was placed or recovered is free from now on.
    ///
    /// # Panics
    /// If a slot of it is free already.
    fn release(&mut self, run: Run);

    /// Recovery: a run, as `place` gave it out, is in use. False if it cannot be, because one of
    /// its slots is in use already or because the layout would never have given it out; then
    /// nothing has changed.
    #[must_use]
    fn occupy(&mut self, run: Run) -> bool;

    /// Recovery: the newest object ends before `slot`; what has a position goes on from there.
    fn resume_at(&mut self, slot: u32);

    /// The space has become larger; the new slots are free. `slots` is not less than before.
    fn grow(&mut self, slots: u32);

    /// Returns what is in use: every slot that an object cannot take.
    fn map(&self) -> &SlotMap;

    /// Returns the slots that are neither in use nor free: what the layout's own division leaves
    /// over. They count as used in the map.
    fn lost_slots(&self) -> u32 {
        0
    }

    /// Memory that the layout takes, in bytes.
    fn memory_bytes(&self) -> usize;

    /// Returns the slots that an object could take.
    fn free_slots(&self) -> u32 {
        self.map().free()
    }

    /// Returns the slots in runs that were given out.
    fn used_slots(&self) -> u32 {
        self.map().used() - self.lost_slots()
    }

    /// Returns how many runs of free slots there are, each as long as can be.
    fn free_pieces(&self) -> usize {
        self.map().pieces() as usize
    }

    /// True if no object could take the slot.
    fn is_used(&self, slot: u32) -> bool {
        self.map().is_used(slot)
    }

    /// Returns the free runs, each as long as can be, in ascending order.
    fn free_runs(&self) -> impl Iterator<Item = Run> + '_
    where
        Self: Sized,
    {
        self.map().free_runs()
    }
}
