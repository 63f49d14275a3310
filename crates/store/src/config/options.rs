//! Parameters of a store. A paper's system is one set of them; the defaults are the product's.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::base::event::Event;
use crate::base::labels::Labels;
use crate::base::limits::cluster_size_for;
use crate::config::layout_name::LayoutName;
use crate::index::IndexOptions;
use crate::layout::LayoutKind;
use crate::policy::{AdmissionName, PolicyName};

/// When an object is written to the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WritePolicy {
    /// As soon as it is complete: a kill loses at most the last [`Options::durability_bound`].
    OnInsert,
    /// When it leaves memory, grouped with its neighbours (UCFS): a kill loses what is in memory.
    OnEvict,
}

/// How much a disk hit reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadUnit {
    /// Just the object's record.
    Object,
    /// The whole cluster; its other objects enter memory as prefetched (UCFS, C4).
    Cluster,
    /// Each read decides how much of what surrounds the record comes along: as much as pays for
    /// itself, by what reads cost on this device and by what was asked for later of what came
    /// along before.
    Auto,
}

/// How the memory tier is divided, in percent of its bytes; what is missing to 100 is cold (C10).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TierShares {
    /// What was hit: 0 to 100. With 0 the tier is one LRU list, whose last part is cold (T4).
    pub hot: u8,
    /// What is new, prefetched or no longer hot: 0 to 100.
    pub medium: u8,
}

impl Default for TierShares {
    fn default() -> TierShares {
        TierShares { hot: 30, medium: 40 }
    }
}

/// What of the objects that are read from the device enters the memory tier. What is stored enters
/// it in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TierAdmission {
    /// All of it, what came along as well, where new objects enter (C10).
    All,
    /// What was asked for before lately, or finds free room; everything while a read takes the
    /// device more than half a millisecond. What came along enters as cold, and moves up when it is
    /// asked for: first to where new objects enter.
    SecondUse,
}

/// What the clusters that stay earn the most of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prefer {
    /// Hits: every object that is asked for counts the same.
    Requests,
    /// Bytes of hits: an object counts with its bytes.
    Bytes,
}

/// Locality buffers (LAZY-READS-LOC, M9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalityOptions {
    /// How many there are: 8 to 128 in the paper, at least 1.
    pub buffers: u16,
    /// Bytes of each, 64 KiB by default (unstated in the paper), at least 4 KiB.
    pub bytes: u32,
}

/// Parameters of an open store; [`Options::default`] is the product's choice.
#[derive(Clone)]
pub struct Options {
    /// Bytes of memory for index, tables, tier and buffers of all devices together.
    pub memory: u64,
    /// When objects are written.
    pub write_policy: WritePolicy,
    /// How much a disk hit reads.
    pub read_unit: ReadUnit,
    /// Bytes that a read takes along to either side of a record at most ([`ReadUnit::Auto`]).
    pub read_window_max: u64,
    /// Reads collect until there are so many, then go out by position (LAZY-READS, M8); 1: each
    /// goes out at once.
    pub read_batch: usize,
    /// The longest that a read waits for others while none is under way.
    pub read_batch_timeout: Duration,
    /// Batches are broken into runs of so many, each begun when the one before it has ended, as
    /// the paper's file system did (3 to 5); 0: not.
    pub read_batch_split: usize,
    /// The longest that a committed object or a fact may stay unwritten
    /// ([`WritePolicy::OnInsert`]).
    pub durability_bound: Duration,
    /// The longest between two flushes of the device while there is something to flush: what a
    /// power loss may cost. Purges never wait for it.
    pub flush_interval: Duration,
    /// The longest that a read may take, and that a purge waits to be durable.
    pub stall_bound: Duration,
    /// The longest that an insertion waits for room before it is refused as `Busy`, and that an
    /// insertion, a removal or an invalidation waits for the journal. A write or flush that takes
    /// longer makes all of these give up at once until it, or another, has ended.
    pub write_bound: Duration,
    /// Percent of the space that readers of large objects may hold: pieces that they have still to
    /// read, of versions that were removed or replaced as well, are not written over. 0 to 50; 0:
    /// what is removed or evicted is gone for them, too.
    pub held_percent: u8,
    /// The longest that one reader may hold anything.
    pub held_time: Duration,
    /// Bytes of the largest object; `None`: a quarter of the device that it would be on.
    pub object_max: Option<u64>,
    /// What is stored at all; see [`crate::policy::Admission`].
    pub admission: AdmissionName,
    /// Keys that [`AdmissionName::SecondHit`] and [`AdmissionName::WhenFull`] remember on each
    /// device, 1,000 to 2^32, in up to 2.5 bytes each.
    pub admission_keys: u64,
    /// A cluster none of whose objects was touched for this long is dropped (UCFS, C9: 115 hours).
    pub one_timer_age: Option<Duration>,
    /// Reference counts of clusters are halved each time that so many percent of all clusters were
    /// written, 0 to 100; 0: when their mean passes `aging_mean`.
    pub reference_half_life: u8,
    /// Reference counts of clusters are halved when their mean passes this (C9), unless
    /// `reference_half_life` is set.
    pub aging_mean: u16,
    /// Percent of all clusters, the youngest, that are not evicted for want of references.
    pub young_percent: u8,
    /// What a reference to a cluster counts. In the layouts that reuse space record by record
    /// nothing: `policy` chooses there.
    pub prefer: Prefer,
    /// Which index, and how large.
    pub index: IndexOptions,
    /// How memory is divided (C10).
    pub tier_shares: TierShares,
    /// What enters memory when it is read.
    pub tier_admission: TierAdmission,
    /// Percent of the cold part of memory, its older end, whose objects are grouped
    /// ([`WritePolicy::OnEvict`], C11): 1 to 100.
    pub group_share: u8,
    /// So many groups are formed at a time when memory is full, and written side by side (C8, C11:
    /// "several"): 1 to 64.
    pub group_batch: u8,
    /// A group is filled up with objects of fewer bytes than this, whatever they are (C11).
    pub group_small: u32,
    /// A group counts as full when fewer bytes than this are free in its clusters (C11).
    pub group_slack: u32,
    /// Which record goes for room, in the layouts that reuse space record by record.
    pub policy: PolicyName,
    /// Percent of the slots that may be taken before the policy gives records up (the papers'
    /// disk utilization): 1 to 99. `None`: what suits the layout.
    pub fill_percent: Option<u8>,
    /// Bytes of a packet: neighbouring records are collected up to a multiple of it and written
    /// together (STREAM-PACKETIZER, M7). A multiple of the slot; 0: every record is written alone.
    pub packet: u32,
    /// Bytes of a page, the least that is written in a layout of slots: a record that ends within
    /// one is written with the rest of it. 4,096 is the default, as drives tell of smaller blocks
    /// that they only emulate; less for a file whose host has pages of its own. Rounded up to a
    /// power of two, and to the device's block.
    pub write_page: u32,
    /// Objects of one site wait for one another in memory and are written side by side, at the
    /// latest after the durability bound (M9); `None`: they are written as they come.
    pub locality: Option<LocalityOptions>,
    /// Bytes of a batch: what is inserted waits in memory until there are so many, at most for the
    /// durability bound, and is written sorted by site, group and arrival; half of what may wait to
    /// be written at most. 0: it is written as it comes. In the layout `cluster` only, and without
    /// locality buffers.
    pub batch: u32,
    /// Records that one insertion may cost others when no free piece is large enough (U3).
    pub evict_max: u32,
    /// How long opening may wait for recovery before it goes on beside service.
    pub recovery_wait: Duration,
    /// Purges of labels and prefixes that are in force at a time, without those of labels that
    /// nothing bears; beyond it the oldest quarter of them becomes one purge of everything that is
    /// as old. At least 1, and no more than a checkpoint of the device has room for (some 1,000 at
    /// 64 MiB, 16,000 for each GiB) and a thirty-second of the memory (104,000 for 256 MiB).
    pub purges: u32,
    /// Whether purges are logged by name for stores elsewhere that follow them
    /// ([`crate::Store::purges_since`]); it takes up to 256 KiB of memory for each device.
    pub purge_log: bool,
    /// Reads the labels off objects; `None`: they have none.
    pub labels: Option<Arc<dyn Labels>>,
    /// Told what operators should know; called without locks held, must not block.
    pub on_event: Arc<dyn Fn(Event) + Send + Sync>,
}

/// Writes the named fields. All but those that cannot be written are named, so that one that is
/// added is not forgotten.
macro_rules! fields {
    ($options:expr, $f:expr; $($field:ident),*) => {{
        let Options { $($field,)* labels: _, on_event: _ } = $options;
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
            flush_interval: Duration::from_secs(5),
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
            on_event: Arc::new(|_| {}),
        }
    }
}

/// Parameters fixed when a cache is created.
#[derive(Clone, Copy, Debug)]
pub struct FormatOptions {
    /// How objects are laid out.
    pub layout: LayoutName,
    /// Expected mean object in bytes (body, metadata and key): sizes the index; `None`: by the
    /// size of the cache and of the memory, see [`FormatOptions::mean_object_for`].
    pub mean_object: Option<u32>,
    /// Bytes of memory that the cache is going to be used with, as [`Options::memory`]: decides
    /// nothing but the default of `mean_object`.
    pub memory: u64,
    /// Bytes of a cluster, a power of two within [`crate::CLUSTER_SIZES`]; `None`: by the size of
    /// the cache.
    pub cluster_size: Option<u32>,
    /// The index that its dump has room for. A cache can be opened with another one; it is then
    /// recovered from its summaries at every start.
    pub index: IndexOptions,
    /// Bytes of a slot, in the layouts that have them: a power of two from 512 to 4,096 (UNIFIED:
    /// chunk; BUDDY and STREAM: block of 512).
    pub slot_size: u32,
    /// Bytes of the largest size class of the layout `buddy` (M4: 128 KiB).
    pub buddy_threshold: u32,
    /// Free runs that one record may lie in, in the layout `stream` (M6): 1 to 65,536.
    pub stream_runs: u32,
    /// The second superblock lies at the end of the device; otherwise near the first, as up to
    /// format version 3: for simulations that were counted with it there.
    pub superblock_far: bool,
    /// There is room for what an orderly stop saves of labels ([`Options::labels`]); without it
    /// they are read again after each start.
    pub labels: bool,
}

/// The default of [`Options::memory`].
const MEMORY: u64 = 256 << 20;

/// The most that [`FormatOptions::mean_object`] is by default: what the index of a cache is made
/// for that is large beside its memory.
pub const MEAN_OBJECT: u32 = 12 * 1024;

/// The least that it is by default.
const MEAN_OBJECT_LEAST: u32 = 6 * 1024;

/// The part of the memory that an index for objects of less than [`MEAN_OBJECT`] may take.
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
    /// The expected mean object of a cache of `len` bytes: what was asked for, or the least from 6
    /// KiB on, in steps of 512 bytes, for which the index takes no more than an eighth of the
    /// memory, at most [`MEAN_OBJECT`].
    ///
    /// An index that is full before the disk costs hits, one that is too large costs memory: 8.9
    /// bytes for each object. With 256 MiB it is 6 KiB up to a cache of 21 GiB, [`MEAN_OBJECT`]
    /// from 42 GiB on. In the layouts of slots a record takes 64 bytes and more beside the index,
    /// and it is always [`MEAN_OBJECT`]; so it is where the entries of the index are given.
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

    /// The layout with its parameters for a space of `slots` slots; `None` for clusters.
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
    /// How a slot space of this layout works on a device with blocks of `block` bytes.
    pub(crate) fn slot_options(&self, layout: LayoutKind, block: u32) -> SlotOptions {
        // STREAM needs room between its records (Markatos and others, figure 6); worst fit and
        // size classes less.
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

/// How a slot space works.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SlotOptions {
    pub(crate) layout: LayoutKind,
    pub(crate) policy: PolicyName,
    /// Percent of the slots that may be taken before something is evicted.
    pub(crate) fill_percent: u8,
    /// Bytes of a packet; 0: none.
    pub(crate) packet: u32,
    /// Bytes of a page: what is written alone.
    pub(crate) page: u32,
    /// Records that one insertion may cost others for want of a fitting place.
    pub(crate) evict_max: u32,
}
