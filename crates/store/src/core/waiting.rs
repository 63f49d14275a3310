//! Tasks wait for the core, and are woken when there is what they wait for.

use std::task::Waker;

use crate::config::options::WritePolicy;
use crate::core::state::Core;
use crate::core::waiters::{Available, WaiterId, Wanted};
use crate::format::journal::JournalPosition;
use crate::space::Space;
use crate::space::cluster_table::State;

impl Core {
    /// Wakes those whose wait is over: something changed.
    pub(crate) fn wake_waiters(&mut self) {
        let available = Available {
            written: self.journal.written(),
            durable: self.journal.durable(),
            room: self.room_to_wait(),
            over: !self.online(),
        };
        self.waiters.wake(&available);
    }

    /// Bytes that may be placed now: never less than what an insertion would find.
    fn room_to_wait(&self) -> usize {
        let placed = match &self.space {
            Space::Clusters(space) => {
                space.table.count(State::Free) > 0 || space.appender.has_room(&self.areas, 1)
            }
            Space::Slots(_) => true,
        };
        // With write-on-evict, and in locality buffers, insertions stop at half of it.
        let late =
            self.options.write_policy == WritePolicy::OnEvict || self.memory.staging.is_some();
        let most = if late { self.unwritten_max / 2 + 1 } else { self.unwritten_max };
        if placed { most.saturating_sub(self.space.unwritten_bytes()) } else { 0 }
    }

    /// A number for somebody who is going to wait.
    pub(crate) fn enter_waiting(&mut self) -> WaiterId {
        self.waiters.enter()
    }

    /// `waker` is woken when there is what `id` wants.
    pub(crate) fn wait(&mut self, id: WaiterId, wanted: Wanted, waker: &Waker) {
        self.waiters.wait(id, wanted, waker);
    }

    /// `id` waits no more: what it was woken for, and leaves, is for the next.
    pub(crate) fn leave_waiting(&mut self, id: WaiterId) {
        self.waiters.leave(id);
        self.wake_waiters();
    }

    /// Whether the journal is written, or durable, up to `up_to`; asks for it when it is not.
    /// `Some(false)`: it will not be, the device was given up.
    pub(crate) fn synced(&mut self, up_to: JournalPosition, durable: bool) -> Option<bool> {
        let reached = if durable { self.journal.durable() } else { self.journal.written() };
        if reached >= up_to {
            return Some(true);
        }
        if !self.online() {
            return Some(false);
        }
        let wanted = &mut self.maintenance;
        let mark = if durable { &mut wanted.flush_wanted } else { &mut wanted.write_wanted };
        *mark = (*mark).max(up_to);
        self.wake_background();
        None
    }

    /// Whether the superblocks say that the store went on without `away` of its devices; asks for
    /// it when they do not. `Some(false)`: they will not, this device was given up, too.
    pub(crate) fn runs_without(&mut self, away: u64) -> Option<bool> {
        let run = self.first_run + away;
        if self.superblock.run >= run {
            return Some(true);
        }
        if !self.online() {
            return Some(false);
        }
        self.maintenance.run_wanted = self.maintenance.run_wanted.max(run);
        self.wake_background();
        None
    }
}
