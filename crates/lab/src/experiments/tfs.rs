//! A light-weight, temporary file system for large-scale web servers (T1 to T6).

use crate::experiment::Experiment;

/// In the order of the paper.
pub const EXPERIMENTS: &[Experiment] = &[];
