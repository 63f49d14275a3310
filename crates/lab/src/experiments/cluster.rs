//! Request distribution-aware caching in cluster-based web servers (K1 to K8).
//!
//! The place of its experiments. There are none: they need several nodes that share their caches,
//! and there is no cluster to run them on.

use crate::experiment::Experiment;

/// In the order of the paper.
pub const EXPERIMENTS: &[Experiment] = &[];
