//! Improve web proxy performance by alleviating disk I/O overhead (U1 to U8).

use crate::experiment::Experiment;

/// In the order of the paper.
pub const EXPERIMENTS: &[Experiment] = &[];
