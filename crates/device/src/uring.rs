//! io_uring: one [`Ring`] per worker serves any number of files. It exists because a 4 KiB read
//! through it costs a fraction of what a thread pool costs.
//!
//! A ring is driven from outside. Its eventfd ([`AsFd`]) becomes readable when operations have
//! completed; then somebody calls [`Ring::reap`]. With an edge-triggered poller (tokio's `AsyncFd`)
//! the eventfd need not be read: clear the readiness, *then* reap. [`Ring::park`] does both for
//! programs without a poller.
//!
//! Every operation goes to the kernel when it begins, one system call each, so that nothing is
//! ever left behind. A driver that promises to call [`Ring::submit`] once per turn of its event
//! loop may ask for [`Ring::batch`]; operations begun in one turn then share a call.
//!
//! It promises: a buffer in flight belongs to the ring until its completion, whatever happens to
//! the future or the device; dropping the last handle waits for what is in flight. More
//! operations than the ring has places wait for a place, in order.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use io_uring::{IoUring, Probe, opcode, squeue, types};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd};
use rustix::io::Errno;

use crate::counters::Operation;
use crate::fallback::{Fallback, Feature};
use crate::file::CacheFile;
use crate::{Device, Extent, FrozenBuf, Geometry, IoBuf};

/// How long the last handle waits for operations in flight before it leaves their buffers to the
/// kernel for good.
const DRAIN: Duration = Duration::from_secs(30);

/// A worker's ring. A clone is another handle on the same ring; it stays on its thread.
#[derive(Clone)]
pub struct Ring(Rc<Shared>);

struct Shared {
    state: RefCell<State>,
    event: OwnedFd,
    /// Asks the driver for a call of `submit`; kept apart so that it is woken outside any borrow.
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
    /// Operations that the kernel has.
    in_kernel: usize,
    /// Futures that wait for a place, oldest first.
    waiting: VecDeque<(u64, Waker)>,
    next_ticket: u64,
    to_wake: Vec<Waker>,
}

struct InFlight {
    file: Arc<CacheFile>,
    operation: Operation,
    offset: u64,
    buffer: Buffer,
    done: usize,
    /// The kernel said EAGAIN: the next attempt may block a kernel thread.
    insist: bool,
    progress: Progress,
}

enum Buffer {
    Read(IoBuf),
    Write(FrozenBuf),
    Flush,
}

enum Progress {
    /// `None`: not polled yet.
    Running(Option<Waker>),
    /// The future is gone; the result interests nobody.
    Abandoned,
    Done(io::Result<()>),
}

impl Ring {
    /// A ring with `places` operations in flight at most (rounded up to a power of two, at most
    /// 4,096). A refusal (old kernel, seccomp, sysctl, memory limit) comes as [`Fallback`].
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

    /// With `true`, operations wait for [`Ring::submit`] (or [`Ring::reap`]) instead of going to
    /// the kernel one by one. Only for a driver that waits on [`Ring::poll_queued`] as well as on
    /// the eventfd, or calls `submit` before it sleeps.
    pub fn batch(&self, batched: bool) {
        self.0.batched.set(batched);
        self.submit();
    }

    /// Gives all queued operations to the kernel. Nothing queued: no system call.
    pub fn submit(&self) {
        let mut state = self.0.state.borrow_mut();
        if state.queued > 0 {
            self.0.enter(&mut state);
        }
    }

    /// Ready when operations wait for [`Ring::submit`]. One task at a time may wait here.
    pub fn poll_queued(&self, context: &mut Context<'_>) -> Poll<()> {
        if self.0.state.borrow().queued > 0 {
            return Poll::Ready(());
        }
        self.0.driver.set(Some(context.waker().clone()));
        Poll::Pending
    }

    /// Takes all completions and wakes their futures; submits what is queued. Returns how many
    /// operations ended. To be called when the eventfd is readable; harmless at any time.
    pub fn reap(&self) -> usize {
        self.0.reap()
    }

    /// Waits until operations complete or `timeout` is over, then reaps. For programs that have
    /// no event loop. With nothing in flight it returns at once.
    pub fn park(&self, timeout: Duration) -> usize {
        self.0.park(timeout)
    }

    /// How many operations can be in flight; more wait.
    pub fn places(&self) -> usize {
        self.0.state.borrow().slots.len()
    }

    /// System calls made for submission and completion so far.
    pub fn system_calls(&self) -> u64 {
        self.0.enters.get()
    }

    /// Which completion mode the kernel granted, for start-up to print.
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

/// The cheapest completion mode that the kernel knows. Deferred task work runs in `reap` alone;
/// cooperative task work at any system call; without either the kernel interrupts the worker.
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

impl Shared {
    /// Hands queued entries to the kernel and lets it post completions that are due.
    fn enter(&self, state: &mut State) {
        loop {
            self.enters.set(self.enters.get() + 1);
            match state.ring.submit() {
                Ok(taken) => {
                    state.queued -= taken;
                    state.in_kernel += taken;
                    return;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        // The kernel lacks memory or its completion queue is full (EAGAIN, EBUSY). The entries
        // stay queued. A completion will bring us back here; where none is due, come back soon.
        if state.in_kernel == 0 {
            std::thread::sleep(Duration::from_millis(1));
            _ = rustix::io::write(&self.event, &1u64.to_ne_bytes());
        }
    }

    fn reap(&self) -> usize {
        let mut state = self.state.borrow_mut();
        let mut ended = 0;
        loop {
            let submission = state.ring.submission();
            let due = submission.taskrun() || submission.cq_overflow();
            drop(submission);
            if due || state.queued > 0 {
                self.enter(&mut state);
            }
            let mut taken = 0;
            while let Some((user_data, result)) = state.next_completion() {
                taken += 1;
                ended += usize::from(state.complete(user_data as u32, result));
            }
            if taken == 0 {
                break;
            }
        }
        state.wake_waiting();
        let mut wakers = std::mem::take(&mut state.to_wake);
        drop(state);
        wakers.drain(..).for_each(Waker::wake);
        let mut state = self.state.borrow_mut();
        if state.to_wake.is_empty() {
            state.to_wake = wakers; // keeps its memory
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
        // The device hangs: its buffers must outlive us, so they are never freed.
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

    /// Starts the operation; there is a free slot.
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
        // SAFETY: the entry points into a buffer that the slot owns, to which nothing else writes,
        // and the slot is not emptied before the kernel has answered.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        pushed.expect("as many entries as slots, and a slot has at most one");
        self.queued += 1;
    }

    /// Takes the kernel's answer for slot `index`. True when the operation has ended.
    fn complete(&mut self, index: u32, result: i32) -> bool {
        let operation = self.slots[index as usize].as_mut().expect("the slot is taken");
        let Some(result) = operation.advance(result) else {
            self.push(index);
            return false;
        };
        operation.file.counters().end(operation.operation, operation.len() as u64, &result);
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

    /// Wakes as many waiting futures as there are places. They keep their turn until they come.
    fn wake_waiting(&mut self) {
        let woken = self.waiting.iter().take(self.free.len());
        self.to_wake.extend(woken.map(|(_, waker)| waker.clone()));
    }

    /// Whether the future with this ticket may take a place now. `None`: it has no turn yet.
    fn may_start(&self, ticket: Option<u64>) -> bool {
        let before = match ticket {
            Some(ticket) => self.waiting.iter().take_while(|(other, _)| *other < ticket).count(),
            None => self.waiting.len(),
        };
        before < self.free.len()
    }
}

impl InFlight {
    fn len(&self) -> usize {
        match &self.buffer {
            Buffer::Read(buf) => buf.len(),
            Buffer::Write(buf) => buf.len(),
            Buffer::Flush => 0,
        }
    }

    fn entry(&mut self) -> squeue::Entry {
        let fd = types::Fd(self.file.as_raw_fd());
        let offset = self.offset + self.done as u64;
        let entry = match &mut self.buffer {
            Buffer::Read(buf) => {
                let rest = &mut buf[self.done..];
                opcode::Read::new(fd, rest.as_mut_ptr(), rest.len() as u32).offset(offset).build()
            }
            Buffer::Write(buf) => {
                let rest = &buf[self.done..];
                opcode::Write::new(fd, rest.as_ptr(), rest.len() as u32).offset(offset).build()
            }
            Buffer::Flush => opcode::Fsync::new(fd).flags(types::FsyncFlags::DATASYNC).build(),
        };
        if self.insist { entry.flags(squeue::Flags::ASYNC) } else { entry }
    }

    /// Takes the kernel's answer. `None`: the rest must be asked for.
    fn advance(&mut self, result: i32) -> Option<io::Result<()>> {
        if result < 0 {
            let errno = Errno::from_raw_os_error(-result);
            if errno == Errno::INTR || errno == Errno::AGAIN {
                self.insist = errno == Errno::AGAIN;
                return None;
            }
            return Some(Err(errno.into()));
        }
        if matches!(self.buffer, Buffer::Flush) {
            return Some(Ok(()));
        }
        self.done += result as usize;
        // O_DIRECT stops within a block at the end of a file alone, and cannot go on from there.
        let block = self.file.geometry().block as usize;
        let stuck = self.file.is_direct() && !self.done.is_multiple_of(block);
        if self.done == self.len() {
            Some(Ok(()))
        } else if result == 0 || stuck {
            Some(Err(self.file.cut_short(self.operation, self.offset, self.len(), self.done)))
        } else {
            None
        }
    }
}

/// A file served by a ring: the device of one worker.
#[derive(Clone)]
pub struct UringDevice {
    ring: Ring,
    file: Arc<CacheFile>,
}

impl UringDevice {
    pub(crate) fn new(ring: Ring, file: Arc<CacheFile>) -> UringDevice {
        UringDevice { ring, file }
    }

    pub(crate) fn file(&self) -> &CacheFile {
        &self.file
    }

    async fn perform(
        &self,
        operation: Operation,
        offset: u64,
        buffer: Buffer,
    ) -> (Buffer, io::Result<()>) {
        let progress = Progress::Running(None);
        let file = self.file.clone();
        let start = InFlight { file, operation, offset, buffer, done: 0, insist: false, progress };
        self.file.counters().begin(operation);
        let extent = Extent { offset, len: start.len() as u64 };
        if let Err(error) = self.file.geometry().check(extent) {
            self.file.counters().refuse();
            return (start.buffer, Err(error));
        }
        let mut future = RingFuture { shared: &self.ring.0, stage: Stage::Waiting(start, None) };
        poll_fn(|context| future.poll(context)).await
    }
}

impl Device for UringDevice {
    fn geometry(&self) -> Geometry {
        self.file.geometry()
    }

    async fn read(&self, offset: u64, buf: IoBuf) -> (IoBuf, io::Result<()>) {
        match self.perform(Operation::Read, offset, Buffer::Read(buf)).await {
            (Buffer::Read(buf), result) => (buf, result),
            _ => unreachable!("an operation keeps its buffer"),
        }
    }

    async fn write(&self, offset: u64, buf: FrozenBuf) -> io::Result<()> {
        self.perform(Operation::Write, offset, Buffer::Write(buf)).await.1
    }

    async fn flush(&self) -> io::Result<()> {
        self.perform(Operation::Flush, 0, Buffer::Flush).await.1
    }
}

struct RingFuture<'a> {
    shared: &'a Shared,
    stage: Stage,
}

enum Stage {
    /// With a ticket once it has queued for a place.
    Waiting(InFlight, Option<u64>),
    Started(u32),
    Ended,
}

impl RingFuture<'_> {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<(Buffer, io::Result<()>)> {
        let mut state = self.shared.state.borrow_mut();
        if let Stage::Waiting(_, ticket) = &mut self.stage {
            if !state.may_start(*ticket) {
                state.queue_up(ticket, context.waker());
                return Poll::Pending;
            }
            let Stage::Waiting(start, ticket) = std::mem::replace(&mut self.stage, Stage::Ended)
            else {
                unreachable!("matched above")
            };
            state.leave_queue(ticket);
            self.stage = Stage::Started(state.start(start));
            if !self.shared.batched.get() {
                self.shared.enter(&mut state);
            } else if let Some(driver) = self.shared.driver.take() {
                drop(state);
                driver.wake();
                state = self.shared.state.borrow_mut();
            }
        }
        let Stage::Started(index) = self.stage else { unreachable!("polled after its end") };
        let slot = &mut state.slots[index as usize];
        let operation = slot.as_mut().expect("the slot is taken");
        match &mut operation.progress {
            Progress::Running(Some(waker)) => waker.clone_from(context.waker()),
            Progress::Running(none) => *none = Some(context.waker().clone()),
            Progress::Abandoned => unreachable!("abandoned by drop alone"),
            Progress::Done(_) => {
                let operation = slot.take().expect("checked above");
                state.free.push(index);
                self.stage = Stage::Ended;
                let Progress::Done(result) = operation.progress else { unreachable!() };
                self.shared.wake_next(state);
                return Poll::Ready((operation.buffer, result));
            }
        }
        Poll::Pending
    }
}

impl Drop for RingFuture<'_> {
    fn drop(&mut self) {
        let mut state = self.shared.state.borrow_mut();
        match std::mem::replace(&mut self.stage, Stage::Ended) {
            Stage::Waiting(start, ticket) => {
                state.leave_queue(ticket);
                start.file.counters().abandon();
            }
            Stage::Started(index) => {
                let operation = state.slots[index as usize].as_mut().expect("the slot is taken");
                match operation.progress {
                    Progress::Done(_) => state.vacate(index),
                    _ => operation.progress = Progress::Abandoned,
                }
            }
            Stage::Ended => return,
        }
        self.shared.wake_next(state);
    }
}

impl State {
    fn queue_up(&mut self, ticket: &mut Option<u64>, waker: &Waker) {
        if let Some(ticket) = *ticket {
            let place = self.waiting.iter_mut().find(|(other, _)| *other == ticket);
            place.expect("a ticket is in the queue").1.clone_from(waker);
        } else {
            *ticket = Some(self.next_ticket);
            self.waiting.push_back((self.next_ticket, waker.clone()));
            self.next_ticket += 1;
        }
    }

    fn leave_queue(&mut self, ticket: Option<u64>) {
        if let Some(ticket) = ticket {
            self.waiting.retain(|(other, _)| *other != ticket);
        }
    }
}

impl Shared {
    /// Passes a place that became free to whoever waits longest.
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
