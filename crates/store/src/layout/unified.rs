//! UNIFIED (systems U2 to U5): contiguous places only, worst fit, precise merging.
//!
//! The precise rule: one piece is *open*. Objects are appended to it one after another, from its
//! front, as long as they fit (cluster write). If an object does not fit, the open piece becomes an
//! ordinary free piece and the largest piece becomes the open one; among equally large pieces, any.
//! If even the largest piece is too small, the object is refused and the open piece stays open.
//! Objects that are to lie side by side ([`Layout::seek`]) count as one here: the open piece is
//! closed if they do not fit it together and the largest piece holds them. A released run merges
//! with its free neighbours. A piece that merges with the open piece becomes part of it, and the
//! next object goes to its new front.
//!
//! The bit vector shows whether the neighbours are free; the tables and the heap of [`Pieces`] show
//! which pieces they are. Placing and releasing take O(log n) for n free pieces. The open piece is
//! in neither the tables nor the heap, so appending to it takes constant time.

mod pieces;
#[cfg(test)]
mod tests;

use super::{Layout, Run, SlotMap, Space};
use pieces::Pieces;

/// The UNIFIED allocator. See the module documentation.
pub struct Unified {
    space: Space,
    map: SlotMap,
    /// Every free piece except the open one.
    pieces: Pieces,
    /// The piece that objects are appended to.
    open: Option<Run>,
}

impl Unified {
    /// Returns an empty space.
    pub fn new(space: Space) -> Unified {
        space.check();
        let mut pieces = Pieces::default();
        pieces.insert(Run { first: 0, len: space.slots });
        Unified { space, map: SlotMap::new(space.slots), pieces, open: None }
    }

    /// Returns the number of slots in the largest free piece. No larger object can be placed.
    pub fn largest(&self) -> u32 {
        let open = self.open.map_or(0, |open| open.len);
        self.pieces.largest().unwrap_or(0).max(open)
    }

    /// Returns the number of heap entries moved so far. This measures the cost that grows with log
    /// n, independent of memory speed.
    pub fn heap_moves(&self) -> u64 {
        self.pieces.moves
    }

    /// Adds a free run to the pieces, merged with its free neighbours.
    fn add(&mut self, run: Run, left: bool, right: bool) {
        let mut merged = run;
        let mut is_open = false;
        if left {
            let piece = match self.open.take_if(|open| open.end() == run.first) {
                Some(open) => {
                    is_open = true;
                    open
                }
                None => self.pieces.remove_last(run.first - 1),
            };
            merged = Run { first: piece.first, len: piece.len + merged.len };
        }
        if right {
            let piece = match self.open.take_if(|open| open.first == run.end()) {
                Some(open) => {
                    is_open = true;
                    open
                }
                None => self.pieces.remove_first(run.end()),
            };
            merged.len += piece.len;
        }
        if is_open {
            self.open = Some(merged);
        } else {
            self.pieces.insert(merged);
        }
    }

    /// Removes and returns the piece that contains a free slot.
    fn remove_around(&mut self, slot: u32) -> Run {
        match self.open.take_if(|open| (open.first..open.end()).contains(&slot)) {
            Some(open) => open,
            None => self.pieces.remove_first(self.map.start_of_free(slot)),
        }
    }
}

impl Layout for Unified {
    fn place(&mut self, bytes: u64, runs: &mut Vec<Run>) -> bool {
        assert!(bytes > 0, "an object has bytes");
        let Some(needed) = self.space.slots_for(bytes) else { return false };
        let open = match self.open {
            Some(open) if open.len >= needed => open,
            _ => {
                if self.pieces.largest() < Some(needed) {
                    return false;
                }
                let largest = self.pieces.pop_largest();
                if let Some(left_over) = self.open.take() {
                    self.pieces.insert(left_over);
                }
                largest
            }
        };
        let run = Run { first: open.first, len: needed };
        let rest = open.len - needed;
        self.open = (rest > 0).then_some(Run { first: run.end(), len: rest });
        self.map.take(run);
        runs.push(run);
        true
    }

    fn seek(&mut self, slots: u32) {
        let fits = self.open.is_some_and(|open| open.len >= slots);
        if fits || self.pieces.largest() < Some(slots) {
            return;
        }
        let largest = self.pieces.pop_largest();
        if let Some(left_over) = self.open.replace(largest) {
            self.pieces.insert(left_over);
        }
    }

    fn release(&mut self, run: Run) {
        let (left, right) = self.map.free_neighbours(run);
        self.map.give(run);
        self.add(run, left, right);
    }

    /// Cuts the run out of its piece. If that is the open piece, it is closed.
    fn occupy(&mut self, run: Run) -> bool {
        if !self.map.is_free_run(run) {
            return false;
        }
        let piece = self.remove_around(run.first);
        self.map.take(run);
        let before = Run { first: piece.first, len: run.first - piece.first };
        let behind = Run { first: run.end(), len: piece.end() - run.end() };
        for part in [before, behind] {
            if part.len > 0 {
                self.pieces.insert(part);
            }
        }
        true
    }

    /// Opens the piece at `slot`, if that slot is free.
    fn resume_at(&mut self, slot: u32) {
        if slot < self.map.slots() && !self.map.is_used(slot) {
            let piece = self.remove_around(slot);
            if let Some(left_over) = self.open.replace(piece) {
                self.pieces.insert(left_over);
            }
        }
    }

    fn grow(&mut self, slots: u32) {
        let before = self.map.slots();
        if slots == before {
            return;
        }
        let left = !self.map.is_used(before - 1);
        self.map.grow(slots);
        self.space.slots = slots;
        self.add(Run { first: before, len: slots - before }, left, false);
    }

    fn map(&self) -> &SlotMap {
        &self.map
    }

    fn memory_bytes(&self) -> usize {
        self.map.memory_bytes() + self.pieces.memory_bytes()
    }
}
