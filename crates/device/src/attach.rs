//! A worker's device on a file: one type for all kinds of devices, so that upper layers need
//! neither a type parameter per kind nor boxed futures.

use std::io;
use std::sync::Arc;

use crate::file::cache_file::CacheFile;
use crate::other::OtherDevice;
use crate::posix::PosixDevice;
use crate::transfer::counters::Counters;
use crate::uring::device::UringDevice;
use crate::uring::ring::Ring;
use crate::{Device, FrozenBuf, Geometry, IoBuf, MemoryDevice};

/// A device of any kind. A clone is another handle to the same device.
#[derive(Clone)]
pub enum AnyDevice {
    /// A file or block device, accessed through io_uring.
    Uring(UringDevice),
    /// A file or block device, accessed through a pool of threads.
    Posix(PosixDevice),
    /// Memory, for tests.
    Memory(MemoryDevice),
    /// A device from outside this crate, such as a simulated disk.
    Other(OtherDevice),
}

impl CacheFile {
    /// Returns a worker's device: on its ring, or on threads if it has none.
    pub fn attach(self: &Arc<CacheFile>, ring: Option<&Ring>) -> io::Result<AnyDevice> {
        match ring {
            Some(ring) => Ok(AnyDevice::Uring(UringDevice::new(ring.clone(), self.clone()))),
            None => Ok(AnyDevice::Posix(PosixDevice::new(self.clone(), self.queue()?))),
        }
    }
}

impl AnyDevice {
    /// Returns the counters shared by all handles of the device.
    pub fn counters(&self) -> &Arc<Counters> {
        match self {
            AnyDevice::Uring(device) => device.file().counters(),
            AnyDevice::Posix(device) => device.file().counters(),
            AnyDevice::Memory(device) => device.counters(),
            AnyDevice::Other(device) => device.counters(),
        }
    }

    /// Returns the name of the kind, for messages and metrics.
    pub fn kind(&self) -> &'static str {
        match self {
            AnyDevice::Uring(_) => "io_uring",
            AnyDevice::Posix(_) => "threads",
            AnyDevice::Memory(_) => "memory",
            AnyDevice::Other(_) => "other",
        }
    }
}

impl Device for AnyDevice {
    fn geometry(&self) -> Geometry {
        match self {
            AnyDevice::Uring(device) => device.geometry(),
            AnyDevice::Posix(device) => device.geometry(),
            AnyDevice::Memory(device) => device.geometry(),
            AnyDevice::Other(device) => device.geometry(),
        }
    }

    async fn read(&self, offset: u64, buf: IoBuf) -> (IoBuf, io::Result<()>) {
        match self {
            AnyDevice::Uring(device) => device.read(offset, buf).await,
            AnyDevice::Posix(device) => device.read(offset, buf).await,
            AnyDevice::Memory(device) => device.read(offset, buf).await,
            AnyDevice::Other(device) => device.read(offset, buf).await,
        }
    }

    async fn write(&self, offset: u64, buf: FrozenBuf) -> io::Result<()> {
        match self {
            AnyDevice::Uring(device) => device.write(offset, buf).await,
            AnyDevice::Posix(device) => device.write(offset, buf).await,
            AnyDevice::Memory(device) => device.write(offset, buf).await,
            AnyDevice::Other(device) => device.write(offset, buf).await,
        }
    }

    async fn flush(&self) -> io::Result<()> {
        match self {
            AnyDevice::Uring(device) => device.flush().await,
            AnyDevice::Posix(device) => device.flush().await,
            AnyDevice::Memory(device) => device.flush().await,
            AnyDevice::Other(device) => device.flush().await,
        }
    }
}
