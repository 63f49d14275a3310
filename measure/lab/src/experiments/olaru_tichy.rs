//! Request distribution-aware caching in cluster-based web servers (K1 to K8), and its ideas
//! applied to fleets of up to a thousand nodes.
//!
//! Simulated nodes call the same functions of the crate `fleet` as the product, in virtual time.
//! `hardware` models their parts, `nodes` their behaviour.

mod by_nodes;
mod changes;
mod counts;
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

/// The experiments: those of the paper in order, then further ones.
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
