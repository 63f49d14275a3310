//! A bound on how much is done per second, with some at once: a token bucket.
//!
//! It fills evenly up to its size and what is done takes from it. Time is passed in; a moment
//! before the last one counts as the last one.

use std::time::Duration;

/// So many units a second, and at most so many at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenBucket {
    /// Units per second.
    rate: u64,
    /// Billionths of a unit that it holds when it is full.
    size: u128,
    /// Billionths of a unit that it holds.
    level: u128,
    /// When the level was computed.
    at: Duration,
}

/// Billionths in one: a rate per second is as many billionths per nanosecond.
const NANO: u128 = 1_000_000_000;

impl TokenBucket {
    /// Makes a full bucket of `size` units that `rate` units a second flow into; a `size` of 0
    /// never lets anything pass.
    pub fn new(rate: u64, size: u64, now: Duration) -> TokenBucket {
        let size = u128::from(size) * NANO;
        TokenBucket { rate, size, level: size, at: now }
    }

    /// Takes `units` if the bucket has as many, and returns whether it had.
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
    fn it_lets_its_size_pass_at_once_and_then_its_rate() {
        let second = Duration::from_secs;
        let mut bucket = TokenBucket::new(10, 20, second(100));
        assert!(bucket.take(20, second(100)) && !bucket.take(1, second(100)));
        assert!(!bucket.take(11, second(101)) && bucket.take(10, second(101)));
        // Time that goes back brings nothing.
        assert!(!bucket.take(1, second(0)) && !bucket.take(1, second(101)));
        assert!(bucket.take(1, second(101) + Duration::from_millis(100)));
        assert!(!bucket.take(21, Duration::MAX) && bucket.take(20, Duration::MAX));
    }

    #[test]
    fn one_without_size_lets_nothing_pass() {
        assert!(!TokenBucket::new(10, 0, Duration::ZERO).take(0, Duration::from_secs(9)));
    }
}
