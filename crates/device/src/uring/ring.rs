//! io_uring: one [`Ring`] per worker serves any number of files. A 4 KiB read through it costs a
//! fraction of what it costs through a thread pool.
//!
//! A ring is driven from outside. Its eventfd ([`AsFd`]) becomes readable when operations have
//! completed; then the driver calls [`Ring::reap`]. With an edge-triggered poller (tokio's
//! `AsyncFd`) the eventfd need not be read: clear the readiness, *then* reap. [`Ring::park`] does
//! both for programs without a poller.
//!
//! By default every operation is submitted to the kernel when it begins, with one system call each,
//! so none is left behind. A driver that calls [`Ring::submit`] once per turn of its event loop may
//! enable [`Ring::batch`]; operations begun in one turn then share a call.
//!
//! Guarantees: a buffer in flight belongs to the ring until its completion, whatever happens to the
//! future or the device; dropping the last handle waits for operations in flight, for at most
//! 2 s, and then leaks their buffers. Operations in excess of the ring's places wait for a place,
//! in order.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use io_uring::{IoUring, Probe, opcode};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd};

use crate::file::fallback::{Fallback, Feature};
use crate::transfer::payload::Payload;
use crate::uring::in_flight::{InFlight, Progress};

/// How long the last handle waits for operations in flight before it leaks their buffers to the
/// kernel.
const DRAIN: Duration = Duration::from_secs(2);
/// Minimum number of due work items that the kernel processes per entry, if there are that many.
const DONE_AT_AN_ENTRY: usize = 16;

/// A worker's ring. A clone is another handle to the same ring. It stays on its thread.
#[derive(Clone)]
pub struct Ring(Rc<Shared>);

/// The state shared by the handles of a ring. Its device uses [`Shared::poll_start`] and the
/// functions after it.
pub(crate) struct Shared {
    state: RefCell<State>,
    event: OwnedFd,
    /// Waker that asks the driver to call `submit`; separate so that it is woken outside any
    /// borrow.
    driver: Cell<Option<Waker>>,
    batched: Cell<bool>,
    enters: Cell<u64>,
    mode: &'static str,
}

struct State {
    ring: IoUring,
    slots: Vec<Option<InFlight>>,
    free: Vec<u32>,
    /// Entries pushed that the kernel has not taken yet.
    queued: usize,
    /// Operations that the kernel has taken.
    in_kernel: usize,
    /// Futures that wait for a place, oldest first.
    waiting: VecDeque<(u64, Waker)>,
    next_ticket: u64,
    to_wake: Vec<Waker>,
}

impl Ring {
    /// Returns a ring for at most `places` operations in flight (rounded up to a power of two, at
    /// most 4,096). A refusal (old kernel, seccomp, sysctl, memory limit) is returned as a
    /// [`Fallback`].
    pub fn new(places: u32) -> Result<Ring, Fallback> {
        Ring::build(places).map_err(|reason| Feature::IoUring.refused(reason))
    }

    fn build(places: u32) -> io::Result<Ring> {
        let places = places.clamp(1, 4096).next_power_of_two();
        let (ring, mode) = build_best(places)?;
        let mut probe = Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        for code in [opcode::Read::CODE, opcode::Write::CODE, opcode::Fsync::CODE] {
            if !probe.is_supported(code) {
                let text = format!("the kernel's io_uring lacks operation {code}");
                return Err(io::Error::new(io::ErrorKind::Unsupported, text));
            }
        }
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        ring.submitter().register_eventfd(event.as_raw_fd())?;
        let state = State {
            ring,
            slots: (0..places).map(|_| None).collect(),
            free: (0..places).rev().collect(),
            queued: 0,
            in_kernel: 0,
            waiting: VecDeque::new(),
            next_ticket: 0,
            to_wake: Vec::new(),
        };
        Ok(Ring(Rc::new(Shared {
            state: RefCell::new(state),
            event,
            driver: Cell::new(None),
            batched: Cell::new(false),
            enters: Cell::new(0),
            mode,
        })))
    }

    /// Enables or disables batching. With `true`, operations wait for [`Ring::submit`] (or
    /// [`Ring::reap`]) instead of being submitted one by one. Only for a driver that waits on
    /// [`Ring::poll_queued`] as well as on the eventfd, or calls `submit` before it sleeps.
    pub fn batch(&self, batched: bool) {
        self.0.batched.set(batched);
        self.submit();
    }

    /// Submits all queued operations to the kernel. Makes no system call if nothing is queued.
    pub fn submit(&self) {
        let mut state = self.0.state.borrow_mut();
        if state.queued > 0 {
            self.0.enter(&mut state);
        }
    }

    /// Waits until operations are queued for [`Ring::submit`]. Only one task at a time may wait
    /// here.
    pub fn poll_queued(&self, context: &mut Context<'_>) -> Poll<()> {
        if self.0.state.borrow().queued > 0 {
            return Poll::Ready(());
        }
        self.0.driver.set(Some(context.waker().clone()));
        Poll::Pending
    }

    /// Takes all completions, wakes their futures, and submits queued operations. Returns the
    /// number of operations that ended. Call it when the eventfd is readable; it is harmless at any
    /// time.
    pub fn reap(&self) -> usize {
        self.0.reap()
    }

    /// Waits until operations complete or `timeout` has passed, then reaps. For programs without an
    /// event loop. Returns at once if nothing is in flight.
    pub fn park(&self, timeout: Duration) -> usize {
        self.0.park(timeout)
    }

    /// Returns the maximum number of operations in flight; further ones wait.
    pub fn places(&self) -> usize {
        self.0.state.borrow().slots.len()
    }

    /// Returns the number of system calls made so far for submission and completion.
    pub fn system_calls(&self) -> u64 {
        self.0.enters.get()
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.0
    }

    /// Returns the completion mode that the kernel granted, for start-up to print.
    pub fn mode(&self) -> &'static str {
        self.0.mode
    }
}

impl AsFd for Ring {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.event.as_fd()
    }
}

impl AsRawFd for Ring {
    fn as_raw_fd(&self) -> RawFd {
        self.0.event.as_raw_fd()
    }
}

/// Builds a ring with the cheapest completion mode that the kernel supports. Deferred task work
/// runs only in `reap`, cooperative task work at any system call; without either, the kernel
/// interrupts the worker.
fn build_best(places: u32) -> io::Result<(IoUring, &'static str)> {
    let mut builder = IoUring::builder();
    builder.dontfork().setup_single_issuer().setup_defer_taskrun().setup_taskrun_flag();
    if let Ok(ring) = builder.build(places) {
        return Ok((ring, "deferred task work"));
    }
    let mut builder = IoUring::builder();
    builder.dontfork().setup_coop_taskrun().setup_taskrun_flag();
    if let Ok(ring) = builder.build(places) {
        return Ok((ring, "cooperative task work"));
    }
    Ok((IoUring::builder().dontfork().build(places)?, "plain"))
}

/// Returns whether the kernel may still have due work for which it will raise no event, after
/// `fruitless` consecutive entries without a completion, with `in_kernel` operations in flight.
///
/// The kernel processes about twenty work items per entry. Some cause no completion, for example
/// when a postponed operation is restarted. It raises the event only for the first due item, so a
/// driver that leaves items behind gets no further event. Each operation has at most one due item
/// at a time, and items that become due later raise the event again. Entries beyond this bound
/// achieve nothing: the flag for due work may also be set without any, if the kernel set it on one
/// processor after another one had done the work, and nothing clears it before the next operation.
fn more_may_be_due(fruitless: usize, in_kernel: usize) -> bool {
    fruitless <= in_kernel.div_ceil(DONE_AT_AN_ENTRY)
}

impl Shared {
    /// Submits queued entries and lets the kernel process due work. Returns false if it refused.
    fn enter(&self, state: &mut State) -> bool {
        loop {
            self.enters.set(self.enters.get() + 1);
            match state.ring.submit() {
                Ok(taken) => {
                    state.queued -= taken;
                    state.in_kernel += taken;
                    return true;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        // The kernel lacks memory or its completion queue is full (EAGAIN, EBUSY). The entries stay
        // queued, and completions may be stuck too, so none can be relied on to cause a retry.
        // Raise the eventfd manually, after a moment to avoid spinning.
        std::thread::sleep(Duration::from_millis(1));
        _ = rustix::io::write(&self.event, &1u64.to_ne_bytes());
        false
    }

    fn reap(&self) -> usize {
        let mut state = self.state.borrow_mut();
        let (mut ended, mut fruitless) = (0, 0);
        loop {
            let submission = state.ring.submission();
            let due = submission.taskrun() || submission.cq_overflow();
            drop(submission);
            let entered = (due || state.queued > 0) && self.enter(&mut state);
            let mut taken = 0;
            while let Some((user_data, result)) = state.next_completion() {
                taken += 1;
                ended += usize::from(state.complete(user_data as u32, result));
            }
            fruitless = if taken > 0 { 0 } else { fruitless + 1 };
            if taken == 0 && !(due && entered && more_may_be_due(fruitless, state.in_kernel)) {
                break;
            }
        }
        state.wake_waiting();
        let mut wakers = std::mem::take(&mut state.to_wake);
        drop(state);
        wakers.drain(..).for_each(Waker::wake);
        let mut state = self.state.borrow_mut();
        if state.to_wake.is_empty() {
            state.to_wake = wakers; // keeps its allocation
        }
        ended
    }

    fn park(&self, timeout: Duration) -> usize {
        let mut state = self.state.borrow_mut();
        if state.queued > 0 {
            self.enter(&mut state);
        }
        let idle = state.queued == 0 && state.in_kernel == 0;
        drop(state);
        if !idle {
            let timeout = rustix::time::Timespec {
                tv_sec: timeout.as_secs() as i64,
                tv_nsec: i64::from(timeout.subsec_nanos()),
            };
            let mut fds = [PollFd::new(&self.event, PollFlags::IN)];
            _ = rustix::event::poll(&mut fds, Some(&timeout));
            _ = rustix::io::read(&self.event, &mut [0; 8]);
        }
        self.reap()
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let start = Instant::now();
        while self.state.borrow().is_busy() && start.elapsed() < DRAIN {
            self.park(Duration::from_millis(100));
        }
        let state = self.state.get_mut();
        // The device hangs. Its buffers must outlive the ring, so they are never freed.
        state.slots.drain(..).flatten().for_each(std::mem::forget);
    }
}

impl State {
    fn is_busy(&self) -> bool {
        self.queued > 0 || self.in_kernel > 0
    }

    fn next_completion(&mut self) -> Option<(u64, i32)> {
        let entry = self.ring.completion().next()?;
        self.in_kernel -= 1;
        Some((entry.user_data(), entry.result()))
    }

    /// Starts the operation. A slot must be free.
    fn start(&mut self, operation: InFlight) -> u32 {
        let index = self.free.pop().expect("a place was granted");
        self.slots[index as usize] = Some(operation);
        self.push(index);
        index
    }

    /// Queues the rest of the operation in slot `index`.
    fn push(&mut self, index: u32) {
        let operation = self.slots[index as usize].as_mut().expect("the slot is taken");
        let entry = operation.entry().user_data(u64::from(index));
        // SAFETY: the entry points into a buffer that the slot owns and to which nothing else
        // writes. The slot is not emptied before the kernel has returned a result.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        pushed.expect("as many entries as slots, and a slot has at most one");
        self.queued += 1;
    }

    /// Processes the kernel's result for slot `index`. Returns whether the operation has ended.
    fn complete(&mut self, index: u32, result: i32) -> bool {
        let operation = self.slots[index as usize].as_mut().expect("the slot is taken");
        let Some(result) = operation.advance(result) else {
            self.push(index);
            return false;
        };
        let payload = &operation.payload;
        operation.file.counters().end(payload.operation(), payload.len() as u64, &result);
        match std::mem::replace(&mut operation.progress, Progress::Done(result)) {
            Progress::Running(waker) => self.to_wake.extend(waker),
            Progress::Abandoned => self.vacate(index),
            Progress::Done(_) => unreachable!("an operation ends once"),
        }
        true
    }

    fn vacate(&mut self, index: u32) {
        self.slots[index as usize] = None;
        self.free.push(index);
    }

    /// Wakes as many waiting futures as there are free places. They keep their turn until they
    /// poll.
    fn wake_waiting(&mut self) {
        let woken = self.waiting.iter().take(self.free.len());
        self.to_wake.extend(woken.map(|(_, waker)| waker.clone()));
    }

    /// Returns whether a future with this ticket may take a place now. A future without a ticket
    /// comes last.
    fn may_start(&self, ticket: Option<u64>) -> bool {
        let mut first = self.waiting.iter().take(self.free.len());
        match ticket {
            Some(ticket) => first.any(|(other, _)| *other == ticket),
            None => self.waiting.len() < self.free.len(),
        }
    }
}

impl State {
    /// Joins the queue, or keeps the position in it.
    fn queue_up(&mut self, ticket: &mut Option<u64>, waker: &Waker) {
        let Some(ticket) = *ticket else {
            *ticket = Some(self.next_ticket);
            self.waiting.push_back((self.next_ticket, waker.clone()));
            self.next_ticket += 1;
            return;
        };
        let place = self.waiting.binary_search_by_key(&ticket, |(other, _)| *other);
        self.waiting[place.expect("a ticket is in the queue")].1.clone_from(waker);
    }

    fn leave_queue(&mut self, ticket: Option<u64>) {
        let place = ticket.map(|ticket| self.waiting.binary_search_by_key(&ticket, |(t, _)| *t));
        if let Some(Ok(place)) = place {
            self.waiting.remove(place);
        }
    }
}

impl Shared {
    /// Starts the operation once it has a place, in its turn. Returns `Ready` with the place.
    /// `ticket` keeps the turn between calls.
    pub fn poll_start(
        &self,
        start: &mut Option<InFlight>,
        ticket: &mut Option<u64>,
        context: &Context<'_>,
    ) -> Poll<u32> {
        let mut state = self.state.borrow_mut();
        if !state.may_start(*ticket) {
            state.queue_up(ticket, context.waker());
            return Poll::Pending;
        }
        state.leave_queue(ticket.take());
        let index = state.start(start.take().expect("started once"));
        if self.batched.get() {
            drop(state);
            if let Some(driver) = self.driver.take() {
                driver.wake();
            }
        } else {
            self.enter(&mut state);
        }
        Poll::Ready(index)
    }

    /// Polls the operation at this place. Returns `Ready` once, when it has ended.
    pub fn poll_end(&self, index: u32, context: &Context<'_>) -> Poll<(Payload, io::Result<()>)> {
        let mut state = self.state.borrow_mut();
        let slot = &mut state.slots[index as usize];
        let operation = slot.as_mut().expect("the slot is taken");
        if let Progress::Running(waker) = &mut operation.progress {
            match waker {
                Some(waker) => waker.clone_from(context.waker()),
                None => *waker = Some(context.waker().clone()),
            }
            return Poll::Pending;
        }
        let operation = slot.take().expect("the slot is taken");
        let Progress::Done(result) = operation.progress else {
            unreachable!("abandoned by those alone who poll no more")
        };
        state.free.push(index);
        self.wake_next(state);
        Poll::Ready((operation.payload, result))
    }

    /// Abandons the operation at this place; its buffer is freed when it ends.
    pub fn abandon(&self, index: u32) {
        let mut state = self.state.borrow_mut();
        let operation = state.slots[index as usize].as_mut().expect("the slot is taken");
        match operation.progress {
            Progress::Done(_) => state.vacate(index),
            _ => operation.progress = Progress::Abandoned,
        }
        self.wake_next(state);
    }

    /// Gives up the turn of a future that waits for a place.
    pub fn give_up(&self, ticket: Option<u64>) {
        let mut state = self.state.borrow_mut();
        state.leave_queue(ticket);
        self.wake_next(state);
    }

    /// Wakes the futures that have waited longest, as many as there are free places.
    fn wake_next(&self, state: std::cell::RefMut<'_, State>) {
        if state.free.is_empty() || state.waiting.is_empty() {
            return;
        }
        let next = state.waiting.iter().take(state.free.len()).map(|(_, waker)| waker.clone());
        let next: Vec<Waker> = next.collect();
        drop(state);
        next.into_iter().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_that_stands_for_nothing_is_not_believed_for_ever() {
        assert!(!more_may_be_due(1, 0), "nothing is under way");
        for in_kernel in 1..=4096 {
            let entries = (1..).find(|fruitless| !more_may_be_due(*fruitless, in_kernel));
            let done = entries.expect("it ends") * DONE_AT_AN_ENTRY;
            assert!(done >= in_kernel + DONE_AT_AN_ENTRY, "{done} of {in_kernel}");
        }
    }
}
