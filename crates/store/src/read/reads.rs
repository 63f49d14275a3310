//! How one device is read: what the core keeps to decide on it, and what it counted.

use std::collections::BTreeMap;
use std::task::Waker;

use device::{Extent, Nanos};

use crate::config::options::Options;
use crate::read::ahead::ReadAhead;
use crate::read::device_cost::{CostMeter, ReadCost};
use crate::read::queue::{QueueCounters, QueueOptions, ReadQueue, Ticket, Turn};
use crate::read::window::{Memory, ReadWindow};

/// How the reads for lookups went, since the store was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadCounters {
    /// Reads of just a record.
    pub exact: u64,
    /// Reads of a record with some of its neighbours.
    pub windows: u64,
    /// Reads of whole clusters.
    pub clusters: u64,
    /// Bytes of all of them.
    pub bytes: u64,
    /// Lookups that waited for another's read, which brought their record along.
    pub joined: u64,
    /// Batches of the read queue.
    pub batches: u64,
    /// Reads in them.
    pub batched: u64,
    /// Batches that went out because a read had waited for long enough.
    pub batch_timeouts: u64,
}

/// A read that was done, for the cost meter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadTiming {
    pub(crate) begin: Nanos,
    pub(crate) end: Nanos,
    /// Bytes that the device moved.
    pub(crate) bytes: u64,
}

/// The number of a read that others may wait for.
pub(crate) type WindowId = u64;

/// A read under way that others may wait for: it takes neighbours along, or is of a piece.
struct InFlight {
    id: WindowId,
    len: u64,
    waiters: Vec<Waker>,
}

/// The state of reading. See the module.
pub(crate) struct Reads {
    queue: ReadQueue,
    window: ReadWindow,
    cost: CostMeter,
    counters: ReadCounters,
    /// What came along beside what was asked for, in clusters read by runs.
    ahead: ReadAhead,
    /// By the offset of their extents.
    under_way: BTreeMap<u64, InFlight>,
    next_id: WindowId,
}

impl Reads {
    /// As `options` say. What comes along has `ahead` bytes of memory, of which one read brings an
    /// eighth to either side at most, or else is in the tier of `tier` bytes, of which it brings a
    /// thirty-second.
    pub(crate) fn new(options: &Options, tier: usize, ahead: usize) -> Reads {
        let most = if ahead > 0 { ahead / 8 } else { tier / 32 };
        let most = options.read_window_max.min(most as u64);
        Reads {
            queue: ReadQueue::new(QueueOptions {
                batch: options.read_batch.max(1),
                timeout: options.read_batch_timeout.as_nanos() as Nanos,
                split: options.read_batch_split,
            }),
            window: ReadWindow::new(most),
            cost: CostMeter::new(),
            counters: ReadCounters::default(),
            ahead: ReadAhead::new(ahead),
            under_way: BTreeMap::new(),
            next_id: 0,
        }
    }

    /// Puts a read at `offset` into the queue; without a ticket it need not wait for its turn.
    pub(crate) fn join(&mut self, offset: u64, now: Nanos) -> Option<Ticket> {
        self.queue.join(offset, now)
    }

    /// Says whether it is a read's turn; `waker` is woken when that may have changed.
    pub(crate) fn turn(&mut self, ticket: Ticket, now: Nanos, waker: &Waker) -> Turn {
        self.queue.poll(ticket, now, waker)
    }

    /// Notes that a read whose turn it was is in the device's hands.
    pub(crate) fn begun(&mut self) {
        self.queue.begun();
    }

    /// Notes that a read that had a ticket has ended, well or not.
    pub(crate) fn ended(&mut self, ticket: Ticket, now: Nanos) {
        self.queue.ended(ticket, now);
    }

    /// Sets whether reads wait for others from now on.
    pub(crate) fn hold(&mut self, holds: bool, now: Nanos) {
        self.queue.hold(holds, now);
    }

    /// Notes what a read for a lookup cost.
    pub(crate) fn measured(&mut self, timing: ReadTiming) {
        self.counters.bytes += timing.bytes;
        self.cost.read(timing.bytes, timing.begin, timing.end);
    }

    /// What a read costs on the device, and how many reads that is known from.
    pub(crate) fn cost(&self) -> (ReadCost, u64) {
        (self.cost.cost(), self.cost.reads())
    }

    /// What came along beside what was asked for, and is kept as it was read.
    pub(crate) fn ahead(&self) -> &ReadAhead {
        &self.ahead
    }

    /// The same, to be changed.
    pub(crate) fn ahead_mut(&mut self) -> &mut ReadAhead {
        &mut self.ahead
    }

    /// Counts a lookup that waits for another's read.
    pub(crate) fn count_joined(&mut self) {
        self.counters.joined += 1;
    }

    /// Counts a read of just a record.
    pub(crate) fn count_exact(&mut self) {
        self.counters.exact += 1;
    }

    /// Counts a read of a record with some of its neighbours.
    pub(crate) fn count_window(&mut self) {
        self.counters.windows += 1;
    }

    /// Counts a read of a whole cluster.
    pub(crate) fn count_cluster(&mut self) {
        self.counters.clusters += 1;
    }

    /// What has been counted.
    pub(crate) fn counters(&self) -> ReadCounters {
        let QueueCounters { batches, reads, timeouts } = self.queue.counters();
        ReadCounters { batches, batched: reads, batch_timeouts: timeouts, ..self.counters }
    }

    /// What a read for `record` takes, within `bounds`.
    pub(crate) fn choose(&mut self, record: Extent, bounds: Extent, memory: Memory) -> Extent {
        let cost: ReadCost = self.cost.cost();
        self.window.choose(record, bounds, cost, memory)
    }

    /// A read for `record` of all of `extent` begins.
    pub(crate) fn begin_window(&mut self, record: Extent, extent: Extent) -> WindowId {
        self.window.read(record, extent);
        self.begin_read(extent)
    }

    /// A read of just a record begins that others may want as well.
    pub(crate) fn begin_read(&mut self, extent: Extent) -> WindowId {
        self.next_id += 1;
        let under_way = InFlight { id: self.next_id, len: extent.len, waiters: Vec::new() };
        if let Some(before) = self.under_way.insert(extent.offset, under_way) {
            before.waiters.into_iter().for_each(Waker::wake);
        }
        self.next_id
    }

    /// The read under way, if any, that brings `record` along.
    pub(crate) fn covering(&self, record: Extent) -> Option<WindowId> {
        // Windows of one record each overlap in places; the nearest one before is the likeliest,
        // and those that miss it by little may be found too.
        let mut before = self.under_way.range(..=record.offset).rev().take(4);
        before
            .find(|(offset, window)| *offset + window.len >= record.end())
            .map(|(_, window)| window.id)
    }

    /// Whether a window is still under way; `waker` is woken when it is no more.
    pub(crate) fn await_window(&mut self, id: WindowId, waker: &Waker) -> bool {
        let Some(window) = self.under_way.values_mut().find(|window| window.id == id) else {
            return false;
        };
        if !window.waiters.iter().any(|other| other.will_wake(waker)) {
            window.waiters.push(waker.clone());
        }
        true
    }

    /// A window has ended, well or not.
    pub(crate) fn end_window(&mut self, id: WindowId) {
        let offset = self.under_way.iter().find(|(_, window)| window.id == id);
        if let Some(offset) = offset.map(|(offset, _)| *offset)
            && let Some(window) = self.under_way.remove(&offset)
        {
            window.waiters.into_iter().for_each(Waker::wake);
        }
    }
}
