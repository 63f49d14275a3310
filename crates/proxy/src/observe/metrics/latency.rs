//! Histogram of durations that any thread may add to.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::observe::metrics::Samples;

/// Upper bounds of the buckets, in microseconds.
const BOUNDS: [u64; 20] = [
    50,
    100,
    250,
    500,
    1_000,
    2_500,
    5_000,
    10_000,
    25_000,
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    30_000_000,
    60_000_000,
    300_000_000,
];

/// Counts by duration.
#[derive(Debug, Default)]
pub(super) struct Latency {
    /// The buckets of [`BOUNDS`], and one for longer durations.
    buckets: [AtomicU64; BOUNDS.len() + 1],
    sum_us: AtomicU64,
}

impl Latency {
    pub const fn new() -> Latency {
        let buckets = [const { AtomicU64::new(0) }; BOUNDS.len() + 1];
        Latency { buckets, sum_us: AtomicU64::new(0) }
    }

    pub fn add(&self, duration: Duration) {
        let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        let bucket = BOUNDS.partition_point(|&bound| bound < micros);
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        self.sum_us.fetch_add(micros, Ordering::Relaxed);
    }

    /// Adds the sum of some histograms to the figures of a scrape.
    pub fn sample<'a>(
        all: impl Iterator<Item = &'a Latency>,
        (name, help): (&'static str, &'static str),
        labels: &[(&'static str, &str)],
        out: &mut Samples,
    ) {
        let (mut counts, mut sum) = ([0; BOUNDS.len() + 1], 0);
        for one in all {
            for (count, bucket) in counts.iter_mut().zip(&one.buckets) {
                *count += bucket.load(Ordering::Relaxed);
            }
            sum += one.sum_us.load(Ordering::Relaxed);
        }
        let buckets = BOUNDS.iter().map(|&us| us as f64 / 1e6).zip(counts);
        out.histogram(name, help, labels, sum as f64 / 1e6, buckets, counts[BOUNDS.len()]);
    }
}
