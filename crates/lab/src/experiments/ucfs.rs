//! UCFS, a user-space, customized file system for web proxy servers (C1 to C18).

mod disk;

use crate::experiment::Experiment;

/// In the order of the paper.
pub const EXPERIMENTS: &[Experiment] = &[disk::EXPERIMENT];
