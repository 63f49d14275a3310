//! State of a recovery under way.

use std::collections::{BTreeMap, VecDeque};

use crate::base::digest::Digest;
use crate::base::limits::ClusterId;
use crate::space::cluster_table::ClusterTable;

/// State of a recovery under way.
pub(crate) struct Recovering {
    /// Digests touched since the cache was opened, with the sequence number before which their
    /// records are dead; also those left by an earlier, unfinished recovery.
    pub(crate) removed: BTreeMap<Digest, u64>,
    /// Clusters still to read with their incarnations, newest first.
    pub(crate) left: VecDeque<(ClusterId, u64)>,
    /// Clusters being read.
    pub(crate) under_way: Vec<(ClusterId, u64)>,
    /// Total number of clusters or windows.
    pub(crate) of: u32,
    /// True if more was removed than can be remembered: records not found by now are lost.
    pub(crate) abandoned: bool,
}

impl Recovering {
    /// Begins a recovery that reads every cluster in use.
    pub(crate) fn new(removed: BTreeMap<Digest, u64>, clusters: &ClusterTable) -> Recovering {
        let mut left: Vec<(ClusterId, u64)> = (0..clusters.clusters())
            .filter(|cluster| clusters.state(*cluster).in_use())
            .map(|cluster| (cluster, clusters.incarnation(cluster)))
            .collect();
        left.sort_by_key(|(_, incarnation)| std::cmp::Reverse(*incarnation));
        Recovering { of: left.len() as u32, left: left.into(), ..Recovering::of_slots(removed, 0) }
    }

    /// Begins a recovery that reads a whole space of slots, in `of` windows.
    pub(crate) fn of_slots(removed: BTreeMap<Digest, u64>, of: u32) -> Recovering {
        let (left, under_way) = (VecDeque::new(), Vec::new());
        Recovering { removed, left, under_way, of, abandoned: false }
    }
}
