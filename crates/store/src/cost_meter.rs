//! What a read costs on this device: so much for each operation, so much for each byte.
//!
//! Learnt from the reads themselves. What counts is not how long a read took but how long the
//! device was kept busy by it: from when it began, or from when the read before it ended if that
//! was later. One read at a time, that is its latency; many at a time, it is what one more read
//! costs all others: some 10 µs on a flash drive, 5 ms on a disk that does 200 a second (also when
//! it is the kernel that holds it to 200, which shows as reads that queue).
//!
//! The estimate is a Kalman filter over the two figures: samples of one size only move the sum of
//! both in the direction that size can tell, and leave the other figure where it was.
//!
//! Pure: times come as arguments. A new cache has nothing on it that a trial read could measure (a
//! hole in a file is read from nowhere): it begins with [`ReadCost::GUESS`] and learns as it runs.

use device::Nanos;

/// What reads cost on a device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReadCost {
    /// Nanoseconds of the device for each read.
    pub per_operation: f64,
    /// Nanoseconds of the device for each byte.
    pub per_byte: f64,
}

impl ReadCost {
    /// Before anything was read: between a flash drive and a disk.
    const GUESS: ReadCost = ReadCost { per_operation: 300_000.0, per_byte: 2.0 };
    /// No device is faster: bounds the estimate from below.
    const LEAST: ReadCost = ReadCost { per_operation: 1_000.0, per_byte: 0.05 };

    /// Nanoseconds for a read of `bytes`.
    pub fn of(&self, bytes: f64) -> f64 {
        self.per_operation + self.per_byte * bytes
    }
}

/// How far the figures wander between two reads, as a share of themselves: the estimate remembers
/// some thirty reads.
const DRIFT: f64 = 1.0 / 32.0;
/// Standard deviation of a sample as a share of what is expected.
const NOISE: f64 = 1.0;
/// A sample counts for at most so many times what is expected: one stall is not a slow device.
const OUTLIER: f64 = 64.0;

/// The estimate. See the module.
#[derive(Clone, Debug)]
pub(crate) struct CostMeter {
    cost: ReadCost,
    /// Covariance of the two figures: operation, both, byte.
    covariance: [f64; 3],
    /// When the last read ended.
    last_end: Nanos,
    samples: u64,
}

impl CostMeter {
    pub(crate) fn new() -> CostMeter {
        let ReadCost { per_operation, per_byte } = ReadCost::GUESS;
        // The guess may be wrong by a factor of ten and more.
        let covariance = [(4.0 * per_operation).powi(2), 0.0, (4.0 * per_byte).powi(2)];
        CostMeter { cost: ReadCost::GUESS, covariance, last_end: 0, samples: 0 }
    }

    /// What a read costs now.
    pub(crate) fn cost(&self) -> ReadCost {
        self.cost
    }

    /// Reads that were counted.
    pub(crate) fn samples(&self) -> u64 {
        self.samples
    }

    /// A read of `bytes` began and ended. Reads are told in the order in which they ended, as far
    /// as the caller knows it.
    pub(crate) fn read(&mut self, bytes: u64, begin: Nanos, end: Nanos) {
        let busy = end.saturating_sub(begin.max(self.last_end));
        self.last_end = self.last_end.max(end);
        self.samples += 1;
        self.learn(bytes as f64, busy as f64);
    }

    fn learn(&mut self, bytes: f64, busy: f64) {
        let ReadCost { per_operation, per_byte } = self.cost;
        let [mut operation, mut both, mut byte] = self.covariance;
        operation += (DRIFT * per_operation).powi(2);
        byte += (DRIFT * per_byte).powi(2);
        let expected = self.cost.of(bytes);
        let surprise = busy.min(OUTLIER * expected) - expected;
        // The gains: covariance of either figure with the sample, over the sample's variance.
        let with_operation = operation + both * bytes;
        let with_byte = both + byte * bytes;
        let variance = with_operation + with_byte * bytes + (NOISE * expected).powi(2);
        let (gain_operation, gain_byte) = (with_operation / variance, with_byte / variance);
        self.cost = ReadCost {
            per_operation: (per_operation + gain_operation * surprise)
                .max(ReadCost::LEAST.per_operation),
            per_byte: (per_byte + gain_byte * surprise).max(ReadCost::LEAST.per_byte),
        };
        operation -= gain_operation * with_operation;
        both -= gain_operation * with_byte;
        byte -= gain_byte * with_byte;
        self.covariance = bounded([operation, both, byte], self.cost);
    }
}

/// What is never sampled becomes uncertain, but not without bounds; the correlation is kept.
fn bounded([operation, both, byte]: [f64; 3], cost: ReadCost) -> [f64; 3] {
    let most = [4.0 * cost.per_operation, 4.0 * cost.per_byte].map(|deviation| deviation.powi(2));
    let shrink = [operation, byte].map(f64::sqrt);
    let (bounded_operation, bounded_byte) = (operation.min(most[0]), byte.min(most[1]));
    let scale = bounded_operation.sqrt() * bounded_byte.sqrt() / (shrink[0] * shrink[1]);
    [bounded_operation, both * if scale.is_finite() { scale } else { 0.0 }, bounded_byte]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A device that serves `lanes` reads at a time; noise up to ± half.
    struct Synthetic {
        cost: ReadCost,
        lanes: usize,
    }

    const DISK: Synthetic =
        Synthetic { cost: ReadCost { per_operation: 5e6, per_byte: 50.0 }, lanes: 1 };
    const THROTTLED: Synthetic =
        Synthetic { cost: ReadCost { per_operation: 5e6, per_byte: 0.3 }, lanes: 1 };
    const FLASH: Synthetic =
        Synthetic { cost: ReadCost { per_operation: 80e3, per_byte: 4.0 }, lanes: 16 };

    /// Reads `count` times with `depth` at a time, of sizes as `size` says.
    fn run(
        meter: &mut CostMeter,
        device: &Synthetic,
        depth: usize,
        count: usize,
        random: &mut fastrand::Rng,
        size: impl Fn(&mut fastrand::Rng) -> u64,
    ) {
        let start = meter.last_end;
        let mut lanes = vec![start; device.lanes];
        let mut under_way: Vec<(Nanos, Nanos, u64)> = Vec::new();
        let mut now = start;
        for _ in 0..count {
            if under_way.len() >= depth {
                under_way.sort_unstable();
                let (end, begin, bytes) = under_way.remove(0);
                meter.read(bytes, begin, end);
                now = end;
            }
            let bytes = size(random);
            let lane = lanes.iter_mut().min().unwrap();
            let service = device.cost.of(bytes as f64) * (0.5 + random.f64());
            *lane = now.max(*lane) + service as Nanos;
            under_way.push((*lane, now, bytes));
        }
    }

    fn mixed(random: &mut fastrand::Rng) -> u64 {
        if random.bool() { 4096 } else { 1 << 20 }
    }

    fn near(value: f64, expected: f64, what: &str) {
        assert!((0.6..1.7).contains(&(value / expected)), "{what}: {value} is not {expected}");
    }

    #[test]
    fn mixed_reads_tell_both_figures_apart() {
        for seed in crate::test_seed::seeds("mixed reads", 20) {
            let mut random = fastrand::Rng::with_seed(seed);
            for device in [&DISK, &FLASH] {
                let mut meter = CostMeter::new();
                run(&mut meter, device, 1, 400, &mut random, mixed);
                let ReadCost { per_operation, per_byte } = meter.cost();
                near(per_operation, device.cost.per_operation, "per operation");
                near(per_byte, device.cost.per_byte, "per byte");
            }
        }
    }

    #[test]
    fn many_reads_at_a_time_cost_what_they_keep_the_device_busy() {
        for seed in crate::test_seed::seeds("busy", 20) {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut meter = CostMeter::new();
            run(&mut meter, &FLASH, 64, 2000, &mut random, |_| 4096);
            near(meter.cost().of(4096.0), FLASH.cost.of(4096.0) / 16.0, "flash, 64 at a time");
            let mut meter = CostMeter::new();
            run(&mut meter, &THROTTLED, 64, 400, &mut random, |_| 4096);
            near(meter.cost().of(4096.0), 5e6, "200 a second, 64 at a time");
        }
    }

    #[test]
    fn a_device_that_becomes_slow_is_noticed_within_a_hundred_reads_and_forgiven_again() {
        for seed in crate::test_seed::seeds("slow", 20) {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut meter = CostMeter::new();
            run(&mut meter, &FLASH, 1, 500, &mut random, |_| 4096);
            near(meter.cost().of(4096.0), 96e3, "flash");
            run(&mut meter, &THROTTLED, 1, 100, &mut random, |_| 4096);
            near(meter.cost().of(4096.0), 5e6, "slow");
            run(&mut meter, &FLASH, 1, 500, &mut random, |_| 4096);
            near(meter.cost().of(4096.0), 96e3, "flash again");
        }
    }

    #[test]
    fn one_stall_is_not_a_slow_device() {
        let mut meter = CostMeter::new();
        let mut random = fastrand::Rng::with_seed(1);
        run(&mut meter, &FLASH, 1, 500, &mut random, |_| 4096);
        let before = meter.cost().of(4096.0);
        let now = meter.last_end;
        meter.read(4096, now, now + 5_000_000_000);
        assert!(meter.cost().of(4096.0) < 4.0 * before);
    }
}
