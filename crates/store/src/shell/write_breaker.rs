//! The breaker for writes. The background awaits each write and flush however long it takes,
//! because until the operation has ended it is unknown whether it reached the device. Callers do
//! not wait that long. An operation that takes longer than [`crate::Options::write_bound`] opens
//! the breaker: all callers that wait for the background give up at once, and later ones do not
//! wait. The operation in progress, and those after it, act as probes. The breaker closes when one
//! ends within the bound, or when nothing is left to write.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use device::{Clock, Device, Nanos, Operation};

use crate::base::event::Event;
use crate::shell::volume::{Shared, Volume};

/// Steps in which the stall bound is waited for. A pause of the process counts as at most one.
const STEPS: Nanos = 20;

/// The state of the breaker of one device.
#[derive(Default)]
pub(crate) struct WriteBreaker {
    open: AtomicBool,
    /// Start of the operation that opened the breaker.
    since: AtomicU64,
    /// Number of operations in progress that have exceeded the bound.
    late: AtomicU32,
}

impl WriteBreaker {
    /// Returns whether writes stall, so that callers must not wait for the background.
    pub(crate) fn is_open(&self) -> bool {
        self.open.load(Ordering::Acquire)
    }

    /// Returns when the operation that opened the breaker began; `None` while the breaker is
    /// closed.
    fn open_since(&self) -> Option<Nanos> {
        self.is_open().then(|| self.since.load(Ordering::Acquire))
    }
}

/// An operation that has exceeded the bound, until it ends or is dropped.
struct Late<'a>(&'a WriteBreaker);

impl Drop for Late<'_> {
    fn drop(&mut self) {
        self.0.late.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Shared {
    fn open_write_breaker(&self, since: Nanos) -> Late<'_> {
        let breaker = &self.write_breaker;
        breaker.late.fetch_add(1, Ordering::AcqRel);
        if !breaker.open.load(Ordering::Acquire) {
            breaker.since.store(since, Ordering::Release);
            breaker.open.store(true, Ordering::Release);
            self.lock().set_writes_stall(true);
            let bound = self.options.write_bound;
            self.emit(Event::WritesStalled { device: self.number, bound });
        }
        Late(breaker)
    }

    /// Closes the breaker unless an operation is still late.
    pub(crate) fn close_write_breaker(&self, now: Nanos) {
        let breaker = &self.write_breaker;
        if breaker.late.load(Ordering::Acquire) > 0 || !breaker.is_open() {
            return;
        }
        let after = now.saturating_sub(breaker.since.load(Ordering::Acquire));
        breaker.open.store(false, Ordering::Release);
        self.lock().set_writes_stall(false);
        let after = Duration::from_nanos(after);
        self.emit(Event::WritesResumed { device: self.number, after });
    }
}

impl<D: Device, C: Clock> Volume<D, C> {
    /// Awaits a write or a flush, however long it takes, and updates the breaker.
    pub(crate) async fn watched<T>(
        &self,
        kind: Operation,
        operation: impl Future<Output = T>,
    ) -> T {
        let begun = self.clock.now();
        let bound = self.shared.options.write_bound.as_nanos() as Nanos;
        let mut operation = pin!(operation);
        let mut overdue = pin!(self.clock.sleep_until(begun.saturating_add(bound)));
        let mut late = None;
        let result = poll_fn(|context| {
            if let Poll::Ready(result) = operation.as_mut().poll(context) {
                return Poll::Ready(result);
            }
            if late.is_none() && overdue.as_mut().poll(context).is_ready() {
                late = Some(self.shared.open_write_breaker(begun));
            }
            Poll::Pending
        })
        .await;
        let ended = self.clock.now();
        self.shared.times.add(kind, ended.saturating_sub(begun));
        if late.take().is_none() {
            self.shared.close_write_breaker(ended);
        }
        result
    }

    /// Returns once writes have stalled for the stall bound. Time in which the process was paused
    /// does not count: the background was paused as well.
    async fn writes_stalled_for_long(&self) {
        let bound = self.shared.options.stall_bound.as_nanos() as Nanos;
        let step = (bound / STEPS).max(1);
        let now = self.clock.now();
        let mut stalled = now.saturating_sub(self.shared.write_breaker.open_since().unwrap_or(now));
        while stalled < bound {
            self.clock.sleep_until(self.clock.now().saturating_add(step)).await;
            stalled = if self.shared.write_breaker.is_open() { stalled + step } else { 0 };
        }
    }

    /// Drives `writing` to completion. Returns `None` if writes stall for longer than the stall
    /// bound meanwhile.
    pub(crate) async fn unless_stalled<T>(&self, writing: impl Future<Output = T>) -> Option<T> {
        let (mut writing, mut stalled) = (pin!(writing), pin!(self.writes_stalled_for_long()));
        poll_fn(|context| {
            if let Poll::Ready(value) = writing.as_mut().poll(context) {
                return Poll::Ready(Some(value));
            }
            stalled.as_mut().poll(context).map(|()| None)
        })
        .await
    }
}
