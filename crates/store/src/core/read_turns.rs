//! Reads take turns on the device, and those that others may wait for end. See
//! [`crate::read::reads`].

use std::task::Waker;

use device::Nanos;

use crate::core::state::Core;
use crate::read::queue::{Ticket, Turn};
use crate::read::reads::WindowId;

impl Core {
    /// A read at `offset` is to be done; without a ticket it need not wait for its turn.
    pub(crate) fn join_reads(&mut self, offset: u64, now: Nanos) -> Option<Ticket> {
        self.reads.queue.join(offset, now)
    }

    /// Whether it is a read's turn; `waker` is woken when that may have changed.
    pub(crate) fn read_turn(&mut self, ticket: Ticket, now: Nanos, waker: &Waker) -> Turn {
        self.reads.queue.poll(ticket, now, waker)
    }

    /// A read whose turn it was is in the device's hands.
    pub(crate) fn read_begun(&mut self) {
        self.reads.queue.begun();
    }

    /// A read that had a ticket has ended, well or not.
    pub(crate) fn read_ended(&mut self, ticket: Ticket, now: Nanos) {
        self.reads.queue.ended(ticket, now);
    }

    /// Whether reads wait for company from now on.
    pub(crate) fn hold_reads(&mut self, holds: bool, now: Nanos) {
        self.reads.queue.hold(holds, now);
    }

    /// Whether a read that others wait for is still under way; `waker` is woken when it is no more.
    pub(crate) fn await_window(&mut self, window: WindowId, waker: &Waker) -> bool {
        self.reads.await_window(window, waker)
    }

    /// A read that others may wait for has ended, well or not.
    pub(crate) fn end_window(&mut self, window: WindowId) {
        self.reads.end_window(window);
    }
}
