//! What a phase is to be: how requests are paced in it, and when it ends.

use std::time::Duration;

use crate::client::Spacing;
use crate::load::PhaseKind;

/// How requests are paced.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// By a schedule: requests a second at the start and at the end.
    Open {
        /// The rates.
        rates: [f64; 2],
        /// How they follow on each other.
        spacing: Spacing,
    },
    /// Each connection asks again as soon as it was answered.
    Closed,
    /// By the times of a trace, so many times as fast.
    Recorded {
        /// 1: as it was.
        speed: f64,
    },
}

/// When a phase ends, if the workload does not before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// After a time.
    After(Duration),
    /// When so many bytes were fetched that may be stored, or when nearly all requests are hits:
    /// then the whole workload is in the cache.
    Filled(u64),
    /// After so many requests.
    Requests(u64),
    /// With the trace.
    Never,
}

/// A phase.
#[derive(Clone, Debug, PartialEq)]
pub struct PhasePlan {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub kind: PhaseKind,
    /// How requests are paced.
    pub pace: Pace,
    /// When it ends.
    pub end: End,
}
