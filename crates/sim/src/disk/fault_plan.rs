//! Faults of a simulated device, and the promises that a store must keep under them.
//!
//! Faults are counted in operations, not in time, so that a test can let the first, the second, the
//! third fail, until a run passes without meeting its fault. A plan is drawn from a seed or written
//! by hand.
//!
//! It promises: a plan does the same to the same operations.

use std::io;

use device::{Extent, Operation};
use fastrand::Rng;

/// Something that goes wrong. Counts begin with 0 at the first operation under the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Of the operations of one kind `after` pass, then `times` fail (`u64::MAX`: all). A failed
    /// operation changes nothing.
    Error {
        /// The operations that are counted, and fail.
        operation: Operation,
        /// The number that pass before.
        after: u64,
        /// The number that fail then.
        times: u64,
    },
    /// The write after `after` writes is acknowledged, and lands elsewhere.
    Misdirected {
        /// Writes before it.
        after: u64,
        /// Bytes by which it goes astray, around the end of the device; a multiple of the block.
        by: u64,
    },
    /// After `after` operations of any kind bytes at rest change.
    Rot {
        /// Operations before it.
        after: u64,
        /// The damaged bytes.
        extent: Extent,
        /// The value that they are combined with by exclusive or; not 0.
        mask: u8,
    },
    /// Operations take longer.
    Slow {
        /// Operations before the first slow one.
        after: u64,
        /// The number of slow operations.
        times: u64,
        /// Nanoseconds that each takes beside the drive's own time.
        by: u64,
    },
    /// The device is away: every operation fails.
    Gone {
        /// Operations before.
        after: u64,
        /// Operations that fail before it returns (`u64::MAX`: it does not).
        times: u64,
    },
    /// The simulation is halted as an operation begins: the moment of a crash.
    Halt {
        /// Operations before.
        after: u64,
    },
}

/// The promise that a store must keep under a plan. Under all of them: no byte that it returns is
/// wrong, nothing superseded, removed or purged is found again, and nothing panics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SurvivalGuarantee {
    /// Everything acknowledged as durable is found after a crash.
    Durable,
    /// The same, unless the store says that it gave the device up (a flush that fails, a journal
    /// that cannot be written): then the cache starts empty.
    DurableUnlessGivenUp,
    /// Bytes at rest were changed, or the device was lost: anything may be missing.
    Truthful,
}

/// The faults of one device between its opening and its end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FaultPlan {
    /// All that goes wrong.
    pub faults: Vec<Fault>,
}

/// The effect of a plan on one operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// It fails.
    pub error: Option<io::ErrorKind>,
    /// It is a write that lands so many bytes further on.
    pub astray: u64,
    /// Nanoseconds that it takes longer.
    pub slower: u64,
    /// The simulation halts.
    pub halt: bool,
    /// Bytes at rest change before it, and how.
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

    /// Draws a plan for a device of `len` bytes in blocks of `block` bytes, on which some
    /// `operations` are expected. Half of the plans are empty.
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

    /// Returns what a store must keep.
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

    /// Counts an operation, and says what happens to it.
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
