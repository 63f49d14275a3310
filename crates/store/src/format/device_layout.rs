//! The division of a device: superblocks, journal, checkpoints, index dump, purge log, clusters.
//!
//! The metadata areas lie in front of the clusters when a cache is created. When it grows, larger
//! ones are made behind the clusters and the old ones are no longer used, so that the clusters
//! always form one run with the same start and keep their numbers. The purge log keeps its area,
//! because its followers would lose their positions in a new one.

use device::Extent;

use crate::base::limits::{CACHE_SIZE_MIN, CLUSTER_SIZES};
use crate::base::wire::{Decoder, Encoder};
use crate::format::checkpoint::Checkpoint;
use crate::format::table_size::cluster_table_max;
use crate::purge::purges::Purges;

/// Offset of the first superblock.
pub(crate) const SUPERBLOCK: u64 = 0;
/// Offset of the second superblock up to format version 3, and of caches created without a far one.
pub(crate) const SUPERBLOCK_NEAR: u64 = 512 * 1024;
/// Minimum distance in bytes of the second superblock from the end of the device, where other
/// programs keep copies of their own tables.
const SUPERBLOCK_TAIL: u64 = 64 * 1024;

/// Returns the offset of the second superblock of a cache on a device of `len` bytes: as far from
/// the first as possible, so that no write over the start of the device destroys both.
pub(crate) fn superblock_far(len: u64) -> u64 {
    len.saturating_sub(SUPERBLOCK_TAIL) / SUPERBLOCK_TAIL * SUPERBLOCK_TAIL
}
/// Offset of the first byte that is not reserved for superblocks.
pub(crate) const FIRST_AREA: u64 = 1024 * 1024;
/// Extent of a purge log of the least size, between the first superblock and the near place of the
/// second. A longer log has an area behind the index dump.
const PURGE_LOG_LEAST: Extent = Extent { offset: 64 * 1024, len: 384 * 1024 };
/// Maximum length of the purge log in bytes: some 800,000 purges of URLs.
const PURGE_LOG_MAX: u64 = 64 << 20;
/// Every area starts and ends on a multiple of this.
const AREA_ALIGN: u64 = 4096;
/// Alignment of the start of clusters and slots, so that pages of a host's file system, of flash
/// and of stripes coincide with ours. If a cluster began within such a page, each write of a
/// neighbour would read and rewrite the page.
const CLUSTERS_ALIGN: u64 = 64 << 10;
/// Bytes of a journal block: the smallest unit written alone.
pub(crate) const BLOCK: u64 = 4096;
/// Positions are 32-bit counts of granules from the first cluster.
const POSITIONS: u64 = 1 << 32;
/// Minimum size of a granule in bytes: records start on multiples of it.
const GRANULE_MIN: u64 = 64;
/// Minimum size of a slot in bytes; a smaller granule means clusters.
const SLOT_MIN: u32 = 512;

/// The division of one device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Areas {
    pub(crate) journal: Extent,
    pub(crate) checkpoints: [Extent; 2],
    pub(crate) index_dump: Extent,
    /// Reserved whether or not a log is kept, so that the cache can become part of a fleet.
    pub(crate) purge_log: Extent,
    /// Offset of cluster 0.
    pub(crate) clusters_at: u64,
    /// Size of a cluster in bytes, a power of two.
    pub(crate) cluster_size: u32,
    /// Number of clusters.
    pub(crate) clusters: u32,
    /// Size of a granule in bytes, a power of two.
    pub(crate) granule: u32,
}

fn align_up(bytes: u64) -> u64 {
    bytes.div_ceil(AREA_ALIGN) * AREA_ALIGN
}

/// Maximum number of bytes in a checkpoint for purges and for removals during a recovery. A cache
/// of 64 GiB or more reserves this many.
const ROOM_MAX: u64 = 64 << 20;
/// Maximum number of digests removed during a recovery; they are held in memory.
const REMOVED_MAX: u64 = 65_536;

/// Sizes of the metadata areas of a cache of `len` bytes.
struct MetadataSizes {
    journal: u64,
    checkpoint: u64,
    index_dump: u64,
}

impl MetadataSizes {
    fn new(len: u64, cluster_size: u32, index_bytes: u64) -> MetadataSizes {
        let clusters = len / u64::from(cluster_size);
        let dead = clusters * DEAD_PER_CLUSTER;
        let table = cluster_table_max(clusters as u32, dead as usize);
        // A slot space takes two bits for each slot of at least 512 bytes, and the records that die
        // between flushes.
        let table = table.max(2 * (len / 512 / 8) as usize + clusters as usize * 64);
        // Space for purges in force, and for removals during a recovery.
        let removed = (len / 1024).clamp(64 * 1024, ROOM_MAX);
        MetadataSizes {
            journal: (len / 1024).clamp(256 * 1024, 64 * 1024 * 1024) / BLOCK * BLOCK,
            checkpoint: align_up(table as u64 + removed),
            index_dump: align_up(index_bytes + BLOCK),
        }
    }

    fn total(&self) -> u64 {
        self.journal + 2 * self.checkpoint + self.index_dump
    }
}

/// Average number of dead records per cluster that the tables have space for.
pub(crate) const DEAD_PER_CLUSTER: u64 = 16;

impl Areas {
    /// Divides a whole device, like [`Areas::within`].
    #[cfg(test)]
    pub(crate) fn new(
        len: u64,
        cluster_size: u32,
        index_bytes: u64,
        slot_size: Option<u32>,
    ) -> Option<Areas> {
        let space = NewSpace { len, room: len, purge_log: purge_log_len(len) };
        Areas::within(space, cluster_size, index_bytes, slot_size)
    }

    /// Divides a new device; returns `None` when it is too small. `slot_size` is the minimum
    /// granule, for a slot layout.
    pub(crate) fn within(
        NewSpace { len, room, purge_log }: NewSpace,
        cluster_size: u32,
        index_bytes: u64,
        slot_size: Option<u32>,
    ) -> Option<Areas> {
        assert!(cluster_size.is_power_of_two() && CLUSTER_SIZES.contains(&cluster_size));
        if len < CACHE_SIZE_MIN {
            return None;
        }
        let sizes = MetadataSizes::new(len, cluster_size, index_bytes);
        let mut areas = Areas::metadata(FIRST_AREA, &sizes, cluster_size);
        areas.granule = granule_for(len).max(slot_size.unwrap_or(0));
        if purge_log > PURGE_LOG_LEAST.len {
            areas.purge_log = Extent { offset: areas.index_dump.end(), len: purge_log };
        }
        let metadata_end = areas.index_dump.end().max(areas.purge_log.end());
        let clusters_at = metadata_end.next_multiple_of(CLUSTERS_ALIGN);
        let clusters = room.checked_sub(clusters_at)? / u64::from(cluster_size);
        areas.clusters_at = clusters_at;
        areas.clusters = u32::try_from(clusters).ok()?;
        (clusters >= 16 && areas.plausible()).then_some(areas)
    }

    /// Returns the division after the device grew to `len` bytes: the same clusters with more
    /// behind them. Returns `None` when nothing is gained, because there is no space for more
    /// clusters or because positions of the cache's granule cannot address them.
    pub(crate) fn grown(&self, len: u64, index_bytes: u64) -> Option<Areas> {
        let sizes = MetadataSizes::new(len, self.cluster_size, index_bytes);
        let room = len.checked_sub(sizes.total())?.checked_sub(self.clusters_at)?;
        let addressable = POSITIONS / u64::from(self.granules_per_cluster());
        let clusters = (room / u64::from(self.cluster_size)).min(addressable);
        let clusters = u32::try_from(clusters).ok()?;
        let span = u64::from(clusters) * u64::from(self.cluster_size);
        let metadata_at = self.clusters_at + span;
        // The old areas stay intact until the superblocks name the new ones: after a crash in
        // between, the cache is unchanged.
        if clusters <= self.clusters || metadata_at < self.end() {
            return None;
        }
        let mut areas = Areas::metadata(metadata_at, &sizes, self.cluster_size);
        areas.clusters_at = self.clusters_at;
        areas.clusters = clusters;
        areas.granule = self.granule;
        areas.purge_log = self.purge_log;
        Some(areas)
    }

    fn metadata(at: u64, sizes: &MetadataSizes, cluster_size: u32) -> Areas {
        let journal = Extent { offset: at, len: sizes.journal };
        let first = Extent { offset: journal.end(), len: sizes.checkpoint };
        let second = Extent { offset: first.end(), len: sizes.checkpoint };
        let index_dump = Extent { offset: second.end(), len: sizes.index_dump };
        Areas {
            journal,
            checkpoints: [first, second],
            index_dump,
            purge_log: PURGE_LOG_LEAST,
            clusters_at: 0,
            cluster_size,
            clusters: 0,
            granule: 0,
        }
    }

    /// Returns the offset behind the last byte that the cache uses.
    pub(crate) fn end(&self) -> u64 {
        let clusters = self.clusters_at + u64::from(self.clusters) * u64::from(self.cluster_size);
        clusters.max(self.index_dump.end())
    }

    /// Returns the bytes that a checkpoint has beyond the largest cluster table.
    fn spare(&self) -> u64 {
        let dead = u64::from(self.clusters) * DEAD_PER_CLUSTER;
        let table = cluster_table_max(self.clusters, dead as usize) as u64;
        // The image of the slots: two bits for each, and the records that died lately.
        let image = u64::from(self.slots()) / 4 + u64::from(self.clusters) * 64;
        let table = if self.granule >= SLOT_MIN { table.max(image) } else { table };
        self.checkpoints[0].len.saturating_sub(table + BLOCK)
    }

    /// Returns how many digests removed during a recovery a checkpoint has space for. Some space is
    /// left for those that come until the recovery has ended.
    pub(crate) fn removed_max(&self) -> u64 {
        (self.spare() / 8 * 3 / Checkpoint::REMOVED_LEN).min(REMOVED_MAX)
    }

    /// Returns how many purges in force a checkpoint has space for.
    pub(crate) fn purges_max(&self) -> u64 {
        self.spare() / 8 * 5 / Purges::ENTRY_LEN as u64
    }

    /// Returns the extent of cluster `number` on the device.
    pub(crate) fn cluster(&self, number: u32) -> Extent {
        assert!(number < self.clusters);
        let size = u64::from(self.cluster_size);
        Extent { offset: self.clusters_at + u64::from(number) * size, len: size }
    }

    /// Returns the number of granules in a cluster.
    pub(crate) fn granules_per_cluster(&self) -> u32 {
        self.cluster_size / self.granule
    }

    /// Returns the number of granules in all clusters, which are the slots of a slot layout.
    pub(crate) fn slots(&self) -> u32 {
        u32::try_from(u64::from(self.clusters) * u64::from(self.granules_per_cluster()))
            .unwrap_or(u32::MAX)
    }

    /// Returns the position of the record that starts `granules` into cluster `number`.
    pub(crate) fn position(&self, number: u32, granules: u32) -> u32 {
        number * self.granules_per_cluster() + granules
    }

    /// Returns the cluster of a position, and the granule within that cluster.
    pub(crate) fn locate(&self, position: u32) -> (u32, u32) {
        (position / self.granules_per_cluster(), position % self.granules_per_cluster())
    }

    /// Returns the byte offset of a position on the device.
    pub(crate) fn offset(&self, position: u32) -> u64 {
        self.clusters_at + u64::from(position) * u64::from(self.granule)
    }

    pub(crate) fn encode(&self, out: &mut Encoder<'_>) {
        for extent in [self.journal, self.checkpoints[0], self.checkpoints[1], self.index_dump] {
            out.u64(extent.offset).u64(extent.len);
        }
        out.u64(self.clusters_at).u32(self.cluster_size).u32(self.clusters).u32(self.granule);
    }

    pub(crate) fn decode(from: &mut Decoder<'_>) -> Option<Areas> {
        let mut extent = || Some(Extent { offset: from.u64()?, len: from.u64()? });
        let (journal, first, second, index_dump) = (extent()?, extent()?, extent()?, extent()?);
        let areas = Areas {
            journal,
            checkpoints: [first, second],
            index_dump,
            purge_log: PURGE_LOG_LEAST,
            clusters_at: from.u64()?,
            cluster_size: from.u32()?,
            clusters: from.u32()?,
            granule: from.u32()?,
        };
        areas.plausible().then_some(areas)
    }

    /// Encodes the area of the purge log, which stands apart from the others.
    pub(crate) fn encode_purge_log(&self, out: &mut Encoder<'_>) {
        out.u64(self.purge_log.offset).u64(self.purge_log.len);
    }

    /// Decodes the area of the purge log. Zeros stand for the place that it had before there was a
    /// choice.
    pub(crate) fn decode_purge_log(&mut self, from: &mut Decoder<'_>) -> Option<()> {
        let area = Extent { offset: from.u64()?, len: from.u64()? };
        if area.len > 0 {
            self.purge_log = Some(area).filter(is_area)?;
        }
        Some(())
    }

    /// Returns whether [`Areas::within`] or [`Areas::grown`] could have made this division.
    fn plausible(&self) -> bool {
        [self.journal, self.checkpoints[0], self.checkpoints[1], self.index_dump]
            .iter()
            .all(is_area)
            && self.cluster_size.is_power_of_two()
            && CLUSTER_SIZES.contains(&self.cluster_size)
            && self.granule.is_power_of_two()
            && u64::from(self.granule) >= GRANULE_MIN
            && self.granule <= self.cluster_size / 32
            && self.clusters_at.is_multiple_of(AREA_ALIGN)
            && self.clusters > 0
            && u64::from(self.clusters) * u64::from(self.granules_per_cluster()) <= POSITIONS
    }
}

fn is_area(extent: &Extent) -> bool {
    extent.offset.is_multiple_of(AREA_ALIGN)
        && extent.len.is_multiple_of(AREA_ALIGN)
        && extent.len > 0
        && extent.offset.checked_add(extent.len).is_some()
}

/// Returns the length in bytes of the purge log of a new cache of `len` bytes.
pub(crate) fn purge_log_len(len: u64) -> u64 {
    (len / 256).clamp(PURGE_LOG_LEAST.len, PURGE_LOG_MAX) / BLOCK * BLOCK
}

/// The space that a new cache divides.
#[derive(Clone, Copy)]
pub(crate) struct NewSpace {
    /// Length of the device in bytes.
    pub(crate) len: u64,
    /// Number of bytes from its start that the areas and clusters may take.
    pub(crate) room: u64,
    /// Length of the purge log in bytes.
    pub(crate) purge_log: u64,
}

fn granule_for(len: u64) -> u32 {
    let granule = len.div_ceil(POSITIONS).next_power_of_two().max(GRANULE_MIN);
    u32::try_from(granule).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::base::limits::cluster_size_for;
    use crate::test_seed::seeds;

    const GIB: u64 = 1 << 30;

    #[test]
    fn positions_and_clusters_convert_both_ways() {
        let areas = Areas::new(10 * GIB, 1 << 20, 8 << 20, None).expect("room");
        let position = areas.position(77, 5);
        assert_eq!(areas.locate(position), (77, 5));
        assert_eq!(areas.offset(position), areas.cluster(77).offset + 5 * 64);
        assert!(areas.end() <= 10 * GIB);
    }

    #[test]
    fn growth_keeps_the_clusters_in_place() {
        let small = Areas::new(GIB, 1 << 18, 1 << 20, None).expect("room");
        let large = small.grown(4 * GIB, 4 << 20).expect("room");
        assert_eq!(large.cluster(0), small.cluster(0));
        assert!(large.clusters > 3 * small.clusters);
        assert!(large.end() <= 4 * GIB);
        assert!(large.journal.offset >= large.cluster(large.clusters - 1).end());
        assert!(small.grown(GIB, 1 << 20).is_none());
    }

    #[test]
    fn growth_writes_over_nothing_that_an_opening_after_a_crash_reads() {
        for seed in seeds("areas::growth_writes_over_nothing", 300) {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut len = random.u64(8 << 20..64 << 20);
            let Some(mut areas) = Areas::new(len, 32 << 10, 100_000, None) else { continue };
            for _ in 0..6 {
                let most = if random.bool() { 1 << 20 } else { 32 << 20 };
                len += random.u64(..most);
                let Some(grown) = areas.grown(len, 100_000) else { continue };
                let metadata = |areas: &Areas| {
                    [areas.journal, areas.checkpoints[0], areas.checkpoints[1], areas.index_dump]
                };
                for new in metadata(&grown) {
                    let used = Extent { offset: 0, len: areas.cluster(areas.clusters - 1).end() };
                    for old in metadata(&areas).into_iter().chain([areas.purge_log, used]) {
                        assert!(new.offset >= old.end() || new.end() <= old.offset);
                    }
                }
                assert!(grown.end() <= len && grown.plausible());
                assert_eq!(grown.purge_log, areas.purge_log);
                areas = grown;
            }
        }
    }

    #[test]
    fn the_purge_log_takes_a_256th_between_the_superblocks_or_before_the_clusters() {
        let (kib, mib) = (1 << 10, 1 << 20);
        for (len, expected) in
            [(8 * mib, 384 * kib), (96 * mib, 384 * kib), (GIB, 4 * mib), (40 * GIB, 64 * mib)]
        {
            let areas = Areas::new(len, cluster_size_for(len), mib, None).expect("room");
            assert_eq!(areas.purge_log.len, expected, "{len}");
            let (from, to) = match expected > 384 * kib {
                true => (areas.index_dump.end(), areas.clusters_at),
                false => (BLOCK, SUPERBLOCK_NEAR),
            };
            assert!(areas.purge_log.offset >= from && areas.purge_log.end() <= to, "{len}");
            assert!(areas.clusters_at - areas.index_dump.end() < 64 * mib + CLUSTERS_ALIGN);
        }
    }

    #[test]
    fn a_cache_grows_as_far_as_its_positions_reach() {
        let small = Areas::new(200 * GIB, 4 << 20, GIB, None).expect("room");
        assert_eq!(small.granule, 64);
        let large = small.grown(400 * GIB, 2 * GIB).expect("room");
        assert_eq!(u64::from(large.clusters) * (4 << 20), 256 * GIB);
        let last = large.position(large.clusters - 1, large.granules_per_cluster() - 1);
        assert_eq!((last, large.locate(last).0), (u32::MAX, large.clusters - 1));
    }

    #[test]
    fn a_device_too_large_for_its_clusters_is_refused_when_the_cache_is_created() {
        let len = 8 << 40;
        assert!(Areas::new(len, 4 << 20, GIB, None).is_some_and(|areas| areas.plausible()));
        assert!(Areas::new(len, 32 << 10, GIB, None).is_none());
    }

    #[test]
    fn the_smallest_cache_takes_the_smallest_clusters_with_records_and_with_slots() {
        for slot_size in [None, Some(SLOT_MIN)] {
            let areas = Areas::new(CACHE_SIZE_MIN, *CLUSTER_SIZES.start(), 1 << 14, slot_size);
            assert!(areas.is_some_and(|areas| areas.clusters > 256), "{slot_size:?}");
        }
    }

    #[test]
    fn a_terabyte_is_addressed_by_larger_granules() {
        let areas = Areas::new(1200 * GIB, 4 << 20, GIB, None).expect("room");
        assert_eq!(areas.granule, 512);
        let last = areas.position(areas.clusters - 1, areas.granules_per_cluster() - 1);
        assert_eq!(areas.locate(last).0, areas.clusters - 1);
    }

    #[test]
    fn encoding_round_trips_and_nonsense_is_refused() {
        let areas = Areas::new(GIB, 1 << 18, 1 << 20, None).expect("room");
        let mut bytes = Vec::new();
        areas.encode(&mut Encoder(&mut bytes));
        areas.encode_purge_log(&mut Encoder(&mut bytes));
        let mut from = Decoder(&bytes);
        let mut decoded = Areas::decode(&mut from).expect("whole");
        assert!(decoded != areas && decoded.decode_purge_log(&mut from).is_some());
        assert_eq!(decoded, areas);
        assert_eq!(decoded.decode_purge_log(&mut Decoder(&[0; 16])), Some(()));
        assert_eq!(decoded, areas, "an older superblock says nothing of it");
        assert_eq!(decoded.decode_purge_log(&mut Decoder(&[1; 16])), None);
        // Checkpoint A with a length that no device has.
        bytes[24..32].copy_from_slice(&(u64::MAX / 2 + 1).to_le_bytes());
        let huge = Areas::decode(&mut Decoder(&bytes)).expect("aligned");
        assert!(huge.removed_max() == REMOVED_MAX && huge.purges_max() > 1 << 50);
        bytes[72] = 3;
        assert_eq!(Areas::decode(&mut Decoder(&bytes)), None);
    }
}
