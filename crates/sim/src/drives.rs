//! Drives: the interface of all models, constant latency, mechanical drives, flash, stripes, and
//! the files that describe them.

pub(crate) mod constant_latency;
pub mod drive_file;
pub mod flash;
pub mod mechanical;
pub mod shipped;
pub mod striped;

use device::Nanos;

/// Bytes of a sector: what drives count in.
pub const SECTOR: u64 = 512;

/// The kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Sectors come from the drive.
    Read,
    /// Sectors go to the drive.
    Write,
    /// Bring everything acknowledged before to the medium; `sectors` is zero.
    Flush,
}

/// A request as it goes over the bus.
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
/// order of its choosing. The model decides at once when each will be done, from its state and
/// from what was handed over before.
pub trait Drive {
    /// Returns the number of addressable sectors.
    fn sectors(&self) -> u64;

    /// Returns the number of requests that it works on at the same time: 1 for a disk without
    /// command queueing, its parallelism for flash.
    fn depth(&self) -> usize;

    /// Takes `request` at `now` (nanoseconds, never earlier than at the call before) and says when
    /// it will be acknowledged.
    fn serve(&mut self, now: Nanos, request: Request) -> Nanos;
}
