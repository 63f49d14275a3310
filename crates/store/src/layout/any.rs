//! A layout of any kind, chosen when the cache is created, with static dispatch. `LayoutName` is
//! what a user writes, [`LayoutKind`] the same with its parameters as the superblock holds it,
//! [`AnyLayout`] the allocator.

use super::{Buddy, Layout, Run, SlotMap, Space, Stream, Unified};

/// The layout of a cache with its parameters. They are fixed for the life of the cache, because
/// they determine where objects can lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayoutKind {
    /// Round and round over the free slots; see [`Stream`].
    Stream {
        /// Maximum number of runs that an object may lie in, at least one. One is next fit;
        /// `u32::MAX` leaves no free slot behind.
        runs_max: u32,
    },
    /// From the largest free piece, contiguously; see [`Unified`].
    Unified,
    /// In the first free place of the object's size class; see [`Buddy`].
    Buddy {
        /// Slots in a place of the largest class, at least one. Larger objects are extents of their
        /// own.
        threshold: u32,
        /// Slots in a region: at least the threshold, a multiple of 8, at most 65,528.
        /// [`region_for`](super::region_for) returns a suitable value.
        region: u32,
    },
}

/// A layout of any kind.
pub enum AnyLayout {
    /// The layout [`Stream`].
    Stream(Stream),
    /// The layout [`Unified`].
    Unified(Unified),
    /// The layout [`Buddy`].
    Buddy(Buddy),
}

impl AnyLayout {
    /// Returns an empty space with a layout of this kind.
    pub fn new(kind: LayoutKind, space: Space) -> AnyLayout {
        match kind {
            LayoutKind::Stream { runs_max } => AnyLayout::Stream(Stream::new(space, runs_max)),
            LayoutKind::Unified => AnyLayout::Unified(Unified::new(space)),
            LayoutKind::Buddy { threshold, region } => {
                AnyLayout::Buddy(Buddy::new(space, threshold, region))
            }
        }
    }
}

/// Calls a method of the layout, whichever kind it is.
macro_rules! dispatch {
    ($any:expr, $layout:ident => $call:expr) => {
        match $any {
            AnyLayout::Stream($layout) => $call,
            AnyLayout::Unified($layout) => $call,
            AnyLayout::Buddy($layout) => $call,
        }
    };
}

impl Layout for AnyLayout {
    fn place(&mut self, bytes: u64, runs: &mut Vec<Run>) -> bool {
        dispatch!(self, layout => layout.place(bytes, runs))
    }

    fn seek(&mut self, slots: u32) {
        dispatch!(self, layout => layout.seek(slots));
    }

    fn release(&mut self, run: Run) {
        dispatch!(self, layout => layout.release(run));
    }

    fn occupy(&mut self, run: Run) -> bool {
        dispatch!(self, layout => layout.occupy(run))
    }

    fn resume_at(&mut self, slot: u32) {
        dispatch!(self, layout => layout.resume_at(slot));
    }

    fn grow(&mut self, slots: u32) {
        dispatch!(self, layout => layout.grow(slots));
    }

    fn map(&self) -> &SlotMap {
        dispatch!(self, layout => layout.map())
    }

    fn lost_slots(&self) -> u32 {
        dispatch!(self, layout => layout.lost_slots())
    }

    fn memory_bytes(&self) -> usize {
        dispatch!(self, layout => layout.memory_bytes())
    }
}
