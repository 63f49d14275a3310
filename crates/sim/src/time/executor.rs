//! Virtual time on one thread: tasks run until none of them can make progress, then the clock jumps
//! to the next event.
//!
//! Hours of an engine pass in seconds, identically at each repetition. With a seed, a random choice
//! decides which of several runnable tasks runs next, and which of several simultaneous events
//! comes first. Without one, both go by arrival.
//!
//! Guarantees: everything follows from the seed and from the spawned tasks. [`Handle::history`] is
//! a digest of every step taken, so that a test can compare two runs.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use device::Nanos;
use fastrand::Rng;

use crate::time::event_queue::{Key, Timetable};

/// Number of polls without a step of the clock after which the run counts as spinning.
const POLLS_WITHOUT_TIME: u64 = 4_000_000;

/// Task id of the future that [`Executor::run`] was given.
const MAIN: u32 = u32::MAX;

/// Owns the tasks of a simulation; they end with it.
pub struct Executor {
    handle: Handle,
}

/// Access to an executor for tasks and devices: its time, its events, its spawning. A clone is
/// another handle.
#[derive(Clone)]
pub struct Handle {
    pub(crate) inner: Rc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) now: Cell<Nanos>,
    /// Wall time at monotonic zero, in unix seconds; wraps around when it is set back.
    pub(crate) unix_start: Cell<u64>,
    tasks: RefCell<Tasks>,
    ready: Arc<Ready>,
    pub(crate) timetable: RefCell<Timetable<Due>>,
    random: RefCell<Option<Rng>>,
    history: Cell<u64>,
    halted: Cell<bool>,
    /// The time at which the run is cut short.
    end: Cell<Nanos>,
    /// Woken when an event is added, while the clock follows another one.
    follower: RefCell<Option<Waker>>,
}

pub(crate) enum Due {
    Wake(Waker),
    Call(Rc<dyn Happening>, u64),
}

/// A participant in a simulation that is not a task.
pub trait Happening {
    /// Carries out the event that was scheduled with [`Handle::schedule`].
    fn happen(self: Rc<Self>, argument: u64);
}

#[derive(Default)]
struct Tasks {
    slots: Vec<Slot>,
    free: Vec<u32>,
}

struct Slot {
    /// `None` while it is polled, or when there is no task.
    future: Option<Pin<Box<dyn Future<Output = ()>>>>,
    wakeup: Arc<Wakeup>,
    waker: Waker,
}

/// The runnable tasks. Behind a lock because a waker is `Send`; the lock is never contended.
#[derive(Default)]
struct Ready(Mutex<VecDeque<u32>>);

impl Ready {
    fn lock(&self) -> MutexGuard<'_, VecDeque<u32>> {
        // No code under this lock can panic half-way.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Wakeup {
    id: u32,
    queued: AtomicBool,
    ready: Arc<Ready>,
}

impl Wakeup {
    fn new(id: u32, ready: &Arc<Ready>) -> Arc<Wakeup> {
        Arc::new(Wakeup { id, queued: AtomicBool::new(false), ready: Arc::clone(ready) })
    }
}

impl Wake for Wakeup {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.queued.swap(true, Ordering::Relaxed) {
            self.ready.lock().push_back(self.id);
        }
    }
}

/// Why a run ended before its future completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Stop {
    /// All tasks wait, and no event is scheduled.
    #[error("all tasks wait and no event is scheduled")]
    Stuck,
    /// The clock passed the limit of the run.
    #[error("it exceeded its time limit")]
    Late,
    /// Tasks kept waking each other without the clock moving.
    #[error("tasks wake each other without advancing the time")]
    Spinning,
    /// [`Handle::halt`] was called.
    #[error("halted")]
    Halted,
}

impl Executor {
    /// Returns an executor whose clock shows 0 ns and `unix_seconds`. Choices follow `seed`; with
    /// `None`, they go by arrival.
    pub fn new(seed: Option<u64>, unix_seconds: u64) -> Executor {
        let inner = Inner {
            now: Cell::new(0),
            unix_start: Cell::new(unix_seconds),
            tasks: RefCell::default(),
            ready: Arc::default(),
            timetable: RefCell::new(Timetable::new()),
            random: RefCell::new(seed.map(Rng::with_seed)),
            history: Cell::new(0xcbf2_9ce4_8422_2325),
            halted: Cell::new(false),
            end: Cell::new(Nanos::MAX),
            follower: RefCell::default(),
        };
        Executor { handle: Handle { inner: Rc::new(inner) } }
    }

    /// Returns a handle, which is also the clock.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Runs `future` to completion, and the tasks beside it.
    ///
    /// # Panics
    /// When it cannot complete: see [`Executor::try_run`].
    pub fn run<T>(&self, future: impl Future<Output = T>) -> T {
        match self.try_run(Nanos::MAX, future) {
            Ok(value) => value,
            Err(stop) => {
                panic!("the simulation ended at {} ns: {stop}", self.handle.inner.now.get())
            }
        }
    }

    /// Runs `future` to completion, and the tasks beside it, for at most `patience` nanoseconds of
    /// virtual time. If stopped early, `future` is dropped and the tasks stay.
    ///
    /// # Errors
    /// The reason for which it did not complete.
    pub fn try_run<T>(&self, patience: Nanos, future: impl Future<Output = T>) -> Result<T, Stop> {
        let inner = &self.handle.inner;
        let mut future = pin!(future);
        let wakeup = Wakeup::new(MAIN, &inner.ready);
        let waker = Waker::from(Arc::clone(&wakeup));
        let end = inner.now.get().saturating_add(patience);
        inner.end.set(end);
        let mut polls = 0_u64;
        waker.wake_by_ref();
        let stop = loop {
            if inner.halted.replace(false) {
                break Stop::Halted;
            }
            if let Some(id) = inner.next_ready() {
                polls += 1;
                if polls > POLLS_WITHOUT_TIME {
                    break Stop::Spinning;
                }
                inner.note(u64::from(id));
                if id != MAIN {
                    inner.poll(id);
                    continue;
                }
                wakeup.queued.store(false, Ordering::Relaxed);
                let polled = future.as_mut().poll(&mut Context::from_waker(&waker));
                if let Poll::Ready(value) = polled {
                    inner.ready.lock().retain(|id| *id != MAIN);
                    return Ok(value);
                }
                continue;
            }
            let next = inner.timetable.borrow_mut().next_time();
            match next {
                None => break Stop::Stuck,
                Some(time) if time > end => break Stop::Late,
                Some(time) => {
                    if time > inner.now.get() {
                        polls = 0;
                    }
                    inner.step();
                }
            }
        };
        inner.ready.lock().retain(|id| *id != MAIN);
        Err(stop)
    }

    /// Runs all events that are due by `time`, and the tasks as far as they can go. Then the clock
    /// shows at least `time`. Returns the time of the next event.
    pub fn run_until(&self, time: Nanos) -> Option<Nanos> {
        let inner = &self.handle.inner;
        loop {
            while let Some(id) = inner.next_ready() {
                inner.note(u64::from(id));
                inner.poll(id);
            }
            let next = inner.timetable.borrow_mut().next_time();
            match next {
                Some(next) if next <= time => inner.step(),
                next => {
                    self.handle.advance_to(time);
                    return next;
                }
            }
        }
    }

    /// Lets `time` nanoseconds pass, and runs everything that is due.
    pub fn pass(&self, time: Nanos) {
        let clock = self.handle();
        let end = clock.inner.now.get() + time;
        self.run(async move { device::Clock::sleep_until(&clock, end).await });
    }

    /// Drops all tasks and scheduled events, as the end of a process does. Handles stay valid.
    pub fn kill(&self) {
        let inner = &self.handle.inner;
        let tasks = std::mem::take(&mut *inner.tasks.borrow_mut());
        drop(tasks); // their destructors may use the executor
        inner.ready.lock().clear();
        let due = inner.timetable.borrow_mut().take_all();
        drop(due);
    }
}

impl Drop for Executor {
    fn drop(&mut self) {
        // Tasks hold handles and would otherwise keep the executor alive.
        self.kill();
    }
}

impl Inner {
    fn next_ready(&self) -> Option<u32> {
        let mut ready = self.ready.lock();
        match &mut *self.random.borrow_mut() {
            Some(random) if ready.len() > 1 => {
                let chosen = random.usize(..ready.len());
                ready.swap_remove_back(chosen)
            }
            _ => ready.pop_front(),
        }
    }

    fn poll(&self, id: u32) {
        let (mut future, waker) = {
            let mut tasks = self.tasks.borrow_mut();
            // Woken after its end, or the waker outlived a kill.
            let Some(slot) = tasks.slots.get_mut(id as usize) else { return };
            slot.wakeup.queued.store(false, Ordering::Relaxed);
            let Some(future) = slot.future.take() else { return };
            (future, slot.waker.clone())
        };
        let done = future.as_mut().poll(&mut Context::from_waker(&waker)).is_ready();
        if done {
            drop(future); // may use the executor, so before the tasks are borrowed
            let mut tasks = self.tasks.borrow_mut();
            if (id as usize) < tasks.slots.len() {
                tasks.free.push(id);
            }
        } else if let Some(slot) = self.tasks.borrow_mut().slots.get_mut(id as usize) {
            slot.future = Some(future);
        }
    }

    /// Advances to the next event and runs it.
    fn step(&self) {
        let Some((time, due)) = self.timetable.borrow_mut().pop() else { return };
        let now = self.now.get().max(time);
        self.now.set(now);
        self.note(now);
        match due {
            Due::Wake(waker) => waker.wake(),
            Due::Call(what, argument) => what.happen(argument),
        }
    }

    fn note(&self, what: u64) {
        let mixed = (self.history.get().rotate_left(5) ^ what).wrapping_mul(0x517c_c1b7_2722_0a95);
        self.history.set(mixed);
    }

    fn tell_follower(&self) {
        if let Some(waker) = self.follower.take() {
            waker.wake();
        }
    }

    fn tie(&self) -> u64 {
        self.random.borrow_mut().as_mut().map_or(0, |random| random.u64(..))
    }

    pub(crate) fn sleep(&self, until: Nanos, waker: Waker) -> Key {
        let tie = self.tie();
        self.tell_follower();
        self.timetable.borrow_mut().insert(until, tie, Due::Wake(waker))
    }
}

impl Handle {
    /// Spawns a task. It runs even if the [`Task`] is dropped.
    pub fn spawn<T: 'static>(&self, future: impl Future<Output = T> + 'static) -> Task<T> {
        let state = Rc::new(RefCell::new(Outcome { value: None, waker: None }));
        let theirs = Rc::clone(&state);
        let future = Box::pin(async move {
            let value = future.await;
            let waker = {
                let mut outcome = theirs.borrow_mut();
                outcome.value = Some(value);
                outcome.waker.take()
            };
            if let Some(waker) = waker {
                waker.wake();
            }
        });
        let mut tasks = self.inner.tasks.borrow_mut();
        let id = match tasks.free.pop() {
            Some(id) => id,
            None => {
                let id = tasks.slots.len() as u32;
                let wakeup = Wakeup::new(id, &self.inner.ready);
                let waker = Waker::from(Arc::clone(&wakeup));
                tasks.slots.push(Slot { future: None, wakeup, waker });
                id
            }
        };
        let slot = &mut tasks.slots[id as usize];
        slot.future = Some(future);
        slot.waker.wake_by_ref();
        Task { state }
    }

    /// Schedules a call of `what` at `time`, or now if that has passed, between the steps of tasks.
    pub fn schedule(&self, time: Nanos, what: Rc<dyn Happening>, argument: u64) {
        let time = time.max(self.inner.now.get());
        let tie = self.inner.tie();
        self.inner.timetable.borrow_mut().insert(time, tie, Due::Call(what, argument));
        self.inner.tell_follower();
    }

    /// Sets the clock forward to `time`; events that are due by then have yet to run.
    pub fn advance_to(&self, time: Nanos) {
        let now = self.inner.now.get().max(time);
        self.inner.now.set(now);
    }

    /// Registers `follower` to be woken when an event is added.
    #[cfg(feature = "tokio")]
    pub(crate) fn tell(&self, follower: Waker) {
        *self.inner.follower.borrow_mut() = Some(follower);
    }

    /// Stops [`Executor::try_run`] before anything else happens, as a power failure would.
    pub fn halt(&self) {
        self.inner.halted.set(true);
    }

    /// Folds `what` into the history.
    pub fn note(&self, what: u64) {
        self.inner.note(what);
    }

    /// Returns a digest of all steps so far: the order and time of tasks and events, and the notes
    /// of devices.
    pub fn history(&self) -> u64 {
        self.inner.history.get()
    }
}

struct Outcome<T> {
    value: Option<T>,
    waker: Option<Waker>,
}

/// A spawned task; awaiting it yields its value. It never completes if the task was killed.
pub struct Task<T> {
    state: Rc<RefCell<Outcome<T>>>,
}

impl<T> Future for Task<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let mut outcome = self.state.borrow_mut();
        match outcome.value.take() {
            Some(value) => Poll::Ready(value),
            None => {
                outcome.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

#[cfg(test)]
mod tests;
