//! The schedule of an open loop, which is independent of responses.

use workload::generator::distributions::SplitMix;

use super::{Nanos, SECOND};

/// The distribution of intervals between requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spacing {
    /// Equal intervals.
    Constant,
    /// Exponential intervals, as from independent clients.
    Poisson,
}

/// The schedule of a phase; the rate changes linearly from one value to another.
#[derive(Clone, Debug)]
pub struct Arrivals {
    spacing: Spacing,
    dice: SplitMix,
    start: Nanos,
    length: Nanos,
    /// Requests per second at the start and at the end.
    rates: [f64; 2],
    next: f64,
}

impl Arrivals {
    /// Creates the schedule of a phase that begins at `start`. `rates` are those at its start and
    /// its end, in requests per second, and above 0.
    pub fn new(
        spacing: Spacing,
        seed: u64,
        start: Nanos,
        length: Nanos,
        rates: [f64; 2],
    ) -> Arrivals {
        let dice = SplitMix::new(seed);
        let mut arrivals = Arrivals { spacing, dice, start, length, rates, next: start as f64 };
        // Prevents all phases from beginning with an immediate request.
        arrivals.next += arrivals.distance();
        arrivals
    }

    /// Returns the time of the next request if it is due by now.
    pub fn due(&mut self, now: Nanos) -> Option<Nanos> {
        let due = self.next()?;
        if due > now {
            return None;
        }
        self.next += self.distance();
        Some(due)
    }

    /// Returns when the next request is due; `None` if that is after the end of the phase.
    pub fn next(&self) -> Option<Nanos> {
        let next = self.next as Nanos;
        (next < self.start.saturating_add(self.length)).then_some(next)
    }

    /// Returns the interval between the next request and the one after it, in nanoseconds.
    fn distance(&mut self) -> f64 {
        let share = match self.length {
            0 => 0.0,
            length => ((self.next - self.start as f64) / length as f64).clamp(0.0, 1.0),
        };
        let rate = self.rates[0] + (self.rates[1] - self.rates[0]) * share;
        let mean = SECOND as f64 / rate;
        match self.spacing {
            Spacing::Constant => mean,
            Spacing::Poisson => mean * self.dice.exponential(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(mut arrivals: Arrivals) -> Vec<Nanos> {
        std::iter::from_fn(|| arrivals.due(Nanos::MAX)).collect()
    }

    #[test]
    fn constant_distances_are_equal_and_the_phase_ends() {
        let found = all(Arrivals::new(Spacing::Constant, 1, 5 * SECOND, SECOND, [100.0, 100.0]));
        assert_eq!(found.len(), 99);
        assert_eq!(found[0], 5 * SECOND + 10_000_000);
        assert!(found.windows(2).all(|pair| pair[1] - pair[0] == 10_000_000));
        let mut one = Arrivals::new(Spacing::Constant, 1, 0, SECOND, [1_000.0, 1_000.0]);
        assert_eq!((one.due(999_999), one.due(1_000_000)), (None, Some(1_000_000)));
    }

    #[test]
    fn poissons_distances_vary_as_much_as_their_mean() {
        let spacing = Spacing::Poisson;
        let found = all(Arrivals::new(spacing, 1, 0, 100 * SECOND, [1_000.0, 1_000.0]));
        assert!((99_000..101_000).contains(&found.len()), "{}", found.len());
        let gaps: Vec<f64> = found.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let square = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((square.sqrt() / mean - 1.0).abs() < 0.02, "{}", square.sqrt() / mean);
        let other = Arrivals::new(spacing, 2, 0, 100 * SECOND, [1_000.0, 1_000.0]);
        assert_ne!(found, all(other), "seeds differ");
    }

    #[test]
    fn a_ramp_goes_from_one_rate_to_another() {
        let found = all(Arrivals::new(Spacing::Poisson, 3, 0, 100 * SECOND, [100.0, 1_000.0]));
        let within = |from: u64, to: u64| {
            found.iter().filter(|due| (from * SECOND..to * SECOND).contains(*due)).count()
        };
        assert!((53_500..56_500).contains(&found.len()), "{}", found.len());
        assert!((1_250..1_650).contains(&within(0, 10)), "{}", within(0, 10));
        assert!((9_200..9_900).contains(&within(90, 100)), "{}", within(90, 100));
    }
}
