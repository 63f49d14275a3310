//! State of a client connection, shared by its socket, its requests and the periodic sweep.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use bytes::Bytes;
use net::clock::TokioClock;

use crate::client::limits::ClientLimits;
use crate::client::upload_rate::Upload;
use crate::observe::event::Event;
use crate::observe::observer::Observer;

/// Activity of a connection, for its timeouts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Between requests, or before the first one.
    Idle,
    /// Part of a request head has arrived.
    Head,
    /// A request is being answered.
    Busy,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CloseReason {
    /// No further request arrived within the idle timeout.
    Idle,
    /// A request head did not arrive in time; the client gets a 408.
    Head,
    /// The client neither took nor sent bytes at the minimum rate.
    Stall,
    Drain,
    /// Closed to free its resources for another client.
    Reclaimed,
    Left,
}

/// State of one connection, shared by its socket, its service and the sweep.
pub(crate) struct ConnectionState {
    clock: TokioClock,
    phase: Cell<Option<Phase>>,
    /// Number of requests being answered; may exceed one on HTTP/2.
    open: Cell<u32>,
    multiplexed: Cell<bool>,
    had_request: Cell<bool>,
    since: Cell<Option<Instant>>,
    /// Response bodies waiting for flow-control window from the client, on HTTP/2.
    paced: Cell<u32>,
    /// Set when `phase` changes; taken by the sweep, which then restarts its timers.
    changed: Cell<bool>,
    /// Bytes read from the client. `written` counts those written to it.
    pub(crate) read: Cell<u64>,
    pub(crate) written: Cell<u64>,
    /// Values of `read` and `written` last reported to the observer.
    reported: Cell<(u64, u64)>,
    pub(crate) read_blocked: Cell<bool>,
    pub(crate) write_blocked: Cell<bool>,
    pub(crate) eof: Cell<bool>,
    /// True if the client sends nothing more; it may still read.
    half_closed: Cell<bool>,
    /// Cloned by each request that continues after its client cancelled it.
    pub run_on: Rc<()>,
    /// Counter of half-closed connections; set once the connection is watched.
    half_closed_count: OnceCell<Arc<AtomicUsize>>,
    /// Servers that the current request is for ([`ConnectionState::set_servers`]).
    servers: Cell<usize>,
    open_ended: Cell<bool>,
    draining: Cell<bool>,
    closes_idle: Cell<bool>,
    cut: Cell<Option<CloseReason>>,
    task: RefCell<Option<Waker>>,
    pub(crate) interim: RefCell<VecDeque<Bytes>>,
    /// Request bodies on HTTP/2. The minimum rate applies to each.
    uploads: RefCell<Vec<Rc<Upload>>>,
    last_answer: Cell<bool>,
}

impl ConnectionState {
    /// Creates the state of a connection that has not received any bytes.
    pub fn new(clock: TokioClock) -> ConnectionState {
        ConnectionState {
            clock,
            phase: Default::default(),
            open: Default::default(),
            multiplexed: Default::default(),
            had_request: Default::default(),
            since: Default::default(),
            paced: Default::default(),
            changed: Default::default(),
            read: Default::default(),
            written: Default::default(),
            reported: Default::default(),
            read_blocked: Default::default(),
            write_blocked: Default::default(),
            eof: Default::default(),
            half_closed: Default::default(),
            run_on: Rc::default(),
            half_closed_count: Default::default(),
            servers: Default::default(),
            open_ended: Default::default(),
            draining: Default::default(),
            closes_idle: Default::default(),
            cut: Default::default(),
            task: Default::default(),
            interim: Default::default(),
            uploads: Default::default(),
            last_answer: Default::default(),
        }
    }

    pub fn phase(&self) -> Phase {
        self.phase.get().unwrap_or(Phase::Idle)
    }

    /// Returns whether a request may come on a connection that its client takes for open.
    pub fn expects_request(&self) -> bool {
        !self.closes_idle.get() && (self.is_fresh() || !self.last_answer.get())
    }

    /// Returns whether the first byte of a request is still to come.
    pub fn is_fresh(&self) -> bool {
        self.phase.get().is_none()
    }

    /// Starts the first phase, at accept.
    pub fn accepted(&self) {
        self.since.set(Some(self.clock.instant()));
    }

    /// Returns whether the connection has had a request.
    pub fn has_had_request(&self) -> bool {
        self.had_request.get()
    }

    /// Returns when the current phase began.
    pub fn since(&self) -> Option<Instant> {
        self.since.get()
    }

    /// Declares that requests may overlap (HTTP/2).
    pub fn set_multiplexed(&self) {
        self.multiplexed.set(true);
    }

    pub fn is_multiplexed(&self) -> bool {
        self.multiplexed.get()
    }

    /// Records that a request head has arrived.
    pub fn request_began(&self, now: Instant) {
        self.had_request.set(true);
        self.open.set(self.open.get() + 1);
        if self.phase() != Phase::Busy {
            self.set_phase_at(Phase::Busy, now);
        }
    }

    pub fn request_ended(&self, now: Instant) {
        self.open.set(self.open.get().saturating_sub(1));
        if self.open.get() == 0 {
            self.set_phase_at(Phase::Idle, now);
        }
    }

    /// Counts one more body that waits for the client, or one less if `waits` is false.
    pub fn body_waits(&self, waits: bool) {
        let paced = self.paced.get();
        self.paced.set(if waits { paced + 1 } else { paced.saturating_sub(1) });
    }

    pub(crate) fn set_phase(&self, phase: Phase) {
        self.set_phase_at(phase, self.clock.instant());
    }

    fn set_phase_at(&self, phase: Phase, now: Instant) {
        self.phase.set(Some(phase));
        self.since.set(Some(now));
        self.changed.set(true);
        self.read_blocked.set(false);
    }

    /// Returns whether the phase has changed since the last call.
    pub fn take_changed(&self) -> bool {
        self.changed.replace(false)
    }

    /// Registers a request body with the sweep.
    pub fn upload_began(&self, upload: &Rc<Upload>) {
        self.uploads.borrow_mut().push(upload.clone());
    }

    pub fn upload_ended(&self, upload: &Rc<Upload>) {
        self.uploads.borrow_mut().retain(|other| !Rc::ptr_eq(other, upload));
    }

    /// Cancels request bodies that arrive too slowly.
    pub fn check_uploads(&self, now: Instant, limits: &ClientLimits) {
        for upload in &*self.uploads.borrow() {
            upload.check(now, limits);
        }
    }

    /// Records the result of a write to the client.
    pub fn wrote(&self, polled: &Poll<io::Result<usize>>) {
        if let Poll::Ready(Ok(n)) = polled {
            self.written.set(self.written.get() + *n as u64);
        }
        self.write_blocked.set(polled.is_pending());
    }

    /// Returns the bytes moved so far in both directions.
    pub fn moved(&self) -> u64 {
        self.read.get() + self.written.get()
    }

    /// Returns the bytes read from the client so far.
    pub fn received(&self) -> u64 {
        self.read.get()
    }

    /// Reports to the observer the bytes moved since the last report.
    pub fn report_moved(&self, observer: &dyn Observer) {
        let (read, written) = (self.read.get(), self.written.get());
        let (read_before, written_before) = self.reported.replace((read, written));
        observer.count(Event::BytesReceived, read - read_before);
        observer.count(Event::BytesSent, written - written_before);
    }

    /// Returns whether the proxy waits for the client to send or take body bytes.
    pub fn blocked(&self) -> bool {
        if self.write_blocked.get() {
            return true;
        }
        match self.multiplexed.get() {
            // On HTTP/2 a pending read alone does not mean that body bytes are due.
            true => self.paced.get() > 0,
            false => self.phase() == Phase::Busy && self.read_blocked.get(),
        }
    }

    /// Returns whether a response is in progress or still has bytes that the client has not taken.
    pub fn is_answering(&self) -> bool {
        self.phase() == Phase::Busy || self.write_blocked.get()
    }

    /// Records that the request was read completely. From now on the client is only expected to
    /// read.
    pub fn request_is_read(&self) {
        self.read_blocked.set(false);
    }

    pub fn eof(&self) -> bool {
        self.eof.get()
    }

    /// Counts the connection in `count` while it is half-closed.
    pub fn count_half_closed(&self, count: &Arc<AtomicUsize>) {
        drop(self.half_closed_count.set(count.clone()));
    }

    /// Records that the client sends nothing more.
    pub fn note_half_closed(&self) {
        if !self.half_closed.replace(true)
            && let Some(count) = self.half_closed_count.get()
        {
            count.fetch_add(1, Relaxed);
        }
    }

    /// Returns whether a request is being answered although its client sends nothing more. Such a
    /// client may be gone.
    pub fn may_be_gone(&self) -> bool {
        self.half_closed.get() && !self.is_multiplexed() && self.is_answering()
    }

    /// Wakes the task of a request whose client may be gone, so that it checks.
    pub fn look_for_end(&self) {
        if self.may_be_gone() {
            self.wake();
        }
    }

    /// Records the servers that the current request is for, as a number unique to them.
    pub fn set_servers(&self, servers: usize) {
        self.servers.set(servers);
    }

    /// Returns the servers that the last request was for.
    pub fn servers(&self) -> usize {
        self.servers.get()
    }

    /// Returns whether a body is being sent that ends with the connection.
    pub fn open_ended(&self) -> bool {
        self.open_ended.get()
    }

    pub fn set_open_ended(&self, open_ended: bool) {
        self.open_ended.set(open_ended);
    }

    pub fn cut(&self) -> Option<CloseReason> {
        self.cut.get()
    }

    /// Cuts the connection: records the reason and wakes its task.
    pub fn cut_now(&self, why: CloseReason) {
        self.cut.set(Some(why));
        self.wake();
    }

    /// Revokes a cut that has not taken effect.
    pub fn undo_cut(&self) {
        self.cut.set(None);
    }

    /// Returns whether the next response is the last one, and says so.
    pub fn draining(&self) -> bool {
        self.draining.get()
    }

    pub fn drain(&self) {
        self.draining.set(true);
        self.wake();
    }

    /// Returns whether the connection closes where it waits for a request.
    pub fn closes_idle(&self) -> bool {
        self.closes_idle.get()
    }

    pub fn close_idle(&self) {
        self.closes_idle.set(true);
        self.wake();
    }

    /// Stores the task to wake. Call whenever the connection's task is polled.
    pub fn note_task(&self, cx: &Context<'_>) {
        let mut task = self.task.borrow_mut();
        if !task.as_ref().is_some_and(|known| known.will_wake(cx.waker())) {
            *task = Some(cx.waker().clone());
        }
    }

    pub fn wake(&self) {
        if let Some(task) = self.task.borrow().as_ref() {
            task.wake_by_ref();
        }
    }

    /// Queues a 1xx head for the current request. It precedes anything the service returns later,
    /// provided the service waits for [`ConnectionState::interim_sent`].
    pub fn push_interim(&self, head: Bytes) {
        self.interim.borrow_mut().push_back(head);
    }

    /// Marks the current response as the last; no further request is accepted.
    pub fn end_after_answer(&self) {
        self.last_answer.set(true);
    }

    /// Returns whether the current response is the last one.
    pub fn is_last_answer(&self) -> bool {
        self.last_answer.get()
    }

    /// Returns whether no 1xx head is queued.
    pub fn interim_sent(&self) -> bool {
        self.interim.borrow().is_empty()
    }
}

impl Drop for ConnectionState {
    fn drop(&mut self) {
        if self.half_closed.get()
            && let Some(count) = self.half_closed_count.get()
        {
            count.fetch_sub(1, Relaxed);
        }
    }
}
