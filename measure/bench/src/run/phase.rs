//! The plan of a phase: how requests are paced, and when it ends.

use std::time::Duration;

use crate::client::Spacing;
use crate::load::PhaseKind;

/// How requests are paced.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// By a schedule.
    Open {
        /// Requests per second at the start and at the end.
        rates: [f64; 2],
        /// The distribution of intervals.
        spacing: Spacing,
    },
    /// Each connection sends its next request as soon as it has the response to the last one.
    Closed,
    /// By the times of a trace.
    Recorded {
        /// The speed-up; 1: as recorded.
        speed: f64,
    },
}

/// When a phase ends, unless the workload ends first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// After a time.
    After(Duration),
    /// When this many cacheable bytes were fetched, or when nearly all requests are hits, which
    /// means that the whole workload is in the cache.
    Filled(u64),
    /// After this many requests.
    Requests(u64),
    /// Only at the end of the trace.
    Never,
}

/// A phase.
#[derive(Clone, Debug, PartialEq)]
pub struct PhasePlan {
    /// The name.
    pub name: String,
    /// The purpose.
    pub kind: PhaseKind,
    /// How requests are paced.
    pub pace: Pace,
    /// When the phase ends.
    pub end: End,
}
