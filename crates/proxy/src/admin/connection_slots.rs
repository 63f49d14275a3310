//! Bounded connection slots of the admin interface. When all are taken, the longest-idle connection
//! is closed for the next one; a connection with a request in progress is never closed.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Instant;

use net::clock::TokioClock;
use tokio::sync::Notify;

pub(crate) struct ConnectionSlots {
    most: usize,
    clock: TokioClock,
    taken: Rc<RefCell<Vec<Rc<State>>>>,
    left: Rc<Notify>,
}

struct State {
    /// When the slot was taken or its last request ended.
    since: Cell<Instant>,
    busy: Cell<bool>,
    leave: Notify,
}

/// A taken slot, freed on drop.
pub(crate) struct ConnectionSlot {
    state: Rc<State>,
    clock: TokioClock,
    taken: Rc<RefCell<Vec<Rc<State>>>>,
    left: Rc<Notify>,
}

impl ConnectionSlots {
    pub fn new(most: usize, clock: TokioClock) -> ConnectionSlots {
        ConnectionSlots { most, clock, taken: Rc::default(), left: Rc::default() }
    }

    /// Waits for a free slot and takes it.
    pub async fn take(&self) -> ConnectionSlot {
        while self.taken.borrow().len() >= self.most {
            self.close_longest_idle();
            self.left.notified().await;
        }
        let (since, busy) = (Cell::new(self.clock.instant()), Cell::new(false));
        let state = Rc::new(State { since, busy, leave: Notify::new() });
        self.taken.borrow_mut().push(state.clone());
        ConnectionSlot {
            state,
            clock: self.clock,
            taken: self.taken.clone(),
            left: self.left.clone(),
        }
    }

    /// Asks the connection that has been idle longest to close; returns false if none is idle.
    pub fn close_longest_idle(&self) -> bool {
        let taken = self.taken.borrow();
        let waiting = taken.iter().filter(|state| !state.busy.get());
        let first = waiting.min_by_key(|state| state.since.get());
        first.inspect(|state| state.leave.notify_one()).is_some()
    }

    /// Asks all idle connections to close.
    pub fn close_idle(&self) {
        let taken = self.taken.borrow();
        taken.iter().filter(|state| !state.busy.get()).for_each(|state| state.leave.notify_one());
    }

    /// Waits until no slot is taken.
    pub async fn all_free(&self) {
        while !self.taken.borrow().is_empty() {
            self.left.notified().await;
        }
    }
}

impl ConnectionSlot {
    /// Waits until another connection needs the slot.
    pub async fn displaced(&self) {
        self.state.leave.notified().await;
    }

    /// Marks the connection as busy until the result is dropped.
    pub fn work(&self) -> Busy {
        self.state.busy.set(true);
        Busy { state: self.state.clone(), clock: self.clock, left: self.left.clone() }
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.taken.borrow_mut().retain(|state| !Rc::ptr_eq(state, &self.state));
        self.left.notify_one();
    }
}

/// Marks its connection as busy until dropped.
pub(crate) struct Busy {
    state: Rc<State>,
    clock: TokioClock,
    left: Rc<Notify>,
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.state.since.set(self.clock.instant());
        self.state.busy.set(false);
        // A waiting connection may take this slot if no other is freed.
        self.left.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn now<F: Future>(future: F) -> Option<F::Output> {
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(output) => Some(output),
            Poll::Pending => None,
        }
    }

    #[test]
    fn the_longest_idle_connection_is_closed_never_a_busy_one() {
        let slots = ConnectionSlots::new(3, TokioClock::system());
        let [a, b, c] = [(); 3].map(|()| now(slots.take()).expect("a slot"));
        drop(a.work());
        let working = b.work();
        assert!(now(slots.take()).is_none(), "no slot was freed yet");
        assert!(now(c.displaced()).is_some());
        assert!(now(a.displaced()).is_none() && now(b.displaced()).is_none());
        drop(c);
        let d = now(slots.take()).expect("a slot");
        let (_a, _d) = (a.work(), d.work());
        assert!(!slots.close_longest_idle());
        drop(working);
        assert!(slots.close_longest_idle() && now(b.displaced()).is_some());
    }
}
