//! How long an origin takes for an answer: normally distributed, as in PolyMix (2.5 s, deviation
//! 1 s).

use std::time::Duration;

use workload::generator::distributions::SplitMix;

/// A normal distribution, cut off at nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Think {
    /// Mean in seconds.
    pub mean: f64,
    /// Deviation in seconds.
    pub deviation: f64,
}

impl Think {
    /// PolyMix-3's and -4's.
    pub const POLYMIX: Think = Think { mean: 2.5, deviation: 1.0 };

    /// So many times as long.
    #[must_use]
    pub fn scaled(self, scale: f64) -> Think {
        Think { mean: self.mean * scale, deviation: self.deviation * scale }
    }

    /// The delay of an answer, by its number.
    pub fn delay(&self, seed: u64, number: u64) -> Duration {
        if self.mean <= 0.0 {
            return Duration::ZERO;
        }
        let normal = SplitMix::of(seed ^ 0x7468_696e, number).normal();
        Duration::from_secs_f64((self.mean + self.deviation * normal).max(0.0))
    }
}

#[test]
fn delays_have_the_mean_and_the_deviation() {
    let think = Think::POLYMIX.scaled(0.1);
    let all: Vec<f64> = (0..50_000).map(|n| think.delay(1, n).as_secs_f64()).collect();
    let mean = all.iter().sum::<f64>() / all.len() as f64;
    let variance = all.iter().map(|d| (d - mean).powi(2)).sum::<f64>() / all.len() as f64;
    // What would be below nothing is nothing: 0.6% of them.
    assert!((mean - 0.25).abs() < 0.003, "{mean}");
    assert!((variance.sqrt() - 0.1).abs() < 0.003, "{}", variance.sqrt());
    assert_eq!(Think::default().delay(1, 1), Duration::ZERO);
}
