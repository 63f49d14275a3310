//! Questions that the papers could not ask: policies found since, flash, disks of today, and the
//! engine's own defaults.

mod policies;

use crate::experiment::Experiment;

/// In the order of the report.
pub const EXPERIMENTS: &[Experiment] = &[policies::EXPERIMENT];
