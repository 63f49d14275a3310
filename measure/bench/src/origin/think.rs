//! The think time of an origin: normally distributed as in PolyMix (2.5 s, deviation 1 s), plus the
//! network delay in both directions.

use std::time::Duration;

use workload::generator::distributions::SplitMix;

/// A normal distribution, truncated at zero.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Think {
    /// Mean in seconds.
    pub mean: f64,
    /// Standard deviation in seconds.
    pub deviation: f64,
    /// Round-trip time of the network in seconds.
    pub round_trip: f64,
}

impl Think {
    /// The think time of PolyMix-3.
    pub const POLYMIX_3: Think = Think { mean: 2.5, deviation: 1.0, round_trip: 0.0 };
    /// The think time of PolyMix-4, whose origins are 40 ms away in each direction.
    pub const POLYMIX_4: Think = Think { round_trip: 0.08, ..Think::POLYMIX_3 };

    /// Returns this think time multiplied by a factor.
    #[must_use]
    pub fn scaled(self, scale: f64) -> Think {
        Think {
            mean: self.mean * scale,
            deviation: self.deviation * scale,
            round_trip: self.round_trip * scale,
        }
    }

    /// Returns the delay of a response, by its number. The first one on a connection also waits for
    /// the connection setup.
    pub fn delay(&self, seed: u64, number: u64, is_first: bool) -> Duration {
        if self.mean <= 0.0 {
            return Duration::ZERO;
        }
        let network = self.round_trip * if is_first { 2.0 } else { 1.0 };
        let normal = SplitMix::of(seed ^ 0x7468_696e, number).normal();
        Duration::from_secs_f64((self.mean + self.deviation * normal).max(0.0) + network)
    }
}

#[test]
fn delays_have_the_mean_and_the_deviation() {
    let think = Think::POLYMIX_3.scaled(0.1);
    let all: Vec<f64> = (0..50_000).map(|n| think.delay(1, n, false).as_secs_f64()).collect();
    let mean = all.iter().sum::<f64>() / all.len() as f64;
    let variance = all.iter().map(|d| (d - mean).powi(2)).sum::<f64>() / all.len() as f64;
    // Negative values, 0.6% of all, become zero.
    assert!((mean - 0.25).abs() < 0.003, "{mean}");
    assert!((variance.sqrt() - 0.1).abs() < 0.003, "{}", variance.sqrt());
    assert_eq!(Think::default().delay(1, 1, true), Duration::ZERO);
    let away = Think { round_trip: 0.08, ..think };
    let [near, far, first] =
        [think.delay(1, 5, true), away.delay(1, 5, false), away.delay(1, 5, true)];
    assert_eq!((far - near).as_millis(), 80);
    assert_eq!((first - near).as_millis(), 160);
}
