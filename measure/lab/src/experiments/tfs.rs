//! A light-weight, temporary file system for large-scale web servers (T1 to T6).

mod fig_2;
pub(crate) mod setup;
mod throughput;

use crate::experiment::Experiment;

/// The experiments, in the order of the paper. Its figure 1 is a drawing of the system.
pub const EXPERIMENTS: &[Experiment] = &[fig_2::EXPERIMENT, throughput::EXPERIMENT];
