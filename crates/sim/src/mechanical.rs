//! A disk with platters: the model of a mechanical drive.
//!
//! It follows what a drive does: the controller's overhead, the seek along the measured curve, the
//! wait for the sector, the transfer over tracks with their skews, and beside it the bus; reading
//! ahead into the segments of the on-board cache for as long as nothing else is to do; writes that
//! are acknowledged from the buffer and reach the medium afterwards. Nothing is drawn at random:
//! the angle under the heads follows from the time.
//!
//! It promises: the same requests at the same times are answered at the same times.

mod buffer;
pub(crate) mod controller;
mod geometry;
mod media;
mod reads;
mod writes;

pub use controller::{Controller, FastWrite, Overheads, ReadAhead};
pub use geometry::{Geometry, Run};
pub use media::{Arm, Media};

use device::Nanos;

use crate::drive::{Drive, Operation, Request};
use crate::drive_file::{DriveFile, Refused};
use buffer::Buffer;
use writes::Unwritten;

/// Which parts of a drive take part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Config {
    /// All, as the data file says.
    #[default]
    Shipped,
    /// All, but on a fast bus of 0.0032 ms per sector (160 MB/s).
    FastBus,
    /// On the fast bus, without caching, reading ahead and early acknowledgement of writes: what
    /// arm and spindle do.
    Mech,
}

impl Config {
    /// The names on the command line.
    pub const NAMES: [&'static str; 3] = ["shipped", "fastbus", "mech"];

    /// The configuration with this name.
    pub fn named(name: &str) -> Option<Config> {
        match name {
            "shipped" => Some(Config::Shipped),
            "fastbus" => Some(Config::FastBus),
            "mech" => Some(Config::Mech),
            _ => None,
        }
    }

    fn apply(self, controller: &mut Controller) {
        if self != Config::Shipped {
            controller.bus = FAST_BUS;
        }
        if self == Config::Mech {
            controller.caching = false;
            controller.read_ahead = ReadAhead::None;
            controller.fast_write = FastWrite::Never;
        }
    }
}

/// Milliseconds per sector.
const FAST_BUS: f64 = 0.0032;

/// A mechanical drive in virtual time.
#[derive(Clone, Debug)]
pub struct MechanicalDrive {
    /// Nominal sectors.
    sectors: u64,
    media: Media,
    controller: Controller,
    arm: Arm,
    /// What the request before was.
    before: Operation,
    buffer: Buffer,
    /// When the medium will have taken all that was acknowledged.
    written: f64,
    unwritten: Unwritten,
}

impl MechanicalDrive {
    /// The drive that `file` describes, at rest over its first cylinder with an empty buffer.
    pub fn new(file: &DriveFile, config: Config) -> Result<MechanicalDrive, Refused> {
        let mut controller = file.controller.clone();
        config.apply(&mut controller);
        Ok(MechanicalDrive {
            sectors: file.blocks,
            media: Media::new(file, Geometry::new(file)?),
            buffer: Buffer::new(&controller),
            controller,
            arm: Arm { cylinder: 0, head: 0 },
            before: Operation::Read,
            written: 0.0,
            unwritten: Unwritten::default(),
        })
    }

    /// Sectors that the medium carries: the nominal ones and a few more, which requests may address
    /// as well.
    pub fn capacity(&self) -> u64 {
        self.media.geometry.sectors()
    }

    /// The overhead of a pair for what the request before was.
    fn overhead(&self, pair: [f64; 2]) -> f64 {
        self.controller.overheads.request + pair[usize::from(self.before == Operation::Write)]
    }
}

impl Drive for MechanicalDrive {
    fn sectors(&self) -> u64 {
        self.sectors
    }

    fn depth(&self) -> usize {
        1
    }

    fn serve(&mut self, now: Nanos, request: Request) -> Nanos {
        let start = now as f64 * 1e-6;
        let Request { operation, sector, sectors } = request;
        assert!(
            sector.checked_add(sectors).is_some_and(|end| end <= self.capacity()),
            "{request:?} is beyond the drive's {} sectors",
            self.capacity()
        );
        let done = match operation {
            Operation::Flush => self.written.max(start),
            _ if sectors == 0 => start,
            Operation::Read => self.read(start, sector, sectors),
            Operation::Write => self.write(start, sector, sectors),
        };
        if operation != Operation::Flush {
            self.before = operation;
        }
        // Rounded; never before it began.
        ((done * 1e6).round() as Nanos).max(now)
    }
}
