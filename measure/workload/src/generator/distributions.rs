//! Seeded randomness that is the same on every machine and with every version of any crate.

use crate::contents::mix;

/// A sequence of random numbers: splitmix64.
#[derive(Clone, Debug)]
pub struct SplitMix(u64);

impl SplitMix {
    /// Returns the sequence of this seed.
    pub fn new(seed: u64) -> SplitMix {
        SplitMix(mix(seed))
    }

    /// Returns the sequence of one thing, so that its properties follow from its number and not
    /// from the order of requests.
    pub fn of(seed: u64, thing: u64) -> SplitMix {
        SplitMix(mix(seed ^ mix(thing)))
    }

    /// Returns the next number, uniform over all values.
    pub fn number(&mut self) -> u64 {
        let number = mix(self.0);
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        number
    }

    /// Returns a number from 0 to below `end`, which must be more than 0.
    pub fn below(&mut self, end: u64) -> u64 {
        // The high half of the product: its bias would not show in fewer than 2^64 draws.
        ((u128::from(self.number()) * u128::from(end)) >> 64) as u64
    }

    /// Returns a number uniform above 0, up to 1, so that its logarithm exists.
    pub fn uniform(&mut self) -> f64 {
        ((self.number() >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }

    /// Returns true with this probability.
    pub fn chance(&mut self, probability: f64) -> bool {
        self.uniform() <= probability
    }

    /// Returns a normal number with mean 0 and deviation 1 (Box and Muller).
    pub fn normal(&mut self) -> f64 {
        (-2.0 * self.uniform().ln()).sqrt() * (std::f64::consts::TAU * self.uniform()).cos()
    }

    /// Returns an exponential number with mean 1.
    pub fn exponential(&mut self) -> f64 {
        -self.uniform().ln()
    }

    /// Returns a number of Polygraph's zipf(n): 1 to `n`, each `k` with probability ln((k+1)/k) /
    /// ln(n+1).
    pub fn zipf(&mut self, n: u32) -> u32 {
        (f64::from(n + 1).powf(self.uniform()) as u32).clamp(1, n)
    }

    /// Returns 1 to `n` with probability approximately proportional to `k` to the power of
    /// -`exponent`: a number of that density, truncated.
    pub fn power(&mut self, n: u64, exponent: f64) -> u64 {
        let (end, rest) = (n as f64 + 1.0, 1.0 - exponent);
        let drawn = match rest.abs() < 1e-9 {
            true => end.powf(self.uniform()),
            false => (1.0 + self.uniform() * (end.powf(rest) - 1.0)).powf(1.0 / rest),
        };
        (drawn as u64).clamp(1, n)
    }

    /// Returns 1 to `n` with probability exactly proportional to 1 / `k`, in time proportional to
    /// `n`.
    pub fn harmonic(&mut self, n: u64) -> u64 {
        let sum: f64 = (1..=n).map(|rank| 1.0 / rank as f64).sum();
        let mut left = self.uniform() * sum;
        (1..n)
            .find(|rank| {
                left -= 1.0 / *rank as f64;
                left < 0.0
            })
            .unwrap_or(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the mean of many draws.
    fn mean(draw: impl FnMut(usize) -> f64) -> f64 {
        const DRAWS: usize = 200_000;
        (0..DRAWS).map(draw).sum::<f64>() / DRAWS as f64
    }

    #[test]
    fn distributions_are_what_they_are_called() {
        let mut dice = SplitMix::new(1);
        assert!((mean(|_| dice.uniform()) - 0.5).abs() < 0.003);
        assert!(mean(|_| dice.normal()).abs() < 0.01);
        assert!((mean(|_| dice.normal().powi(2)) - 1.0).abs() < 0.02);
        assert!((mean(|_| dice.exponential()) - 1.0).abs() < 0.01);
        assert!((mean(|_| dice.below(10) as f64) - 4.5).abs() < 0.03);
        // Polygraph's page has 4.45 objects on average.
        assert!((mean(|_| f64::from(dice.zipf(13))) - 4.45).abs() < 0.03);
        let ones = mean(|_| f64::from(u8::from(dice.power(9, 1.0) == 1)));
        assert!((ones - 2_f64.ln() / 10_f64.ln()).abs() < 0.01);
        let ones = mean(|_| f64::from(u8::from(dice.power(8, 0.5) == 1)));
        assert!((ones - (2_f64.sqrt() - 1.0) / 2.0).abs() < 0.01);
    }

    #[test]
    fn a_seed_says_everything() {
        let draws = |seed| [(); 4].map(|()| SplitMix::new(seed).number());
        assert_eq!(draws(5), draws(5));
        assert_ne!(SplitMix::of(1, 2).number(), SplitMix::of(1, 3).number());
        // The same on any machine.
        assert_eq!(SplitMix::new(0).below(1_000), 652);
    }
}
