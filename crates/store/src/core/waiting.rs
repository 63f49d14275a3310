//! Lets tasks wait for a state of the core.

use std::task::Waker;

use crate::base::now::Now;
use crate::core::state::Core;
use crate::core::waiters::{Available, WaiterId, Wanted};
use crate::format::journal::JournalPosition;

/// A state of the core that a task waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Goal {
    /// The journal is written up to here.
    Written(JournalPosition),
    /// The journal is durable up to here.
    Durable(JournalPosition),
    /// This many purges of the log are durable.
    Logged(u64),
    /// The superblocks say that the store continued without this many of its devices.
    RunsWithout(u64),
    /// Everything is written, for an orderly stop.
    Drained,
    /// The background has ended.
    BackgroundEnded,
}

impl Goal {
    /// Returns the condition to wait for before checking again.
    pub(crate) fn wanted(self) -> Wanted {
        match self {
            Goal::Written(up_to) => Wanted::Written(up_to),
            Goal::Durable(up_to) => Wanted::Durable(up_to),
            Goal::Logged(_) | Goal::RunsWithout(_) | Goal::Drained | Goal::BackgroundEnded => {
                Wanted::Change
            }
        }
    }
}

impl Core {
    /// Wakes the tasks whose condition holds, after a change.
    pub(super) fn wake_waiters(&mut self) {
        let available = Available {
            written: self.journal.written(),
            durable: self.journal.durable(),
            room: self.placement.available(self.memory.places_late()),
            over: self.health.ends_waits(),
        };
        self.waiters.wake(&available);
    }

    /// Records whether writes stall, so that callers must not wait for them.
    pub(crate) fn set_writes_stall(&mut self, stall: bool) {
        self.health.set_writes_stall(stall);
        self.counters.write_stalls += u64::from(stall);
        self.wake_waiters();
    }

    /// Registers `waker` to be woken when the condition `wanted` holds. Returns the number of the
    /// waiting task, which is `id` if there is one.
    pub(crate) fn wait(&mut self, id: Option<WaiterId>, wanted: Wanted, waker: &Waker) -> WaiterId {
        let id = id.unwrap_or_else(|| self.waiters.enter());
        self.waiters.wait(id, wanted, waker);
        id
    }

    /// Ends the wait of `id`. The room that it was woken for, if left, goes to the next task.
    pub(crate) fn stop_waiting(&mut self, id: WaiterId) {
        self.waiters.leave(id);
        self.wake_waiters();
    }

    /// Returns whether `goal` is reached; requests it if not. Returns `Some(false)` when it will
    /// not be reached because the device was given up, and `None` when it is not reached yet.
    pub(crate) fn reach(&mut self, goal: Goal, now: Now) -> Option<bool> {
        match goal {
            Goal::Written(up_to) => self.synced(up_to, false),
            Goal::Durable(up_to) => self.synced(up_to, true),
            Goal::Logged(purges) => self.logged(purges),
            Goal::RunsWithout(away) => self.runs_without(away),
            Goal::Drained => self.drain(now),
            Goal::BackgroundEnded => (!self.background.runs()).then_some(true),
        }
    }

    /// Returns whether the journal is written, or durable, up to `up_to`; requests that if not.
    /// Returns `Some(false)` when it will not be because the device was given up.
    fn synced(&mut self, up_to: JournalPosition, durable: bool) -> Option<bool> {
        let reached = if durable { self.journal.durable() } else { self.journal.written() };
        if reached >= up_to {
            return Some(true);
        }
        if !self.online() {
            return Some(false);
        }
        self.schedule.want_journal(up_to, durable);
        self.wake_background();
        None
    }

    /// Returns whether this many purges of the log are durable; requests that if not.
    fn logged(&mut self, purges: u64) -> Option<bool> {
        if self.purge_log.durable() >= purges {
            return Some(true);
        }
        if !self.online() {
            return Some(false);
        }
        self.schedule.want_logged(purges);
        self.wake_background();
        None
    }

    /// Returns whether the superblocks say that the store continued without `away` of its devices;
    /// requests that if not. Returns `Some(false)` when they will not because this device was given
    /// up, too.
    fn runs_without(&mut self, away: u64) -> Option<bool> {
        let run = self.superblock.run_without(away);
        if self.superblock.get().run >= run {
            return Some(true);
        }
        if !self.online() {
            return Some(false);
        }
        self.schedule.want_run(run);
        self.wake_background();
        None
    }
}
