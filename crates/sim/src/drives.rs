//! Drives: the common interface, models of constant latency, mechanical drives, flash and stripes,
//! and the data files that describe drives.

pub(crate) mod constant_latency;
pub mod drive_file;
pub mod flash;
pub mod mechanical;
pub mod shipped;
pub mod striped;

use device::Nanos;

/// Bytes of a sector, the unit of drives.
pub const SECTOR: u64 = 512;

/// The kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Sectors are read from the drive.
    Read,
    /// Sectors are written to the drive.
    Write,
    /// Everything acknowledged before goes to the medium; `sectors` is zero.
    Flush,
}

/// A request on the bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The kind of the request.
    pub operation: Operation,
    /// The first sector.
    pub sector: u64,
    /// The number of sectors.
    pub sectors: u64,
}

/// A model of a drive in virtual time.
///
/// The host keeps the queue: it hands over at most [`Drive::depth`] requests at a time, in the
/// order of its choice. The model decides at once when each will be done, from its state and the
/// earlier requests.
pub trait Drive {
    /// Returns the number of addressable sectors.
    fn sectors(&self) -> u64;

    /// Returns the number of requests that the drive works on at the same time: 1 for a disk
    /// without command queueing, the parallelism of flash.
    fn depth(&self) -> usize;

    /// Accepts `request` at `now` and returns the time of its acknowledgement. Times are in
    /// nanoseconds; `now` never decreases between calls.
    fn serve(&mut self, now: Nanos, request: Request) -> Nanos;
}
