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

    /// Expected mean size of an object, from which the index is sized. "auto" is the preset's; that
    /// of `larder` is the least from 6K to 12K for which the index takes at most an eighth of
    /// `memory` (with 256M, 6K up to a cache of 21G and 12K from 42G on), and 12K in the layouts of
    /// slots or with `index-entries`.
    "store.mean-object", Kind::Size(512, 16 * M), ["auto"], word("auto"), at_creation
        => |c, v| given(&mut c.format.mean_object, v);

    /// Size of a cluster, a power of two. "auto" is the preset's, which may choose it by the size
    /// of the cache.
    "store.cluster-size", Kind::Size(16 * K, 4 * M), ["auto"], word("auto"), at_creation
        => |c, v| given(&mut c.format.cluster_size, v);

    /// When an object is written: "on-insert" as soon as it is complete, "on-evict" when it leaves
    /// memory, grouped with its neighbours; a killed process loses what is in memory only then.
    /// "auto" is the preset's.
    "store.write-policy", WRITE_POLICY, ["auto"], word("auto") -> store.write_policy;

    /// What a hit reads from the device: just the object, or its whole cluster, whose other objects
    /// enter memory. "auto" is the preset's; in the preset `larder` each read then takes along as
    /// much of what surrounds the object as pays for itself, by what reads cost on the device
    /// (measured while running) and by what was asked for later of what came along before.
    "store.read-unit", READ_UNIT, ["auto"], word("auto") -> store.read_unit;

    /// What such a read takes along to either side of the object at most; no more than a
    /// thirty-second of the memory for objects, either.
    "store.read-window", Kind::Size(0, 4 * M), ["1M"] -> store.read_window_max;

    /// Reads of one device wait until there are so many, then go out in the order of their
    /// positions; 1: each goes out at once. For a disk with a head; 10 in the paper that proposed
    /// it. "auto" is the preset's.
    "store.read-batch", Kind::Int(1, 1000), ["auto"], word("auto") -> store.read_batch;

    /// The longest that a read waits for others while none is under way.
    "store.read-batch-timeout", Kind::Time(ms(0), Duration::from_secs(10)), ["20ms"]
        -> store.read_batch_timeout;

    /// A batch is broken into runs of so many, each begun when the one before it has ended, as the
    /// paper's file system did with 3 to 5; 0: not. "auto" is the preset's.
    "store.read-batch-split", Kind::Int(0, 1000), ["auto"], word("auto") -> store.read_batch_split;

    /// A stored object is handed to the device at most this long after it is complete: what a
    /// killed process can lose. Of no effect with the write policy "on-evict". "auto" is the
    /// preset's; the presets of papers on slots have none, which is a year here.
    "store.durability-bound", Kind::Time(ms(10), hours(365 * 24)), ["auto"], word("auto")
        -> store.durability_bound;

    /// Longest time between two flushes of the device while there is something to flush: what a
    /// power failure can lose. Purges never wait for it.
    "store.flush-interval", Kind::Time(ms(10), hours(24)), ["5s"] -> store.flush_interval;

    /// Longest time that a read of a device may take before what it was for is fetched instead, and
    /// that a purge waits for a device before it is answered as not durable.
    "store.stall-bound", Kind::Time(ms(10), hours(1)), ["5s"] -> store.stall_bound;

    /// Longest time that an answer waits for a device to write: a new object for room in its
    /// buffers, before it is served without being stored; the answer to an unsafe request until
    /// what it invalidates is durable. While a write takes longer than this, no answer waits for
    /// the device at all.
    "store.write-bound", Kind::Time(ms(10), hours(1)), ["1s"] -> store.write_bound;

    /// Percent of a device that transfers of large objects may hold: what they have still to send
    /// is neither evicted nor written over, also when the object was removed, replaced or purged
    /// meanwhile. Beyond it those are let down that got on least lately: what they miss comes from
    /// the origin, if it has the same representation under a strong validator, or the transfer is
    /// cut.
    "store.held-percent", Kind::Int(0, 50), ["25"] -> store.held_percent;

    /// How long one transfer may hold anything.
    "store.held-time", Kind::Time(ms(1), Duration::from_secs(7 * 24 * 3600)), ["1h"]
        -> store.held_time;

    /// Largest object that is stored. "auto" is the preset's; a preset without one stores objects
    /// up to a quarter of the device that they would be on.
    "store.max-object", Kind::Size(4 * K, 1 << 50), ["auto"], word("auto")
        => |c, v| given(&mut c.store.object_max, v);

    /// Which objects are stored: "all", or, with "second-hit", those that are fetched for the
    /// second time within the last `admission-keys` URLs; the others are passed on without taking
    /// memory or room. "when-full" stores all until a cache is full, then as "second-hit", unless
    /// two in five of what is asked for are asked for again. What takes the place of a stored
    /// object always is. "auto" is the preset's.
    "store.admission", ADMISSION, ["auto"], word("auto") -> store.admission;

    /// URLs that "second-hit" and "when-full" remember for each cache at least, and at most twice
    /// as many; they take 2.5 bytes each.
    "store.admission-keys", Kind::Int(1_000, 1 << 32), ["1000000"] -> store.admission_keys;

    /// A cluster none of whose objects was used for this many hours is dropped; 0: never. "auto" is
    /// the preset's.
    "store.one-timer-hours", Kind::Int(0, 100_000), ["auto"], word("auto") => set_one_timer_age;

    /// The reference counts of all clusters are halved each time that so many percent of the
    /// clusters were written; 0: when their mean passes `aging-mean`. "auto" is the preset's.
    "store.reference-half-life", Kind::Int(0, 100), ["auto"], word("auto")
        -> store.reference_half_life;

    /// The reference counts of all clusters are halved when their mean passes this, where
    /// `reference-half-life` is 0. "auto" is the preset's.
    "store.aging-mean", Kind::Int(1, 1000), ["auto"], word("auto") -> store.aging_mean;

    /// Percent of all clusters, those opened last, that are spared when clusters are replaced: they
    /// have no references yet. "auto" is the preset's.
    "store.young-percent", Kind::Int(0, 90), ["auto"], word("auto") -> store.young_percent;

    /// What the clusters that stay are chosen by: with "requests" whatever is asked for counts the
    /// same, for the most hits; with "bytes" an object counts with its size, for the most bytes of
    /// hits. After a change what was counted before fades as ever. Of no effect in the layouts that
    /// have slots. "auto" is the preset's.
    "store.prefer", PREFER, ["auto"], word("auto") -> store.prefer;

    /// Which index is kept in memory: "compact" takes 9 bytes per object, "exact" is the file
    /// lookup table of the UCFS paper, 24 bytes and a bit. A cache that was created for the other
    /// one is recovered at every start. "auto" is the preset's.
    "store.index", INDEX, ["auto"], word("auto") -> store.index.kind;

    /// Entries that the index of each cache has room for; when it is full, clusters are replaced as
    /// if the device were. "auto" is one for every object of `mean-object` that the cache can hold,
    /// in an exact index at most 4194304.
    "store.index-entries", Kind::Int(1_000, 1 << 32), ["auto"], word("auto")
        => |c, v| given(&mut c.store.index.entries, v);

    /// Percent of the objects' memory for those that were hit; 0 makes one LRU list of all. "auto"
    /// is the preset's.
    "store.tier-hot", Kind::Int(0, 100), ["auto"], word("auto") -> store.tier_shares.hot;

    /// Percent of the objects' memory for those that are new, prefetched or no longer hot. What
    /// tier-hot and tier-medium leave of 100 is cold: next to be written or dropped. "auto" is the
    /// preset's.
    "store.tier-medium", Kind::Int(0, 100), ["auto"], word("auto") -> store.tier_shares.medium;

    /// What enters the objects' memory when it is read from a device: "all", or, with "second-use",
    /// what was asked for before, of which one object is remembered for every 4 KiB of memory, or
    /// finds free room, and everything while a read takes the device more than half a millisecond;
    /// what a read takes along enters as cold. What is stored enters it in any case. "auto" is the
    /// preset's.
    "store.tier-admission", TIER_ADMISSION, ["auto"], word("auto") -> store.tier_admission;

    /// Percent of the cold memory, its oldest part, whose objects are grouped into clusters with
    /// the write policy "on-evict". "auto" is the preset's.
    "store.group-share", Kind::Int(1, 100), ["auto"], word("auto") -> store.group_share;

    /// How many groups are formed at a time when memory is full; their clusters are written side by
    /// side. "auto" is the preset's.
    "store.group-batch", Kind::Int(1, 64), ["auto"], word("auto") -> store.group_batch;

    /// Objects smaller than this fill up the clusters of any group. "auto" is the preset's.
    "store.group-small", Kind::Size(0, M), ["auto"], word("auto") -> store.group_small;

    /// A group is full when no more than this is free in its clusters. "auto" is the preset's.
    "store.group-slack", Kind::Size(0, M), ["auto"], word("auto") -> store.group_slack;

    /// Size of a slot, a power of two, in the layouts "stream", "unified" and "buddy": every object
    /// takes whole slots. "auto" is the preset's.
    "store.slot-size", Kind::Size(512, 4 * K), ["auto"], word("auto"), at_creation
        -> format.slot_size;

    /// Size of the largest size class of the layout "buddy", a multiple of the slot; a larger
    /// object gets a place made for it. "auto" is the preset's.
    "store.buddy-threshold", Kind::Size(512, 4 * M), ["auto"], word("auto"), at_creation
        -> format.buddy_threshold;

    /// Free pieces that one object may be spread over in the layout "stream"; each costs a read
    /// when the object is read. "auto" is the preset's.
    "store.stream-runs", Kind::Int(1, 65_536), ["auto"], word("auto"), at_creation
        -> format.stream_runs;

    /// Which object goes when room is needed, in the layouts that have slots; clusters go by their
    /// references (`aging-mean`). "auto" is the preset's.
    "store.policy", POLICY, ["auto"], word("auto") -> store.policy;

    /// Percent of the slots that objects may take; the rest keeps free pieces large. "auto" is the
    /// preset's, which may choose it by the layout: 75 for "stream", else 90.
    "store.fill-percent", Kind::Int(1, 99), ["auto"], word("auto")
        => |c, v| given(&mut c.store.fill_percent, v);

    /// Objects that lie side by side in slots are written together up to this size, a multiple of
    /// 4K; 0: each is written alone. "auto" is the preset's.
    "store.packet", Kind::Size(0, M), ["auto"], word("auto") -> store.packet;

    /// What is stored waits in memory until there is so much of it, at most for the durability
    /// bound, and is written sorted by site and directory, so that what belongs together lies
    /// together, in the layout "cluster"; 0: it is written as it comes. Locality buffers take its
    /// place. "auto" is the preset's.
    "store.batch", Kind::Size(0, 64 << 20), ["auto"], word("auto") -> store.batch;

    /// Buffers that each collect the objects of one origin server, so that these are written side
    /// by side, in the layouts that have slots (8 to 128 in the paper that proposed them); 0: none.
    /// What waits in them is lost by a killed process, up to `durability-bound`. "auto" is the
    /// preset's.
    "store.locality-buffers", Kind::Int(0, 1024), ["auto"], word("auto") => set_locality_buffers;

    /// Size of a locality buffer, which is written when it is full. "auto" is the preset's, or 64K.
    "store.locality-size", Kind::Size(4 * K, 4 * M), ["auto"], word("auto") => set_locality_size;

    /// Objects that may go for one new object when no free piece is large enough for it, in the
    /// layouts that have slots; then the new one is not stored. "auto" is the preset's.
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
