//! Token bucket: bounds a rate per second and allows bursts.
//!
//! It fills at a constant rate up to its size, and each operation takes units from it. Time is an
//! argument; a time before the latest one counts as the latest.

use std::time::Duration;

/// Bucket with a rate in units per second and a maximum burst.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenBucket {
    /// Units per second.
    rate: u64,
    /// Capacity in billionths of a unit.
    size: u128,
    /// Current level in billionths of a unit.
    level: u128,
    /// Time at which `level` was computed.
    at: Duration,
}

/// Billionths in a unit; a rate per second is the same number of billionths per nanosecond.
const NANO: u128 = 1_000_000_000;

impl TokenBucket {
    /// Makes a full bucket of `size` units that refills at `rate` units per second. A `size` of 0
    /// lets nothing pass.
    pub fn new(rate: u64, size: u64, now: Duration) -> TokenBucket {
        let size = u128::from(size) * NANO;
        TokenBucket { rate, size, level: size, at: now }
    }

    /// Takes `units` if the bucket holds that many; returns whether it did.
    pub fn take(&mut self, units: u64, now: Duration) -> bool {
        let passed = now.saturating_sub(self.at);
        let flown = passed.as_nanos().saturating_mul(u128::from(self.rate));
        self.level = self.level.saturating_add(flown).min(self.size);
        self.at = self.at.max(now);
        let wanted = u128::from(units) * NANO;
        let enough = wanted <= self.level && self.size > 0;
        if enough {
            self.level -= wanted;
        }
        enough
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_allows_its_size_at_once_and_then_its_rate() {
        let second = Duration::from_secs;
        let mut bucket = TokenBucket::new(10, 20, second(100));
        assert!(bucket.take(20, second(100)) && !bucket.take(1, second(100)));
        assert!(!bucket.take(11, second(101)) && bucket.take(10, second(101)));
        // A clock that goes back adds no units.
        assert!(!bucket.take(1, second(0)) && !bucket.take(1, second(101)));
        assert!(bucket.take(1, second(101) + Duration::from_millis(100)));
        assert!(!bucket.take(21, Duration::MAX) && bucket.take(20, Duration::MAX));
    }

    #[test]
    fn one_without_size_lets_nothing_pass() {
        assert!(!TokenBucket::new(10, 0, Duration::ZERO).take(0, Duration::from_secs(9)));
    }
}
