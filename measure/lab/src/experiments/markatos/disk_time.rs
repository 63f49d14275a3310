//! A drive that forwards all requests and measures what it spends its time on.

use std::cell::Cell;
use std::rc::Rc;

use device::Nanos;
use sim::drives::{Drive, Operation, Request, SECTOR};

/// Maximum bytes of a short write: a block of the file system.
const SHORT: u64 = 8_192;

/// Nanoseconds that the drive was busy, seeks and rotation included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DiskTime {
    pub(crate) reads: Nanos,
    /// Time for writes of at most a block of the file system.
    pub(crate) short_writes: Nanos,
    pub(crate) long_writes: Nanos,
}

/// A drive that measures its busy time.
pub(super) struct Timed<D> {
    drive: D,
    time: Rc<Cell<DiskTime>>,
}

impl<D: Drive> Timed<D> {
    /// Returns the drive and the shared record of its times.
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
