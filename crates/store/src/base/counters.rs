//! Counters of the engine (C12, and those for operators).

/// Totals since the store was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Hits in memory.
    pub memory_hits: u64,
    /// Hits that took a read of the device.
    pub disk_hits: u64,
    /// Disk hits whose object did not enter memory because it had no earlier use.
    pub not_kept: u64,
    /// Lookups that found nothing.
    pub misses: u64,
    /// Lookups that read a record of another key because the tags were equal (at most 0.1% of
    /// misses).
    pub tag_collisions: u64,
    /// Records with a wrong checksum, key or position.
    pub damaged_records: u64,
    /// Reads, writes and flushes that failed.
    pub device_errors: u64,
    /// Writes and flushes that took longer than [`crate::Options::write_bound`].
    pub write_stalls: u64,
    /// Purges and invalidations that were acknowledged before they were durable.
    pub not_durable: u64,
    /// Objects committed.
    pub insertions: u64,
    /// Bytes of committed objects: key, metadata and body.
    pub inserted_bytes: u64,
    /// Insertions refused for any reason.
    pub refusals: u64,
    /// Fetches whose objects the admission policy refused. Each also counts in `refusals`; a
    /// variant with its marker counts there twice.
    pub not_admitted: u64,
    /// Objects removed, purged or superseded.
    pub removals: u64,
    /// Purges of labels, prefixes and everything.
    pub purges: u64,
    /// Purges of labels that no object bore; these take no entry in the purge table.
    pub purges_unborne: u64,
    /// Times that the oldest purge entries were merged into one purge of everything as old, because
    /// the purge table was full.
    pub purges_merged: u64,
    /// Objects that a lookup found and dropped because a purge entry covers them.
    pub purged_objects: u64,
    /// Metadata replaced without touching the body.
    pub refreshes: u64,
    /// Clusters evicted to make space.
    pub evicted_clusters: u64,
    /// Records in evicted clusters.
    pub evicted_records: u64,
    /// Evicted records that went because the cluster with their newer metadata did.
    pub evicted_by_metadata: u64,
    /// Clusters of objects used once that were dropped for their age.
    pub one_timer_clusters: u64,
    /// Index entries dropped because their buckets were full.
    pub index_displaced: u64,
    /// Records that did not reach the device because a write failed.
    pub lost_records: u64,
    /// Objects that left memory without ever being written (write-on-evict, no space).
    pub dropped_unwritten: u64,
    /// Large objects dropped because a piece was evicted, damaged or unreadable.
    pub incomplete_objects: u64,
    /// Groups of objects moved from memory into clusters of their own (write-on-evict, C11).
    pub groups: u64,
    /// Clusters that were read whole into memory (UCFS, 2.4.4: virtual clusters).
    pub virtual_clusters: u64,
    /// Virtual clusters that left memory without a write, with all their objects intact and cold.
    pub virtual_kept: u64,
    /// Virtual clusters of which some objects left memory without a write while others stayed.
    pub virtual_parted: u64,
    /// Virtual clusters freed on the device because one of their objects changed.
    pub virtual_freed: u64,
    /// Objects that entered memory along with a requested one.
    pub prefetched: u64,
    /// Prefetched objects that were requested later.
    pub prefetch_hits: u64,
    /// Bytes of records written, including their headers.
    pub record_bytes_written: u64,
    /// Checkpoints written.
    pub checkpoints: u64,
}
