//! The schedule of journal writes, flushes and checkpoints: what is due, and what tasks wait for.

use device::Nanos;

use crate::config::options::{Options, WritePolicy};
use crate::core::task::Task;
use crate::format::journal::{Journal, JournalPosition};

/// Nanoseconds between two searches for clusters that were not used for long, on an idle store.
const ONE_TIMER_INTERVAL: Nanos = 3_600_000_000_000;

/// When the journal, the records and the device must be written and flushed.
pub(super) struct Schedule {
    /// Time after which an acknowledged fact or record must be written.
    durability_bound: Nanos,
    flush_interval: Nanos,
    writes_on_insert: bool,
    /// True if clusters are dropped for their age.
    seeks_one_timers: bool,
    /// True if anything was written since the last flush began.
    unflushed: bool,
    /// Time at which the last flush ended.
    last_flush: Nanos,
    /// Time at which pending facts were first seen.
    facts_since: Option<Nanos>,
    /// True if everything must be written now, for an orderly stop.
    draining: bool,
    /// True if the last step was for tasks that wait for the journal.
    synced: bool,
    /// True if a checkpoint must be written now.
    checkpoint_wanted: bool,
    /// The position that tasks wait for the journal to be written up to.
    write_wanted: JournalPosition,
    /// The position that tasks wait for the journal to be durable up to.
    flush_wanted: JournalPosition,
    /// The number of logged purges that tasks wait to be durable.
    log_wanted: u64,
    /// The run of the store that tasks wait for the superblock to name.
    run_wanted: u64,
}

impl Schedule {
    pub(super) fn new(options: &Options) -> Schedule {
        Schedule {
            durability_bound: options.durability_bound.as_nanos() as Nanos,
            flush_interval: options.flush_interval.as_nanos() as Nanos,
            writes_on_insert: options.write_policy == WritePolicy::OnInsert,
            seeks_one_timers: options.one_timer_age.is_some(),
            unflushed: false,
            last_flush: 0,
            facts_since: None,
            draining: false,
            synced: false,
            checkpoint_wanted: false,
            write_wanted: JournalPosition::default(),
            flush_wanted: JournalPosition::default(),
            log_wanted: 0,
            run_wanted: 0,
        }
    }

    /// Records that staged objects outlive the process: they wait for half of the flush interval,
    /// and the device is flushed after the other half.
    pub(super) fn keep_staged(&mut self) {
        self.flush_interval /= 2;
    }

    /// Returns whether everything is being written for an orderly stop.
    pub(super) fn is_draining(&self) -> bool {
        self.draining
    }

    /// Begins an orderly stop: everything is due from now on.
    pub(super) fn drain(&mut self) {
        self.draining = true;
    }

    /// Records that bytes were written to the device, so that a flush must follow.
    pub(super) fn note_written(&mut self) {
        self.unflushed = true;
    }

    pub(super) fn begin_flush(&mut self) {
        self.unflushed = false;
    }

    /// Records that a flush ended at `now`.
    pub(super) fn end_flush(&mut self, now: Nanos) {
        self.last_flush = now;
    }

    pub(super) fn want_checkpoint(&mut self) {
        self.checkpoint_wanted = true;
    }

    pub(super) fn wants_checkpoint(&self) -> bool {
        self.checkpoint_wanted
    }

    pub(super) fn begin_checkpoint(&mut self) {
        self.checkpoint_wanted = false;
    }

    /// Requests that the journal be written, or durable, up to `up_to`.
    pub(super) fn want_journal(&mut self, up_to: JournalPosition, durable: bool) {
        let wanted = if durable { &mut self.flush_wanted } else { &mut self.write_wanted };
        *wanted = (*wanted).max(up_to);
    }

    /// Requests that this many purges of the log be durable.
    pub(super) fn want_logged(&mut self, purges: u64) {
        self.log_wanted = self.log_wanted.max(purges);
    }

    /// Requests that the superblocks name `run`.
    pub(super) fn want_run(&mut self, run: u64) {
        self.run_wanted = self.run_wanted.max(run);
    }

    /// Returns the run that the superblocks must name, if it is later than `run`.
    pub(super) fn run_wanted(&self, run: u64) -> Option<u64> {
        (run < self.run_wanted).then_some(self.run_wanted)
    }

    /// Returns when a record stored at `now` must be written: within half of the time between two
    /// flushes if it is `kept` in staging memory, so that it is on the device with the second.
    pub(super) fn write_by(&self, now: Nanos, kept: bool) -> Nanos {
        now.saturating_add(if kept { self.flush_interval } else { self.durability_bound })
    }

    /// Returns the time by which staged and unwritten records must be written that are written now;
    /// `None` if they have no deadline.
    pub(super) fn writes_due(&self, now: Nanos) -> Option<Nanos> {
        match self.draining {
            true => Some(Nanos::MAX),
            false => self.writes_on_insert.then_some(now),
        }
    }

    /// Returns the deadline of records, the first of `deadlines`; `None` if records have none.
    pub(super) fn write_due(&self, deadlines: [Option<Nanos>; 2]) -> Option<Nanos> {
        deadlines.into_iter().flatten().min().filter(|_| self.writes_on_insert)
    }

    /// Returns the journal write that a task waits for; `logged` is the number of durable purges of
    /// the log.
    pub(super) fn wanted_sync(&self, journal: &Journal, logged: u64) -> Option<Task> {
        let durable = journal.durable() < self.flush_wanted || logged < self.log_wanted;
        let wanted = durable || journal.written() < self.write_wanted;
        wanted.then_some(Task::Sync { durable })
    }

    /// Returns the journal write that a task waits for, as [`Schedule::wanted_sync`] does, but not
    /// twice in succession: other steps come in between.
    pub(super) fn next_wanted_sync(&mut self, journal: &Journal, logged: u64) -> Option<Task> {
        let is_first = !std::mem::take(&mut self.synced);
        let sync = self.wanted_sync(journal, logged).filter(|_| is_first);
        self.synced = sync.is_some();
        sync
    }

    /// Returns the journal write or flush that is due even if no task waits for it. Facts may
    /// accumulate until they fill a write if `in_slots` is set: there an insertion waits only for
    /// facts of its own key.
    pub(super) fn overdue_sync(
        &mut self,
        journal: &Journal,
        in_slots: bool,
        now: Nanos,
    ) -> Option<Task> {
        let (facts, flush) = self.sync_due(journal, now);
        if flush.is_some_and(|due| due <= now) {
            return Some(Task::Sync { durable: true });
        }
        let many = in_slots && journal.fills_a_write();
        let due = facts.is_some_and(|due| due <= now) || many;
        due.then_some(Task::Sync { durable: false })
    }

    /// Forgets since when facts have been pending, because they are about to be written.
    pub(super) fn begin_overdue_sync(&mut self) {
        self.facts_since = None;
    }

    /// Returns when the pending facts must be written, and when the device must be flushed.
    fn sync_due(&mut self, journal: &Journal, now: Nanos) -> (Option<Nanos>, Option<Nanos>) {
        let facts = journal.now() > journal.written();
        if !facts {
            self.facts_since = None;
        }
        let since = facts.then(|| *self.facts_since.get_or_insert(now));
        let flush = self.unflushed.then_some(self.last_flush + self.flush_interval);
        (since.map(|since| since.saturating_add(self.durability_bound)), flush)
    }

    /// Returns the sync that is due at `now`, or else to idle until the next deadline: of the
    /// journal, of records (`write_due`), or of a report (`report_due`).
    pub(super) fn next_sync(
        &mut self,
        journal: &Journal,
        in_slots: bool,
        write_due: Option<Nanos>,
        report_due: Option<Nanos>,
        now: Nanos,
    ) -> Task {
        if let Some(sync) = self.overdue_sync(journal, in_slots, now) {
            return sync;
        }
        let (facts_due, flush_due) = self.sync_due(journal, now);
        if facts_due.is_some() && self.draining {
            return Task::Sync { durable: false };
        }
        // The age is counted in hours, so one search each hour is enough.
        let one_timers = self.seeks_one_timers.then_some(now + ONE_TIMER_INTERVAL);
        let due = [facts_due, flush_due, write_due, one_timers, report_due];
        Task::Idle(due.into_iter().flatten().min())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::journal::Fact;
    use crate::format::superblock::tests::sample;

    fn is_sync(task: Option<Task>, durable: bool) -> bool {
        matches!(task, Some(Task::Sync { durable: other }) if other == durable)
    }

    #[test]
    fn waiting_tasks_do_not_take_two_steps_in_succession() {
        let mut schedule = Schedule::new(&Options::default());
        let mut journal = Journal::new(sample().areas.journal, 1);
        assert!(schedule.next_wanted_sync(&journal, 0).is_none());
        journal.note(Fact::Opened { cluster: 1, incarnation: 1 });
        schedule.want_journal(journal.now(), false);
        assert!(is_sync(schedule.next_wanted_sync(&journal, 0), false));
        assert!(schedule.next_wanted_sync(&journal, 0).is_none());
        assert!(is_sync(schedule.wanted_sync(&journal, 0), false));
        assert!(is_sync(schedule.next_wanted_sync(&journal, 0), false));
        schedule.want_logged(1);
        assert!(is_sync(schedule.wanted_sync(&journal, 0), true));
    }

    #[test]
    fn facts_are_due_one_bound_after_they_were_first_seen() {
        let options = Options::default();
        let bound = options.durability_bound.as_nanos() as Nanos;
        let mut schedule = Schedule::new(&options);
        let mut journal = Journal::new(sample().areas.journal, 1);
        journal.note(Fact::Opened { cluster: 1, incarnation: 1 });
        let idle = schedule.next_sync(&journal, false, None, None, 100);
        assert!(matches!(idle, Task::Idle(Some(due)) if due == 100 + bound));
        assert!(schedule.overdue_sync(&journal, false, 99 + bound).is_none());
        assert!(is_sync(schedule.overdue_sync(&journal, false, 100 + bound), false));
        schedule.drain();
        assert_eq!(schedule.writes_due(7), Some(Nanos::MAX));
    }
}
