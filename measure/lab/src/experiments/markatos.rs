//! Secondary Storage Management for Web Proxies (M1 to M11).

mod disk_time;
mod fig_2;
mod fig_3;
mod fig_4;
mod fig_5;
mod fig_6;
mod fig_7;
mod fig_8;
pub(super) mod machine;
mod table_1;
mod table_2;

use crate::experiment::Experiment;

/// The experiments, in the order of the paper.
pub const EXPERIMENTS: &[Experiment] = &[
    fig_2::EXPERIMENT,
    fig_3::EXPERIMENT,
    fig_4::EXPERIMENT,
    fig_5::EXPERIMENT,
    fig_6::EXPERIMENT,
    fig_7::EXPERIMENT,
    fig_8::EXPERIMENT,
    table_1::EXPERIMENT,
    table_2::EXPERIMENT,
];
