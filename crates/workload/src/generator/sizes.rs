//! Sizes of objects: a lognormal body with a Pareto tail, as studies of web traffic find them.

use super::distributions::SplitMix;

/// The body and the tail of a distribution of sizes, in bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sizes {
    /// Half of the body's objects are smaller.
    pub median: f64,
    /// Deviation of the logarithm (natural) of the body's sizes.
    pub sigma: f64,
    /// The share of objects that belong to the tail.
    pub tail: f64,
    /// The smallest of the tail.
    pub tail_min: f64,
    /// The tail's exponent: the smaller, the heavier.
    pub tail_alpha: f64,
    /// No object is larger.
    pub largest: f64,
}

impl Sizes {
    /// Bytes of an object, whose dice these are.
    pub fn draw(&self, dice: &mut SplitMix) -> u64 {
        let size = match dice.chance(self.tail) {
            true => {
                // Pareto, cut at the largest by taking the share of what lies below it.
                let below = 1.0 - (self.tail_min / self.largest).powf(self.tail_alpha);
                self.tail_min * (1.0 - (1.0 - dice.uniform()) * below).powf(-1.0 / self.tail_alpha)
            }
            false => self.median * (self.sigma * dice.normal()).exp(),
        };
        size.clamp(1.0, self.largest) as u64
    }

    /// The mean of all objects, but for what the largest size cuts off the body.
    pub fn mean(&self) -> f64 {
        let body = self.median * (self.sigma * self.sigma / 2.0).exp();
        let (alpha, least) = (self.tail_alpha, self.tail_min);
        let ratio = least / self.largest;
        let tail = least * alpha / (alpha - 1.0) * (1.0 - ratio.powf(alpha - 1.0))
            / (1.0 - ratio.powf(alpha));
        (1.0 - self.tail) * body + self.tail * tail
    }

    /// The same body and tail, with so many objects in the tail that this is the mean.
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
        // The largest objects carry much of it: the mean is no better known than this.
        let mean = drawn.iter().sum::<u64>() as f64 / drawn.len() as f64;
        assert!((18_000.0..22_000.0).contains(&mean), "mean {mean}");
        assert!(drawn[drawn.len() - 1] <= 100_000_000);
    }
}
