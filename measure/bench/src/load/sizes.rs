//! Object sizes of the synthetic workloads.

use cli::units::parse_size;
use workload::generator::distributions::SplitMix;
use workload::generator::{sizes, streams};

/// A distribution of sizes in bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Sizes {
    /// One size.
    Fixed(u64),
    /// Uniform from the first to the second.
    Uniform(u64, u64),
    /// Exponential with this mean.
    Exponential(f64),
    /// Lognormal.
    Lognormal(sizes::Sizes),
}

/// Maximum size of an object in bytes.
const LARGEST: f64 = 1e9;

impl Sizes {
    /// The sizes of the web: a median of 3 KB, a mean of 11 KB, at most 4 MiB.
    pub const WEB: Sizes = Sizes::Lognormal(sizes::Sizes {
        median: 3_000.0,
        sigma: 1.612,
        tail: 0.0,
        tail_min: 65_536.0,
        tail_alpha: 1.2,
        largest: 4_194_304.0,
    });

    /// The sizes of a web server's files: a median of 3.3 KB, a mean of 12 KB, at most 1 MiB.
    pub const FILES: Sizes = Sizes::Lognormal(streams::FILES);

    /// Parses `web`, `fixed:SIZE`, `uniform:LOW:HIGH`, `exp:MEAN` or `lognormal:MEDIAN:MEAN`.
    ///
    /// # Errors
    /// Fails if the text has another form.
    pub fn read(text: &str) -> Result<Sizes, String> {
        let wrong = || {
            format!(
                "expected web, fixed:SIZE, uniform:LOW:HIGH, exp:MEAN or lognormal:MEDIAN:MEAN \
                 with sizes such as 3000 or 64K, got {text:?}"
            )
        };
        let mut parts = text.split(':');
        let kind = parts.next().unwrap_or_default();
        let sizes: Option<Vec<u64>> = parts.map(parse_size).collect();
        match (kind, &sizes.ok_or_else(wrong)?[..]) {
            ("web", []) => Ok(Sizes::WEB),
            ("fixed", [size]) => Ok(Sizes::Fixed(*size)),
            ("uniform", [low, high]) if low <= high => Ok(Sizes::Uniform(*low, *high)),
            ("exp", [mean @ (1..)]) => Ok(Sizes::Exponential(*mean as f64)),
            ("lognormal", [median @ (1..), mean]) if mean > median => {
                let sigma = (2.0 * (*mean as f64 / *median as f64).ln()).sqrt();
                let (tail, tail_min, tail_alpha) = (0.0, 65_536.0, 1.2);
                let median = *median as f64;
                let largest = LARGEST;
                let drawn = sizes::Sizes { median, sigma, tail, tail_min, tail_alpha, largest };
                Ok(Sizes::Lognormal(drawn))
            }
            _ => Err(wrong()),
        }
    }

    /// Draws a size.
    pub fn draw(&self, dice: &mut SplitMix) -> u64 {
        match self {
            Sizes::Fixed(size) => *size,
            Sizes::Uniform(low, high) => low + dice.below(high - low + 1),
            Sizes::Exponential(mean) => (mean * dice.exponential()).clamp(1.0, LARGEST) as u64,
            Sizes::Lognormal(sizes) => sizes.draw(dice),
        }
    }
}

#[test]
fn sizes_have_the_mean_that_they_say() {
    let mean = |text: &str| {
        let (sizes, mut dice) = (Sizes::read(text).unwrap(), SplitMix::new(4));
        (0..400_000).map(|_| sizes.draw(&mut dice) as f64).sum::<f64>() / 4e5
    };
    for (text, expected) in [
        ("fixed:3000", 3_000.0),
        ("uniform:1K:3K", 2_048.0),
        ("exp:8K", 8_192.0),
        ("lognormal:3000:11000", 11_000.0),
        ("web", 10_900.0),
    ] {
        let found = mean(text);
        assert!((found / expected - 1.0).abs() < 0.03, "{text}: {found}");
    }
    for wrong in ["", "web:1", "fixed", "fixed:x", "uniform:3:1", "lognormal:5:4", "exp:0"] {
        assert!(Sizes::read(wrong).is_err(), "{wrong}");
    }
}
