//! What a run came to.

use device::Nanos;

use super::{Outcome, Usage};

/// Bins of a histogram, each of a millisecond; what is longer is in the last one.
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

    /// The share of all requests that took from `from` up to less than `to` milliseconds, in
    /// percent. Above 63 ms nothing is told apart.
    pub fn percent(&self, from: usize, to: usize) -> f64 {
        let all: u64 = self.bins.iter().sum();
        let part: u64 = self.bins.iter().take(to.min(BINS)).skip(from).sum();
        100.0 * part as f64 / all.max(1) as f64
    }

    /// The share of requests that took `from` milliseconds or longer, in percent.
    pub fn percent_from(&self, from: usize) -> f64 {
        self.percent(from, BINS)
    }
}

/// Requests by what came of them, in the order of [`Outcome::ALL`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcomes([u64; Outcome::ALL.len()]);

impl Outcomes {
    /// How many came to this.
    pub fn of(&self, outcome: Outcome) -> u64 {
        self.0[outcome as usize]
    }

    /// All of them.
    pub fn sum(&self) -> u64 {
        self.0.iter().sum()
    }
}

/// Of the requests that were counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// By what came of them.
    pub outcomes: Outcomes,
    /// Bytes asked for.
    pub bytes: u64,
    /// Bytes answered from the cache.
    pub hit_bytes: u64,
    /// The disk time of each request.
    pub disk_time: Histogram,
    /// How long each client waited.
    pub waiting: Histogram,
    /// How long all clients waited.
    pub waited: Nanos,
    /// What the drive did.
    pub usage: Usage,
    /// Objects that came into memory beside one that was asked for.
    pub prefetched: u64,
    /// Those of them that were asked for later, each once.
    pub prefetch_hits: u64,
    /// Virtual time from the first to the last answer.
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

    /// Requests.
    pub fn requests(&self) -> u64 {
        self.outcomes.sum()
    }

    /// Hits of memory and disk, stale ones left out.
    pub fn hits(&self) -> u64 {
        self.outcomes.of(Outcome::MemoryHit) + self.outcomes.of(Outcome::DiskHit)
    }

    /// Hits by requests, in percent.
    pub fn document_hit_rate(&self) -> f64 {
        100.0 * self.hits() as f64 / self.requests().max(1) as f64
    }

    /// Bytes of hits by bytes asked for, in percent.
    pub fn byte_hit_rate(&self) -> f64 {
        100.0 * self.hit_bytes as f64 / self.bytes.max(1) as f64
    }

    /// Hits in memory by all hits, in percent (UCFS, table 4).
    pub fn memory_hit_rate(&self) -> f64 {
        100.0 * self.outcomes.of(Outcome::MemoryHit) as f64 / self.hits().max(1) as f64
    }

    /// Objects that prefetching brought and that were asked for later, by those it brought, in
    /// percent (UCFS, 2.4.5). NaN when it brought none.
    pub fn prefetch_hit_rate(&self) -> f64 {
        100.0 * self.prefetch_hits as f64 / self.prefetched as f64
    }

    /// The disk time of all requests, in seconds.
    pub fn disk_seconds(&self) -> f64 {
        self.usage.busy() as f64 / 1e9
    }

    /// The mean disk time of a request, in milliseconds.
    pub fn disk_ms(&self) -> f64 {
        self.usage.busy() as f64 / 1e6 / self.requests().max(1) as f64
    }

    /// The mean time that a client waited, in milliseconds.
    pub fn waited_ms(&self) -> f64 {
        self.waited as f64 / 1e6 / self.requests().max(1) as f64
    }
}
