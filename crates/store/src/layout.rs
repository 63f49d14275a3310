//! Layouts with slots: allocators that choose the slots of each object record. The layout `cluster`
//! has none (`space/clusters.rs`).
//!
//! The space is numbered in slots of one size (512 bytes, or the size chosen when the cache was
//! created). A layout decides which free slots the next object takes, and is told when slots become
//! free again. The engine handles their contents, readers and the device. The rules follow the
//! papers:
//!
//! - [`Stream`]: takes free slots in order, round and round (systems M6);
//! - [`Unified`]: takes space from the largest free piece, contiguously (systems U2 to U5);
//! - [`Buddy`]: takes the first free place of the object's size class (systems M4).
//!
//! All are plain `&mut self` code without a clock or randomness: the same calls produce the same
//! runs.
//!
//! Guarantees: no slot is in two runs; released slots are free at once and merged with their free
//! neighbours; counts are exact; a refused request takes no slots.

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

/// A range of adjacent slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Run {
    /// First slot.
    pub first: u32,
    /// Number of slots, at least one.
    pub len: u32,
}

impl Run {
    /// Returns the slot after the last one of the run.
    pub fn end(self) -> u32 {
        self.first + self.len
    }
}

/// The space that a layout manages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// Number of slots, at least one.
    pub slots: u32,
    /// Bytes in a slot, at least one.
    pub slot_bytes: u32,
    /// Bytes reserved for a header at the start of every run of an object but the first. The header
    /// links the runs. Less than a slot.
    pub run_header: u32,
}

impl Space {
    /// Returns the number of slots that `bytes` take in one run; `None` if it exceeds the length
    /// that a run can have.
    pub fn slots_for(self, bytes: u64) -> Option<u32> {
        u32::try_from(bytes.div_ceil(u64::from(self.slot_bytes))).ok()
    }

    /// Returns the number of object bytes that `slots` slots in `runs` runs hold.
    fn capacity(self, slots: u64, runs: usize) -> u64 {
        slots * u64::from(self.slot_bytes) - (runs as u64 - 1) * u64::from(self.run_header)
    }

    fn check(self) {
        assert!(self.slots > 0 && self.slot_bytes > 0, "a space has slots, and they have bytes");
        assert!(self.run_header < self.slot_bytes, "a run has room behind its header");
    }
}

/// An allocator of slots. Initially every slot is free.
pub trait Layout {
    /// Takes whole slots for an object of `bytes` bytes (at least one) and appends their runs to
    /// `runs`, in the order in which the object's bytes lie in them. Together the runs hold the
    /// bytes and, in every run but the first, [`Space::run_header`] bytes. The last run is no
    /// longer than this requires.
    ///
    /// Returns false if the layout's rule yields no place. In that case no slot was taken and
    /// `runs` is unchanged.
    #[must_use]
    fn place(&mut self, bytes: u64, runs: &mut Vec<Run>) -> bool;

    /// Announces that the next objects, `slots` slots in all, should lie side by side. A layout
    /// that has a position moves it to a free run that holds them all; a layout whose rule leaves
    /// no choice ignores this. Takes no slots.
    fn seek(&mut self, slots: u32);

    /// Frees a run of an object that was placed or recovered.
    ///
    /// # Panics
    /// If a slot of the run is already free.
    fn release(&mut self, run: Run);

    /// For recovery: marks a run, as `place` returned it, as in use. Returns false and changes
    /// nothing if that is impossible, because one of the slots is already in use or because the
    /// layout would never have returned that run.
    #[must_use]
    fn occupy(&mut self, run: Run) -> bool;

    /// For recovery: the newest object ends before `slot`. A layout that has a position continues
    /// from there.
    fn resume_at(&mut self, slot: u32);

    /// Enlarges the space to `slots` slots, not fewer than before. The new slots are free.
    fn grow(&mut self, slots: u32);

    /// Returns the map of used slots: every slot that no object can take.
    fn map(&self) -> &SlotMap;

    /// Returns the number of slots that are neither in use nor free, left over by the layout's own
    /// division of the space. They count as used in the map.
    fn lost_slots(&self) -> u32 {
        0
    }

    /// Returns the memory that the layout occupies, in bytes.
    fn memory_bytes(&self) -> usize;

    /// Returns the number of slots that objects could take.
    fn free_slots(&self) -> u32 {
        self.map().free()
    }

    /// Returns the number of slots in runs that are placed.
    fn used_slots(&self) -> u32 {
        self.map().used() - self.lost_slots()
    }

    /// Returns the number of maximal runs of free slots.
    fn free_pieces(&self) -> usize {
        self.map().pieces() as usize
    }

    /// Returns whether no object can take the slot.
    fn is_used(&self, slot: u32) -> bool {
        self.map().is_used(slot)
    }

    /// Returns the maximal free runs in ascending order.
    fn free_runs(&self) -> impl Iterator<Item = Run> + '_
    where
        Self: Sized,
    {
        self.map().free_runs()
    }
}
