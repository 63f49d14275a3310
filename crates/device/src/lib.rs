//! The bottom layer of Larder. A device is one linear space of bytes that can be read, written and
//! flushed. The engine above knows neither paths nor descriptors, and runs in the same way on a raw
//! disk, a file, memory or a simulated drive.
//!
//! Buffers are passed by value: a read takes an [`IoBuf`] and returns it, and a write takes a
//! [`FrozenBuf`] (shared and immutable, so that the caller may continue to read it). Dropping a
//! future never frees a buffer that the kernel still uses.
//!
//! An operation begins with the first poll of its future, or later if too many are in flight. Once
//! begun, it runs to its end even if the future is dropped.
//!
//! Guarantees: an operation either transfers every byte of its extent or returns an error.

mod attach;
mod clock;
mod file;
mod memory;
mod other;
mod posix;
mod shared_memory;
mod socket;
mod transfer;
mod uring;

pub use attach::AnyDevice;
#[cfg(feature = "tokio")]
pub use clock::SystemClock;
pub use clock::{Clock, ManualClock, Nanos};
pub use file::cache_file::{CacheFile, Contents, PathChange};
pub use file::fallback::{Fallback, Feature};
pub use file::open::{Access, FileKind, OpenError, OpenOptions};
pub use memory::{Fault, Held, MemoryDevice};
pub use other::OtherDevice;
pub use posix::PosixDevice;
pub use shared_memory::SharedMemory;
pub use socket::unacknowledged;
pub use transfer::buffer::{FrozenBuf, IoBuf, IoBufBuilder};
pub use transfer::buffer_pool::{BufPool, PoolCounts};
pub use transfer::counters::{Counters, Counts, Operation};
pub use transfer::extent::{Extent, Geometry, WRITE_ALIGN};
pub use uring::device::UringDevice;
#[cfg(feature = "tokio")]
pub use uring::drive::drive;
pub use uring::ring::Ring;

use std::future::Future;
use std::io;

/// A linear space of bytes, with one handle per worker. Its futures need not be `Send`.
pub trait Device: 'static {
    /// Returns the length and alignment of the device. They are constant while the device is open,
    /// except that [`Geometry::len`] may grow.
    fn geometry(&self) -> Geometry;

    /// Fills `buf` with the `buf.len()` bytes at `offset`. Both are multiples of
    /// [`Geometry::block`]. Returns the buffer even after an error.
    fn read(&self, offset: u64, buf: IoBuf) -> impl Future<Output = (IoBuf, io::Result<()>)>;

    /// Writes all of `buf` at `offset`. Both are multiples of [`Geometry::block`].
    fn write(&self, offset: u64, buf: FrozenBuf) -> impl Future<Output = io::Result<()>>;

    /// Completes when every write completed before the call would survive a power loss.
    fn flush(&self) -> impl Future<Output = io::Result<()>>;
}
