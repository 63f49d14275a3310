//! The bottom of Larder: a device is one linear space of bytes that can be read, written and
//! flushed. It exists so that the engine above knows no paths and no descriptors, and runs the
//! same on a raw disk, a file, memory or a simulated drive.
//!
//! Buffers travel by value: a read takes an [`IoBuf`] and gives it back, a write takes a
//! [`FrozenBuf`] (shared and immutable, so that the caller may go on reading it meanwhile).
//! Dropping a future never frees a buffer that the kernel still uses.
//!
//! An operation begins with the first poll of its future, later where the device is crowded; once
//! begun it runs to its end even when the future is dropped.
//!
//! It promises: an operation either moves every byte of its extent or returns an error.

mod allocate;
mod any;
mod buf;
mod clock;
mod counters;
#[cfg(feature = "tokio")]
mod drive;
mod extent;
mod fallback;
mod file;
mod image;
mod in_flight;
mod memory;
mod occupant;
mod open;
mod payload;
mod pool;
mod posix;
mod ring;
pub mod signature;
mod uring;

pub use any::AnyDevice;
pub use buf::{FrozenBuf, IoBuf};
pub use clock::{Clock, ManualClock, Nanos};
pub use counters::{Counters, Counts, Operation};
#[cfg(feature = "tokio")]
pub use drive::drive;
pub use extent::{Extent, Geometry, WRITE_ALIGN};
pub use fallback::{Fallback, Feature};
pub use file::{CacheFile, Contents};
pub use memory::{Fault, Held, MemoryDevice};
pub use open::{Access, FileKind, OpenError, OpenOptions};
pub use pool::{BufPool, PoolCounts};
pub use posix::PosixDevice;
pub use ring::Ring;
pub use uring::UringDevice;

use std::future::Future;
use std::io;

/// A linear space of bytes. One handle per worker: its futures need not be `Send`.
pub trait Device: 'static {
    /// Length, alignment and largest transfer; constant while the device is open, except that
    /// [`Geometry::len`] may grow.
    fn geometry(&self) -> Geometry;

    /// Fills `buf` with the `buf.len()` bytes at `offset`. Both are multiples of
    /// [`Geometry::block`]. The buffer comes back also after an error.
    fn read(&self, offset: u64, buf: IoBuf) -> impl Future<Output = (IoBuf, io::Result<()>)>;

    /// Writes all of `buf` at `offset`. Both are multiples of [`Geometry::block`].
    fn write(&self, offset: u64, buf: FrozenBuf) -> impl Future<Output = io::Result<()>>;

    /// Returns when every write completed before the call would survive a power loss.
    fn flush(&self) -> impl Future<Output = io::Result<()>>;
}
