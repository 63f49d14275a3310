//! Counters of the engine (C12, and those that operators need).

/// Totals since the store was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Lookups answered from memory.
    pub memory_hits: u64,
    /// Lookups answered by a read.
    pub disk_hits: u64,
    /// Those of them whose object did not enter memory, for want of an earlier use.
    pub not_kept: u64,
    /// Lookups that found nothing.
    pub misses: u64,
    /// Lookups that read a record of another key: equal tags (at most 0.1% of misses).
    pub tag_collisions: u64,
    /// Records whose checksum, key or place was wrong.
    pub damaged_records: u64,
    /// Reads, writes and flushes that failed.
    pub device_errors: u64,
    /// Times that a write or flush took longer than [`crate::Options::write_bound`].
    pub write_stalls: u64,
    /// Purges and invalidations that were answered before they were durable.
    pub not_durable: u64,
    /// Objects committed.
    pub insertions: u64,
    /// Bytes of committed objects: key, metadata and body.
    pub inserted_bytes: u64,
    /// Insertions refused, by whatever name.
    pub refusals: u64,
    /// Fetches whose objects the admission policy refused: each is among `refusals` as well, a
    /// variant with its marker twice.
    pub not_admitted: u64,
    /// Objects removed, purged or superseded.
    pub removals: u64,
    /// Purges of labels, prefixes and everything.
    pub purges: u64,
    /// Those of them that were of labels that nothing bore, and took no room.
    pub purges_unborne: u64,
    /// Times that the oldest of them became one purge of everything as old, for want of room.
    pub purges_merged: u64,
    /// Objects that were asked for and found to be purged by one of them.
    pub purged_objects: u64,
    /// Metadata replaced without touching the body.
    pub refreshes: u64,
    /// Clusters given up for room.
    pub evicted_clusters: u64,
    /// Records given up with them.
    pub evicted_records: u64,
    /// Those of them that went because a cluster with their newer metadata did.
    pub evicted_by_metadata: u64,
    /// Clusters of one-timers dropped for their age.
    pub one_timer_clusters: u64,
    /// Index entries given up because their buckets were full.
    pub index_displaced: u64,
    /// Records that did not reach the device because a write failed.
    pub lost_records: u64,
    /// Objects that left memory without ever having been written (write-on-evict, no room).
    pub dropped_unwritten: u64,
    /// Large objects given up because a piece was evicted, damaged or could not be read.
    pub incomplete_objects: u64,
    /// Groups of objects that left memory into clusters of their own (write-on-evict, C11).
    pub groups: u64,
    /// Clusters that were read whole into memory (UCFS, 2.4.4: virtual clusters).
    pub virtual_clusters: u64,
    /// Those that left it without a write, all their objects intact and cold.
    pub virtual_kept: u64,
    /// Those of which some objects left memory, without a write, while others stayed.
    pub virtual_parted: u64,
    /// Those that became free on the device because one of their objects changed.
    pub virtual_freed: u64,
    /// Objects that entered memory beside one that was asked for.
    pub prefetched: u64,
    /// Those of them that were asked for later.
    pub prefetch_hits: u64,
    /// Bytes of records written, their headers included.
    pub record_bytes_written: u64,
    /// Checkpoints written.
    pub checkpoints: u64,
}
