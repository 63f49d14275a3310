//! UCFS, a user-space, customized file system for web proxy servers (C1 to C18).

mod comparison;
mod disk;
mod fig_11;
mod fig_12;
mod fig_6;
mod fig_7;
mod fig_8;
mod fig_9;
mod setup;
mod table_2;
mod table_3;
mod table_5;
mod traces;

use crate::experiment::Experiment;

/// The experiments, in the order of the paper.
pub const EXPERIMENTS: &[Experiment] = &[
    disk::EXPERIMENT,
    table_2::EXPERIMENT,
    fig_6::EXPERIMENT,
    fig_7::EXPERIMENT,
    fig_8::EXPERIMENT,
    fig_9::EXPERIMENT,
    fig_9::SPEEDUPS,
    table_3::EXPERIMENT,
    table_3::MEMORY,
    table_5::EXPERIMENT,
    fig_11::EXPERIMENT,
    fig_12::EXPERIMENT,
];
