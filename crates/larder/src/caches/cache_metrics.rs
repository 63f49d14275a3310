//! Metrics of the caches: the counters of the store and its devices, under their public names.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use device::{CacheFile, Feature, Operation};
use proxy::observe::metrics::Samples;
use store::policy::PolicyName;
use store::{Counters, LockFigures, Stats, StoreShare};

pub struct CacheMetrics {
    pub share: Arc<OnceLock<StoreShare>>,
    /// The files of the store's devices, in the store's order.
    pub files: Vec<Arc<CacheFile>>,
    /// Caches that were unusable from the start: their paths, and their files if they could be
    /// opened.
    pub unusable: Vec<(PathBuf, Option<Arc<CacheFile>>)>,
    /// The setting `memory` in bytes.
    pub memory: u64,
    /// The eviction policy, for layouts that have slots.
    pub policy: PolicyName,
}

impl proxy::observe::metrics::Source for CacheMetrics {
    fn samples(&self, out: &mut Samples) {
        out.gauge("larder_memory_limit_bytes", "The setting `memory`.", &[], self.memory);
        let stats = self.share.get().map(StoreShare::stats).unwrap_or_default();
        let all_locks = self.share.get().map(StoreShare::locks).unwrap_or_default();
        for ((file, stats), figures) in self.files.iter().zip(&stats).zip(&all_locks) {
            let path = file.path().display().to_string();
            let cache = [("cache", path.as_str())];
            online(out, &cache, stats.online);
            state(out, &cache, file);
            let help = "1 while a write takes longer than `store.write-bound`, else 0.";
            out.gauge("larder_cache_writes_stalled", help, &cache, stats.writes_stall);
            device(out, &cache, file);
            store(out, &cache, stats);
            slots(out, &path, stats, self.policy);
            reads(out, &cache, stats);
            lock(out, &cache, figures);
            memory(out, &path, stats);
            amplification(out, &cache, file, stats);
        }
        if let Some(share) = self.share.get() {
            operation_times(out, &self.files, share);
        }
        for (path, file) in &self.unusable {
            let path = path.display().to_string();
            let cache = [("cache", path.as_str())];
            online(out, &cache, false);
            file.iter().for_each(|file| state(out, &cache, file));
        }
    }
}

type Labels<'a> = [(&'static str, &'a str)];

fn online(out: &mut Samples, cache: &Labels<'_>, online: bool) {
    let help = "1 while the cache is in use, 0 while its share is served uncached.";
    out.gauge("larder_cache_online", help, cache, online);
}

fn state(out: &mut Samples, cache: &Labels<'_>, file: &CacheFile) {
    let help = "1 if the file in use was removed, replaced or shortened, else 0.";
    out.gauge("larder_cache_file_changed", help, cache, file.path_change().is_some());
    out.gauge("larder_cache_bytes", "Size of the cache.", cache, file.geometry().len);
    let refused = file.fallbacks();
    for feature in Feature::ALL {
        let mut labels = cache.to_vec();
        labels.push(("feature", feature.name()));
        let is_refused = refused.iter().any(|fallback| fallback.feature == feature);
        let help = "1 if the system refused this feature and the cache does without it, else 0.";
        out.gauge("larder_device_fallback", help, &labels, is_refused);
    }
}

fn device(out: &mut Samples, cache: &Labels<'_>, file: &CacheFile) {
    let counts = file.counters().snapshot();
    let mut counter = |name, help, value: u64| out.counter(name, help, cache, value);
    counter("larder_device_reads", "Reads begun.", counts.reads);
    counter("larder_device_writes", "Writes begun.", counts.writes);
    counter("larder_device_flushes", "Flushes begun.", counts.flushes);
    counter("larder_device_read_bytes", "Bytes read.", counts.bytes_read);
    counter("larder_device_written_bytes", "Bytes written.", counts.bytes_written);
    counter("larder_device_errors", "Operations that failed.", counts.errors);
    let help = "Operations in flight.";
    out.gauge("larder_device_operations_in_flight", help, cache, counts.in_flight);
}

/// Adds the histograms of the operations on each device.
fn operation_times(out: &mut Samples, files: &[Arc<CacheFile>], share: &StoreShare) {
    let operations =
        [("read", Operation::Read), ("write", Operation::Write), ("flush", Operation::Flush)];
    for (operation, kind) in operations {
        for (file, figures) in files.iter().zip(share.operation_times(kind)) {
            let path = file.path().display().to_string();
            let (times, above) = figures.times();
            out.histogram(
                "larder_device_operation_seconds",
                "Time that operations on the device took, by operation.",
                &[("cache", path.as_str()), ("operation", operation)],
                figures.sum().as_secs_f64(),
                times.map(|(ns, count)| (ns as f64 / 1e9, count)),
                above,
            );
        }
    }
}

fn store(out: &mut Samples, cache: &Labels<'_>, stats: &Stats) {
    let counters = &stats.counters;
    for (kind, value) in [("memory", counters.memory_hits), ("disk", counters.disk_hits)] {
        let mut labels = cache.to_vec();
        labels.push(("kind", kind));
        let help = "Lookups of the store that found the object, markers of variants included.";
        out.counter("larder_store_hits", help, &labels, value);
    }
    let mut counter = |name, help, value: u64| out.counter(name, help, cache, value);
    let help = "Lookups whose object was not kept in memory because it was its first use.";
    counter("larder_store_not_kept", help, counters.not_kept);
    counter("larder_store_misses", "Lookups that found nothing.", counters.misses);
    let help = "Reads for a lookup that found another key's record.";
    counter("larder_store_tag_collisions", help, counters.tag_collisions);
    counter("larder_store_device_errors", "Failed operations seen.", counters.device_errors);
    let help = "Times that a write took longer than `store.write-bound`.";
    counter("larder_store_write_stalls", help, counters.write_stalls);
    let help = "Purges and invalidations that were answered before they were durable.";
    counter("larder_store_not_durable", help, counters.not_durable);
    counter("larder_store_insertions", "Objects stored.", counters.insertions);
    let help = "Bytes of objects stored: key, metadata and body.";
    counter("larder_store_inserted_bytes", help, counters.inserted_bytes);
    counter("larder_store_refusals", "Objects that the store refused.", counters.refusals);
    let help = "Fetches whose objects the admission policy rejected.";
    counter("larder_store_not_admitted", help, counters.not_admitted);
    let help = "Purges by tag, host, prefix or pattern, or of everything.";
    counter("larder_store_purges", help, counters.purges);
    let help = "Purges of names or prefixes that no stored object had.";
    counter("larder_store_purges_unborne", help, counters.purges_unborne);
    let help = "Times that the oldest purges were merged into one of all objects of that age.";
    counter("larder_store_purges_merged", help, counters.purges_merged);
    let help = "Objects refreshed without a write of their body.";
    counter("larder_store_refreshes", help, counters.refreshes);
    counter("larder_store_evicted_clusters", "Clusters reused.", counters.evicted_clusters);
    let help = "Clusters dropped because none of their objects was used recently.";
    counter("larder_store_one_timer_clusters", help, counters.one_timer_clusters);
    let help = "Clusters that were read whole into memory.";
    counter("larder_store_virtual_clusters", help, counters.virtual_clusters);
    let help = "Whole clusters that left memory without a write.";
    counter("larder_store_virtual_clusters_kept", help, counters.virtual_kept);
    let help = "Whole clusters of which only some objects left memory, without a write.";
    counter("larder_store_virtual_clusters_parted", help, counters.virtual_parted);
    let help = "Whole clusters freed on the device because one of their objects changed.";
    counter("larder_store_virtual_clusters_freed", help, counters.virtual_freed);
    let help = "Objects prefetched beside a requested one.";
    counter("larder_store_prefetched", help, counters.prefetched);
    let help = "Prefetched objects that were requested later.";
    counter("larder_store_prefetch_hits", help, counters.prefetch_hits);
    counter("larder_store_checkpoints", "Checkpoints written.", counters.checkpoints);
    evictions(out, cache, counters);
    tables(out, cache, stats);
}

/// Adds the records that left the cache.
fn evictions(out: &mut Samples, cache: &Labels<'_>, counters: &Counters) {
    let evicted = counters.evicted_records.saturating_sub(counters.evicted_by_metadata);
    for (reason, value) in [
        ("capacity", evicted),
        ("metadata", counters.evicted_by_metadata),
        ("index-full", counters.index_displaced),
        ("unwritten", counters.dropped_unwritten),
        ("write-error", counters.lost_records),
        ("damaged", counters.damaged_records),
        ("incomplete", counters.incomplete_objects),
        ("removed", counters.removals),
        ("purged", counters.purged_objects),
    ] {
        let mut labels = cache.to_vec();
        labels.push(("reason", reason));
        let help = "Records that left the cache, by reason.";
        out.counter("larder_store_evictions", help, &labels, value);
    }
}

/// Adds the metrics of clusters, purges and the index.
fn tables(out: &mut Samples, cache: &Labels<'_>, stats: &Stats) {
    let mut clusters = |state, value: u32| {
        let mut labels = cache.to_vec();
        labels.push(("state", state));
        let help = "Clusters by state.";
        out.gauge("larder_store_clusters", help, &labels, u64::from(value));
    };
    clusters("in_use", stats.clusters_in_use);
    clusters("free", stats.clusters_free);
    clusters("bad", stats.clusters_bad);
    let help = "Bytes of stored objects that are in memory only: what a killed process loses.";
    out.gauge("larder_store_unwritten_bytes", help, cache, stats.exposed_bytes);
    out.gauge("larder_store_dead_records", "Dead records on disk.", cache, stats.dead_records);
    let help = "Purges in force: by tag, host, prefix or pattern, or of everything.";
    out.gauge("larder_store_purge_entries", help, cache, stats.purges);
    let help = "Maximum purge entries before the oldest are merged.";
    out.gauge("larder_store_purge_entries_max", help, cache, stats.purges_max);
    let help = "1 while recovery is running, else 0.";
    out.gauge("larder_store_recovering", help, cache, stats.recovering);
    out.gauge("larder_index_entries", "Records in the index.", cache, stats.index_entries);
    let help = "Share of the index that is in use, 0 to 1.";
    out.gauge("larder_index_load", help, cache, stats.index_load);
}

/// Adds the metrics of layouts with slots, and the name of the layout.
fn slots(out: &mut Samples, path: &str, stats: &Stats, policy: PolicyName) {
    let policy = stats.slots.map_or("references", |_| policy.as_str());
    let layout = stats.layout.as_str();
    let labels = [("cache", path), ("layout", layout), ("policy", policy)];
    let help = "Always 1; the labels name the layout and the eviction policy.";
    out.gauge("larder_store_layout", help, &labels, true);
    let Some(slots) = &stats.slots else { return };
    let cache = [("cache", path)];
    let states = [
        ("free", slots.free),
        ("live", slots.live),
        ("waiting", slots.waiting),
        ("bad", slots.bad),
        ("lost", slots.lost),
    ];
    for (state, value) in states {
        let labels = [("cache", path), ("state", state)];
        out.gauge("larder_store_slots", "Slots by state.", &labels, value);
    }
    let bytes = u64::from(slots.slot_bytes);
    out.gauge("larder_store_slot_bytes", "Bytes of a slot.", &cache, bytes);
    let help = "Runs of free slots.";
    out.gauge("larder_store_free_pieces", help, &cache, slots.free_pieces);
    let help = "Live records in slots.";
    out.gauge("larder_store_live_records", help, &cache, slots.records);
    let help = "Records written in several runs of slots.";
    out.counter("larder_store_split_records", help, &cache, slots.split_records);
    let help = "Runs of records written in several runs.";
    out.counter("larder_store_split_runs", help, &cache, slots.split_runs);
    let help = "Pages read before a partial write.";
    out.counter("larder_store_page_reads", help, &cache, slots.page_reads);
}

fn reads(out: &mut Samples, cache: &Labels<'_>, stats: &Stats) {
    let reads = &stats.reads;
    for (unit, value) in
        [("object", reads.exact), ("window", reads.windows), ("cluster", reads.clusters)]
    {
        let mut labels = cache.to_vec();
        labels.push(("unit", unit));
        let help = "Reads for lookups: of one record, with neighbours, of the whole cluster.";
        out.counter("larder_store_reads", help, &labels, value);
    }
    let mut counter = |name, help, value: u64| out.counter(name, help, cache, value);
    counter("larder_store_read_bytes", "Bytes of the reads for lookups.", reads.bytes);
    let help = "Lookups served by the read of another lookup.";
    counter("larder_store_reads_joined", help, reads.joined);
    counter("larder_store_read_batches", "Batches of the read queue.", reads.batches);
    counter("larder_store_reads_batched", "Reads in batches of the read queue.", reads.batched);
    let help = "Batches submitted because a read had reached its maximum wait.";
    counter("larder_store_read_batch_timeouts", help, reads.batch_timeouts);
    let held = &stats.held;
    let help = "Transfers of large objects, which pin their unsent bytes.";
    out.gauge("larder_store_held_transfers", help, cache, held.readers);
    let help = "Bytes on the device pinned by transfers of large objects.";
    out.gauge("larder_store_held_bytes", help, cache, held.bytes);
    let help = "Bytes of removed objects in memory pinned by transfers.";
    out.gauge("larder_store_held_memory_bytes", help, cache, held.memory_bytes);
    for (reason, value) in [("share", held.revoked), ("time", held.timed_out)] {
        let mut labels = cache.to_vec();
        labels.push(("reason", reason));
        let help = "Objects (share) and transfers (time) unpinned because a bound was exceeded.";
        out.counter("larder_store_held_let_down", help, &labels, value);
    }
    let (cost, _) = stats.read_cost;
    let help = "Seconds of device time per read, excluding its bytes.";
    out.gauge("larder_device_read_cost_seconds", help, cache, cost.per_operation / 1e9);
    let help = "Seconds of device time per byte read.";
    out.gauge("larder_device_read_byte_cost_seconds", help, cache, cost.per_byte / 1e9);
}

fn lock(out: &mut Samples, cache: &Labels<'_>, figures: &LockFigures) {
    let help = "Times that the lock of the cache was taken.";
    out.counter("larder_store_lock_taken", help, cache, figures.taken);
    let help = "Times that a thread waited for the lock of the cache.";
    out.counter("larder_store_lock_waits", help, cache, figures.waits);
    let help = "Seconds that threads waited for the lock of the cache.";
    out.counter("larder_store_lock_waited_seconds", help, cache, figures.waited.as_secs_f64());
    let (held, above) = figures.held();
    out.histogram(
        "larder_store_lock_held_seconds",
        "Time that the lock of the cache was held, of one holder in 61.",
        cache,
        figures.held_sum().as_secs_f64(),
        held.map(|(ns, count)| (ns as f64 / 1e9, count)),
        above,
    );
}

fn memory(out: &mut Samples, path: &str, stats: &Stats) {
    let [hot, medium, cold] = stats.tier_bytes;
    let parts = [
        ("index", stats.index_bytes),
        ("cluster_table", stats.cluster_table_bytes),
        ("hot", hot),
        ("medium", medium),
        ("cold", cold),
        ("unwritten", stats.unwritten_bytes),
        ("staging", stats.staging_bytes),
        ("read_buffers", stats.buffers.kept_bytes),
        ("read_ahead", stats.read_ahead_bytes),
        ("in_transit", stats.transit_bytes),
    ];
    for (part, bytes) in parts {
        let labels = [("cache", path), ("part", part)];
        out.gauge("larder_memory_bytes", "Memory by part.", &labels, bytes);
    }
}

fn amplification(out: &mut Samples, cache: &Labels<'_>, file: &CacheFile, stats: &Stats) {
    let ratio = match stats.counters.inserted_bytes {
        0 => 0.0,
        inserted => file.counters().snapshot().bytes_written as f64 / inserted as f64,
    };
    let help = "Bytes written to the device per byte of objects stored, since the start; 0 before.";
    out.gauge("larder_store_write_amplification", help, cache, ratio);
}
