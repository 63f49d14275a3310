//! A reference model for tests of the layouts: a plain vector of slots, and checks that hold for
//! every layout.

use super::{Layout, Run, Space};

/// One bool per slot: whether it is in use.
pub(super) struct Naive {
    pub(super) used: Vec<bool>,
}

impl Naive {
    pub(super) fn new(slots: u32) -> Naive {
        Naive { used: vec![false; slots as usize] }
    }

    /// Sets the state of a run's slots, all of which must have the opposite state.
    pub(super) fn set(&mut self, run: Run, used: bool) {
        for slot in &mut self.used[run.first as usize..run.end() as usize] {
            assert_ne!(*slot, used, "{run:?} overlaps");
            *slot = used;
        }
    }

    pub(super) fn is_free(&self, run: Run) -> bool {
        let slots = self.used.get(run.first as usize..run.first as usize + run.len as usize);
        run.len > 0 && slots.is_some_and(|slots| slots.iter().all(|used| !used))
    }

    /// Returns the maximal free runs in `from..to`.
    pub(super) fn free_runs(&self, from: u32, to: u32) -> Vec<Run> {
        let mut runs: Vec<Run> = Vec::new();
        for slot in (from..to).filter(|slot| !self.used[*slot as usize]) {
            match runs.last_mut() {
                Some(run) if run.end() == slot => run.len += 1,
                _ => runs.push(Run { first: slot, len: 1 }),
            }
        }
        runs
    }

    /// Checks everything a layout reports about its slots, except lost slots.
    pub(super) fn check(&self, layout: &impl Layout) {
        let slots = self.used.len() as u32;
        let used = self.used.iter().filter(|used| **used).count() as u32;
        assert_eq!(layout.used_slots() + layout.free_slots() + layout.lost_slots(), slots);
        let listed: Vec<Run> = layout.free_runs().collect();
        assert_eq!(listed.len(), layout.free_pieces());
        assert_eq!(listed.iter().map(|run| run.len).sum::<u32>(), layout.free_slots());
        assert_eq!((0..slots).filter(|slot| !layout.is_used(*slot)).count(), {
            layout.free_slots() as usize
        });
        if layout.lost_slots() == 0 {
            assert_eq!(layout.used_slots(), used);
            assert_eq!(listed, self.free_runs(0, slots), "merged as far as can be");
        }
    }
}

/// Returns the part of each of these runs that a place for `bytes` takes; `None` if the runs hold
/// less.
pub(super) fn fill(space: Space, runs: &[Run], bytes: u64) -> Option<Vec<Run>> {
    let (mut taken, mut rest) = (Vec::new(), bytes);
    for run in runs {
        let header = if taken.is_empty() { 0 } else { u64::from(space.run_header) };
        let room = u64::from(run.len) * u64::from(space.slot_bytes) - header;
        let in_run = rest.min(room);
        let len = (in_run + header).div_ceil(u64::from(space.slot_bytes)) as u32;
        taken.push(Run { first: run.first, len });
        rest -= in_run;
        if rest == 0 {
            return Some(taken);
        }
    }
    None
}
