//! Request distribution-aware caching in cluster-based web servers (K1 to K8), and what follows
//! from its ideas for fleets of up to a thousand nodes.
//!
//! Simulated nodes decide by the crate `fleet`, by the very functions that the product calls, in
//! virtual time. What they are made of is in `hardware`, what they do in `nodes`.

mod by_nodes;
mod changes;
mod counts;
mod documents;
mod exchange;
mod fig_2;
mod fig_3;
mod fig_4;
mod fig_5;
mod fig_6;
mod gossip;
mod hardware;
mod load;
mod lru;
mod nodes;
mod open;
mod paper;
mod scheme;

use crate::experiment::Experiment;

/// In the order of the paper, and then what it does not have.
pub const EXPERIMENTS: &[Experiment] = &[
    fig_2::EXPERIMENT,
    fig_3::EXPERIMENT,
    fig_4::EXPERIMENT,
    fig_5::EXPERIMENT,
    fig_6::EXPERIMENT,
    open::EXPERIMENT,
    by_nodes::EXPERIMENT,
    changes::EXPERIMENT,
    gossip::EXPERIMENT,
];
