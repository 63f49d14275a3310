//! The figures of a run.

use device::Nanos;

use super::{Outcome, Usage};

/// Number of bins in a histogram, one for each millisecond; the last one has all longer times.
const BINS: usize = 64;

/// Requests by time, in bins of a millisecond.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    bins: [u64; BINS],
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram { bins: [0; BINS] }
    }
}

impl Histogram {
    fn add(&mut self, time: Nanos) {
        let bin = (time / 1_000_000).min(BINS as u64 - 1);
        self.bins[bin as usize] += 1;
    }

    /// Returns the percentage of requests that took from `from` up to less than `to` milliseconds.
    /// Times above 63 ms are not distinguished.
    pub fn percent(&self, from: usize, to: usize) -> f64 {
        let all: u64 = self.bins.iter().sum();
        let part: u64 = self.bins.iter().take(to.min(BINS)).skip(from).sum();
        100.0 * part as f64 / all.max(1) as f64
    }

    /// Returns the percentage of requests that took `from` milliseconds or longer.
    pub fn percent_from(&self, from: usize) -> f64 {
        self.percent(from, BINS)
    }
}

/// Requests by outcome, in the order of [`Outcome::ALL`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcomes([u64; Outcome::ALL.len()]);

impl Outcomes {
    /// Returns the number of requests with this outcome.
    pub fn of(&self, outcome: Outcome) -> u64 {
        self.0[outcome as usize]
    }

    /// Returns the number of all requests.
    pub fn sum(&self) -> u64 {
        self.0.iter().sum()
    }
}

/// The figures of the counted requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Requests by outcome.
    pub outcomes: Outcomes,
    /// Bytes requested.
    pub bytes: u64,
    /// Bytes served from the cache.
    pub hit_bytes: u64,
    /// Disk time of each request.
    pub disk_time: Histogram,
    /// Waiting time of each client.
    pub waiting: Histogram,
    /// Total waiting time of all clients.
    pub waited: Nanos,
    /// The drive's work.
    pub usage: Usage,
    /// Number of objects that entered memory along with a requested one.
    pub prefetched: u64,
    /// Number of those that were requested later, each counted once.
    pub prefetch_hits: u64,
    /// Virtual time from the first counted request to the last response.
    pub elapsed: Nanos,
}

impl Figures {
    pub(super) fn outcome(&mut self, outcome: Outcome, size: u64) {
        self.outcomes.0[outcome as usize] += 1;
        self.bytes += size;
        if matches!(outcome, Outcome::MemoryHit | Outcome::DiskHit) {
            self.hit_bytes += size;
        }
    }

    pub(super) fn time(&mut self, disk: Nanos, waited: Nanos) {
        self.disk_time.add(disk);
        self.waiting.add(waited);
        self.waited += waited;
    }

    /// Returns the number of requests.
    pub fn requests(&self) -> u64 {
        self.outcomes.sum()
    }

    /// Returns the number of hits in memory and on the disk, without stale ones.
    pub fn hits(&self) -> u64 {
        self.outcomes.of(Outcome::MemoryHit) + self.outcomes.of(Outcome::DiskHit)
    }

    /// Returns hits divided by requests, in percent.
    pub fn document_hit_rate(&self) -> f64 {
        100.0 * self.hits() as f64 / self.requests().max(1) as f64
    }

    /// Returns bytes of hits divided by bytes requested, in percent.
    pub fn byte_hit_rate(&self) -> f64 {
        100.0 * self.hit_bytes as f64 / self.bytes.max(1) as f64
    }

    /// Returns memory hits divided by all hits, in percent (UCFS, table 4).
    pub fn memory_hit_rate(&self) -> f64 {
        100.0 * self.outcomes.of(Outcome::MemoryHit) as f64 / self.hits().max(1) as f64
    }

    /// Returns the percentage of prefetched objects that were requested later (UCFS, 2.4.5); NaN if
    /// none was prefetched.
    pub fn prefetch_hit_rate(&self) -> f64 {
        100.0 * self.prefetch_hits as f64 / self.prefetched as f64
    }

    /// Returns the disk time of all requests in seconds.
    pub fn disk_seconds(&self) -> f64 {
        self.usage.busy() as f64 / 1e9
    }

    /// Returns the mean disk time of a request in milliseconds.
    pub fn disk_ms(&self) -> f64 {
        self.usage.busy() as f64 / 1e6 / self.requests().max(1) as f64
    }

    /// Returns the mean time that a client waited, in milliseconds.
    pub fn waited_ms(&self) -> f64 {
        self.waited as f64 / 1e6 / self.requests().max(1) as f64
    }
}
