//! What recovery has not settled yet.

use std::collections::{BTreeMap, VecDeque};

use crate::base::digest::Digest;
use crate::base::limits::ClusterId;
use crate::space::cluster_table::ClusterTable;

/// What recovery has not settled yet.
pub(crate) struct Recovering {
    /// Digests touched since the cache was opened, with the sequence number before which their
    /// records are dead; and those that an earlier, unfinished recovery left.
    pub(crate) removed: BTreeMap<Digest, u64>,
    /// Clusters still to be read with their incarnations, the newest first.
    pub(crate) left: VecDeque<(ClusterId, u64)>,
    /// Those that are being read.
    pub(crate) under_way: Vec<(ClusterId, u64)>,
    /// How many there were in all.
    pub(crate) of: u32,
    /// More was removed than can be remembered: what has not been found by now is lost.
    pub(crate) abandoned: bool,
}

impl Recovering {
    /// Begins with every cluster in use to be read.
    pub(crate) fn new(removed: BTreeMap<Digest, u64>, clusters: &ClusterTable) -> Recovering {
        let mut left: Vec<(ClusterId, u64)> = (0..clusters.clusters())
            .filter(|cluster| clusters.state(*cluster).in_use())
            .map(|cluster| (cluster, clusters.incarnation(cluster)))
            .collect();
        left.sort_by_key(|(_, incarnation)| std::cmp::Reverse(*incarnation));
        Recovering { of: left.len() as u32, left: left.into(), ..Recovering::of_slots(removed, 0) }
    }

    /// Begins with all of a space of slots to be read, in so many steps.
    pub(crate) fn of_slots(removed: BTreeMap<Digest, u64>, of: u32) -> Recovering {
        let (left, under_way) = (VecDeque::new(), Vec::new());
        Recovering { removed, left, under_way, of, abandoned: false }
    }
}
