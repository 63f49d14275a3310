//! Counters of a device: operations, bytes, errors and operations in flight. They are shared by all
//! handles of one device, so that metrics can read them from any thread.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The three operations of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// [`Device::read`](crate::Device::read).
    Read,
    /// [`Device::write`](crate::Device::write).
    Write,
    /// [`Device::flush`](crate::Device::flush).
    Flush,
}

/// Live counters of one device. An operation is counted when it begins (even if it is then
/// refused), its bytes when it succeeds.
#[derive(Debug, Default)]
pub struct Counters {
    reads: AtomicU64,
    writes: AtomicU64,
    flushes: AtomicU64,
    bytes_read: AtomicU64,
    bytes_written: AtomicU64,
    errors: AtomicU64,
    in_flight: AtomicU64,
}

/// A snapshot of [`Counters`]. Each figure is exact, but they are not read at one instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Reads begun.
    pub reads: u64,
    /// Writes begun.
    pub writes: u64,
    /// Flushes begun.
    pub flushes: u64,
    /// Bytes of successful reads.
    pub bytes_read: u64,
    /// Bytes of successful writes.
    pub bytes_written: u64,
    /// Operations that ended with an error.
    pub errors: u64,
    /// Operations begun and not ended, including those of dropped futures.
    pub in_flight: u64,
}

impl Counters {
    /// Returns the current counts.
    pub fn snapshot(&self) -> Counts {
        Counts {
            reads: self.reads.load(Relaxed),
            writes: self.writes.load(Relaxed),
            flushes: self.flushes.load(Relaxed),
            bytes_read: self.bytes_read.load(Relaxed),
            bytes_written: self.bytes_written.load(Relaxed),
            errors: self.errors.load(Relaxed),
            in_flight: self.in_flight.load(Relaxed),
        }
    }

    pub(crate) fn begin(&self, operation: Operation) {
        let counter = match operation {
            Operation::Read => &self.reads,
            Operation::Write => &self.writes,
            Operation::Flush => &self.flushes,
        };
        counter.fetch_add(1, Relaxed);
        self.in_flight.fetch_add(1, Relaxed);
    }

    /// Ends an operation whose future was dropped before it reached the device.
    pub(crate) fn abandon(&self) {
        self.in_flight.fetch_sub(1, Relaxed);
    }

    /// Ends an operation that was refused before it reached the device.
    pub(crate) fn refuse(&self) {
        self.errors.fetch_add(1, Relaxed);
        self.in_flight.fetch_sub(1, Relaxed);
    }

    pub(crate) fn end(&self, operation: Operation, bytes: u64, result: &io::Result<()>) {
        match (result, operation) {
            (Err(_), _) => _ = self.errors.fetch_add(1, Relaxed),
            (Ok(()), Operation::Read) => _ = self.bytes_read.fetch_add(bytes, Relaxed),
            (Ok(()), Operation::Write) => _ = self.bytes_written.fetch_add(bytes, Relaxed),
            (Ok(()), Operation::Flush) => {}
        }
        self.in_flight.fetch_sub(1, Relaxed);
    }
}
