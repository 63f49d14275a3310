//! The simulated machine below a cache: virtual time, and one drive whose work is measured.
//!
//! A scaled-down cache would lie on a few tracks of the paper's disk, and its seeks would be short.
//! So its space can be spread, piece by piece, over the region that the paper's cache took: what is
//! far apart there is as far apart here.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use device::Nanos;
use sim::drives::{self, Drive, SECTOR};
use sim::{Executor, Handle, Order, SimDisk};

use super::CacheError;

/// The wall time at which runs begin, in unix seconds.
const START: u64 = 1_000_000_000;
/// Bytes of a piece, within which sectors stay neighbours when a space is spread.
const PIECE: u64 = 1 << 20;

/// What operations of one kind took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DriveTime {
    /// How many there were.
    pub operations: u64,
    /// Bytes that they moved.
    pub bytes: u64,
    /// Nanoseconds that the drive worked on them.
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

/// What a drive did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Reads.
    pub reads: DriveTime,
    /// Writes.
    pub writes: DriveTime,
    /// Flushes.
    pub flushes: DriveTime,
}

impl Usage {
    /// Nanoseconds that the drive worked.
    pub fn busy(&self) -> Nanos {
        self.reads.busy + self.writes.busy + self.flushes.busy
    }

    /// What was added since `before`.
    pub fn since(&self, before: &Usage) -> Usage {
        Usage {
            reads: self.reads.since(&before.reads),
            writes: self.writes.since(&before.writes),
            flushes: self.flushes.since(&before.flushes),
        }
    }
}

/// Where on the drive a space of the machine lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// The first byte on the drive, a multiple of 1 MiB.
    pub start: u64,
    /// Bytes on the drive over which it is spread, at least as many as it has.
    pub spread: u64,
    /// Bytes of the space, a multiple of 1 MiB.
    pub len: u64,
}

/// A simulated machine.
pub struct Machine {
    executor: Executor,
    drive: Rc<RefCell<Box<dyn Drive>>>,
    /// When the drive has done all that it was given.
    free: Rc<Cell<Nanos>>,
    usage: Rc<Cell<Usage>>,
}

impl Machine {
    /// A machine with this drive. Without chance: equal runs are equal.
    pub fn new(drive: Box<dyn Drive>) -> Machine {
        let executor = Executor::new(None, START);
        let drive = Rc::new(RefCell::new(drive));
        Machine { executor, drive, free: Rc::default(), usage: Rc::default() }
    }

    /// Its time.
    pub fn clock(&self) -> Handle {
        self.executor.handle()
    }

    /// What its drive did so far.
    pub fn usage(&self) -> Usage {
        self.usage.get()
    }

    /// A disk of blocks of so many bytes on a part of its drive, requests that wait sorted by
    /// position as kernels do. Parts must not overlap.
    ///
    /// # Errors
    /// The drive does not reach so far.
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

/// A part of a drive that others have parts of, too; requests of all of them go one by one.
struct Part {
    drive: Rc<RefCell<Box<dyn Drive>>>,
    free: Rc<Cell<Nanos>>,
    usage: Rc<Cell<Usage>>,
    region: Region,
}

impl Part {
    /// Where a piece of the space begins on the drive, in sectors.
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
        // A drive that takes one request at a time keeps those of the other parts waiting.
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
