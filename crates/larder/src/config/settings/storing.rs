//! Declarations of `[store]`: the placement of objects on the device and in memory, and eviction.
//! The values override the preset, which is declared before them.

use std::time::Duration;

use store::{LocalityOptions, Prefer, ReadUnit, TierAdmission, WritePolicy};

use super::common::{K, M, Setting, hours, ms};
use crate::config::configuration::Config;
use crate::config::setting::{Take, choice, fields, given};
use crate::config::value::{Kind, Value};

choice!(PREFER for Prefer { "requests" => Prefer::Requests, "bytes" => Prefer::Bytes });
choice!(TIER_ADMISSION for TierAdmission {
    "all" => TierAdmission::All,
    "second-use" => TierAdmission::SecondUse,
});
choice!(READ_UNIT for ReadUnit { "object" => ReadUnit::Object, "cluster" => ReadUnit::Cluster });
choice!(WRITE_POLICY for WritePolicy {
    "on-insert" => WritePolicy::OnInsert,
    "on-evict" => WritePolicy::OnEvict,
});
const ADMISSION: Kind = Kind::OneOf(store::policy::AdmissionName::NAMES);
const INDEX: Kind = Kind::OneOf(store::IndexKind::NAMES);
pub const POLICY: Kind =
    Kind::OneOf(&["lru", "fifo", "clock", "sieve", "s3-fifo", "lfu-aging", "gdsf", "w-tinylfu"]);

/// Size in bytes of a locality buffer for which only a number was given.
const LOCALITY_SIZE: u32 = 64 << 10;

/// The table `[store]`.
pub const SETTINGS: &[Setting] = fields! {
    Config;

    /// Expected mean size of an object; sizes the index. For preset `larder`, "auto" is the least
    /// from 6K to 12K whose index takes at most an eighth of `memory`; 12K with slots or
    /// `index-entries`.
    "store.mean-object", Kind::Size(512, 16 * M), ["auto"], word("auto"), at_creation
        => |c, v| given(&mut c.format.mean_object, v);

    /// Size of a cluster, a power of two. Some presets choose it by the size of the cache.
    "store.cluster-size", Kind::Size(16 * K, 4 * M), ["auto"], word("auto"), at_creation
        => |c, v| given(&mut c.format.cluster_size, v);

    /// When an object is written: once it is complete ("on-insert"), or when it leaves memory,
    /// grouped with its neighbours ("on-evict"). A killed process loses what is in memory only.
    "store.write-policy", WRITE_POLICY, ["auto"], word("auto") -> store.write_policy;

    /// Unit of a read for a hit: the object, or its whole cluster, whose other objects enter
    /// memory. Preset `larder` decides for each read how much to prefetch.
    "store.read-unit", READ_UNIT, ["auto"], word("auto") -> store.read_unit;

    /// Most bytes that such a read prefetches on either side of the object; also at most 1/32 of
    /// the memory for objects.
    "store.read-window", Kind::Size(0, 4 * M), ["1M"] -> store.read_window_max;

    /// Reads of one device wait until there are this many, then go out sorted by position; 1: each
    /// goes out at once.
    "store.read-batch", Kind::Int(1, 1000), ["auto"], word("auto") -> store.read_batch;

    /// Longest time that a read waits for others while no read is running.
    "store.read-batch-timeout", Kind::Time(ms(0), Duration::from_secs(10)), ["20ms"]
        -> store.read_batch_timeout;

    /// Reads per run of a batch; a run begins when the one before it has ended. 0: one run.
    "store.read-batch-split", Kind::Int(0, 1000), ["auto"], word("auto") -> store.read_batch_split;

    /// Longest time from the end of an object to its write, unless a copy of it is in
    /// `shared-memory`: what a killed process can lose. No effect with write policy "on-evict".
    "store.durability-bound", Kind::Time(ms(10), hours(365 * 24)), ["auto"], word("auto")
        -> store.durability_bound;

    /// Time of which a power failure can lose the stored objects. A batch with copies in
    /// `shared-memory` waits for at most half of it. Purges never wait for it.
    "store.flush-interval", Kind::Time(ms(10), hours(24)), ["1m"] -> store.flush_interval;

    /// Directory in a memory file system (tmpfs). A file there keeps copies of the objects that
    /// wait in a batch, part of `memory`: a killed process loses none of them. The default gives
    /// way to RUNTIME_DIRECTORY of systemd. "none": batches wait for `durability-bound` only.
    "store.shared-memory", Kind::Path, ["/dev/shm"], word("none") -> shared_memory;

    /// Longest time that a read of a device may take before the object is fetched instead, and that
    /// a purge waits for a device.
    "store.stall-bound", Kind::Time(ms(10), hours(1)), ["5s"] -> store.stall_bound;

    /// Longest time that a response waits for a device to write: for buffer space (else served
    /// unstored), or for an invalidation. While a write takes longer, no response waits for the
    /// device.
    "store.write-bound", Kind::Time(ms(10), hours(1)), ["1s"] -> store.write_bound;

    /// Percent of a device that transfers of large objects may protect from overwriting. Beyond it
    /// the slowest transfers lose their hold: the rest comes from the origin under the same strong
    /// validator, or is cut.
    "store.held-percent", Kind::Int(0, 50), ["25"] -> store.held_percent;

    /// Longest time that one transfer holds parts of a device.
    "store.held-time", Kind::Time(ms(1), Duration::from_secs(7 * 24 * 3600)), ["1h"]
        -> store.held_time;

    /// Largest object that is stored. A preset without a value stores objects up to a quarter of
    /// the device.
    "store.max-object", Kind::Size(4 * K, 1 << 50), ["auto"], word("auto")
        => |c, v| given(&mut c.store.object_max, v);

    /// Objects that are stored: "all"; "second-hit": those fetched twice within the last
    /// `admission-keys` URLs; "when-full": all until a cache is full, then as second-hit, unless
    /// 40% of requests are repeats.
    "store.admission", ADMISSION, ["auto"], word("auto") -> store.admission;

    /// Fewest URLs that "second-hit" and "when-full" remember for each cache, at most twice as
    /// many; 2.5 bytes each.
    "store.admission-keys", Kind::Int(1_000, 1 << 32), ["1000000"] -> store.admission_keys;

    /// A cluster is dropped when none of its objects was used for this many hours; 0: never.
    "store.one-timer-hours", Kind::Int(0, 100_000), ["auto"], word("auto") => set_one_timer_age;

    /// The reference counts of all clusters are halved each time this percentage of the clusters
    /// was written; 0: when their mean passes `aging-mean`.
    "store.reference-half-life", Kind::Int(0, 100), ["auto"], word("auto")
        -> store.reference_half_life;

    /// Mean reference count of all clusters above which all are halved, if `reference-half-life` is
    /// 0.
    "store.aging-mean", Kind::Int(1, 1000), ["auto"], word("auto") -> store.aging_mean;

    /// Percent of all clusters, the newest, that are not evicted: they have no references yet.
    "store.young-percent", Kind::Int(0, 90), ["auto"], word("auto") -> store.young_percent;

    /// How clusters to keep are chosen: by requests, for most hits, or by bytes, for most bytes of
    /// hits. No effect in layouts with slots.
    "store.prefer", PREFER, ["auto"], word("auto") -> store.prefer;

    /// Index in memory: "compact", 9 bytes per object, or "exact", that of the UCFS paper, 24
    /// bytes. A cache created for the other index is recovered at every start.
    "store.index", INDEX, ["auto"], word("auto") -> store.index.kind;

    /// Entries of each cache's index; when it is full, clusters are evicted. "auto": one per object
    /// of `mean-object` that the cache can hold, in an exact index at most 4194304.
    "store.index-entries", Kind::Int(1_000, 1 << 32), ["auto"], word("auto")
        => |c, v| given(&mut c.store.index.entries, v);

    /// Percent of the objects' memory for objects that were hit; 0 makes one LRU list.
    "store.tier-hot", Kind::Int(0, 100), ["auto"], word("auto") -> store.tier_shares.hot;

    /// Percent of the objects' memory for objects that are new, prefetched or no longer hot. The
    /// rest to 100 is cold: next to be written or dropped.
    "store.tier-medium", Kind::Int(0, 100), ["auto"], word("auto") -> store.tier_shares.medium;

    /// Objects read from a device that enter memory: "all"; or "second-use": those requested
    /// before, while memory is free, or while reads take over 0.5 ms. New objects always enter.
    "store.tier-admission", TIER_ADMISSION, ["auto"], word("auto") -> store.tier_admission;

    /// Percent of the cold memory, its oldest part, whose objects are grouped into clusters with
    /// write policy "on-evict".
    "store.group-share", Kind::Int(1, 100), ["auto"], word("auto") -> store.group_share;

    /// Groups formed at a time when memory is full; their clusters are written side by side.
    "store.group-batch", Kind::Int(1, 64), ["auto"], word("auto") -> store.group_batch;

    /// Objects smaller than this fill up the clusters of any group.
    "store.group-small", Kind::Size(0, M), ["auto"], word("auto") -> store.group_small;

    /// A group is full when at most this much is free in its clusters.
    "store.group-slack", Kind::Size(0, M), ["auto"], word("auto") -> store.group_slack;

    /// Size of a slot, a power of two, in layouts "stream", "unified" and "buddy": an object takes
    /// whole slots.
    "store.slot-size", Kind::Size(512, 4 * K), ["auto"], word("auto"), at_creation
        -> format.slot_size;

    /// Largest size class of layout "buddy", a multiple of the slot; a larger object gets an extent
    /// of its own.
    "store.buddy-threshold", Kind::Size(512, 4 * M), ["auto"], word("auto"), at_creation
        -> format.buddy_threshold;

    /// Most free pieces over which layout "stream" spreads one object; each costs a read.
    "store.stream-runs", Kind::Int(1, 65_536), ["auto"], word("auto"), at_creation
        -> format.stream_runs;

    /// Eviction policy of layouts with slots; clusters are evicted by their references
    /// (`aging-mean`).
    "store.policy", POLICY, ["auto"], word("auto") -> store.policy;

    /// Percent of the slots that objects may take; the rest keeps free pieces large. Some presets
    /// choose it by layout: 75 for "stream", else 90.
    "store.fill-percent", Kind::Int(1, 99), ["auto"], word("auto")
        => |c, v| given(&mut c.store.fill_percent, v);

    /// Objects that lie side by side in slots are written together up to this size, a multiple of
    /// 4K; 0: each alone.
    "store.packet", Kind::Size(0, M), ["auto"], word("auto") -> store.packet;

    /// In layout "cluster", new objects wait in memory until there are this many bytes, at most for
    /// half of `flush-interval`, and are written sorted by site and directory; 0: in order of
    /// arrival.
    "store.batch", Kind::Size(0, 64 << 20), ["auto"], word("auto") -> store.batch;

    /// Buffers that each collect objects of one origin server in layouts with slots, to be written
    /// side by side; 0: none. A killed process loses their contents, up to `durability-bound`.
    "store.locality-buffers", Kind::Int(0, 1024), ["auto"], word("auto") => set_locality_buffers;

    /// Size of a locality buffer, which is written when it is full. "auto" is the preset's, or 64K.
    "store.locality-size", Kind::Size(4 * K, 4 * M), ["auto"], word("auto") => set_locality_size;

    /// Most objects evicted for one new object in layouts with slots; if no free piece is large
    /// enough then, the new object is not stored.
    "store.evict-max", Kind::Int(1, 65_536), ["auto"], word("auto") -> store.evict_max;
};

fn set_one_timer_age(config: &mut Config, hours: Value) {
    if let Some(hours) = <Option<u64> as Take>::take(hours) {
        let age = Duration::from_secs(hours * 3600);
        config.store.one_timer_age = (hours > 0).then_some(age);
    }
}

fn set_locality_buffers(config: &mut Config, buffers: Value) {
    if let Some(buffers) = <Option<u16> as Take>::take(buffers) {
        let bytes = config.store.locality.map_or(LOCALITY_SIZE, |locality| locality.bytes);
        config.store.locality = (buffers > 0).then_some(LocalityOptions { buffers, bytes });
    }
}

fn set_locality_size(config: &mut Config, bytes: Value) {
    if let Some(locality) = &mut config.store.locality {
        locality.bytes.set(bytes);
    }
}
