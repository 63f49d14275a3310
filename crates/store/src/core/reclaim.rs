//! Reclaiming of space: which clusters go next, and how far the sweep of the index has come.

use crate::base::limits::ClusterId;

/// Divisor of the number of clusters that are evicted at once, so that the cost of sweeping the
/// index is spread over many records.
const EVICTED_AT_ONCE: u32 = 128;
/// Bytes of free clusters to keep ready, so that writers never wait for eviction.
const RESERVE_BYTES: u32 = 8 << 20;
/// Load of the index above which clusters are evicted even if there is free space.
const INDEX_LOAD_MAX: f64 = 0.95;
/// Load of the index above which it counts as full for admission. It is so far below
/// [`INDEX_LOAD_MAX`] that evicting clusters for the index does not make admission accept every
/// object.
const INDEX_LOAD_FULL: f64 = 0.90;
/// Maximum number of clusters that wait for their summaries to be read.
const LEARNT_AT_ONCE: usize = 16;

/// Clusters that are evicted together. The journal has already been told. A sweep of the index
/// removes the entries that lead into them, so nothing must be read from them.
pub(super) struct Sweep {
    /// The clusters, pinned until the sweep has ended so that nothing is written there meanwhile.
    pub(super) victims: Vec<ClusterId>,
    /// One bit for each cluster of the device, set for these.
    bits: Vec<u64>,
}

impl Sweep {
    fn new(victims: Vec<ClusterId>, clusters: u32) -> Sweep {
        let mut bits = vec![0_u64; clusters.div_ceil(64) as usize];
        for victim in &victims {
            bits[*victim as usize / 64] |= 1 << (victim % 64);
        }
        Sweep { victims, bits }
    }

    /// Returns whether the cluster is evicted.
    pub(super) fn evicts(&self, cluster: ClusterId) -> bool {
        self.bits[cluster as usize / 64] >> (cluster % 64) & 1 == 1
    }
}

/// The state of reclaiming.
pub(super) struct Reclaim {
    /// Number of clusters on the device.
    clusters: u32,
    /// The low and the high mark of the free reserve, in clusters.
    reserve: (u32, u32),
    /// True if the free reserve fell below its low mark and has not reached its high mark yet.
    refilling: bool,
    /// True if an insertion found no slots since the last flush.
    starved: bool,
    /// The sweep of clusters that are being evicted together.
    sweep: Option<Sweep>,
    /// Clusters to evict by their summaries, with their incarnations; pinned.
    summarized: Vec<(ClusterId, u64)>,
    /// Clusters with requested objects whose runs are not known.
    unlearned: Vec<ClusterId>,
}

impl Reclaim {
    /// Starts with nothing to reclaim, for `clusters` clusters of `cluster_size` bytes.
    pub(super) fn new(clusters: u32, cluster_size: u32) -> Reclaim {
        let most = (clusters / 16).max(1);
        let low = (RESERVE_BYTES / cluster_size).clamp(1, most);
        let more = low.max(clusters / EVICTED_AT_ONCE);
        Reclaim {
            clusters,
            reserve: (low, (low + more).min(most.max(2))),
            refilling: false,
            starved: false,
            sweep: None,
            summarized: Vec::new(),
            unlearned: Vec::new(),
        }
    }

    /// Returns the number of free clusters below which writers may have to wait.
    pub(super) fn low_mark(&self) -> u32 {
        self.reserve.0
    }

    /// Returns whether `free` clusters, of which waiting objects take `wanted`, and an index with
    /// this load have space without evicting anything.
    pub(super) fn has_unused_space(&self, free: u32, wanted: u32, index_load: f64) -> bool {
        free > self.reserve.1 + wanted && index_load < INDEX_LOAD_FULL
    }

    /// Returns how many clusters to evict, given how many are free or about to be, and the load of
    /// the index.
    pub(super) fn clusters_wanted(&mut self, free: u32, index_load: f64) -> u32 {
        let (low, high) = self.reserve;
        if free < low {
            self.refilling = true;
        } else if free >= high {
            self.refilling = false;
        }
        // A full index would displace arbitrary entries; evict the least valuable cluster instead
        // (UCFS, section 2.3.2).
        let full = index_load >= INDEX_LOAD_MAX;
        let for_index = if full { (self.clusters / EVICTED_AT_ONCE).max(1) } else { 0 };
        let for_space = if self.refilling { high.saturating_sub(free) } else { 0 };
        for_space.max(for_index)
    }

    pub(super) fn is_starved(&self) -> bool {
        self.starved
    }

    /// Records whether an insertion finds no slots.
    pub(super) fn set_starved(&mut self, starved: bool) {
        self.starved = starved;
    }

    pub(super) fn sweep(&self) -> Option<&Sweep> {
        self.sweep.as_ref()
    }

    pub(super) fn begin_sweep(&mut self, victims: Vec<ClusterId>) {
        self.sweep = Some(Sweep::new(victims, self.clusters));
    }

    /// Ends the sweep; returns its clusters, to be unpinned.
    pub(super) fn end_sweep(&mut self) -> Vec<ClusterId> {
        self.sweep.take().map(|sweep| sweep.victims).unwrap_or_default()
    }

    /// Sets the clusters to evict by their summaries, each with its incarnation.
    pub(super) fn set_summarized(&mut self, clusters: Vec<(ClusterId, u64)>) {
        self.summarized = clusters;
    }

    /// Takes a cluster to evict by its summary.
    pub(super) fn next_summarized(&mut self) -> Option<(ClusterId, u64)> {
        self.summarized.pop()
    }

    /// Requests that the runs of `cluster` be learnt from its summary. Returns false if that was
    /// requested already, or if many others wait.
    pub(super) fn want_runs(&mut self, cluster: ClusterId) -> bool {
        let is_new = self.unlearned.len() < LEARNT_AT_ONCE && !self.unlearned.contains(&cluster);
        if is_new {
            self.unlearned.push(cluster);
        }
        is_new
    }

    /// Takes a cluster whose runs are to be learnt.
    pub(super) fn next_unlearned(&mut self) -> Option<ClusterId> {
        self.unlearned.pop()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refilling_goes_on_from_the_low_mark_to_the_high_mark() {
        let mut reclaim = Reclaim::new(1_600, 1 << 20);
        let (low, high) = reclaim.reserve;
        assert_eq!((low, high), (8, 20));
        assert_eq!(reclaim.clusters_wanted(low, 0.5), 0);
        assert_eq!(reclaim.clusters_wanted(low - 1, 0.5), high - low + 1);
        assert_eq!(reclaim.clusters_wanted(high - 1, 0.5), 1);
        assert_eq!(reclaim.clusters_wanted(high, 0.5), 0);
        assert_eq!(reclaim.clusters_wanted(high - 1, 0.5), 0);
        assert_eq!(reclaim.clusters_wanted(high, INDEX_LOAD_MAX), 12, "for the index");
        assert!(reclaim.has_unused_space(high + 1, 0, 0.5));
        assert!(!reclaim.has_unused_space(high + 1, 1, 0.5));
        assert!(!reclaim.has_unused_space(high + 1, 0, INDEX_LOAD_FULL));
    }

    #[test]
    fn a_sweep_evicts_its_clusters_only() {
        let mut reclaim = Reclaim::new(130, 1 << 20);
        reclaim.begin_sweep(vec![0, 63, 64, 129]);
        let evicted = (0..130).filter(|cluster| reclaim.sweep().unwrap().evicts(*cluster));
        assert_eq!(evicted.collect::<Vec<_>>(), [0, 63, 64, 129]);
        assert_eq!(reclaim.end_sweep(), [0, 63, 64, 129]);
        assert!(reclaim.sweep().is_none());
    }
}
