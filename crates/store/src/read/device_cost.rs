//! The cost of reads on a device: a price per operation and a price per byte.
//!
//! The cost is learnt from the reads themselves. The measure is not how long a read took but how
//! long it kept the device busy: from when it began, or from when the previous read ended if that
//! was later. With one read at a time, that is its latency. With many at a time, it is the delay
//! that one more read adds for all others: about 10 µs on a flash drive, 5 ms on a disk that does
//! 200 reads a second (also if the kernel throttles it to 200, which shows as queued reads).
//!
//! Small reads determine the cost of an operation, large ones the cost of a byte from what remains;
//! both are fading means. Nothing more elaborate works: completions come in bursts (a kernel that
//! throttles a disk to 200 reads a second lets twenty pass every tenth of a second), and a
//! regression over reads of similar sizes mistakes the bursts for the price of a few kilobytes.
//!
//! Pure: times are arguments. A new cache holds nothing that a trial read could measure (a hole in
//! a file is not read from the device), so it starts with [`ReadCost::GUESS`] and learns as it
//! runs.

use device::Nanos;

/// The cost of reads on a device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReadCost {
    /// Device time per read, in nanoseconds.
    pub per_operation: f64,
    /// Device time per byte, in nanoseconds.
    pub per_byte: f64,
}

impl ReadCost {
    /// The cost before anything was read: between a flash drive and a disk.
    const GUESS: ReadCost = ReadCost { per_operation: 300_000.0, per_byte: 2.0 };
    /// Lower bound of the estimate: no device is faster.
    const LEAST: ReadCost = ReadCost { per_operation: 1_000.0, per_byte: 0.05 };

    /// Returns the device time for a read of `bytes` bytes, in nanoseconds.
    pub fn of(&self, bytes: f64) -> f64 {
        self.per_operation + self.per_byte * bytes
    }
}

/// Reads of up to this many bytes determine the cost of an operation.
const SMALL: u64 = 32 * 1024;
/// Reads of at least this many bytes have full weight for the cost of a byte, smaller ones less.
const LARGE: f64 = 256.0 * 1024.0;
/// Weight of a read in the mean, once many were seen: about a hundred reads are remembered.
const WEIGHT: f64 = 1.0 / 128.0;
/// Number of reads that the initial guess counts as.
const GUESS_WEIGHT: f64 = 2.0;
/// A read counts as at most this multiple of its expected cost: one stall does not make a slow
/// device.
const OUTLIER: f64 = 64.0;

/// The estimate of a device's cost. See the module documentation.
#[derive(Clone, Debug)]
pub(crate) struct CostMeter {
    per_operation: f64,
    /// May be below the possible minimum while the other figure is too high.
    per_byte: f64,
    /// Total weight of the reads that each figure has seen.
    seen: [f64; 2],
    /// When the last read ended.
    last_end: Nanos,
    reads: u64,
}

impl CostMeter {
    pub(crate) fn new() -> CostMeter {
        let ReadCost { per_operation, per_byte } = ReadCost::GUESS;
        CostMeter { per_operation, per_byte, seen: [GUESS_WEIGHT; 2], last_end: 0, reads: 0 }
    }

    pub(crate) fn cost(&self) -> ReadCost {
        ReadCost {
            per_operation: self.per_operation.max(ReadCost::LEAST.per_operation),
            per_byte: self.per_byte.max(ReadCost::LEAST.per_byte),
        }
    }

    /// Returns the number of reads that were counted.
    pub(crate) fn reads(&self) -> u64 {
        self.reads
    }

    /// Takes a completed read of `bytes` bytes into account. Report reads in the order in which
    /// they ended, as far as it is known.
    pub(crate) fn read(&mut self, bytes: u64, begin: Nanos, end: Nanos) {
        let busy = end.saturating_sub(begin.max(self.last_end)) as f64;
        self.last_end = self.last_end.max(end);
        self.reads += 1;
        let cost = self.cost();
        let len = bytes as f64;
        let surprise = busy.min(OUTLIER * cost.of(len)) - cost.of(len);
        if bytes <= SMALL {
            self.per_operation += share(&mut self.seen[0], 1.0) * surprise;
        } else {
            let weight = (len / LARGE).powi(2).min(1.0);
            // Relative to the unbounded figure, so that the mean of all surprises is right.
            let surprise = surprise + (cost.per_byte - self.per_byte) * len;
            self.per_byte += share(&mut self.seen[1], weight) * surprise / len;
        }
    }
}

/// Returns how much another value of this weight changes a mean: the first ones much, later ones
/// little.
fn share(seen: &mut f64, weight: f64) -> f64 {
    *seen += weight;
    weight * (1.0 / *seen).max(WEIGHT)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A device that serves `lanes` reads at a time, with noise of up to half the cost.
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

    /// Performs `count` reads, `depth` at a time, of sizes that `size` returns.
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
    fn mixed_reads_separate_both_costs() {
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
    fn a_device_that_becomes_slow_is_noticed_within_hundreds_of_reads_and_forgiven_again() {
        for seed in crate::test_seed::seeds("slow", 20) {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut meter = CostMeter::new();
            run(&mut meter, &FLASH, 1, 500, &mut random, |_| 4096);
            near(meter.cost().of(4096.0), 96e3, "flash");
            run(&mut meter, &THROTTLED, 1, 800, &mut random, |_| 4096);
            near(meter.cost().of(4096.0), 5e6, "slow");
            run(&mut meter, &FLASH, 1, 1500, &mut random, |_| 4096);
            near(meter.cost().of(4096.0), 96e3, "flash again");
        }
    }

    #[test]
    fn bursts_of_completions_are_seen_through() {
        for seed in crate::test_seed::seeds("bursts", 20) {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut meter = CostMeter::new();
            // Twenty reads end every tenth of a second, whatever their sizes.
            for burst in 1..200 {
                for _ in 0..20 {
                    let bytes = if random.u32(0..32) == 0 { 256 << 10 } else { 4096 };
                    let bytes = bytes + random.u64(0..8) * 4096;
                    meter.read(bytes, 0, burst * 100_000_000);
                }
            }
            let small = meter.cost().of(16384.0);
            assert!((2e6..12e6).contains(&small), "{small} ns, 5 ms in the mean");
            let large = meter.cost().per_byte * f64::from(256 << 10);
            assert!(large < 10e6, "{large} ns for 256 KiB more");
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
