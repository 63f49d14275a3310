//! A histogram of request times with three significant digits, from a microsecond to an hour.

use hdrhistogram::Histogram;

/// The shortest and the longest time that are distinguished, in nanoseconds.
const SHORTEST: u64 = 1_000;
const LONGEST: u64 = 3_600_000_000_000;

/// A histogram of request times in nanoseconds.
#[derive(Clone, Debug)]
pub struct Latencies(Histogram<u64>);

impl Default for Latencies {
    fn default() -> Latencies {
        Latencies::new()
    }
}

impl Latencies {
    /// Creates an empty histogram.
    pub fn new() -> Latencies {
        let histogram = Histogram::new_with_bounds(SHORTEST, LONGEST, 3);
        Latencies(histogram.expect("these bounds are allowed"))
    }

    /// Adds a time.
    pub fn record(&mut self, time: u64) {
        self.0.saturating_record(time);
    }

    /// Returns the number of times.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// Returns the time that `percent` of the times do not exceed; 0 if there are none.
    pub fn percentile(&self, percent: f64) -> f64 {
        match self.0.is_empty() {
            true => 0.0,
            false => self.0.value_at_percentile(percent) as f64,
        }
    }

    /// Returns the mean; 0 if there are none.
    pub fn mean(&self) -> f64 {
        if self.0.is_empty() { 0.0 } else { self.0.mean() }
    }

    /// Returns the longest time; 0 if there are none.
    pub fn max(&self) -> f64 {
        if self.0.is_empty() { 0.0 } else { self.0.max() as f64 }
    }

    /// Removes all times.
    pub fn clear(&mut self) {
        self.0.reset();
    }
}

#[test]
fn percentiles_have_three_digits() {
    let mut latencies = Latencies::new();
    assert_eq!((latencies.percentile(99.0), latencies.mean(), latencies.max()), (0.0, 0.0, 0.0));
    (1..=10_000).for_each(|time| latencies.record(time * 10_000));
    for (percent, time) in [(50.0, 5e7), (99.0, 9.9e7), (99.9, 9.99e7), (100.0, 1e8)] {
        assert!((latencies.percentile(percent) / time - 1.0).abs() < 2e-3, "{percent}");
    }
    assert!((latencies.mean() / 5.0e7 - 1.0).abs() < 2e-3);
    latencies.record(u64::MAX);
    assert!(latencies.max() >= LONGEST as f64);
}
