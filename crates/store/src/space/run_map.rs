//! Runs of records that lie side by side in a cluster because they belong together: objects of one
//! site and group, which were written sorted ([`crate::layout::batch`]).
//!
//! A read for an object weighs its neighbours within the run apart from objects of other groups. A
//! run takes four bytes of memory, an object that lies alone none. Runs are learnt when a cluster
//! is sealed, or from its summary; until then, the runs of the cluster are unknown.

use std::ops::Range;

use crate::base::limits::ClusterId;
use crate::base::summary::Entry;

/// Unit of the bounds in bytes, the smallest granule. Bounds then fit into 16 bits even in the
/// largest cluster, whose last unit belongs to its summary.
const UNIT: u32 = 64;

/// A run in units from the start of its cluster, with the end rounded up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    start: u16,
    end: u16,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Around {
    /// The runs of the cluster are not known.
    Unknown,
    /// No other record of its group.
    Alone,
    /// The run of its group, in bytes from the start of the cluster.
    Run(Range<u32>),
}

/// The runs of all clusters of a device.
pub(crate) struct RunMap {
    /// Runs by cluster, in ascending order; `None` if they are not known.
    clusters: Vec<Option<Box<[Run]>>>,
    runs: usize,
}

impl RunMap {
    /// Returns a map of `clusters` clusters whose runs are not known.
    pub(crate) fn new(clusters: u32) -> RunMap {
        RunMap { clusters: vec![None; clusters as usize], runs: 0 }
    }

    /// Learns the runs of a cluster that holds exactly `entries`, at offsets in granules of
    /// `granule` bytes.
    pub(crate) fn learn(&mut self, cluster: ClusterId, granule: u32, entries: &[Entry]) {
        let mut runs: Vec<Run> = Vec::new();
        for pair in entries.windows(2).filter(|pair| pair[1].joins) {
            let start = unit(pair[0].granule.saturating_mul(granule) / UNIT);
            let end = pair[1].granule.saturating_mul(granule).saturating_add(pair[1].len);
            let end = unit(end.div_ceil(UNIT));
            match runs.last_mut() {
                // The entry that ended the run also joins, so the run continues.
                Some(last) if last.end >= start && pair[0].joins => last.end = end,
                _ => runs.push(Run { start, end }),
            }
        }
        self.runs += runs.len();
        let old = self.clusters[cluster as usize].replace(runs.into_boxed_slice());
        self.runs -= old.map_or(0, |old| old.len());
    }

    /// Returns whether the runs of the cluster are known.
    pub(crate) fn knows(&self, cluster: ClusterId) -> bool {
        self.clusters[cluster as usize].is_some()
    }

    /// Returns the surroundings of the record at `offset` bytes in the cluster.
    pub(crate) fn around(&self, cluster: ClusterId, offset: u32) -> Around {
        let Some(runs) = &self.clusters[cluster as usize] else { return Around::Unknown };
        let at = unit(offset / UNIT);
        let run = runs[..runs.partition_point(|run| run.start <= at)].last();
        match run.filter(|run| at < run.end) {
            None => Around::Alone,
            Some(run) => Around::Run(u32::from(run.start) * UNIT..u32::from(run.end) * UNIT),
        }
    }

    /// Returns the memory of the map, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.clusters.capacity() * size_of::<Option<Box<[Run]>>>() + self.runs * size_of::<Run>()
    }
}

/// Converts a number of units, saturating.
fn unit(units: u32) -> u16 {
    u16::try_from(units).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::digest::Digest;
    use crate::base::record::RecordKind;
    use crate::test_seed::seeds;

    const GRANULE: u32 = 64;

    fn entry(granule: u32, len: u32, joins: bool) -> Entry {
        Entry {
            kind: RecordKind::Object,
            digest: Digest([1; 16]),
            sequence: 1,
            granule,
            len,
            target: 0,
            target_sequence: 0,
            joins,
        }
    }

    #[test]
    fn objects_of_a_group_are_a_run_and_others_lie_alone() {
        let mut map = RunMap::new(2);
        let entries = [
            entry(0, 1000, false),
            entry(16, 1000, false),
            entry(32, 1000, true),
            entry(48, 1000, true),
            entry(64, 1000, false),
            entry(80, 1000, true),
        ];
        map.learn(1, GRANULE, &entries);
        let around = |granule: u32| map.around(1, granule * GRANULE);
        assert_eq!(around(0), Around::Alone);
        for granule in [16, 32, 48] {
            assert_eq!(around(granule), Around::Run(1024..4096));
        }
        assert_eq!(around(64), Around::Run(4096..6144));
        assert_eq!(map.around(0, 0), Around::Unknown);
        assert_eq!(map.memory_bytes(), 2 * 16 + 2 * 4);
        map.learn(1, GRANULE, &entries[..1]);
        assert_eq!((map.around(1, 1024), map.memory_bytes()), (Around::Alone, 2 * 16));
    }

    #[test]
    fn every_record_of_a_run_lies_within_it() {
        for seed in seeds("run_map::every_record_of_a_run", 200) {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut map = RunMap::new(1);
            let (mut entries, mut granule): (Vec<Entry>, u32) = (Vec::new(), 0);
            while granule < (4 << 20) / GRANULE - 700 {
                let len = random.u32(113..40_000);
                entries.push(entry(granule, len, !entries.is_empty() && random.bool()));
                granule += len.div_ceil(GRANULE);
            }
            map.learn(0, GRANULE, &entries);
            for (at, one) in entries.iter().enumerate() {
                let next_joins = entries.get(at + 1).is_some_and(|next| next.joins);
                let start = one.granule * GRANULE;
                match map.around(0, start) {
                    Around::Run(run) => {
                        assert!(run.start <= start, "seed {seed}");
                        let whole = run.end >= start + one.len;
                        assert!(whole || !(one.joins || next_joins), "seed {seed}");
                    }
                    other => {
                        assert!(!one.joins && !next_joins, "seed {seed}: {other:?} at {at}");
                    }
                }
            }
        }
    }
}
