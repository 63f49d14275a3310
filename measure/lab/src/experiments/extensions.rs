//! Questions beyond the papers: flash, disks of today, and the engine's own defaults.

mod default;
mod drives;
mod flash;
pub(crate) mod modern_disks;
mod references;
pub(crate) mod scenario;
pub(crate) mod scenarios;
mod space_bound;
mod spaces;
mod streams;
mod what_if;
mod write_amplification;

use crate::experiment::Experiment;

/// The experiments, in the order of the report.
pub const EXPERIMENTS: &[Experiment] = &[
    default::EXPERIMENT,
    flash::EXPERIMENT,
    modern_disks::EXPERIMENT,
    write_amplification::EXPERIMENT,
    streams::EXPERIMENT,
    references::EXPERIMENT,
    what_if::EXPERIMENT,
];
