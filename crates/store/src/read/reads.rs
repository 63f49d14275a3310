//! The state of reading from one device on which the core bases its decisions, and counters.

use std::collections::BTreeMap;
use std::task::Waker;

use device::{Extent, Nanos};

use crate::config::options::Options;
use crate::read::ahead::ReadAhead;
use crate::read::device_cost::{CostMeter, ReadCost};
use crate::read::queue::{QueueCounters, QueueOptions, ReadQueue, Ticket, Turn};
use crate::read::window::{Memory, ReadWindow};

/// Nanoseconds of a read from which neighbours are worth verifying and copying at once: they enter
/// the tier, where no object is kept twice, instead of read-ahead. They do so until reads take half
/// as long.
const SLOW: f64 = 1_000_000.0;

/// Number of consecutive reads whose cost must call for another division of memory.
const AGREED: u32 = 1_000;

/// Returns the maximum number of bytes that a read takes along on either side.
fn most_at_once(tier: usize, ahead: usize) -> u64 {
    let most = if ahead > 0 { ahead / 8 } else { tier / 32 };
    most as u64
}

/// Counters of the reads for lookups, since the store was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadCounters {
    /// Reads of a single record.
    pub exact: u64,
    /// Reads of a record with some of its neighbours.
    pub windows: u64,
    /// Reads of whole clusters.
    pub clusters: u64,
    /// Total size of all reads, in bytes.
    pub bytes: u64,
    /// Lookups that waited for another lookup's read, which also covered their record.
    pub joined: u64,
    /// Batches of the read queue.
    pub batches: u64,
    /// Reads in those batches.
    pub batched: u64,
    /// Batches that went out because of the timeout.
    pub batch_timeouts: u64,
}

/// The timing of a completed read, for the cost meter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadTiming {
    pub(crate) begin: Nanos,
    pub(crate) end: Nanos,
    /// Bytes that the device transferred.
    pub(crate) bytes: u64,
}

/// Identifies a read that other lookups may wait for.
pub(crate) type WindowId = u64;

/// A read in flight that others may wait for, because it includes neighbours or is of a piece.
struct InFlight {
    id: WindowId,
    len: u64,
    waiters: Vec<Waker>,
}

/// The state of reading from one device. See the module documentation.
pub(crate) struct Reads {
    queue: ReadQueue,
    window: ReadWindow,
    cost: CostMeter,
    counters: ReadCounters,
    /// Records that reads brought along, in clusters.
    ahead: ReadAhead,
    /// Capacity of `ahead` on a fast device, in bytes, and with that of the tier.
    shares: [usize; 2],
    /// Consecutive reads by whose cost memory should be divided differently.
    agreed: u32,
    /// [`Options::read_window_max`].
    window_max: u64,
    /// Reads in flight, by the offset of their extents.
    under_way: BTreeMap<u64, InFlight>,
    next_id: WindowId,
}

impl Reads {
    /// Returns the state for these `options`. If `ahead` is not 0, neighbours are kept in `ahead`
    /// bytes of memory, and one read takes at most an eighth of that to either side. Otherwise they
    /// enter the tier of `tier` bytes, and one read takes at most a thirty-second of that.
    pub(crate) fn new(options: &Options, tier: usize, ahead: usize) -> Reads {
        let most = options.read_window_max.min(most_at_once(tier, ahead));
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
            shares: [ahead, tier + ahead],
            agreed: 0,
            window_max: options.read_window_max,
            under_way: BTreeMap::new(),
            next_id: 0,
        }
    }

    /// Adds a read at `offset` to the queue. Without a ticket the read need not wait for its turn.
    pub(crate) fn join(&mut self, offset: u64, now: Nanos) -> Option<Ticket> {
        self.queue.join(offset, now)
    }

    /// Returns whether it is a read's turn. `waker` is woken when that may have changed.
    pub(crate) fn turn(&mut self, ticket: Ticket, now: Nanos, waker: &Waker) -> Turn {
        self.queue.poll(ticket, now, waker)
    }

    /// Records that a read whose turn it was has been submitted to the device.
    pub(crate) fn begun(&mut self) {
        self.queue.begun();
    }

    /// Records that a read with a ticket has ended, successfully or not.
    pub(crate) fn ended(&mut self, ticket: Ticket, now: Nanos) {
        self.queue.ended(ticket, now);
    }

    /// Sets whether reads wait for others from now on.
    pub(crate) fn hold(&mut self, holds: bool, now: Nanos) {
        self.queue.hold(holds, now);
    }

    /// Records the cost of a read for a lookup.
    pub(crate) fn measured(&mut self, timing: ReadTiming) {
        self.counters.bytes += timing.bytes;
        self.cost.read(timing.bytes, timing.begin, timing.end);
    }

    /// Returns the cost of reads on the device and the number of reads on which it is based.
    pub(crate) fn cost(&self) -> (ReadCost, u64) {
        (self.cost.cost(), self.cost.reads())
    }

    /// Begins or ends to keep read-ahead apart from the tier, by the cost of a read. Returns the
    /// new capacity of the tier, in bytes, if it changes.
    pub(crate) fn share_memory(&mut self) -> Option<usize> {
        let [ahead, all] = self.shares;
        let cost = self.cost.cost().per_operation;
        let wanted = match self.ahead.capacity() {
            0 if cost < SLOW / 2.0 => ahead,
            0 => 0,
            _ if cost > SLOW => 0,
            kept => kept,
        };
        if wanted == self.ahead.capacity() {
            self.agreed = 0;
            return None;
        }
        // A burst or a stall is no reason to move memory.
        self.agreed += 1;
        if self.agreed < AGREED {
            return None;
        }
        self.agreed = 0;
        self.ahead.set_capacity(wanted);
        self.window.set_most(self.window_max.min(most_at_once(all - wanted, wanted)));
        Some(all - wanted)
    }

    /// Returns the records that reads brought along.
    pub(crate) fn ahead(&self) -> &ReadAhead {
        &self.ahead
    }

    /// Returns the same, mutably.
    pub(crate) fn ahead_mut(&mut self) -> &mut ReadAhead {
        &mut self.ahead
    }

    /// Counts a lookup that waits for another lookup's read.
    pub(crate) fn count_joined(&mut self) {
        self.counters.joined += 1;
    }

    /// Counts a read of a single record.
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

    /// Returns the counters.
    pub(crate) fn counters(&self) -> ReadCounters {
        let QueueCounters { batches, reads, timeouts } = self.queue.counters();
        ReadCounters { batches, batched: reads, batch_timeouts: timeouts, ..self.counters }
    }

    /// Returns the extent to read for `record`, which lies in `run`, within `bounds`.
    pub(crate) fn choose(
        &mut self,
        record: Extent,
        run: Extent,
        bounds: Extent,
        memory: Memory,
    ) -> Extent {
        let cost: ReadCost = self.cost.cost();
        self.window.choose(record, run, bounds, cost, memory)
    }

    /// Records the start of a read of `extent`, with neighbours, for `record`, which lies in `run`.
    pub(crate) fn begin_window(&mut self, record: Extent, run: Extent, extent: Extent) -> WindowId {
        self.window.read(record, run, extent);
        self.begin_read(extent)
    }

    /// Records the start of a read of a single record that other lookups may also want.
    pub(crate) fn begin_read(&mut self, extent: Extent) -> WindowId {
        self.next_id += 1;
        let under_way = InFlight { id: self.next_id, len: extent.len, waiters: Vec::new() };
        if let Some(before) = self.under_way.insert(extent.offset, under_way) {
            before.waiters.into_iter().for_each(Waker::wake);
        }
        self.next_id
    }

    /// Returns the read in flight that covers `record`, if any.
    pub(crate) fn covering(&self, record: Extent) -> Option<WindowId> {
        // Windows may overlap. The nearest one before the record is the likeliest; a few earlier
        // ones are checked too.
        let mut before = self.under_way.range(..=record.offset).rev().take(4);
        before
            .find(|(offset, window)| *offset + window.len >= record.end())
            .map(|(_, window)| window.id)
    }

    /// Returns whether a window is still in flight. `waker` is woken when it has ended.
    pub(crate) fn await_window(&mut self, id: WindowId, waker: &Waker) -> bool {
        let Some(window) = self.under_way.values_mut().find(|window| window.id == id) else {
            return false;
        };
        if !window.waiters.iter().any(|other| other.will_wake(waker)) {
            window.waiters.push(waker.clone());
        }
        true
    }

    /// Records that a window has ended, successfully or not.
    pub(crate) fn end_window(&mut self, id: WindowId) {
        let offset = self.under_way.iter().find(|(_, window)| window.id == id);
        if let Some(offset) = offset.map(|(offset, _)| *offset)
            && let Some(window) = self.under_way.remove(&offset)
        {
            window.waiters.into_iter().for_each(Waker::wake);
        }
    }
}
