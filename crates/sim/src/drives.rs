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

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Sectors come from the drive.
    Read,
    /// Sectors go to the drive.
    Write,
    /// Everything acknowledged before is brought to the medium; `sectors` is zero.
    Flush,
}

/// A request as it goes over the bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// What it does.
    pub operation: Operation,
    /// The first sector.
    pub sector: u64,
    /// How many.
    pub sectors: u64,
}

/// A model of a drive in virtual time.
///
/// The host keeps the queue: it hands over at most [`Drive::depth`] requests at a time, in the
/// order of its choosing. The model decides at once when each will be done, from its state and
/// from what was handed over before.
pub trait Drive {
    /// Sectors that can be addressed.
    fn sectors(&self) -> u64;

    /// Requests that it works on at the same time: 1 for a disk without command queueing, its
    /// parallelism for flash.
    fn depth(&self) -> usize;

    /// Takes `request` at `now` (nanoseconds, never earlier than at the call before) and says when
    /// it will be acknowledged.
    fn serve(&mut self, now: Nanos, request: Request) -> Nanos;
}
