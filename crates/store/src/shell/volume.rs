//! A volume: one device with its core. Its methods lock the core, let it decide, unlock it, await
//! the device, lock again and commit. There is at most one locked section between two awaits.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::task::{Poll, Waker};

use bytes::Bytes;
use device::{BufPool, Clock, Device, Extent, IoBuf, Nanos, Operation};

use crate::base::digest::Digester;
use crate::base::event::Event;
use crate::base::keyed_checksum::Secret;
use crate::base::labels::{Mode, Target};
use crate::base::now::Now;
use crate::base::record::Place;
use crate::base::refusal::Refusal;
use crate::config::options::Options;
use crate::core::{
    Constants, Core, Counted, Goal, NewObject, Purged, PurgesFull, TryInsert, WaiterId, Wanted,
};
use crate::format::device_layout::Areas;
use crate::format::journal::JournalPosition;
use crate::shell::core_lock::{CoreGuard, CoreLock, LockFigures};
use crate::shell::operation_times::OperationTimes;
use crate::shell::reader::read_aligned;
use crate::shell::write_breaker::WriteBreaker;
use crate::space::Split;
use crate::space::slots::page_write::assemble;

/// Number of consecutive device failures after which the device is given up.
const ERRORS_MAX: u32 = 16;

/// Attempts at reading data that must not be lost.
const READ_ATTEMPTS: u32 = 4;

/// The name of a read in reports of its failure.
const READ: &str = "read";

/// Nanoseconds between two read attempts on a stalled device.
const PROBE_INTERVAL: Nanos = 1_000_000_000;

/// The state of a volume that all workers share.
pub(crate) struct Shared {
    core: CoreLock,
    /// Number of the device, for events.
    pub(crate) number: usize,
    /// Identity of the cache on the device.
    pub(crate) uuid: [u8; 16],
    /// The division of the device into areas.
    pub(crate) areas: Areas,
    /// True if records lie in clusters rather than slots.
    pub(crate) in_clusters: bool,
    pub(crate) options: Arc<Options>,
    pub(crate) secret: Arc<Secret>,
    pub(crate) digester: Digester,
    pub(crate) buffers: BufPool,
    /// Bytes of body in a piece of a large object.
    pub(crate) piece_size: u32,
    /// Size of the largest record, in bytes.
    pub(crate) record_max: usize,
    /// Size of the largest object, in bytes.
    pub(crate) object_max: u64,
    /// Weight of the device for the placement of objects in the store.
    pub(crate) weight: u64,
    errors_in_a_row: AtomicU32,
    /// Sequence number of the newest purge, readable without the lock.
    newest_purge: AtomicU64,
    /// True if a read took longer than the stall bound and none has succeeded since.
    stalled: AtomicBool,
    /// Time of the last read attempt on a stalled device.
    probed_at: AtomicU64,
    pub(crate) write_breaker: WriteBreaker,
    pub(crate) times: OperationTimes,
}

impl Shared {
    pub(crate) fn new(core: Core, number: usize) -> Shared {
        let constants = core.constants();
        let Constants { areas, options, .. } = constants;
        let weight = u64::from(areas.clusters) * u64::from(areas.cluster_size);
        Shared {
            number,
            uuid: constants.uuid,
            areas,
            in_clusters: constants.in_clusters,
            object_max: options.object_max.unwrap_or(weight / 4),
            options,
            secret: constants.secret,
            digester: constants.digester,
            buffers: BufPool::new(constants.buffers_max),
            piece_size: constants.piece_size,
            record_max: constants.record_max,
            weight,
            errors_in_a_row: AtomicU32::new(0),
            // Fetches begin after all purges of earlier runs.
            newest_purge: AtomicU64::new(0),
            stalled: AtomicBool::new(false),
            probed_at: AtomicU64::new(0),
            write_breaker: WriteBreaker::default(),
            times: OperationTimes::default(),
            core: CoreLock::new(core),
        }
    }

    pub(crate) fn lock(&self) -> CoreGuard<'_> {
        self.core.lock()
    }

    /// Returns the statistics of the lock.
    pub(crate) fn lock_figures(&self) -> LockFigures {
        self.core.figures()
    }

    /// Returns the sequence number of the newest purge of a label, a prefix or everything.
    pub(crate) fn newest_purge(&self) -> u64 {
        self.newest_purge.load(Ordering::Acquire)
    }

    pub(crate) fn emit(&self, event: Event) {
        (self.options.on_event)(event);
    }

    /// Records the result of a device operation. Gives up the device after too many failures.
    pub(crate) fn record_result<T>(
        &self,
        operation: &str,
        offset: u64,
        result: std::io::Result<T>,
    ) -> Option<T> {
        let error = match result {
            Ok(value) => {
                self.errors_in_a_row.store(0, Ordering::Relaxed);
                if operation == READ {
                    self.stalled.store(false, Ordering::Relaxed);
                }
                return Some(value);
            }
            Err(error) => error,
        };
        // A stalled device may recover: it is left alone for a while, not given up.
        let stalls = error.kind() == std::io::ErrorKind::TimedOut;
        let errors = if stalls {
            self.stalled.store(true, Ordering::Relaxed);
            0
        } else {
            self.errors_in_a_row.fetch_add(1, Ordering::Relaxed) + 1
        };
        self.lock().count(Counted::DeviceError);
        self.emit(Event::DeviceError {
            device: self.number,
            operation: format!("{operation} at byte {offset}"),
            error: error.to_string(),
        });
        if errors >= ERRORS_MAX {
            self.take_offline(format!("{errors} operations in a row failed"));
        }
        None
    }

    /// Returns whether a read may be attempted. On a stalled device this is one per second, so that
    /// not every request waits for the stall bound.
    pub(crate) fn may_read(&self, now: Nanos) -> bool {
        if !self.stalled.load(Ordering::Relaxed) {
            return true;
        }
        let last = self.probed_at.load(Ordering::Relaxed);
        now.saturating_sub(last) >= PROBE_INTERVAL
            && self
                .probed_at
                .compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
    }

    /// Returns whether a read took longer than the stall bound and none has succeeded since.
    pub(crate) fn stalls(&self) -> bool {
        self.stalled.load(Ordering::Relaxed)
    }

    pub(crate) fn take_offline(&self, reason: String) {
        if self.lock().go_offline() {
            self.emit(Event::Offline { device: self.number, reason });
        }
    }
}

/// One worker's handle to a volume.
pub(crate) struct Volume<D: Device, C: Clock> {
    pub(crate) shared: Arc<Shared>,
    pub(crate) device: Rc<D>,
    pub(crate) clock: C,
}

impl<D: Device, C: Clock> Volume<D, C> {
    pub(crate) fn new(shared: Arc<Shared>, device: Rc<D>, clock: C) -> Self {
        Volume { shared, device, clock }
    }

    pub(crate) fn now(&self) -> Now {
        Now { monotonic: self.clock.now(), unix: self.clock.unix_seconds() as u32 }
    }

    /// Joins the bytes of a record whose first run is `first`. Returns empty bytes if the runs do
    /// not fit together, and `None` if a read failed.
    pub(crate) async fn join_runs(
        &self,
        place: Place,
        first: Bytes,
        split: Option<&Split>,
    ) -> Option<Bytes> {
        let Some(split) = split else { return Some(first) };
        let reads = split.further.iter().map(|extent| self.read(*extent));
        let further = crate::base::join::values(reads.collect()).await;
        let mut parts = vec![first];
        for part in further {
            parts.push(part?);
        }
        let secret = &self.shared.secret;
        let whole = assemble(secret, place.incarnation, &split.runs, &parts);
        Some(whole.unwrap_or_default())
    }

    /// Reads an extent of any alignment. Returns `None` after a failure, which is recorded. A read
    /// that takes longer than the stall bound fails.
    pub(crate) async fn read(&self, extent: Extent) -> Option<Bytes> {
        self.read_reporting(extent, |len| self.shared.buffers.take(len), || {}).await
    }

    /// Reads like [`Volume::read`], into a buffer obtained from `take`. Calls `begun` once the read
    /// has been submitted to the device.
    pub(crate) async fn read_reporting(
        &self,
        extent: Extent,
        take: impl FnOnce(usize) -> IoBuf,
        begun: impl FnOnce(),
    ) -> Option<Bytes> {
        let started = self.clock.now();
        let deadline = started + self.shared.options.stall_bound.as_nanos() as Nanos;
        let mut read = pin!(read_aligned(&*self.device, take, extent));
        let mut stalled = pin!(self.clock.sleep_until(deadline));
        let mut begun = Some(begun);
        let result = poll_fn(|context| {
            let polled = read.as_mut().poll(context);
            if let Some(begun) = begun.take() {
                begun();
            }
            if let Poll::Ready(result) = polled {
                return Poll::Ready(result);
            }
            stalled.as_mut().poll(context).map(|()| {
                self.shared.probed_at.store(self.clock.now(), Ordering::Relaxed);
                Err(std::io::Error::from(std::io::ErrorKind::TimedOut))
            })
        })
        .await;
        self.shared.times.add(Operation::Read, self.clock.now().saturating_sub(started));
        self.shared.record_result(READ, extent.offset, result)
    }

    /// Reads data that would be lost for good if the read failed. Retries, because a transient
    /// error or a device that stalls for a while must not cost the data.
    pub(crate) async fn read_with_retries(&self, extent: Extent) -> Option<Bytes> {
        for _ in 0..READ_ATTEMPTS {
            // After a stall the next attempt waits for the stall bound again.
            if let Some(bytes) = self.read(extent).await {
                return Some(bytes);
            }
            if !self.shared.lock().status().online {
                return None;
            }
        }
        None
    }

    pub(crate) fn areas(&self) -> &Areas {
        &self.shared.areas
    }

    /// Writes `bytes` (padded to whole blocks) at `offset`.
    pub(crate) async fn write(&self, offset: u64, bytes: &[u8]) -> Option<()> {
        let mut buf = IoBuf::zeroed(bytes.len().next_multiple_of(device::WRITE_ALIGN as usize));
        buf[..bytes.len()].copy_from_slice(bytes);
        let result = self.watched(Operation::Write, self.device.write(offset, buf.freeze())).await;
        self.shared.record_result("write", offset, result)
    }

    pub(crate) async fn flush(&self) -> Option<()> {
        let result = self.watched(Operation::Flush, self.device.flush()).await;
        self.shared.record_result("flush", 0, result)
    }

    /// Inserts an object. Waits for space up to the write bound, but not while writes stall.
    pub(crate) async fn insert(&self, new: NewObject) -> Result<Option<JournalPosition>, Refusal> {
        let mut new = Some(new);
        let attempt = |new: &mut Option<NewObject>| {
            let now = self.now();
            let mut core = self.shared.lock();
            let taken = new.take().expect("what waits comes back");
            match core.try_insert(taken, now) {
                TryInsert::Done(up_to) => Some(Ok(up_to)),
                TryInsert::Refused(refusal) => Some(Err(refusal)),
                TryInsert::Wait(back) => {
                    *new = Some(back);
                    None
                }
            }
        };
        let room = Wanted::Space(new.as_ref().map_or(0, |new| new.record.len()));
        if let Some(result) = attempt(&mut new) {
            return result;
        }
        self.until(self.write_deadline(), room, || attempt(&mut new))
            .await
            .unwrap_or(Err(Refusal::Busy))
    }

    /// Records a purge. It is complete when the journal is durable up to the returned position.
    pub(crate) fn begin_purge(
        &self,
        targets: &[Target<'_>],
        mode: Mode,
        at: Option<u32>,
    ) -> JournalPosition {
        let now = self.now();
        let mut core = self.shared.lock();
        let at = at.unwrap_or(now.unix);
        let Purged { up_to, newest, report } = core.purge(targets, (mode, at), now);
        self.shared.newest_purge.store(newest, Ordering::Release);
        drop(core);
        if let Some(PurgesFull { entries, max, merged }) = report {
            self.shared.emit(Event::PurgesFull {
                device: self.shared.number,
                entries,
                max,
                merged,
            });
        }
        up_to
    }

    /// Returns the deadline of a read, and of a caller that waits for a purge.
    pub(crate) fn stall_deadline(&self) -> Nanos {
        self.clock.now() + self.shared.options.stall_bound.as_nanos() as Nanos
    }

    /// Returns the deadline for waiting for the background while a client waits for a response.
    pub(crate) fn write_deadline(&self) -> Nanos {
        self.clock.now() + self.shared.options.write_bound.as_nanos() as Nanos
    }

    /// Waits until `ready` returns a value; calls it again whenever `wanted` may be available.
    /// Returns `None` if the deadline passes first or writes stall.
    pub(crate) async fn until<T>(
        &self,
        deadline: Nanos,
        wanted: Wanted,
        mut ready: impl FnMut() -> Option<T>,
    ) -> Option<T> {
        let stalls = || self.shared.write_breaker.is_open().then_some(None);
        self.wait(deadline, wanted, || ready().map(Some).or_else(stalls)).await.flatten()
    }

    /// Waits like [`Volume::until`], also while writes stall.
    async fn wait<T>(
        &self,
        deadline: Nanos,
        wanted: Wanted,
        mut ready: impl FnMut() -> Option<T>,
    ) -> Option<T> {
        let mut sleep = pin!(self.clock.sleep_until(deadline));
        let mut waiting = Waiting { shared: &self.shared, id: None };
        poll_fn(|context| {
            // Registered before the check, so that a change in between wakes this task.
            waiting.wait(wanted, context.waker());
            if let Some(value) = ready() {
                return Poll::Ready(Some(value));
            }
            sleep.as_mut().poll(context).map(|()| None)
        })
        .await
    }

    /// Waits until the background has reached `goal`.
    ///
    /// # Errors
    /// `Offline`: the device was given up. `Busy`: the deadline passed first, or writes stall; the
    /// background continues.
    pub(crate) async fn reach(&self, goal: Goal, deadline: Nanos) -> Result<(), Refusal> {
        let check = || self.shared.lock().reach(goal, self.now());
        match self.until(deadline, goal.wanted(), check).await {
            Some(true) => Ok(()),
            Some(false) => Err(Refusal::Offline),
            None => Err(Refusal::Busy),
        }
    }

    /// Waits for `goal`, also while writes stall: up to the stall bound, and again if the process
    /// was paused meanwhile, and the background with it. Returns false if the goal was not reached.
    pub(crate) async fn reach_despite_stalls(&self, goal: Goal) -> bool {
        let check = || self.shared.lock().reach(goal, self.now());
        loop {
            let deadline = self.stall_deadline();
            if let Some(is_reached) = self.wait(deadline, goal.wanted(), check).await {
                return is_reached;
            }
            if self.clock.now() <= deadline + PAUSE {
                return false;
            }
        }
    }
}

/// A timer that is this late in nanoseconds tells that the process was paused.
const PAUSE: Nanos = 100_000_000;

/// A registered waiter, removed on drop.
struct Waiting<'a> {
    shared: &'a Shared,
    /// `None` until it is registered.
    id: Option<WaiterId>,
}

impl Waiting<'_> {
    fn wait(&mut self, wanted: Wanted, waker: &Waker) {
        self.id = Some(self.shared.lock().wait(self.id, wanted, waker));
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            self.shared.lock().stop_waiting(id);
        }
    }
}
