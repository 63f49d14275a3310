//! Durations of the operations of a device, by kind, as the clock of the store measures them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use device::{Nanos, Operation};

/// Upper bounds of the buckets, in nanoseconds: from memory of the system to disks that retry.
const BOUNDS: [u64; 16] = [
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
    25_000_000,
    50_000_000,
    100_000_000,
    500_000_000,
    2_500_000_000,
    10_000_000_000,
];

/// Live histograms of a volume, one for each operation.
#[derive(Debug, Default)]
pub(crate) struct OperationTimes([Histogram; 3]);

#[derive(Debug, Default)]
struct Histogram {
    counts: [AtomicU64; BOUNDS.len() + 1],
    sum_ns: AtomicU64,
}

/// Histogram of the durations of one operation since the volume was opened. A read that exceeds the
/// stall bound counts with that bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OperationFigures {
    counts: [u64; BOUNDS.len() + 1],
    sum_ns: u64,
}

impl OperationTimes {
    /// Adds an operation that took `time`.
    pub(crate) fn add(&self, operation: Operation, time: Nanos) {
        let histogram = &self.0[index(operation)];
        let bucket = BOUNDS.partition_point(|&bound| bound < time);
        histogram.counts[bucket].fetch_add(1, Ordering::Relaxed);
        histogram.sum_ns.fetch_add(time, Ordering::Relaxed);
    }

    /// Returns the figures of one operation so far.
    pub(crate) fn figures(&self, operation: Operation) -> OperationFigures {
        let histogram = &self.0[index(operation)];
        OperationFigures {
            counts: histogram.counts.each_ref().map(|count| count.load(Ordering::Relaxed)),
            sum_ns: histogram.sum_ns.load(Ordering::Relaxed),
        }
    }
}

impl OperationFigures {
    /// Returns the histogram. Each item is an upper bound in nanoseconds and the number of
    /// operations between the previous bound and this one. The second value is the number of
    /// operations above the last bound.
    pub fn times(&self) -> (impl Iterator<Item = (u64, u64)>, u64) {
        (BOUNDS.into_iter().zip(self.counts), self.counts[BOUNDS.len()])
    }

    /// Returns the total duration.
    pub fn sum(&self) -> Duration {
        Duration::from_nanos(self.sum_ns)
    }
}

fn index(operation: Operation) -> usize {
    match operation {
        Operation::Read => 0,
        Operation::Write => 1,
        Operation::Flush => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_counted_by_kind_below_their_bounds() {
        let times = OperationTimes::default();
        for ns in [0, 10_000, 10_001, 10_000_000_001] {
            times.add(Operation::Write, ns);
        }
        let figures = times.figures(Operation::Write);
        let (counts, above) = figures.times();
        let counts: Vec<_> = counts.filter(|&(_, count)| count > 0).collect();
        assert_eq!((counts, above), (vec![(10_000, 2), (25_000, 1)], 1));
        assert_eq!(figures.sum(), Duration::from_nanos(10_000_020_002));
        assert_eq!(times.figures(Operation::Read), OperationFigures::default());
    }
}
