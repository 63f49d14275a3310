//! The simulated machine below a cache: virtual time, and one drive whose work is measured.
//!
//! A scaled-down cache would occupy few tracks of the paper's disk, and its seeks would be short.
//! Its space can therefore be spread, piece by piece, over the region of the paper's cache, which
//! preserves distances.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use device::Nanos;
use sim::drives::{self, Drive, SECTOR};
use sim::{Executor, Handle, Order, SimDisk};

use super::CacheError;

/// Wall-clock time at which runs begin, in Unix seconds.
const START: u64 = 1_000_000_000;
/// Bytes of a piece, which stays contiguous when a space is spread.
const PIECE: u64 = 1 << 20;

/// The drive's work on one kind of operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DriveTime {
    /// Number of operations.
    pub operations: u64,
    /// Bytes transferred.
    pub bytes: u64,
    /// Nanoseconds that the drive was busy with them.
    pub busy: Nanos,
}

impl DriveTime {
    fn since(&self, before: &DriveTime) -> DriveTime {
        DriveTime {
            operations: self.operations - before.operations,
            bytes: self.bytes - before.bytes,
            busy: self.busy - before.busy,
        }
    }
}

/// The work of a drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Work on reads.
    pub reads: DriveTime,
    /// Work on writes.
    pub writes: DriveTime,
    /// Work on flushes.
    pub flushes: DriveTime,
}

impl Usage {
    /// Returns the nanoseconds that the drive was busy.
    pub fn busy(&self) -> Nanos {
        self.reads.busy + self.writes.busy + self.flushes.busy
    }

    /// Returns the work since `before`.
    pub fn since(&self, before: &Usage) -> Usage {
        Usage {
            reads: self.reads.since(&before.reads),
            writes: self.writes.since(&before.writes),
            flushes: self.flushes.since(&before.flushes),
        }
    }
}

/// The location of a space on the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// First byte on the drive, a multiple of 1 MiB.
    pub start: u64,
    /// Bytes on the drive over which the space is spread; at least `len`.
    pub spread: u64,
    /// Size of the space in bytes, a multiple of 1 MiB.
    pub len: u64,
}

/// A simulated machine.
pub struct Machine {
    executor: Executor,
    drive: Rc<RefCell<Box<dyn Drive>>>,
    /// When the drive will have completed all requests.
    free: Rc<Cell<Nanos>>,
    usage: Rc<Cell<Usage>>,
}

impl Machine {
    /// Creates a machine with this drive. It has no randomness: equal runs are equal.
    pub fn new(drive: Box<dyn Drive>) -> Machine {
        let executor = Executor::new(None, START);
        let drive = Rc::new(RefCell::new(drive));
        Machine { executor, drive, free: Rc::default(), usage: Rc::default() }
    }

    /// Returns the machine's clock.
    pub fn clock(&self) -> Handle {
        self.executor.handle()
    }

    /// Returns the work of its drive so far.
    pub fn usage(&self) -> Usage {
        self.usage.get()
    }

    /// Creates a disk with blocks of `block` bytes on a part of the drive. Waiting requests are
    /// sorted by position, as kernels do. Parts must not overlap.
    ///
    /// # Errors
    /// The region is not aligned or does not fit on the drive.
    pub fn disk(&self, region: Region, block: u32) -> Result<SimDisk, CacheError> {
        let Region { start, spread, len } = region;
        let sectors = self.drive.borrow().sectors();
        let whole = [start, len].iter().all(|bytes| bytes.is_multiple_of(PIECE));
        if !whole || len == 0 || spread < len || start + spread > sectors * SECTOR {
            let has = sectors * SECTOR;
            let why = format!("{len} bytes do not fit on {spread} from {start} of {has} on");
            return Err(CacheError(why));
        }
        let part = Part {
            drive: Rc::clone(&self.drive),
            free: Rc::clone(&self.free),
            usage: Rc::clone(&self.usage),
            region,
        };
        let order = Order::Sweep;
        let options =
            sim::Options { block, len: Some(len), power_loss: false, order, ..Default::default() };
        Ok(SimDisk::new(self.clock(), Box::new(part), options))
    }

    /// Runs a future to its end.
    ///
    /// # Errors
    /// It hangs.
    pub fn run<T>(&self, future: impl Future<Output = T>) -> Result<T, CacheError> {
        self.executor.try_run(Nanos::MAX, future).map_err(|stop| CacheError(stop.to_string()))
    }
}

/// A part of a drive that is shared by several disks; the drive serves the requests of all parts.
struct Part {
    drive: Rc<RefCell<Box<dyn Drive>>>,
    free: Rc<Cell<Nanos>>,
    usage: Rc<Cell<Usage>>,
    region: Region,
}

impl Part {
    /// Returns the drive's sector at which a piece of the space begins.
    fn place(&self, piece: u64) -> u64 {
        let Region { start, spread, len } = self.region;
        let (pieces, places) = (len / PIECE, spread / PIECE);
        (start / PIECE + piece * places / pieces) * (PIECE / SECTOR)
    }

    fn serve_pieces(&self, mut now: Nanos, request: drives::Request) -> Nanos {
        let mut drive = self.drive.borrow_mut();
        if request.sectors == 0 || self.region.spread == self.region.len {
            let sector = request.sector + self.region.start / SECTOR;
            return drive.serve(now, drives::Request { sector, ..request });
        }
        let piece = PIECE / SECTOR;
        let (mut at, end) = (request.sector, request.sector + request.sectors);
        while at < end {
            let next = ((at / piece + 1) * piece).min(end);
            let sector = self.place(at / piece) + at % piece;
            now = drive.serve(now, drives::Request { sector, sectors: next - at, ..request });
            at = next;
        }
        now
    }
}

impl Drive for Part {
    fn sectors(&self) -> u64 {
        self.region.len / SECTOR
    }

    fn depth(&self) -> usize {
        self.drive.borrow().depth()
    }

    fn serve(&mut self, now: Nanos, request: drives::Request) -> Nanos {
        // On a drive that serves one request at a time, requests of the other parts wait.
        let start = match self.depth() {
            1 => now.max(self.free.get()),
            _ => now,
        };
        let done = self.serve_pieces(start, request);
        self.free.set(done.max(self.free.get()));
        let mut usage = self.usage.get();
        let time = match request.operation {
            drives::Operation::Read => &mut usage.reads,
            drives::Operation::Write => &mut usage.writes,
            drives::Operation::Flush => &mut usage.flushes,
        };
        time.operations += 1;
        time.bytes += request.sectors * SECTOR;
        time.busy += done - start;
        self.usage.set(usage);
        done
    }
}
