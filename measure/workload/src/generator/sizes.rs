//! Sizes of objects: a lognormal body with a Pareto tail, as found by studies of web traffic.

use super::distributions::SplitMix;

/// Body and tail of a size distribution, in bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sizes {
    /// Median size of the body.
    pub median: f64,
    /// Standard deviation of the natural logarithm of the body's sizes.
    pub sigma: f64,
    /// Share of objects in the tail.
    pub tail: f64,
    /// Smallest size in the tail.
    pub tail_min: f64,
    /// Exponent of the tail: the smaller, the heavier.
    pub tail_alpha: f64,
    /// Largest size of all objects.
    pub largest: f64,
}

impl Sizes {
    /// Draws the size of an object in bytes.
    pub fn draw(&self, dice: &mut SplitMix) -> u64 {
        let size = match dice.chance(self.tail) {
            true => {
                // Pareto, truncated at the largest size by scaling to the share below it.
                let below = 1.0 - (self.tail_min / self.largest).powf(self.tail_alpha);
                self.tail_min * (1.0 - (1.0 - dice.uniform()) * below).powf(-1.0 / self.tail_alpha)
            }
            false => self.median * (self.sigma * dice.normal()).exp(),
        };
        size.clamp(1.0, self.largest) as u64
    }

    /// Returns the mean size of all objects, ignoring that the body is truncated at the largest
    /// size.
    pub fn mean(&self) -> f64 {
        let body = self.median * (self.sigma * self.sigma / 2.0).exp();
        let (alpha, least) = (self.tail_alpha, self.tail_min);
        let ratio = least / self.largest;
        let tail = least * alpha / (alpha - 1.0) * (1.0 - ratio.powf(alpha - 1.0))
            / (1.0 - ratio.powf(alpha));
        (1.0 - self.tail) * body + self.tail * tail
    }

    /// Returns the distribution with the share of the tail adjusted to this mean.
    #[must_use]
    pub fn with_mean(self, mean: f64) -> Sizes {
        let body = Sizes { tail: 0.0, ..self }.mean();
        let tail = Sizes { tail: 1.0, ..self }.mean();
        Sizes { tail: ((mean - body) / (tail - body)).clamp(0.0, 1.0), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: Sizes = Sizes {
        median: 3_000.0,
        sigma: 1.2,
        tail: 0.02,
        tail_min: 50_000.0,
        tail_alpha: 1.3,
        largest: 1e8,
    };

    #[test]
    fn sizes_have_the_mean_and_the_shape() {
        let sizes = SIZES.with_mean(20_000.0);
        assert!((sizes.mean() - 20_000.0).abs() < 1e-6);
        let mut drawn: Vec<u64> =
            (0..400_000).map(|object| sizes.draw(&mut SplitMix::of(3, object))).collect();
        drawn.sort_unstable();
        let median = drawn[drawn.len() / 2] as f64;
        assert!((3_000.0..3_400.0).contains(&median), "median {median}");
        // The largest objects dominate the sum, so the mean is known no better than this.
        let mean = drawn.iter().sum::<u64>() as f64 / drawn.len() as f64;
        assert!((18_000.0..22_000.0).contains(&mean), "mean {mean}");
        assert!(drawn[drawn.len() - 1] <= 100_000_000);
    }
}
