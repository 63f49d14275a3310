//! U8: the paper's two machines, divided by one number in a quick run.
//!
//! A quick run divides caches and file systems. They are spread over the same drives as the
//! paper's, so seeks have the same length; drives, rates and delays are unchanged. Delayed writes
//! happen after the divided delay, so the share of memory that waits to be written is the same as
//! at full size. Because the drives are not divided, it is still another machine: its peaks say
//! nothing about the paper's. A full run measures those.

use device::Nanos;
use sim::Handle;
use sim::drives::mechanical::{Config, MechanicalDrive};
use sim::drives::striped::Striped;
use sim::drives::{self, Drive, SECTOR};
use sim::ffs::{Ffs, Names, Parameters};

use crate::space::file_caches;
use crate::space::manager::SpaceError;

/// Bytes that stay contiguous when a disk is spread.
const PIECE: u64 = 1 << 20;

/// Bytes of a stripe unit; the paper does not state it.
const UNIT: u64 = 64 << 10;

/// Number of objects in the disk cache: stores minus deletes in tables 1 and 2, at most rates. They
/// are 10 GB as Squid counts, in whole blocks of the file system.
const OBJECTS: u64 = 720_000;

/// Mean size of an object of PolyMix-3 in bytes.
const MEAN_OBJECT: u64 = 10_900;

/// The smallest memory that the file system's model accepts.
const LEAST_BUFFERS: u64 = 1 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum MachineClass {
    Low,
    High,
}

impl MachineClass {
    pub(super) const BOTH: [MachineClass; 2] = [MachineClass::Low, MachineClass::High];

    /// Returns the paper's name of the test.
    pub(super) fn name(self) -> &'static str {
        match self {
            MachineClass::Low => "low-end",
            MachineClass::High => "high-end",
        }
    }

    pub(super) fn full_size(self) -> file_caches::Machine {
        match self {
            MachineClass::Low => file_caches::Machine::LOW_END,
            MachineClass::High => file_caches::Machine::HIGH_END,
        }
    }
}

/// One of the machines, divided by a number.
#[derive(Clone, Copy, Debug)]
pub(super) struct Machine {
    pub(super) end: MachineClass,
    pub(super) divisor: u32,
    /// True if drives acknowledge writes from the medium.
    pub(super) write_through: bool,
    /// True if creating and removing a file waits for its metadata.
    pub(super) synchronous: bool,
    /// True if a read updates its file's access time.
    pub(super) access_time: bool,
}

impl Machine {
    /// Returns the bytes of the disk cache.
    pub(super) fn cache(&self) -> u64 {
        self.end.full_size().capacity / u64::from(self.divisor)
    }

    /// Returns the bytes of objects in the disk cache.
    pub(super) fn capacity(&self) -> u64 {
        OBJECTS * MEAN_OBJECT / u64::from(self.divisor)
    }

    /// Returns the bytes of objects in the proxy's memory.
    pub(super) fn memory(&self) -> u64 {
        self.end.full_size().memory / u64::from(self.divisor)
    }

    /// Creates a file system on each drive.
    pub(super) fn file_systems(&self, clock: &Handle) -> Result<Vec<Ffs>, SpaceError> {
        let drives = self.end.full_size().drives;
        (0..drives).map(|_| self.file_system(clock, self.drive()?, drives as u64)).collect()
    }

    /// Creates one file system on all drives, striped if there are several.
    pub(super) fn striped(&self, clock: &Handle) -> Result<Ffs, SpaceError> {
        let drives = (0..self.end.full_size().drives).map(|_| self.drive());
        let drives = drives.collect::<Result<Vec<_>, _>>()?;
        let striped = Striped::new(drives, UNIT / SECTOR);
        let striped = striped.map_err(|why| SpaceError::Engine(why.to_string()))?;
        self.file_system(clock, striped, 1)
    }

    fn drive(&self) -> Result<MechanicalDrive, SpaceError> {
        let name = self.end.full_size().drive;
        match self.write_through {
            true => file_caches::write_through_drive(name, Config::Shipped),
            false => file_caches::drive(name, Config::Shipped),
        }
    }

    /// Creates a FreeBSD file system with a `parts`-th of the memory for files.
    fn file_system(
        &self,
        clock: &Handle,
        drive: impl Drive + 'static,
        parts: u64,
    ) -> Result<Ffs, SpaceError> {
        let by = u64::from(self.divisor);
        let buffers = self.end.full_size().buffers / parts / by;
        let parameters = Parameters::freebsd_ufs(buffers.max(LEAST_BUFFERS));
        let names = match parameters.names {
            Names::Recent { entries } => Names::Recent { entries: entries / by as usize },
            rate @ Names::Rate { .. } => rate,
        };
        let sync_interval = parameters.sync_interval / by;
        let sync_step = parameters.sync_step.min(sync_interval / 4);
        let (synchronous, access_time) = (self.synchronous, self.access_time);
        let parameters =
            Parameters { names, sync_interval, sync_step, synchronous, access_time, ..parameters };
        let disk = file_caches::disk(clock, Spread::new(drive, by), None);
        let ffs = Ffs::new(clock.clone(), disk, parameters);
        ffs.map_err(|error| SpaceError::Engine(error.to_string()))
    }
}

/// A part of a drive whose pieces are spread over all of it.
struct Spread<D> {
    drive: D,
    pieces: u64,
    places: u64,
}

impl<D: Drive> Spread<D> {
    /// Returns a `parts`-th of the drive.
    fn new(drive: D, parts: u64) -> Spread<D> {
        let places = drive.sectors() * SECTOR / PIECE;
        Spread { drive, pieces: (places / parts).max(1), places }
    }
}

impl<D: Drive> Drive for Spread<D> {
    fn sectors(&self) -> u64 {
        self.pieces * (PIECE / SECTOR)
    }

    fn depth(&self) -> usize {
        self.drive.depth()
    }

    fn serve(&mut self, now: Nanos, request: drives::Request) -> Nanos {
        if request.sectors == 0 {
            return self.drive.serve(now, request);
        }
        let piece = PIECE / SECTOR;
        let (mut at, end) = (request.sector, request.sector + request.sectors);
        let (mut now, mut done) = (now, now);
        while at < end {
            let next = ((at / piece + 1) * piece).min(end);
            let place = at / piece * self.places / self.pieces;
            let sector = place * piece + at % piece;
            done = self.drive.serve(now, drives::Request { sector, sectors: next - at, ..request });
            now = done;
            at = next;
        }
        done
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use super::*;

    struct Recorder(Rc<RefCell<Vec<(u64, u64)>>>);

    impl Drive for Recorder {
        fn sectors(&self) -> u64 {
            100 * PIECE / SECTOR
        }

        fn depth(&self) -> usize {
            1
        }

        fn serve(&mut self, now: Nanos, request: drives::Request) -> Nanos {
            self.0.borrow_mut().push((request.sector * SECTOR, request.sectors * SECTOR));
            now + 1
        }
    }

    #[test]
    fn pieces_lie_all_over_the_drive_and_keep_their_order() {
        let asked = Rc::new(RefCell::new(Vec::new()));
        let mut drive = Spread::new(Recorder(Rc::clone(&asked)), 10);
        assert_eq!(drive.sectors() * SECTOR, 10 * PIECE);
        let read = |offset: u64, len: u64| drives::Request {
            operation: drives::Operation::Read,
            sector: offset / SECTOR,
            sectors: len / SECTOR,
        };
        assert_eq!(drive.serve(0, read(9 * PIECE + 512, 1_024)), 1);
        assert_eq!(drive.serve(1, read(3 * PIECE - 512, 1_024)), 3);
        let places = [(90 * PIECE + 512, 1_024), (21 * PIECE - 512, 512), (30 * PIECE, 512)];
        assert_eq!(*asked.borrow(), places);
    }
}
