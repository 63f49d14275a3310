//! Faults of a simulated device, and the guarantees that a store must keep under them.
//!
//! Faults are counted in operations, not in time. A test can therefore fail the first operation,
//! the second, the third, until a run completes before its fault occurs. A plan is drawn from a
//! seed or written by hand.
//!
//! Guarantees: a plan has the same effect on the same sequence of operations.

use std::io;

use device::{Extent, Operation};
use fastrand::Rng;

/// A fault. Operation counts begin at 0 with the first operation under the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Operations of one kind fail: the first `after` pass, the next `times` fail (`u64::MAX`:
    /// all). A failed operation changes nothing.
    Error {
        /// The kind of operation that is counted and fails.
        operation: Operation,
        /// Operations of this kind that pass first.
        after: u64,
        /// Operations of this kind that then fail.
        times: u64,
    },
    /// The write that follows the first `after` writes is acknowledged but lands elsewhere.
    Misdirected {
        /// Writes before the misdirected one.
        after: u64,
        /// Bytes by which the write is displaced, wrapping at the end of the device; a multiple of
        /// the block size.
        by: u64,
    },
    /// Bytes at rest change after `after` operations of any kind.
    Rot {
        /// Operations before the damage.
        after: u64,
        /// The damaged bytes.
        extent: Extent,
        /// Value XORed into each damaged byte; not 0.
        mask: u8,
    },
    /// Operations take longer than the drive needs.
    Slow {
        /// Operations before the first slow one.
        after: u64,
        /// The number of slow operations.
        times: u64,
        /// Nanoseconds added to the drive's own time for each slow operation.
        by: u64,
    },
    /// The device is unavailable: every operation fails.
    Gone {
        /// Operations before the first failing one.
        after: u64,
        /// Operations that fail before the device returns (`u64::MAX`: it never does).
        times: u64,
    },
    /// The simulation halts as an operation begins, which is the moment of a crash.
    Halt {
        /// Operations before the halt.
        after: u64,
    },
}

/// The guarantee that a store must keep under a plan. Under every plan it returns no wrong byte,
/// never finds superseded, removed or purged objects again, and does not panic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SurvivalGuarantee {
    /// Every object acknowledged as durable is found after a crash.
    Durable,
    /// Like `Durable`, unless the store reports that it gave the device up (a flush that fails, a
    /// journal that cannot be written). Then the cache starts empty.
    DurableUnlessGivenUp,
    /// Bytes at rest changed, or the device was lost: any object may be missing.
    Truthful,
}

/// The faults of one device, from its opening to its end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FaultPlan {
    /// The faults, which take effect independently of each other.
    pub faults: Vec<Fault>,
}

/// The effect of a plan on one operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// The error with which the operation fails.
    pub error: Option<io::ErrorKind>,
    /// Bytes by which a write is displaced.
    pub astray: u64,
    /// Nanoseconds added to the operation.
    pub slower: u64,
    pub halt: bool,
    /// Bytes at rest that change before the operation, and the XOR mask.
    pub rot: Option<(Extent, u8)>,
}

/// The number of operations of each kind that a plan has seen.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    all: u64,
    reads: u64,
    writes: u64,
    flushes: u64,
}

impl Seen {
    fn of(&self, operation: Operation) -> u64 {
        match operation {
            Operation::Read => self.reads,
            Operation::Write => self.writes,
            Operation::Flush => self.flushes,
        }
    }

    fn count(&mut self, operation: Operation) {
        self.all += 1;
        match operation {
            Operation::Read => self.reads += 1,
            Operation::Write => self.writes += 1,
            Operation::Flush => self.flushes += 1,
        }
    }
}

impl FaultPlan {
    /// Returns a plan without faults.
    pub fn none() -> FaultPlan {
        FaultPlan::default()
    }

    /// Returns a plan with one fault.
    pub fn one(fault: Fault) -> FaultPlan {
        FaultPlan { faults: vec![fault] }
    }

    /// Draws a plan for a device of `len` bytes in blocks of `block` bytes that is expected to see
    /// about `operations` operations. Half of the plans are empty.
    pub fn draw(random: &mut Rng, len: u64, block: u32, operations: u64) -> FaultPlan {
        let mut plan = FaultPlan::default();
        if random.bool() {
            return plan;
        }
        for _ in 0..random.u32(1..3) {
            let after = random.u64(..operations.max(1));
            let few = random.u64(1..4);
            plan.faults.push(match random.u8(..8) {
                0 | 1 => {
                    let kinds = [Operation::Read, Operation::Write, Operation::Flush];
                    let operation = kinds[random.usize(..3)];
                    let times = if random.u8(..4) == 0 { u64::MAX } else { few };
                    Fault::Error { operation, after, times }
                }
                2 => Fault::Misdirected {
                    after: after / 2,
                    by: random.u64(1..len / u64::from(block)) * u64::from(block),
                },
                3 | 4 => {
                    let extent =
                        Extent { offset: random.u64(..len - 4096), len: random.u64(1..4096) };
                    Fault::Rot { after, extent, mask: random.u8(1..) }
                }
                5 => Fault::Slow { after, times: random.u64(1..50), by: 20_000_000 },
                6 => Fault::Slow { after, times: few, by: 8_000_000_000 },
                _ => {
                    let times = if random.bool() { u64::MAX } else { random.u64(1..40) };
                    Fault::Gone { after, times }
                }
            });
        }
        plan
    }

    /// Returns the guarantee that a store must keep under this plan.
    pub fn guarantee(&self) -> SurvivalGuarantee {
        let of = |fault: &Fault| match fault {
            Fault::Slow { .. } | Fault::Halt { .. } => SurvivalGuarantee::Durable,
            Fault::Error { times, .. } if *times < u64::MAX => {
                SurvivalGuarantee::DurableUnlessGivenUp
            }
            Fault::Gone { times, .. } if *times < u64::MAX => {
                SurvivalGuarantee::DurableUnlessGivenUp
            }
            Fault::Error { .. } | Fault::Gone { .. } => SurvivalGuarantee::Truthful,
            Fault::Misdirected { .. } | Fault::Rot { .. } => SurvivalGuarantee::Truthful,
        };
        self.faults.iter().map(of).max().unwrap_or(SurvivalGuarantee::Durable)
    }

    /// Counts an operation and returns the effect of the plan on it.
    pub(crate) fn judge(&self, seen: &mut Seen, operation: Operation) -> Verdict {
        let mut verdict = Verdict::default();
        let (all, same, writes) = (seen.all, seen.of(operation), seen.writes);
        for fault in &self.faults {
            match *fault {
                Fault::Error { operation: failing, after, times } => {
                    if failing == operation && same >= after && same - after < times {
                        verdict.error = Some(io::ErrorKind::Other);
                    }
                }
                Fault::Misdirected { after, by } => {
                    if operation == Operation::Write && writes == after {
                        verdict.astray = by;
                    }
                }
                Fault::Rot { after, extent, mask } => {
                    if all == after {
                        verdict.rot = Some((extent, mask));
                    }
                }
                Fault::Slow { after, times, by } => {
                    if all >= after && all - after < times {
                        verdict.slower = by;
                    }
                }
                Fault::Gone { after, times } => {
                    if all >= after && all - after < times {
                        verdict.error = Some(io::ErrorKind::NotConnected);
                    }
                }
                Fault::Halt { after } => verdict.halt |= all == after,
            }
        }
        seen.count(operation);
        verdict
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_operation_that_was_meant_fails_and_no_other() {
        let operation = Operation::Write;
        let plan = FaultPlan::one(Fault::Error { operation, after: 2, times: 2 });
        let mut seen = Seen::default();
        let mut failed = Vec::new();
        for number in 0..12 {
            let kind = if number % 2 == 0 { Operation::Write } else { Operation::Read };
            if plan.judge(&mut seen, kind).error.is_some() {
                failed.push(number);
            }
        }
        assert_eq!(failed, [4, 6]);
    }

    #[test]
    fn the_weakest_guarantee_of_a_plan_counts() {
        let slow = Fault::Slow { after: 0, times: 1, by: 1 };
        let error = Fault::Error { operation: Operation::Read, after: 0, times: 1 };
        let rot = Fault::Rot { after: 0, extent: Extent { offset: 0, len: 1 }, mask: 1 };
        let guarantee = |faults: &[Fault]| FaultPlan { faults: faults.to_vec() }.guarantee();
        assert_eq!(guarantee(&[]), SurvivalGuarantee::Durable);
        assert_eq!(guarantee(&[slow]), SurvivalGuarantee::Durable);
        assert_eq!(guarantee(&[error, slow]), SurvivalGuarantee::DurableUnlessGivenUp);
        assert_eq!(guarantee(&[error, rot, slow]), SurvivalGuarantee::Truthful);
    }

    #[test]
    fn drawn_plans_are_of_all_kinds_and_repeat() {
        let draw = |seed| FaultPlan::draw(&mut Rng::with_seed(seed), 1 << 24, 512, 500);
        let mut kinds = std::collections::BTreeSet::new();
        for seed in 0..300 {
            let plan = draw(seed);
            assert_eq!(plan, draw(seed));
            for fault in plan.faults {
                let text = format!("{fault:?}");
                kinds.insert(text.split(' ').next().map(str::to_owned));
            }
        }
        assert_eq!(kinds.len(), 5, "{kinds:?}");
    }
}
