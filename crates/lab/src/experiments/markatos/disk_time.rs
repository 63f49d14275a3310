//! What the drive of a run spent its time on: a drive that passes everything on and counts.

use std::cell::Cell;
use std::rc::Rc;

use device::Nanos;
use sim::drives::{Drive, Operation, Request, SECTOR};

/// Bytes of a write up to which it is short: a block of the file system.
const SHORT: u64 = 8_192;

/// Nanoseconds of the drive, seeks and rotation included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DiskTime {
    /// Reads.
    pub(crate) reads: Nanos,
    /// Writes of at most a block of the file system.
    pub(crate) short_writes: Nanos,
    /// Longer writes.
    pub(crate) long_writes: Nanos,
}

/// See the module.
pub(super) struct Timed<D> {
    drive: D,
    time: Rc<Cell<DiskTime>>,
}

impl<D: Drive> Timed<D> {
    /// The drive, and what it did so far.
    pub(super) fn new(drive: D) -> (Timed<D>, Rc<Cell<DiskTime>>) {
        let time = Rc::default();
        (Timed { drive, time: Rc::clone(&time) }, time)
    }
}

impl<D: Drive> Drive for Timed<D> {
    fn sectors(&self) -> u64 {
        self.drive.sectors()
    }

    fn depth(&self) -> usize {
        self.drive.depth()
    }

    fn serve(&mut self, now: Nanos, request: Request) -> Nanos {
        let done = self.drive.serve(now, request);
        let mut time = self.time.get();
        let short = request.sectors * SECTOR <= SHORT;
        let kind = match request.operation {
            Operation::Read => &mut time.reads,
            Operation::Write | Operation::Flush if short => &mut time.short_writes,
            Operation::Write | Operation::Flush => &mut time.long_writes,
        };
        *kind += done - now;
        self.time.set(time);
        done
    }
}
