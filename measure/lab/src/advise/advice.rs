//! Advice from a log: how much disk and memory, and which layout and policy, would serve it best,
//! with the numbers behind it.
//!
//! In this order: the hit ratio of an LRU cache of every size from one pass ([`Curves`]); the sizes
//! that cost least by that curve ([`Sizes`], [`Prices`]); all policies at the chosen size
//! ([`compare_policies`]); the engine itself with every layout at these sizes ([`candidates`],
//! replayed by [`crate::advise::log_replay`]); finally a [`Verdict`] with its reasons and doubts.
//!
//! Comparisons use the second half of the log and take the first as warm-up, because a cache in
//! service is not empty. Where the log is not conclusive (too short for a size, few requests, a
//! sample), the verdict says so.

mod curves;
pub(crate) mod format;
mod plots;
mod policies;
mod prices;
mod settings;
mod sizes;
mod verdict;

use std::fmt;
use std::str::FromStr;

pub use curves::{Curves, HitRatio, Part};
pub use plots::{plots, table};
pub use policies::{PolicyOutcome, compare_policies};
pub use prices::Prices;
pub use settings::{command_line, config_file};
pub use sizes::{Bound, Limits, NoAdvice, Sizes};
pub use verdict::{Evidence, Reason, TURNOVERS, Verdict, candidates, decide};

/// Percentage of a log that warms up the caches before requests count.
pub const WARM_UP: u8 = 50;

/// Bytes that an object takes besides its body: response head, key and record.
pub const RECORD: u64 = 450;

/// The ratio to maximise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Goal {
    /// The share of requests that are hits.
    #[default]
    Requests,
    /// The share of bytes that are served by hits.
    Bytes,
}

impl Goal {
    /// The names on the command line.
    pub const NAMES: [&str; 2] = ["requests", "bytes"];

    /// Returns the part of a hit ratio that this goal maximises.
    pub fn of(self, ratio: HitRatio) -> f64 {
        match self {
            Goal::Requests => ratio.requests,
            Goal::Bytes => ratio.bytes,
        }
    }
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(Goal::NAMES[*self as usize])
    }
}

/// An unknown name of a goal.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not one of {names}", names = Goal::NAMES.join(", "))]
pub struct UnknownGoal(String);

impl FromStr for Goal {
    type Err = UnknownGoal;

    fn from_str(text: &str) -> Result<Goal, UnknownGoal> {
        match text {
            "requests" => Ok(Goal::Requests),
            "bytes" => Ok(Goal::Bytes),
            _ => Err(UnknownGoal(text.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests;
