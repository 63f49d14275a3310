//! Response times in bins of a millisecond, as in the papers' figures.

use device::Nanos;

use super::Served;
use crate::space::manager::Calls;
use workload::two_level::CacheCounts;

const MS: Nanos = 1_000_000;

/// Response times.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Latencies {
    /// Number of times in each millisecond: below 1 ms, from 1 to below 2 ms, …
    milliseconds: Vec<u64>,
    count: u64,
    total: Nanos,
    longest: Nanos,
}

impl Latencies {
    /// Adds a time in nanoseconds.
    pub fn add(&mut self, time: Nanos) {
        // Times above ten seconds are in the last bin.
        let slot = (time / MS).min(10_000) as usize;
        if slot >= self.milliseconds.len() {
            self.milliseconds.resize(slot + 1, 0);
        }
        self.milliseconds[slot] += 1;
        self.count += 1;
        self.total += time;
        self.longest = self.longest.max(time);
    }

    /// Returns the number of times.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the sum in seconds.
    pub fn total_seconds(&self) -> f64 {
        self.total as f64 * 1e-9
    }

    /// Returns the mean in milliseconds; 0 if there are none.
    pub fn mean_ms(&self) -> f64 {
        self.total as f64 * 1e-6 / self.count.max(1) as f64
    }

    /// Returns the longest time in milliseconds.
    pub fn longest_ms(&self) -> f64 {
        self.longest as f64 * 1e-6
    }

    /// Returns the share of times from `from` to less than `to` milliseconds, 0 to 1.
    pub fn share(&self, from: usize, to: usize) -> f64 {
        let end = to.min(self.milliseconds.len());
        let within: u64 = self.milliseconds.get(from..end).unwrap_or_default().iter().sum();
        within as f64 / self.count.max(1) as f64
    }

    /// Returns the number of times in each millisecond, up to the longest.
    pub fn by_millisecond(&self) -> &[u64] {
        &self.milliseconds
    }
}

/// The results of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Counts of the cache's decisions.
    pub cache: CacheCounts,
    /// The calls to the file system.
    pub calls: Calls,
    /// Times of all requests.
    pub all: Latencies,
    /// Times of the requests served from the file system.
    pub reads: Latencies,
    /// Times of the requests that stored an object, including the removals for it.
    pub stores: Latencies,
    /// Virtual nanoseconds from the first request to the last response.
    pub time: Nanos,
}

impl Report {
    /// Adds a response.
    pub fn add(&mut self, served: Served, time: Nanos) {
        self.all.add(time);
        match served {
            Served::Disk => self.reads.add(time),
            Served::Stored => self.stores.add(time),
            Served::Memory | Served::Passed => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_and_sums() {
        let mut times = Latencies::default();
        for time in [0, MS - 1, MS, 5 * MS, 28 * MS] {
            times.add(time);
        }
        assert_eq!((times.share(0, 1), times.share(1, 6), times.share(28, 99)), (0.4, 0.4, 0.2));
        assert_eq!((times.share(50, 60), times.count()), (0.0, 5));
        assert!((times.mean_ms() - 7.0).abs() < 1e-6);
        assert_eq!(times.longest_ms(), 28.0);
        assert_eq!(times.by_millisecond()[..2], [2, 1]);
    }
}
