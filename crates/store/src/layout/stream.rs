//! STREAM (systems M6): writes continue where the last one ended, to the end of the space, then
//! again from its start over the slots that have become free.
//!
//! The precise rule: the free slots after the position, in order, once around the space, form runs.
//! An object takes the first runs in that order, and only as much of the last one as it needs. It
//! is contiguous if the runs happen to be adjacent; otherwise it lies in several runs, at most
//! `runs_max`. It takes the first `runs_max` successive runs that hold it together; smaller ones
//! before them stay free for the next round. `runs_max` = 1 is next fit, and a very large value is
//! exactly the paper's rule, which leaves no slot behind. If the search up to the position finds
//! nothing, all runs are searched once more from slot 0, because the position may divide a run that
//! would fit.
//!
//! The run at the end of the space does not continue at its start: the two are not adjacent on the
//! device.
//!
//! For objects that are to lie side by side, [`Layout::seek`] moves the position to the next run
//! that holds them all, if there is one. The skipped slots stay free for the next round.
//!
//! A search examines at most [`SEARCH_MAX`] runs, so that refusing an object that is too large for
//! a fragmented space costs little. The next search continues where this one stopped. This delays
//! no call: a refused object is retried only after an eviction.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use super::{Layout, Run, SlotMap, Space};

/// Maximum number of runs that one search examines before it refuses.
pub const SEARCH_MAX: u32 = 16_384;

/// The STREAM allocator. See the module documentation.
pub struct Stream {
    space: Space,
    map: SlotMap,
    /// Start of the next search; less than the number of slots.
    position: u32,
    runs_max: usize,
    /// The runs under examination; kept to reuse its allocation.
    window: VecDeque<Run>,
}

/// Result of a search.
enum Search {
    Found,
    Nothing,
    /// [`SEARCH_MAX`] runs were examined.
    GivenUp,
}

impl Stream {
    /// Returns an empty space in which an object may lie in up to `runs_max` runs (at least one).
    pub fn new(space: Space, runs_max: u32) -> Stream {
        space.check();
        assert!(runs_max > 0, "an object has a run");
        let map = SlotMap::new(space.slots);
        let window = VecDeque::new();
        Stream { space, map, position: 0, runs_max: runs_max as usize, window }
    }

    /// Returns the slot at which the next search starts.
    pub fn position(&self) -> u32 {
        self.position
    }

    /// Searches for the first `runs_max` successive runs that hold `bytes`. If `from` is the
    /// position, the search goes once around to `from`; if it is 0, it covers all runs. On success
    /// the window holds the runs found, the last one not yet cut to what `bytes` need.
    fn search(&mut self, from: u32, bytes: u64, needed: u32) -> Search {
        self.window.clear();
        let (mut at, mut round, mut slots) = (from, false, 0_u64);
        for _ in 0..SEARCH_MAX {
            let first = match self.map.next_free(at) {
                Some(first) => first,
                None if round => return Search::Nothing,
                None => {
                    round = true;
                    match self.map.next_free(0) {
                        Some(first) => first,
                        None => return Search::Nothing,
                    }
                }
            };
            let mut limit = first.saturating_add(needed);
            if round {
                // A search from slot 0 sees every run whole, so runs may wrap until they meet.
                let front = self.window.front().map_or(0, |run| run.first);
                let stop = if from == 0 { front } else { from };
                if first >= stop {
                    return Search::Nothing;
                }
                limit = limit.min(stop);
            }
            at = self.map.end_of_free(first, limit);
            self.window.push_back(Run { first, len: at - first });
            slots += u64::from(at - first);
            if self.window.len() > self.runs_max {
                slots -= self.window.pop_front().map_or(0, |run| u64::from(run.len));
            }
            if self.space.capacity(slots, self.window.len()) >= bytes {
                return Search::Found;
            }
        }
        Search::GivenUp
    }

    /// Takes the runs in the window, and only as much of the last one as `bytes` need.
    fn take_window(&mut self, bytes: u64, runs: &mut Vec<Run>) {
        let Some(mut last) = self.window.pop_back() else { return };
        let count = self.window.len();
        let before: u64 = self.window.iter().map(|run| u64::from(run.len)).sum();
        let headers = count as u64 * u64::from(self.space.run_header);
        let rest = bytes + headers - before * u64::from(self.space.slot_bytes);
        last.len = rest.div_ceil(u64::from(self.space.slot_bytes)) as u32;
        self.window.push_back(last);
        for run in self.window.drain(..) {
            self.map.take(run);
            runs.push(run);
        }
        self.resume_at(last.end());
    }
}

impl Layout for Stream {
    fn place(&mut self, bytes: u64, runs: &mut Vec<Run>) -> bool {
        assert!(bytes > 0, "an object has bytes");
        let Some(needed) = self.space.slots_for(bytes) else { return false };
        if needed > self.map.free() {
            return false;
        }
        let mut search = self.search(self.position, bytes, needed);
        if matches!(search, Search::Nothing) && self.position != 0 {
            search = self.search(0, bytes, needed);
        }
        match search {
            Search::Found => {
                self.take_window(bytes, runs);
                true
            }
            Search::Nothing => false,
            Search::GivenUp => {
                self.position = self.window.front().map_or(0, |run| run.first);
                false
            }
        }
    }

    fn seek(&mut self, slots: u32) {
        let (mut at, mut round) = (self.position, false);
        for _ in 0..SEARCH_MAX {
            let Some(first) = self.map.next_free(at) else {
                if round {
                    return;
                }
                (at, round) = (0, true);
                continue;
            };
            if round && first >= self.position {
                return;
            }
            at = self.map.end_of_free(first, first.saturating_add(slots));
            if at - first >= slots {
                self.position = first;
                return;
            }
        }
    }

    fn release(&mut self, run: Run) {
        self.map.give(run);
    }

    fn occupy(&mut self, run: Run) -> bool {
        let free = self.map.is_free_run(run);
        if free {
            self.map.take(run);
        }
        free
    }

    fn resume_at(&mut self, slot: u32) {
        self.position = if slot < self.map.slots() { slot } else { 0 };
    }

    fn grow(&mut self, slots: u32) {
        self.map.grow(slots);
        self.space.slots = slots;
    }

    fn map(&self) -> &SlotMap {
        &self.map
    }

    fn memory_bytes(&self) -> usize {
        self.map.memory_bytes() + self.window.capacity() * size_of::<Run>()
    }
}
