//! Improve web proxy performance by alleviating disk I/O overhead (U1 to U8).

mod both;
mod fig_2;
mod fig_3;
mod fig_6;
mod fig_7;
mod fig_8;
mod load;
mod machine;
mod proxy;
mod setup;
mod table_1;
mod table_3;

use crate::experiment::Experiment;

/// The experiments, in the order of the paper.
pub const EXPERIMENTS: &[Experiment] = &[
    fig_2::EXPERIMENT,
    fig_3::EXPERIMENT,
    fig_6::EXPERIMENT,
    fig_7::EXPERIMENT,
    fig_8::EXPERIMENT,
    table_1::EXPERIMENT,
    table_1::READS_AND_WRITES,
    table_3::EXPERIMENT,
];
