//! Questions beyond the papers: the engine's own defaults.

mod default;
mod drives;
mod matrix;
mod quarter;
pub(crate) mod scenario;
pub(crate) mod scenarios;
mod space_bound;
mod spaces;
mod streams;

use crate::experiment::Experiment;

/// The experiments, in the order of the report.
pub const EXPERIMENTS: &[Experiment] =
    &[default::EXPERIMENT, quarter::EXPERIMENT, matrix::EXPERIMENT, streams::EXPERIMENT];
