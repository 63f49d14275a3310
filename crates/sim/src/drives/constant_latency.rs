//! A drive whose requests all take the same time: for tests of the layers above it, and as a bound
//! that no real drive reaches.

use device::Nanos;

use crate::drives::{Drive, Operation, Request};

/// A drive of constant latency.
#[derive(Clone, Copy, Debug)]
pub struct Uniform {
    /// Number of addressable sectors.
    pub sectors: u64,
    /// Number of concurrent requests.
    pub depth: usize,
    /// Nanoseconds per request.
    pub request: Nanos,
    /// Nanoseconds per sector transferred.
    pub sector: Nanos,
    /// Nanoseconds per flush, instead of both.
    pub flush: Nanos,
}

impl Uniform {
    /// Returns a drive of `len` bytes as fast as a good flash drive: 32 concurrent requests, each
    /// of 60 µs and 0.1 µs per sector; a flush takes 200 µs.
    pub fn fast(len: u64) -> Uniform {
        let sectors = len / crate::drives::SECTOR;
        Uniform { sectors, depth: 32, request: 60_000, sector: 100, flush: 200_000 }
    }
}

impl Drive for Uniform {
    fn sectors(&self) -> u64 {
        self.sectors
    }

    fn depth(&self) -> usize {
        self.depth
    }

    fn serve(&mut self, now: Nanos, request: Request) -> Nanos {
        now + match request.operation {
            Operation::Flush => self.flush,
            Operation::Read | Operation::Write => self.request + self.sector * request.sectors,
        }
    }
}
