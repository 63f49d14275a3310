//! The prices by which disk and memory are chosen, together: a miss, waiting, and a gigabyte of
//! each.

const GIB: f64 = (1_u64 << 30) as f64;
const HOUR_MS: f64 = 3.6e6;
/// Seconds of a month, a twelfth of 365.25 days.
const MONTH: f64 = 2_629_800.0;
/// Requests a second that are assumed for a log without times.
const RATE: f64 = 10.0;

/// The prices, in any one currency.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prices {
    /// Milliseconds that a request waits for the origin.
    pub miss_ms: f64,
    /// Milliseconds that a request waits for the cache's disk.
    pub read_ms: f64,
    /// Price of an hour that clients wait.
    pub hour: f64,
    /// Price of a million misses, besides the waiting.
    pub misses: f64,
    /// Price of a GiB of memory for a month.
    pub memory: f64,
    /// Price of a GiB of disk for a month.
    pub disk: f64,
    /// Requests a second; `None`: those of the log.
    pub rate: Option<f64>,
}

impl Default for Prices {
    fn default() -> Prices {
        Prices {
            miss_ms: 100.0,
            read_ms: 0.1,
            hour: 1.0,
            misses: 1.0,
            memory: 3.0,
            disk: 0.1,
            rate: None,
        }
    }
}

/// The hits and sizes of a cache whose memory holds a part of what its disk holds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Priced {
    /// Hits of memory and disk together, from 0 to 1.
    pub hits: f64,
    /// Hits of memory, at most `hits`.
    pub memory_hits: f64,
    /// Bytes of disk.
    pub disk: u64,
    /// Bytes of memory.
    pub memory: u64,
}

impl Prices {
    /// Returns the requests of a month, at the rate of a log of so many in this time.
    pub fn monthly(&self, requests: u64, seconds: f64) -> f64 {
        let of_log = if seconds > 0.0 { requests as f64 / seconds } else { RATE };
        self.rate.unwrap_or(of_log) * MONTH
    }

    /// Returns what a cache costs in a month of so many requests. A hit in memory saves a read of
    /// the disk, and any hit a fetch.
    pub fn month(&self, requests: f64, cache: &Priced) -> f64 {
        let missed = 1.0 - cache.hits;
        let waited_ms = missed * self.miss_ms + (cache.hits - cache.memory_hits) * self.read_ms;
        let each = waited_ms / HOUR_MS * self.hour + missed * self.misses / 1e6;
        let gib = |bytes: u64| bytes as f64 / GIB;
        requests * each + gib(cache.memory) * self.memory + gib(cache.disk) * self.disk
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_month_costs_its_misses_reads_and_gigabytes() {
        let prices = Prices::default();
        let empty = Priced::default();
        // 3.6 million misses of 100 ms are 100 hours.
        assert!((prices.month(3.6e6, &empty) - 103.6).abs() < 1e-9);
        let read = Priced { hits: 1.0, ..empty };
        assert!((prices.month(3.6e6, &read) - 0.1).abs() < 1e-9);
        let sizes = Priced { hits: 1.0, memory_hits: 1.0, disk: 10 << 30, memory: 2 << 30 };
        assert!((prices.month(3.6e6, &sizes) - 7.0).abs() < 1e-9);
        assert_eq!(prices.monthly(20, 10.0), 2.0 * MONTH);
        assert_eq!(prices.monthly(20, 0.0), RATE * MONTH);
    }
}
