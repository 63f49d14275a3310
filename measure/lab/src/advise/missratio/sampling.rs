//! Spatial sampling (SHARDS; Waldspurger and others, FAST 2015 and, for any policy, ATC 2017): all
//! requests for some of the objects instead of some of the requests.
//!
//! A hash of an object's name decides whether it is in the sample. Either all of its requests are
//! in the sample or none, so popularity and reuse are preserved. A cache of a hundredth of the size
//! treats a hundredth of the objects as the whole cache treats all of them. Time and memory shrink
//! in the same proportion.
//!
//! A count in the sample stands for `1/rate` in the whole. Misses are divided by all requests of
//! the trace, not by the sampled ones times `1/rate`: a sample has too many or too few requests
//! because of a few popular objects, and requests for those are hits (the adjustment called
//! SHARDS-adj).

use super::numbers::mix;

/// The share of the objects that is in a sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampling {
    rate: f64,
    /// Objects with a hash up to this one are in the sample.
    last: u64,
}

/// An invalid sampling rate.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("the sampling rate is {0}: expected more than 0 and at most 1, such as 0.01")]
pub struct BadRate(f64);

impl Sampling {
    /// Every object, for exact results.
    pub const ALL: Sampling = Sampling { rate: 1.0, last: u64::MAX };

    /// Returns the sampling of this share of all objects, above 0 and up to 1.
    pub fn new(rate: f64) -> Result<Sampling, BadRate> {
        if !(rate > 0.0 && rate <= 1.0) {
            return Err(BadRate(rate));
        }
        // The product is at most 2^64, which saturates to the largest hash.
        Ok(Sampling { rate, last: (rate * 2_f64.powi(64)) as u64 })
    }

    /// Returns the share of objects that is sampled.
    pub fn rate(self) -> f64 {
        self.rate
    }

    /// Returns the largest hash that is in the sample.
    pub(crate) fn last(self) -> u64 {
        self.last
    }

    /// Returns whether an object is in the sample.
    #[inline]
    pub fn takes(self, object: u64) -> bool {
        self.last == u64::MAX || sample_hash(object) <= self.last
    }

    /// Returns the size of a cache that relates to the sample as `size` relates to the whole.
    pub fn shrink(self, size: u64) -> u64 {
        if self == Sampling::ALL { size } else { (size as f64 * self.rate).round() as u64 }
    }

    /// Extrapolates a count in the sample to the whole, to at most `most`.
    pub fn grow(self, count: u64, most: u64) -> u64 {
        if self == Sampling::ALL {
            return count;
        }
        ((count as f64 / self.rate).round() as u64).min(most)
    }
}

/// Returns the hash that decides on sampling. It is independent of the hash that policies see,
/// whose high bits would otherwise all be zero.
#[inline]
pub(crate) fn sample_hash(object: u64) -> u64 {
    mix(mix(object) ^ 0x5348_4152_4453_0001)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_has_its_share_of_the_objects() {
        for rate in [0.5, 0.01] {
            let sampling = Sampling::new(rate).unwrap();
            let taken = (0..1_000_000).filter(|object| sampling.takes(*object)).count() as f64;
            let deviation = (1e6 * rate * (1.0 - rate)).sqrt();
            assert!((taken - 1e6 * rate).abs() < 4.0 * deviation, "{taken} at {rate}");
        }
        let all = Sampling::new(1.0).unwrap();
        assert_eq!(all, Sampling::ALL);
        assert_eq!((all.shrink(u64::MAX), all.grow(u64::MAX, 3)), (u64::MAX, u64::MAX));
    }

    #[test]
    fn a_smaller_sample_is_part_of_a_larger_one() {
        let [small, large] = [0.05, 0.2].map(|rate| Sampling::new(rate).unwrap());
        assert!((0..10_000).all(|object| !small.takes(object) || large.takes(object)));
    }

    #[test]
    fn rates_that_are_none_are_refused() {
        for rate in [0.0, -0.1, 1.1, f64::NAN, f64::INFINITY] {
            assert!(Sampling::new(rate).is_err(), "{rate}");
        }
        assert!(Sampling::new(7.0).unwrap_err().to_string().contains("rate is 7:"));
    }
}
