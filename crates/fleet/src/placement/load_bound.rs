//! The bound on a member's load, as a multiple of its fair share.
//!
//! Consistent hashing with bounded loads (Mirrokni, Thorup and Zadimoghaddam, SODA 2018): with m
//! requests under way, the new one included, a member takes at most ⌈(1 + ε) × m × its share of
//! the weights⌉ of them; a full one is passed over for the next in its ranking. The bounds add up
//! to more than m, so there is always a member with room.

use std::error::Error;
use std::fmt;

use crate::member::Member;
use crate::members::Members;

/// A member with fewer requests under way than this is never full: what is known of loads is some
/// moments old, and where there are few requests chance would move keys to and fro.
const IDLE: u64 = 32;

/// Why a bound cannot be used.
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
    /// Makes a bound of `percent` above the fair share. A small one balances better, a large one
    /// leaves more keys with their first owner; 25 is usual.
    ///
    /// # Errors
    ///
    /// When it is not from 1 to 1000.
    pub fn new(percent: u32) -> Result<LoadBound, InvalidLoadBound> {
        match percent {
            1..=1000 => Ok(LoadBound { percent }),
            _ => Err(InvalidLoadBound(percent)),
        }
    }

    /// Returns the most requests that `member` may have under way while `members` have as many as
    /// they say and one more. Only those that may own keys count; 0 for another.
    pub fn limit(self, member: &Member, members: &Members) -> u64 {
        self.limit_of(member, Totals::of(members))
    }

    /// Returns the members of `ranked` that have room for one more request, and then the others,
    /// each in their order.
    pub(crate) fn order<'m>(
        self,
        ranked: Vec<&'m Member>,
        members: &Members,
    ) -> (Vec<&'m Member>, Vec<&'m Member>) {
        let has_room = self.room(members);
        ranked.into_iter().partition(|member| has_room(member))
    }

    /// Returns what tells whether a member has room for one more request.
    pub(crate) fn room(self, members: &Members) -> impl Fn(&Member) -> bool {
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

/// What all members that may own keys have together.
#[derive(Clone, Copy)]
struct Totals {
    load: u128,
    weight: u128,
}

impl Totals {
    fn of(members: &Members) -> Totals {
        let none = Totals { load: 0, weight: 0 };
        members.iter().filter(|member| member.may_own()).fold(none, |sum, member| Totals {
            // What a member claims is not trusted to be small.
            load: sum.load + u128::from(member.load.min(1 << 40)),
            weight: sum.weight + u128::from(member.weight),
        })
    }
}
