//! Secondary Storage Management for Web Proxies (M1 to M11).

mod fig_2;

use crate::experiment::Experiment;

/// In the order of the paper.
pub const EXPERIMENTS: &[Experiment] = &[fig_2::EXPERIMENT];
