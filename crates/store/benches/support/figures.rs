//! Figures of a load of requests, counted by the load, the engine, the device and the kernel.

use std::time::Instant;

use device::AnyDevice;
use larder_store::Stats;
use testkit::loop_device::{LoopDevice, Operations};

use super::{Engine, processor_seconds};

/// Result of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Hit,
    /// Fetched, and stored.
    Stored,
    /// Fetched, but not stored.
    Refused,
    /// Answered by the fetch of another session.
    Followed,
}

/// Results of all requests.
#[derive(Clone, Copy, Default)]
pub struct Count {
    pub requests: usize,
    hits: usize,
    bytes: u64,
    hit_bytes: u64,
    stored: usize,
    refused: usize,
    followed: usize,
}

impl Count {
    /// Counts what became of a request for `len` bytes; the request itself is counted before.
    pub fn add(&mut self, outcome: Outcome, len: usize) {
        self.bytes += len as u64;
        match outcome {
            Outcome::Hit => {
                self.hits += 1;
                self.hit_bytes += len as u64;
            }
            Outcome::Stored => self.stored += 1,
            Outcome::Refused => self.refused += 1,
            Outcome::Followed => self.followed += 1,
        }
    }

    /// Adds what others came to.
    pub fn merge(&mut self, other: &Count) {
        let Count { requests, hits, bytes, hit_bytes, stored, refused, followed } = other;
        self.requests += requests;
        self.hits += hits;
        self.bytes += bytes;
        self.hit_bytes += hit_bytes;
        self.stored += stored;
        self.refused += refused;
        self.followed += followed;
    }
}

/// All counts at one moment.
pub struct Moment {
    pub stats: Stats,
    device: device::Counts,
    /// By the kernel, where the device is one of its own.
    completed: Option<Operations>,
    processor: f64,
    at: Instant,
}

impl Moment {
    /// The counts of now.
    pub fn now(cache: &Engine, device: &AnyDevice, disk: Option<&LoopDevice>) -> Moment {
        Moment {
            stats: cache.stats()[0],
            device: device.counters().snapshot(),
            completed: disk.map(|disk| disk.operations().unwrap()),
            processor: processor_seconds(),
            at: Instant::now(),
        }
    }

    /// Reads and writes a second that the kernel completed since `from`.
    pub fn rates(&self, from: &Moment) -> Option<(f64, f64)> {
        let (old, new) = (from.completed?, self.completed?);
        let seconds = (self.at - from.at).as_secs_f64();
        let rate = |old: u64, new: u64| (new - old) as f64 / seconds;
        Some((rate(old.reads, new.reads), rate(old.writes, new.writes)))
    }
}

/// Prints what happened between two moments.
pub fn report(name: &str, from: &Moment, to: &Moment, count: &Count) {
    let requests = count.requests as f64;
    let (old, new) = (&from.stats.counters, &to.stats.counters);
    let reads = (to.device.reads - from.device.reads) as f64;
    let read_bytes = (to.device.bytes_read - from.device.bytes_read) as f64;
    let disk_hits = (new.disk_hits - old.disk_hits) as f64;
    let memory_hits = (new.memory_hits - old.memory_hits) as f64;
    let brought = (new.prefetch_hits - old.prefetch_hits) as f64;
    let writes = (to.device.writes - from.device.writes) as f64;
    let written = (to.device.bytes_written - from.device.bytes_written) as f64;
    let stored = (new.inserted_bytes - old.inserted_bytes) as f64;
    let seconds = (to.at - from.at).as_secs_f64();
    println!(
        "{name}: hits {:.3} (bytes {:.3}, memory {:.3}), {:.0} req/s, {:.1} us; operations {:.3} a \
         request; reads {:.3} a request, {:.3} a hit from the device, {:.0} KB each; writes {:.3} \
         an object, {:.3} B a byte; stored {}, refused {}, followed {}, errors {}",
        count.hits as f64 / requests,
        count.hit_bytes as f64 / count.bytes as f64,
        (memory_hits - brought) / requests,
        requests / seconds,
        (to.processor - from.processor) / requests * 1e6,
        (reads + writes) / requests,
        reads / requests,
        reads / (disk_hits + brought).max(1.0),
        read_bytes / reads.max(1.0) / 1e3,
        writes / count.stored.max(1) as f64,
        written / stored.max(1.0),
        count.stored,
        count.refused,
        count.followed,
        new.device_errors - old.device_errors,
    );
    if let Some((reads, writes)) = to.rates(from) {
        println!("  the kernel's: {reads:.0} reads/s, {writes:.0} writes/s, {seconds:.0} s");
    }
}
