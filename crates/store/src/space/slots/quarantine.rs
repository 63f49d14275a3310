//! Slots between dead and free: they wait until the journal has made the death of their record
//! durable, and until its readers and writers are done.

use std::collections::{BTreeMap, VecDeque};

use crate::format::journal::JournalPosition;
use crate::layout::Run;

/// Slots that wait to become free, and the users of positions.
#[derive(Default)]
pub(crate) struct Quarantine {
    /// In order of journal position: the position up to which the journal must be durable, and the
    /// runs that then become free. The first slot of the first run is the record's position.
    waiting: VecDeque<(JournalPosition, Vec<Run>)>,
    /// Runs that wait only for their users, by position.
    draining: BTreeMap<u32, Vec<Run>>,
    /// Number of readers and writers, by position.
    users: BTreeMap<u32, u32>,
    /// Number of slots in `waiting` and `draining`.
    slots: u64,
}

impl Quarantine {
    /// Adds the runs of a record whose death the journal contains up to `up_to`.
    pub(crate) fn add(&mut self, up_to: JournalPosition, runs: Vec<Run>) {
        debug_assert!(self.waiting.back().is_none_or(|(last, _)| *last <= up_to));
        self.slots += count(&runs);
        self.waiting.push_back((up_to, runs));
    }

    /// Records that the journal is durable up to `up_to`. Returns the runs that are free from now
    /// on.
    pub(crate) fn journal_durable(&mut self, up_to: JournalPosition) -> Vec<Run> {
        let mut free = Vec::new();
        while let Some((_, runs)) = self.waiting.pop_front_if(|(at, _)| *at <= up_to) {
            let position = runs[0].first;
            if self.users.contains_key(&position) {
                self.draining.insert(position, runs);
            } else {
                self.slots -= count(&runs);
                free.extend(runs);
            }
        }
        free
    }

    /// Keeps the record at `position` unchanged for a user.
    pub(crate) fn pin(&mut self, position: u32) {
        *self.users.entry(position).or_default() += 1;
    }

    /// Removes a user. Returns the runs that this freed.
    pub(crate) fn unpin(&mut self, position: u32) -> Vec<Run> {
        let users = self.users.get_mut(&position).expect("who unpins has pinned");
        *users -= 1;
        if *users > 0 {
            return Vec::new();
        }
        self.users.remove(&position);
        let runs = self.draining.remove(&position).unwrap_or_default();
        self.slots -= count(&runs);
        runs
    }

    pub(crate) fn pinned(&self, position: u32) -> bool {
        self.users.contains_key(&position)
    }

    /// Returns the number of slots that wait only for their users.
    pub(crate) fn draining(&self) -> u64 {
        self.draining.values().map(|runs| count(runs)).sum()
    }

    /// Returns the number of slots that are dead and not free.
    pub(crate) fn slots(&self) -> u64 {
        self.slots
    }

    /// Returns whether slots wait for the journal.
    pub(crate) fn waits(&self) -> bool {
        !self.waiting.is_empty()
    }
}

fn count(runs: &[Run]) -> u64 {
    runs.iter().map(|run| u64::from(run.len)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: Run = Run { first: 8, len: 3 };

    #[test]
    fn slots_are_free_after_the_journal_and_after_the_last_user() {
        let mut quarantine = Quarantine::default();
        quarantine.pin(8);
        quarantine.pin(8);
        quarantine.add(5, vec![RUN, Run { first: 90, len: 1 }]);
        quarantine.add(6, vec![Run { first: 40, len: 2 }]);
        assert!(quarantine.journal_durable(4).is_empty());
        assert_eq!(quarantine.slots(), 6);
        assert!(quarantine.journal_durable(5).is_empty(), "it is being read");
        assert!(quarantine.unpin(8).is_empty());
        assert_eq!(quarantine.unpin(8), [RUN, Run { first: 90, len: 1 }]);
        assert_eq!((quarantine.slots(), quarantine.waits()), (2, true));
        assert_eq!(quarantine.journal_durable(9), [Run { first: 40, len: 2 }]);
        assert_eq!((quarantine.slots(), quarantine.waits()), (0, false));
    }

    #[test]
    fn a_user_of_a_living_record_frees_nothing() {
        let mut quarantine = Quarantine::default();
        quarantine.pin(8);
        assert!(quarantine.pinned(8));
        assert!(quarantine.unpin(8).is_empty());
        assert!(!quarantine.pinned(8));
    }
}
