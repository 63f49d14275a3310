//! Bound on a member's load, as a multiple of its fair share.
//!
//! Consistent hashing with bounded loads (Mirrokni, Thorup and Zadimoghaddam, SODA 2018). With m
//! requests under way, the new one included, a member takes at most ⌈(1 + ε) × m × its share of the
//! weights⌉. A full member is skipped in favour of the next in the ranking. The bounds add up to
//! more than m, so some member always has capacity.

use std::error::Error;
use std::fmt;

use crate::member::Member;
use crate::members::Members;

/// A member with fewer requests under way is never full. Reported loads are some moments old, and
/// with few requests chance would move keys back and forth.
const IDLE: u64 = 32;

/// Error: the bound is out of range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidLoadBound(u32);

impl fmt::Display for InvalidLoadBound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a load bound of {}% above the mean: use 1 to 1000", self.0)
    }
}

impl Error for InvalidLoadBound {}

/// How far above its fair share a member may be loaded: ε, in percent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadBound {
    percent: u32,
}

impl LoadBound {
    /// Makes a bound of `percent` above the fair share. A small bound balances better; a large one
    /// leaves more keys with their first owner. 25 is usual.
    ///
    /// # Errors
    ///
    /// If it is not from 1 to 1000.
    pub fn new(percent: u32) -> Result<LoadBound, InvalidLoadBound> {
        match percent {
            1..=1000 => Ok(LoadBound { percent }),
            _ => Err(InvalidLoadBound(percent)),
        }
    }

    /// Returns the maximum requests that `member` may have under way, given the reported load of
    /// `members` plus one request. 0 if the member may not own keys.
    pub fn limit(self, member: &Member, members: &Members) -> u64 {
        self.limit_of(member, Totals::of(members))
    }

    /// Returns `ranked` with the members that have capacity for one more request first; each group
    /// keeps its order.
    pub(crate) fn order<'m>(
        self,
        ranked: Vec<&'m Member>,
        members: &Members,
    ) -> (Vec<&'m Member>, Vec<&'m Member>) {
        let has_capacity = self.has_capacity(members);
        ranked.into_iter().partition(|member| has_capacity(member))
    }

    /// Returns a predicate: whether a member has capacity for one more request.
    pub(crate) fn has_capacity(self, members: &Members) -> impl Fn(&Member) -> bool {
        let totals = Totals::of(members);
        move |member| member.load < self.limit_of(member, totals)
    }

    fn limit_of(self, member: &Member, totals: Totals) -> u64 {
        if !member.may_own() {
            return 0;
        }
        let share = u128::from(100 + self.percent) * (totals.load + 1) * u128::from(member.weight);
        u64::try_from(share.div_ceil(100 * totals.weight)).unwrap_or(u64::MAX).max(IDLE)
    }
}

/// Sums over all members that may own keys.
#[derive(Clone, Copy)]
struct Totals {
    load: u128,
    weight: u128,
}

impl Totals {
    fn of(members: &Members) -> Totals {
        let none = Totals { load: 0, weight: 0 };
        members.iter().filter(|member| member.may_own()).fold(none, |sum, member| Totals {
            // Caps the reported load, which is untrusted.
            load: sum.load + u128::from(member.load.min(1 << 40)),
            weight: sum.weight + u128::from(member.weight),
        })
    }
}
