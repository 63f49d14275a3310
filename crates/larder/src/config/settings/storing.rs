//! The settings of `[store]`: how objects lie on the device and in memory, and which stay.

use std::time::Duration;

use super::{K, M, Setting, hours, ms};
use crate::config::loaded::{Prefer, ReadUnit, TierAdmission, WritePolicy};
use crate::config::setting::{Take, misdeclared};
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
pub(super) const POLICY: Kind =
    Kind::OneOf(&["lru", "fifo", "clock", "sieve", "s3-fifo", "lfu-aging", "gdsf", "w-tinylfu"]);

/// The table `[store]`.
pub(super) const SETTINGS: &[Setting] = &[
    Setting::new(
        "store.mean-object",
        Kind::Size(512, 16 * M),
        &["auto"],
        |c, v| c.store.mean_object = Take::take(v),
        "Expected mean size of an object, from which the index is sized. \"auto\" is the \
         preset's; that of `larder` is the least from 6K to 12K for which the index takes at most \
         an eighth of `memory` (with 256M, 6K up to a cache of 21G and 12K from 42G on), and 12K \
         in the layouts of slots or with `index-entries`.",
    )
    .word("auto")
    .at_creation(),
    Setting::new(
        "store.cluster-size",
        Kind::Size(16 * K, 4 * M),
        &["auto"],
        |c, v| c.store.cluster_size = Take::take(v),
        "Size of a cluster, a power of two. \"auto\" is \
         the preset's, which may choose it by the size \
         of the cache.",
    )
    .word("auto")
    .at_creation(),
    Setting::new(
        "store.write-policy",
        WRITE_POLICY,
        &["auto"],
        |c, v| c.store.write_policy = Take::take(v),
        "When an object is written: \"on-insert\" as soon as it is complete, \"on-evict\" when it \
         leaves memory, grouped with its neighbours; a killed process loses what is in memory only \
         then. \"auto\" is the preset's.",
    )
    .word("auto"),
    Setting::new(
        "store.read-unit",
        READ_UNIT,
        &["auto"],
        |c, v| c.store.read_unit = Take::take(v),
        "What a hit reads from the device: just the object, or its whole cluster, whose other \
         objects enter memory. \"auto\" is the preset's; in the preset `larder` each read then \
         takes along as much of what surrounds the object as pays for itself, by what reads cost \
         on the device (measured while running) and by what was asked for later of what came \
         along before.",
    )
    .word("auto"),
    Setting::new(
        "store.read-window",
        Kind::Size(0, 4 * M),
        &["1M"],
        |c, v| c.store.read_window = Take::take(v),
        "What such a read takes along to either side of the object at most; no more than a \
         thirty-second of the memory for objects, either.",
    ),
    Setting::new(
        "store.read-batch",
        Kind::Int(1, 1000),
        &["auto"],
        |c, v| c.store.read_batch = Take::take(v),
        "Reads of one device wait until there are so many, then go out in the order of their \
         positions; 1: each goes out at once. For a disk with a head; 10 in the paper that \
         proposed it. \"auto\" is the preset's.",
    )
    .word("auto"),
    Setting::new(
        "store.read-batch-timeout",
        Kind::Time(ms(0), Duration::from_secs(10)),
        &["20ms"],
        |c, v| c.store.read_batch_timeout = Take::take(v),
        "The longest that a read waits for others while none is under way.",
    ),
    Setting::new(
        "store.read-batch-split",
        Kind::Int(0, 1000),
        &["auto"],
        |c, v| c.store.read_batch_split = Take::take(v),
        "A batch is broken into runs of so many, each begun when the one before it has ended, as \
         the paper's file system did with 3 to 5; 0: not. \"auto\" is the preset's.",
    )
    .word("auto"),
    Setting::new(
        "store.durability-bound",
        Kind::Time(ms(10), hours(365 * 24)),
        &["auto"],
        |c, v| c.store.durability_bound = Take::take(v),
        "A stored object is handed to the device at most this long after it is complete: what a \
         killed process can lose. Of no effect with the write policy \"on-evict\". \"auto\" is \
         the preset's; the presets of papers on slots have none, which is a year here.",
    )
    .word("auto"),
    Setting::new(
        "store.flush-interval",
        Kind::Time(ms(10), hours(24)),
        &["5s"],
        |c, v| c.store.flush_interval = Take::take(v),
        "Longest time between two flushes of the device while there is something to flush: what a \
         power failure can lose. Purges never wait for it.",
    ),
    Setting::new(
        "store.stall-bound",
        Kind::Time(ms(10), hours(1)),
        &["5s"],
        |c, v| c.store.stall_bound = Take::take(v),
        "How long an object waits for room in the buffers of a device that does not keep up, \
         before it is served without being stored.",
    ),
    Setting::new(
        "store.held-percent",
        Kind::Int(0, 50),
        &["25"],
        |c, v| c.store.held_percent = Take::take(v),
        "Percent of a device that transfers of large objects may hold: what they have still to \
         send is neither evicted nor written over, also when the object was removed, replaced or \
         purged meanwhile. Beyond it those are let down that got on least lately: what they miss \
         comes from the origin, if it has the same representation under a strong validator, or \
         the transfer is cut.",
    ),
    Setting::new(
        "store.held-time",
        Kind::Time(ms(1), Duration::from_secs(7 * 24 * 3600)),
        &["1h"],
        |c, v| c.store.held_time = Take::take(v),
        "How long one transfer may hold anything.",
    ),
    Setting::new(
        "store.max-object",
        Kind::Size(4 * K, 1 << 50),
        &["auto"],
        |c, v| c.store.max_object = Take::take(v),
        "Largest object that is stored. \"auto\" is \
         the preset's; a preset without one stores objects \
         up to a quarter of the device that they would be on.",
    )
    .word("auto"),
    Setting::new(
        "store.admission",
        ADMISSION,
        &["auto"],
        |c, v| c.store.admission = Take::take(v),
        "Which objects are stored: \"all\", or, with \"second-hit\", those that are fetched for \
         the second time within the last `admission-keys` URLs; the others are passed on without \
         taking memory or room. \"when-full\" stores all until a cache is full, then as \
         \"second-hit\", unless two in five of what is asked for are asked for again. What takes \
         the place of a stored object always is. \"auto\" is the preset's.",
    )
    .word("auto"),
    Setting::new(
        "store.admission-keys",
        Kind::Int(1_000, 1 << 32),
        &["1000000"],
        |c, v| c.store.admission_keys = Take::take(v),
        "URLs that \"second-hit\" and \"when-full\" remember for each cache at least, and at most \
         twice as many; they take 2.5 bytes each.",
    ),
    Setting::new(
        "store.one-timer-hours",
        Kind::Int(0, 100_000),
        &["auto"],
        |c, v| c.store.one_timer_hours = Take::take(v),
        "A cluster none of whose objects was used for this many hours is dropped; 0: never. \
         \"auto\" is the preset's.",
    )
    .word("auto"),
    Setting::new(
        "store.reference-half-life",
        Kind::Int(0, 100),
        &["auto"],
        |c, v| c.store.reference_half_life = Take::take(v),
        "The reference counts of all clusters are halved each time that so many percent of the \
         clusters were written; 0: when their mean passes `aging-mean`. \"auto\" is the preset's.",
    )
    .word("auto"),
    Setting::new(
        "store.aging-mean",
        Kind::Int(1, 1000),
        &["auto"],
        |c, v| c.store.aging_mean = Take::take(v),
        "The reference counts of all clusters are halved when their mean passes this, where \
         `reference-half-life` is 0. \"auto\" is the preset's.",
    )
    .word("auto"),
    Setting::new(
        "store.young-percent",
        Kind::Int(0, 90),
        &["auto"],
        |c, v| c.store.young_percent = Take::take(v),
        "Percent of all clusters, those opened last, that are spared when clusters are replaced: \
         they have no references yet. \"auto\" is the preset's.",
    )
    .word("auto"),
    Setting::new(
        "store.prefer",
        PREFER,
        &["auto"],
        |c, v| c.store.prefer = Take::take(v),
        "What the clusters that stay are chosen by: with \"requests\" whatever is asked for counts \
         the same, for the most hits; with \"bytes\" an object counts with its size, for the most \
         bytes of hits. After a change what was counted before fades as ever. Of no effect in the \
         layouts that have slots. \"auto\" is the preset's.",
    )
    .word("auto"),
    Setting::new(
        "store.index",
        INDEX,
        &["auto"],
        |c, v| c.store.index = Take::take(v),
        "Which index is kept in memory: \"compact\" takes 9 bytes per object, \"exact\" is the \
         file lookup table of the UCFS paper, 24 bytes and a bit. A cache that was created for the \
         other one is recovered at every start. \"auto\" is the preset's.",
    )
    .word("auto"),
    Setting::new(
        "store.index-entries",
        Kind::Int(1_000, 1 << 32),
        &["auto"],
        |c, v| c.store.index_entries = Take::take(v),
        "Entries that the index of each cache has room for; when it is full, clusters are replaced \
         as if the device were. \"auto\" is one for every object of `mean-object` that the cache \
         can hold, in an exact index at most 4194304.",
    )
    .word("auto"),
    Setting::new(
        "store.tier-hot",
        Kind::Int(0, 100),
        &["auto"],
        |c, v| c.store.tier_hot = Take::take(v),
        "Percent of the objects' memory for those that were hit; 0 makes one LRU list of all. \
         \"auto\" is the preset's.",
    )
    .word("auto"),
    Setting::new(
        "store.tier-medium",
        Kind::Int(0, 100),
        &["auto"],
        |c, v| c.store.tier_medium = Take::take(v),
        "Percent of the objects' memory for those that are new, prefetched or no longer hot. What \
         tier-hot and tier-medium leave of 100 is cold: next to be written or dropped. \"auto\" \
         is the preset's.",
    )
    .word("auto"),
    Setting::new(
        "store.tier-admission",
        TIER_ADMISSION,
        &["auto"],
        |c, v| c.store.tier_admission = Take::take(v),
        "What enters the objects' memory when it is read from a device: \"all\", or, with \
         \"second-use\", what was asked for before, of which one object is remembered for every \
         4 KiB of memory, or finds free room, and everything while a read takes the device more \
         than half a millisecond; what a read takes along enters as cold. What is stored enters it \
         in any case. \"auto\" is the preset's.",
    )
    .word("auto"),
    Setting::new(
        "store.group-share",
        Kind::Int(1, 100),
        &["auto"],
        |c, v| c.store.group_share = Take::take(v),
        "Percent of the cold memory, its oldest part, whose objects are grouped into clusters with \
         the write policy \"on-evict\". \"auto\" is the preset's.",
    )
    .word("auto"),
    Setting::new(
        "store.group-batch",
        Kind::Int(1, 64),
        &["auto"],
        |c, v| c.store.group_batch = Take::take(v),
        "How many groups are formed at a time when memory is full; their clusters are written side \
         by side. \"auto\" is the preset's.",
    )
    .word("auto"),
    Setting::new(
        "store.group-small",
        Kind::Size(0, M),
        &["auto"],
        |c, v| c.store.group_small = Take::take(v),
        "Objects smaller than this fill up the clusters of any group. \"auto\" is the preset's.",
    )
    .word("auto"),
    Setting::new(
        "store.group-slack",
        Kind::Size(0, M),
        &["auto"],
        |c, v| c.store.group_slack = Take::take(v),
        "A group is full when no more than this is free in its clusters. \"auto\" is the \
         preset's.",
    )
    .word("auto"),
    Setting::new(
        "store.slot-size",
        Kind::Size(512, 4 * K),
        &["auto"],
        |c, v| c.store.slot_size = Take::take(v),
        "Size of a slot, a power of two, in the layouts \"stream\", \"unified\" and \"buddy\": \
         every object takes whole slots. \"auto\" is the preset's.",
    )
    .word("auto")
    .at_creation(),
    Setting::new(
        "store.buddy-threshold",
        Kind::Size(512, 4 * M),
        &["auto"],
        |c, v| c.store.buddy_threshold = Take::take(v),
        "Size of the largest size class of the layout \"buddy\", a multiple of the slot; a larger \
         object gets a place made for it. \"auto\" is the preset's.",
    )
    .word("auto")
    .at_creation(),
    Setting::new(
        "store.stream-runs",
        Kind::Int(1, 65_536),
        &["auto"],
        |c, v| c.store.stream_runs = Take::take(v),
        "Free pieces that one object may be spread over in the layout \"stream\"; each costs a \
         read when the object is read. \"auto\" is the preset's.",
    )
    .word("auto")
    .at_creation(),
    Setting::new(
        "store.policy",
        POLICY,
        &["auto"],
        |c, v| c.store.policy = Take::take(v),
        "Which object goes when room is needed, in the layouts that have slots; clusters go by \
         their references (`aging-mean`). \"auto\" is the preset's.",
    )
    .word("auto"),
    Setting::new(
        "store.fill-percent",
        Kind::Int(1, 99),
        &["auto"],
        |c, v| c.store.fill_percent = Take::take(v),
        "Percent of the slots that objects may take; the rest keeps free pieces large. \"auto\" is \
         the preset's, which may choose it by the layout: 75 for \"stream\", else 90.",
    )
    .word("auto"),
    Setting::new(
        "store.packet",
        Kind::Size(0, M),
        &["auto"],
        |c, v| c.store.packet = Take::take(v),
        "Objects that lie side by side in slots are written together up to this size, a multiple \
         of 4K; 0: each is written alone. \"auto\" is the preset's.",
    )
    .word("auto"),
    Setting::new(
        "store.batch",
        Kind::Size(0, 64 << 20),
        &["auto"],
        |c, v| c.store.batch = Take::take(v),
        "What is stored waits in memory until there is so much of it, at most for the durability \
         bound, and is written sorted by site and directory, so that what belongs together lies \
         together, in the layout \"cluster\"; 0: it is written as it comes. Locality buffers take \
         its place. \"auto\" is the \
         preset's.",
    )
    .word("auto"),
    Setting::new(
        "store.locality-buffers",
        Kind::Int(0, 1024),
        &["auto"],
        |c, v| c.store.locality_buffers = Take::take(v),
        "Buffers that each collect the objects of one origin server, so that these are written \
         side by side, in the layouts that have slots (8 to 128 in the paper that proposed them); \
         0: none. What waits in them is lost by a killed process, up to `durability-bound`. \
         \"auto\" is the preset's.",
    )
    .word("auto"),
    Setting::new(
        "store.locality-size",
        Kind::Size(4 * K, 4 * M),
        &["auto"],
        |c, v| c.store.locality_size = Take::take(v),
        "Size of a locality buffer, which is written when it is full. \"auto\" is the preset's, \
         or 64K.",
    )
    .word("auto"),
    Setting::new(
        "store.evict-max",
        Kind::Int(1, 65_536),
        &["auto"],
        |c, v| c.store.evict_max = Take::take(v),
        "Objects that may go for one new object when no free piece is large enough for it, in the \
         layouts that have slots; then the new one is not stored. \"auto\" is the preset's.",
    )
    .word("auto"),
];
