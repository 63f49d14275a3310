//! Times until another node showed a sign of work, and the patience that follows from them.
//!
//! Mean and deviation are smoothed as for TCP (RFC 6298, 2). A question that was given up counts
//! as one that took as long as it was waited for, so patience grows until answers arrive in time.

use std::time::Duration;

/// Upper bound of the patience.
pub const PATIENCE_MAX: Duration = Duration::from_secs(2);

/// Smoothed times of one node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RoundTrips {
    mean: Duration,
    deviation: Duration,
}

impl RoundTrips {
    /// Records the time of one question.
    pub fn note(&mut self, took: Duration) {
        self.deviation = (self.deviation * 3 + took.abs_diff(self.mean)) / 4;
        self.mean = (self.mean * 7 + took) / 8;
    }

    /// Returns how long to wait for a sign of work: `least`, or twice the time that nearly all
    /// questions took, but at most [`PATIENCE_MAX`].
    pub fn patience(&self, least: Duration) -> Duration {
        let nearly_all = self.mean + self.deviation * 4;
        (nearly_all * 2).min(PATIENCE_MAX).max(least)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAST: Duration = Duration::from_millis(500);

    fn after(times: impl IntoIterator<Item = u64>) -> u128 {
        let mut known = RoundTrips::default();
        times.into_iter().for_each(|time| known.note(Duration::from_millis(time)));
        known.patience(LEAST).as_millis()
    }

    #[test]
    fn patience_is_longer_for_a_slow_network_alone() {
        assert_eq!(after([]), 500);
        assert_eq!(after([1, 2, 1, 30, 1, 20]), 500);
        assert_eq!(after([1_500, 500, 500, 500]), 2_000);
        let steady = after(std::iter::repeat_n(500, 50));
        assert!((1_000..1_100).contains(&steady), "{steady}");
        // A slow network becomes fast.
        assert_eq!(after(std::iter::repeat_n(500, 50).chain(std::iter::repeat_n(1, 30))), 500);
    }

    #[test]
    fn questions_that_were_given_up_make_it_longer() {
        let mut known = RoundTrips::default();
        let mut waited = Vec::new();
        for _ in 0..4 {
            let patience = known.patience(LEAST);
            known.note(patience);
            waited.push(patience.as_millis());
        }
        assert_eq!(waited, [500, 1_125, 2_000, 2_000]);
    }
}
