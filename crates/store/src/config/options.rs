//! Parameters of a store. The system of each paper is one set of them; the defaults are Larder's
//! own.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use device::SharedMemory;

use crate::base::event::Event;
use crate::base::labels::Labels;
use crate::base::limits::cluster_size_for;
use crate::config::layout_name::LayoutName;
use crate::index::IndexOptions;
use crate::layout::LayoutKind;
use crate::policy::{AdmissionName, PolicyName};

/// The moment at which an object is written to the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WritePolicy {
    /// On completion: a kill loses at most the last [`Options::durability_bound`].
    OnInsert,
    /// When it leaves memory, grouped with its neighbours (UCFS): a kill loses everything in
    /// memory.
    OnEvict,
}

/// The amount that a disk hit reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadUnit {
    /// Only the object's record.
    Object,
    /// The whole cluster; its other objects enter memory as prefetched (UCFS, C4).
    Cluster,
    /// Decided for each read: as much around the record as pays off, judged by the cost of reads on
    /// this device and by how much of earlier read-ahead was requested later.
    Auto,
}

/// The parts of the memory tier, in percent of its bytes; the remainder to 100 is cold (C10).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TierShares {
    /// Share of objects that were hit: 0 to 100. With 0 the tier is one LRU list, whose last part
    /// is cold (T4).
    pub hot: u8,
    /// Share of objects that are new, prefetched or no longer hot: 0 to 100.
    pub medium: u8,
}

impl Default for TierShares {
    fn default() -> TierShares {
        TierShares { hot: 30, medium: 40 }
    }
}

/// The objects read from the device that enter the memory tier. Inserted objects always enter it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TierAdmission {
    /// All of them, including read-ahead, where new objects enter (C10).
    All,
    /// Objects that were requested before recently, or that fit into free memory; all of them while
    /// a read of the device takes more than half a millisecond. Read-ahead enters as cold and moves
    /// up when it is requested: first to where new objects enter.
    SecondUse,
}

/// The goal of eviction: what the clusters that stay should earn most of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prefer {
    /// Hits: each requested object counts the same.
    Requests,
    /// Bytes of hits: each requested object counts by its size.
    Bytes,
}

/// Locality buffers (LAZY-READS-LOC, M9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalityOptions {
    /// Number of buffers: 8 to 128 in the paper, at least 1.
    pub buffers: u16,
    /// Size of each buffer in bytes: 64 KiB by default (unstated in the paper), at least 4 KiB.
    pub bytes: u32,
}

/// Opens the memory that outlives the process, given the number of the device, the cache's uuid and
/// the number of bytes: see [`Options::shared_memory`].
pub type SharedMemorySource =
    Arc<dyn Fn(usize, &[u8; 16], usize) -> io::Result<SharedMemory> + Send + Sync>;

/// Parameters of an open store; [`Options::default`] is Larder's choice.
#[derive(Clone)]
pub struct Options {
    /// Bytes of memory for the index, tables, memory tier and buffers of all devices together.
    pub memory: u64,
    /// The moment at which objects are written.
    pub write_policy: WritePolicy,
    /// The amount that a disk hit reads.
    pub read_unit: ReadUnit,
    /// Maximum number of bytes that a read takes along on either side of a record
    /// ([`ReadUnit::Auto`]).
    pub read_window_max: u64,
    /// Number of reads that are collected and then sent by position (LAZY-READS, M8); 1 sends each
    /// at once.
    pub read_batch: usize,
    /// Maximum time that a read waits for others while none is under way.
    pub read_batch_timeout: Duration,
    /// Batches are split into runs of this many reads, each started when the one before it has
    /// ended, as in the paper's file system (3 to 5); 0 disables splitting.
    pub read_batch_split: usize,
    /// Maximum time that a committed object or a journal fact may stay unwritten
    /// ([`WritePolicy::OnInsert`]).
    pub durability_bound: Duration,
    /// Maximum time between two flushes of the device while there is something to flush: the amount
    /// that a power loss may cost. Purges never wait for it.
    pub flush_interval: Duration,
    /// Maximum time that a read may take, and that a purge waits to be durable.
    pub stall_bound: Duration,
    /// Maximum time that an insertion waits for space before it is refused as `Busy`, and that an
    /// insertion, a removal or an invalidation waits for the journal. A write or flush that takes
    /// longer makes all of these give up at once until it, or another, has ended.
    pub write_bound: Duration,
    /// Percent of the space that readers of large objects may hold, 0 to 50. The pieces that they
    /// have still to read are not overwritten, even of versions that were removed or replaced. With
    /// 0 a removed or evicted object is gone for its readers, too.
    pub held_percent: u8,
    /// Maximum time that one reader may hold anything.
    pub held_time: Duration,
    /// Maximum size of an object in bytes; `None`: a quarter of the device that it would be on.
    pub object_max: Option<u64>,
    /// The admission policy, see [`crate::policy::Admission`].
    pub admission: AdmissionName,
    /// Number of keys that [`AdmissionName::SecondHit`] and [`AdmissionName::WhenFull`] remember on
    /// each device: 1,000 to 2^32, in up to 2.5 bytes each.
    pub admission_keys: u64,
    /// Age at which a cluster is dropped if none of its objects was used in that time (UCFS, C9:
    /// 115 hours).
    pub one_timer_age: Option<Duration>,
    /// Reference counts of clusters are halved each time this percentage (0 to 100) of all clusters
    /// was written. With 0 they are halved when their mean passes `aging_mean`.
    pub reference_half_life: u8,
    /// Reference counts of clusters are halved when their mean passes this (C9), unless
    /// `reference_half_life` is set.
    pub aging_mean: u16,
    /// Percent of all clusters, the youngest, that are not evicted for lack of references.
    pub young_percent: u8,
    /// The weight of a reference to a cluster. Unused in slot layouts, where `policy` chooses the
    /// records to evict.
    pub prefer: Prefer,
    /// Kind and size of the index.
    pub index: IndexOptions,
    /// The parts of the memory tier (C10).
    pub tier_shares: TierShares,
    /// The objects that enter memory when they are read.
    pub tier_admission: TierAdmission,
    /// Percent of the cold part of memory, its older end, whose objects are grouped
    /// ([`WritePolicy::OnEvict`], C11): 1 to 100.
    pub group_share: u8,
    /// Number of groups that are formed at a time when memory is full, and written side by side
    /// (C8, C11: "several"): 1 to 64.
    pub group_batch: u8,
    /// A group is filled up with any objects of fewer bytes than this (C11).
    pub group_small: u32,
    /// A group counts as full when fewer bytes than this are free in its clusters (C11).
    pub group_slack: u32,
    /// The policy that chooses records to evict, in slot layouts.
    pub policy: PolicyName,
    /// Percent of the slots that may be taken before the policy evicts records (the papers' disk
    /// utilization): 1 to 99. `None`: a default that suits the layout.
    pub fill_percent: Option<u8>,
    /// Size of a packet in bytes: neighbouring records are collected up to a multiple of it and
    /// written together (STREAM-PACKETIZER, M7). A multiple of the slot size; 0 writes every record
    /// alone.
    pub packet: u32,
    /// Size of a page in bytes, the smallest write in a slot layout: a record that ends within a
    /// page is written with the rest of it. The default is 4,096, because drives report smaller
    /// blocks that they only emulate; use less for a file whose host has pages of its own. Rounded
    /// up to a power of two, and to the device's block size.
    pub write_page: u32,
    /// Buffers in which objects of one site are collected and then written side by side, at the
    /// latest after the durability bound (M9); `None`: objects are written as they arrive.
    pub locality: Option<LocalityOptions>,
    /// Size of a batch in bytes. Inserted objects wait in memory until there are this many bytes,
    /// at most for the durability bound (longer with [`Options::shared_memory`]), and are written
    /// sorted by site, group and arrival. Limited
    /// to half of the memory for pending writes. 0 writes objects as they arrive. Applies only to
    /// the layout `cluster` without locality buffers, with [`WritePolicy::OnInsert`].
    pub batch: u32,
    /// Maximum number of records that one insertion may evict when no free piece is large enough
    /// (U3).
    pub evict_max: u32,
    /// Maximum time that opening waits for recovery, which then continues in the background.
    pub recovery_wait: Duration,
    /// Maximum number of purges of labels and prefixes in force, not counting purges of labels that
    /// no object bears. Beyond it the oldest quarter becomes one purge of everything as old. At
    /// least 1, and no more than a checkpoint of the device has space for (some 1,000 at 64 MiB,
    /// 16,000 for each GiB) and a thirty-second of the memory (104,000 for 256 MiB).
    pub purges: u32,
    /// True if purges are logged by name for stores that follow them
    /// ([`crate::Store::purges_since`]). The log takes up to 400 KiB of memory, and what is not
    /// durable yet.
    pub purge_log: bool,
    /// Reads the labels of objects; `None`: objects have none.
    pub labels: Option<Arc<dyn Labels>>,
    /// Provides memory that outlives the process, for the cache with this uuid and of this many
    /// bytes. Staged objects are copied there, so that a kill loses none of them; a batch may then
    /// wait for half of [`Options::flush_interval`], and the device is flushed as often. `None`: a
    /// batch waits for [`Options::durability_bound`].
    pub shared_memory: Option<SharedMemorySource>,
    /// Called with events for operators. It is called without locks held and must not block.
    pub on_event: Arc<dyn Fn(Event) + Send + Sync>,
}

/// Formats the named fields. The pattern must name every field of `Options`, so that a new one
/// cannot be forgotten.
macro_rules! fields {
    ($options:expr, $f:expr; $($field:ident),*) => {{
        let Options { $($field,)* labels: _, shared_memory: _, on_event: _ } = $options;
        let mut fields = $f.debug_struct("Options");
        $(fields.field(stringify!($field), $field);)*
        fields.finish_non_exhaustive()
    }};
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fields!(
            self, f;
            memory, write_policy, read_unit, read_window_max, read_batch, read_batch_timeout,
            read_batch_split, durability_bound, flush_interval, stall_bound, write_bound,
            held_percent, held_time, object_max,
            admission, admission_keys, one_timer_age, reference_half_life, aging_mean,
            young_percent, prefer, index, tier_shares, tier_admission, group_share, group_batch,
            group_small, group_slack, policy, fill_percent, packet, write_page, locality, batch,
            evict_max, recovery_wait, purges, purge_log
        )
    }
}

impl Options {
    /// Returns whether staged objects are copied to memory that outlives the process.
    pub(crate) fn keeps_staged(&self) -> bool {
        self.shared_memory.is_some()
            && self.write_policy == WritePolicy::OnInsert
            && self.locality.is_none()
            && self.batch > 0
    }
}

impl Default for Options {
    fn default() -> Options {
        Options {
            memory: MEMORY,
            write_policy: WritePolicy::OnInsert,
            read_unit: ReadUnit::Auto,
            read_window_max: 1 << 20,
            read_batch: 1,
            read_batch_timeout: Duration::from_millis(20),
            read_batch_split: 0,
            durability_bound: Duration::from_secs(1),
            flush_interval: Duration::from_secs(60),
            stall_bound: Duration::from_secs(5),
            write_bound: Duration::from_secs(1),
            held_percent: 25,
            held_time: Duration::from_secs(3600),
            object_max: None,
            admission: AdmissionName::All,
            admission_keys: 1_000_000,
            one_timer_age: None,
            reference_half_life: 10,
            aging_mean: 10,
            young_percent: 10,
            prefer: Prefer::Requests,
            index: IndexOptions::default(),
            tier_shares: TierShares::default(),
            tier_admission: TierAdmission::SecondUse,
            group_share: 50,
            group_batch: 1,
            group_small: 1024,
            group_slack: 1024,
            policy: PolicyName::Lru,
            fill_percent: None,
            packet: 256 << 10,
            write_page: device::WRITE_ALIGN,
            locality: None,
            batch: 4 << 20,
            evict_max: 256,
            recovery_wait: Duration::from_millis(1500),
            purges: 262_144,
            purge_log: false,
            labels: None,
            shared_memory: None,
            on_event: Arc::new(|_| {}),
        }
    }
}

/// Parameters fixed when a cache is created.
#[derive(Clone, Copy, Debug)]
pub struct FormatOptions {
    /// The layout of objects.
    pub layout: LayoutName,
    /// Expected mean size of an object in bytes (body, metadata and key), from which the index is
    /// sized; `None`: chosen by the size of the cache and of the memory, see
    /// [`FormatOptions::mean_object_for`].
    pub mean_object: Option<u32>,
    /// Bytes of memory that the cache will be used with, as in [`Options::memory`]. Affects only
    /// the default of `mean_object`.
    pub memory: u64,
    /// Size of a cluster in bytes, a power of two within [`crate::CLUSTER_SIZES`]; `None`: chosen
    /// by the size of the cache.
    pub cluster_size: Option<u32>,
    /// The index for whose dump space is reserved. A cache can be opened with another one, but is
    /// then recovered from its summaries at every start.
    pub index: IndexOptions,
    /// Size of a slot in bytes, in slot layouts: a power of two from 512 to 4,096 (UNIFIED: chunk;
    /// BUDDY and STREAM: block of 512).
    pub slot_size: u32,
    /// Size in bytes of the largest size class of the layout `buddy` (M4: 128 KiB).
    pub buddy_threshold: u32,
    /// Maximum number of runs that one record may lie in, in the layout `stream` (M6): 1 to 65,536.
    pub stream_runs: u32,
    /// True if the second superblock lies at the end of the device. Otherwise it lies near the
    /// first, as up to format version 3, and the purge log is of the least length: for simulations
    /// whose results were obtained with it there.
    pub superblock_far: bool,
    /// True if space is reserved for the label filters that an orderly stop saves
    /// ([`Options::labels`]). Without it labels are read again after each start.
    pub labels: bool,
}

/// The default of [`Options::memory`].
const MEMORY: u64 = 256 << 20;

/// The largest default of [`FormatOptions::mean_object`], for caches that are large compared with
/// their memory.
pub const MEAN_OBJECT: u32 = 12 * 1024;

/// The smallest default of [`FormatOptions::mean_object`].
const MEAN_OBJECT_LEAST: u32 = 6 * 1024;

/// The divisor of the memory that an index for objects smaller than [`MEAN_OBJECT`] may take.
const INDEX_SHARE: u64 = 8;

impl Default for FormatOptions {
    fn default() -> FormatOptions {
        FormatOptions {
            layout: LayoutName::default(),
            mean_object: None,
            memory: MEMORY,
            cluster_size: None,
            index: IndexOptions::default(),
            slot_size: 512,
            buddy_threshold: 128 << 10,
            stream_runs: 64,
            superblock_far: true,
            labels: true,
        }
    }
}

impl FormatOptions {
    /// Returns the expected mean object size in bytes of a cache of `len` bytes: the configured
    /// one, or the smallest from 6 KiB on, in steps of 512 bytes, for which the index takes at most
    /// an eighth of the memory; [`MEAN_OBJECT`] if there is none.
    ///
    /// An index that is full before the disk costs hits; one that is too large costs memory: 8.9
    /// bytes for each object. With 256 MiB the mean is 6 KiB up to a cache of 21 GiB, and
    /// [`MEAN_OBJECT`] from 42 GiB on. In slot layouts a record takes 64 bytes and more beside the
    /// index, so the mean is always [`MEAN_OBJECT`], as it is when the number of index entries is
    /// configured.
    pub fn mean_object_for(&self, len: u64) -> u32 {
        if let Some(mean_object) = self.mean_object {
            return mean_object;
        }
        if self.layout != LayoutName::Cluster || self.index.entries.is_some() {
            return MEAN_OBJECT;
        }
        let most = self.memory / INDEX_SHARE;
        (MEAN_OBJECT_LEAST..MEAN_OBJECT)
            .step_by(512)
            .find(|mean_object| self.index.bytes(len, *mean_object) <= most)
            .unwrap_or(MEAN_OBJECT)
    }

    pub(crate) fn cluster_size_for(&self, len: u64) -> u32 {
        self.cluster_size.unwrap_or_else(|| cluster_size_for(len))
    }

    /// Returns the layout with its parameters for a space of `slots` slots; `None` for clusters.
    pub(crate) fn slot_layout(&self, slots: u32) -> Option<LayoutKind> {
        match self.layout {
            LayoutName::Cluster => None,
            LayoutName::Stream => Some(LayoutKind::Stream { runs_max: self.stream_runs }),
            LayoutName::Unified => Some(LayoutKind::Unified),
            LayoutName::Buddy => {
                let threshold = (self.buddy_threshold / self.slot_size).max(1);
                let region = crate::layout::region_for(slots, threshold);
                Some(LayoutKind::Buddy { threshold, region })
            }
        }
    }
}

impl Options {
    /// Returns the options of a slot space of this layout on a device with blocks of `block` bytes.
    pub(crate) fn slot_options(&self, layout: LayoutKind, block: u32) -> SlotOptions {
        // STREAM needs free space between its records (Markatos and others, figure 6); worst fit
        // and size classes need less.
        let fill = match layout {
            LayoutKind::Stream { .. } => 75,
            LayoutKind::Unified | LayoutKind::Buddy { .. } => 90,
        };
        SlotOptions {
            layout,
            policy: self.policy,
            fill_percent: self.fill_percent.unwrap_or(fill).clamp(1, 99),
            packet: self.packet,
            page: self.write_page.next_power_of_two().clamp(block, device::WRITE_ALIGN.max(block)),
            evict_max: self.evict_max,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::IndexKind;

    const M: u64 = 1 << 20;
    const G: u64 = 1 << 30;

    #[test]
    fn the_index_is_made_for_small_objects_where_that_takes_little_memory() {
        let mean = |memory: u64, len: u64| {
            FormatOptions { memory, ..FormatOptions::default() }.mean_object_for(len)
        };
        assert_eq!([10 * G, 21 * G].map(|len| mean(256 * M, len)), [6 << 10; 2]);
        assert_eq!([42 * G, 400 * G].map(|len| mean(256 * M, len)), [12 << 10; 2]);
        assert_eq!(mean(4096 * M, 320 * G), 6 << 10);
        assert_eq!(mean(0, G), 12 << 10);
        let index = FormatOptions::default().index;
        for gib in 1..100 {
            let (mean, next) = (mean(256 * M, gib * G), mean(256 * M, (gib + 1) * G));
            assert!(mean <= next, "{gib} GiB: {mean}, then {next}");
            let bytes = index.bytes(gib * G, mean);
            assert!(bytes <= 32 * M || mean == 12 << 10, "{gib} GiB: {bytes} for {mean}");
        }
    }

    #[test]
    fn what_was_asked_for_and_the_other_layouts_know_no_small_objects() {
        let plain = FormatOptions::default();
        let asked = FormatOptions { mean_object: Some(700), ..plain };
        assert_eq!(asked.mean_object_for(G), 700);
        let slots = FormatOptions { layout: LayoutName::Stream, ..plain };
        assert_eq!(slots.mean_object_for(G), MEAN_OBJECT);
        let index = IndexOptions { kind: IndexKind::Exact, entries: Some(1000) };
        assert_eq!(FormatOptions { index, ..plain }.mean_object_for(G), MEAN_OBJECT);
    }
}

/// The options of a slot space.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SlotOptions {
    pub(crate) layout: LayoutKind,
    pub(crate) policy: PolicyName,
    /// Percent of the slots that may be taken before records are evicted.
    pub(crate) fill_percent: u8,
    /// Size of a packet in bytes; 0: no packets.
    pub(crate) packet: u32,
    /// Size of a page in bytes, the smallest write.
    pub(crate) page: u32,
    /// Maximum number of records that one insertion may evict when no free piece is large enough.
    pub(crate) evict_max: u32,
}
