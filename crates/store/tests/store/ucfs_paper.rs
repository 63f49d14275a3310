//! The presets `ucfs` and `tfs` compared with their papers, section by section (systems C1 to C13,
//! T4).

use std::time::Duration;

use bytes::Bytes;
use larder_store::{
    Counters, FormatOptions, Hint, IndexKind, IndexOptions, Key, Kind, Locality, Lookup, Options,
    Source, Stats,
};

use crate::rig::{Rig, now_or_never};

const KB: u64 = 1 << 10;
const MB: u64 = 1 << 20;
const CLUSTER: u64 = 64 * KB;
const HOUR: Duration = Duration::from_secs(3600);

/// A file of a directory in the paper's sense.
#[derive(Clone, Copy, Debug)]
struct File {
    directory: u64,
    number: u64,
    kb: u64,
    html: bool,
}

const fn file(directory: u64, number: u64, kb: u64) -> File {
    File { directory, number, kb, html: false }
}

/// Returns a store with a preset's options on a disk of `disk` bytes.
struct Paper(Rig);

impl Paper {
    fn new(name: &str, disk: u64, change: impl FnOnce(&mut Options)) -> Paper {
        let preset = larder_store::preset(name).unwrap();
        let memory = device::MemoryDevice::new(disk, 512);
        let formatting =
            larder_store::format_with_seed(&memory, &preset.format, [7; 48], 1_700_000_000);
        now_or_never(formatting).unwrap();
        let mut options = Options { memory: 4 * MB, ..preset.options };
        change(&mut options);
        Paper(Rig::open(memory, options))
    }

    fn ucfs() -> Paper {
        Paper::new("ucfs", 64 * MB, |_| {})
    }

    fn put(&mut self, file: File) {
        let store = self.0.store.clone();
        let body = vec![file.number as u8; (file.kb * KB) as usize];
        self.0.run(async {
            let token = store.begin_fetch(&key(file));
            let kind = if file.html { Kind::Html } else { Kind::Other };
            let stamp = 1_000 + file.number as u32;
            let hint = Hint { size: Some(body.len() as u64), kind, stamp, ..Hint::default() };
            let meta = Bytes::from_static(b"meta");
            let mut writer = store.insert(&token, &key(file), meta, hint).await.unwrap();
            writer.write(Bytes::from(body)).await.unwrap();
            writer.commit().await.unwrap();
        });
    }

    fn get(&mut self, file: File) -> Option<Source> {
        let store = self.0.store.clone();
        match self.0.run(store.lookup(&key(file))) {
            Lookup::Hit(entry) => {
                assert_eq!(entry.len(), file.kb * KB);
                assert_eq!(entry.stamp(), 1_000 + file.number as u32);
                Some(entry.source())
            }
            Lookup::Miss => None,
        }
    }

    /// Replaces the metadata of the file, as after a 304.
    fn update(&mut self, file: File) {
        let store = self.0.store.clone();
        self.0.run(async {
            let token = store.begin_fetch(&key(file));
            let Lookup::Hit(entry) = store.lookup(&key(file)).await else { panic!("it is there") };
            let meta = Bytes::from_static(b"other");
            store.replace_meta(&token, &key(file), &entry, meta).await.unwrap();
        });
    }

    /// Fills memory with new files of 4 KB of another directory, so that all others leave it.
    fn push_out(&mut self, directory: u64) {
        for number in 0..1_000 {
            self.put(file(directory, number, 4));
        }
    }

    /// Stops in order and starts again, so that memory is empty.
    fn restart(self) -> Paper {
        Paper(self.0.reopen())
    }

    fn stats(&self) -> Stats {
        self.0.store.stats()[0]
    }

    fn counters(&self) -> Counters {
        self.stats().counters
    }

    fn reads(&self) -> u64 {
        self.0.probe.memory.counts().reads
    }
}

fn key(file: File) -> Key {
    let File { directory, number, .. } = file;
    let name = format!("http://host/{directory}/{number}");
    Key::new(Bytes::from(name), Locality { site: 1, group: directory }).unwrap()
}

/// Returns sixteen files of 3 KB of one directory: nearly a cluster with their metadata.
fn page(directory: u64) -> [File; 16] {
    std::array::from_fn(|number| file(directory, number as u64, 3))
}

/// Returns a restarted store whose disk holds the pages 1 to `pages`, written by an orderly stop.
fn with_pages(pages: u64) -> Paper {
    let mut paper = Paper::ucfs();
    for directory in 1..=pages {
        page(directory).into_iter().for_each(|file| paper.put(file));
    }
    paper.restart()
}

#[test]
fn section_2_3_1_every_file_has_an_entry_also_in_memory_only() {
    let mut paper = Paper::ucfs();
    paper.put(file(1, 1, 4));
    let reads = paper.reads();
    assert_eq!(paper.stats().index_entries, 1);
    assert_eq!(paper.0.store.stamp(&key(file(1, 1, 4))), Some(1_001), "Last-Modified");
    assert_eq!(paper.0.store.stamp(&key(file(1, 2, 4))), None);
    let mut paper = paper.restart();
    let reads_after = paper.reads();
    // The tables were saved and loaded (3.3); no lookup reads the disk.
    assert_eq!(paper.stats().index_entries, 1);
    assert_eq!(paper.0.store.stamp(&key(file(1, 1, 4))), Some(1_001));
    assert_eq!(paper.get(file(1, 2, 4)), None);
    assert_eq!(paper.reads(), reads_after);
    assert!(reads < reads_after, "starting reads the tables");
    // A cache of 64 MB of files of 4 KB: about 16,384 entries of slightly more than 24 bytes.
    let eight = 8 * 24 + 1;
    let bytes = paper.stats().index_bytes;
    assert!(
        bytes.is_multiple_of(eight) && (16_300..=16_384).contains(&(bytes / eight * 8)),
        "{bytes}"
    );
}

#[test]
fn section_2_3_2_a_full_table_deletes_files() {
    let entries = 2_000;
    let small = |options: &mut Options| {
        options.index = IndexOptions { kind: IndexKind::Exact, entries: Some(entries) };
    };
    let mut paper = Paper::new("ucfs", 64 * MB, small);
    for number in 0..6_000 {
        paper.put(file(number / 16, number, 2));
    }
    paper.0.pass(HOUR);
    let stats = paper.stats();
    assert!(stats.index_entries as u64 <= entries, "{stats:?}");
    assert!(stats.counters.evicted_clusters > 50, "{stats:?}");
    // Although the disk has space.
    assert!(stats.clusters_free > stats.clusters / 2, "{stats:?}");
    assert!((5_900..6_000).any(|number| paper.get(file(number / 16, number, 2)).is_some()));
}

#[test]
fn section_2_4_2_files_are_written_when_they_leave_memory_in_whole_clusters() {
    let mut paper = Paper::ucfs();
    for number in 0..40 {
        paper.put(file(1, number, 3));
    }
    paper.0.pass(HOUR);
    assert_eq!(paper.counters().record_bytes_written, 0, "a file is in memory only");
    for directory in 2..80 {
        page(directory).into_iter().for_each(|file| paper.put(file));
    }
    paper.0.pass(HOUR);
    let stats = paper.stats();
    let clusters = u64::from(stats.clusters_in_use);
    assert!(clusters > 10, "{stats:?}");
    // Every cluster is full, except for less than one file and its summary.
    let least = (CLUSTER - 5 * KB) * clusters;
    assert!(stats.counters.record_bytes_written >= least, "{stats:?}");
    assert_eq!(stats.dead_records, 0);
}

#[test]
fn section_2_4_3_a_disk_hit_reads_the_cluster_and_prefetches_its_files() {
    let mut paper = with_pages(20);
    let reads = paper.reads();
    let files = page(7);
    assert_eq!(paper.get(files[3]), Some(Source::Disk));
    assert_eq!(paper.reads(), reads + 1, "one large read");
    // The directory may begin in the previous cluster.
    let found = files.map(|file| paper.get(file).unwrap());
    let from_memory = found.iter().filter(|source| **source == Source::Ram).count();
    assert!(from_memory >= 8, "{found:?}");
    assert!(paper.reads() <= reads + 2);
    let counters = paper.counters();
    assert!(counters.prefetch_hits > 0 && counters.prefetched >= counters.prefetch_hits);
}

#[test]
fn section_2_4_4_an_intact_cluster_leaves_memory_without_a_write() {
    let mut paper = with_pages(150);
    // Directories so far apart that no cluster is read twice; more than fit into memory.
    for directory in (1..=150).step_by(3) {
        assert_eq!(paper.get(page(directory)[0]), Some(Source::Disk));
    }
    paper.0.pass(HOUR);
    let counters = paper.counters();
    assert!(counters.virtual_kept > 10, "{counters:?}");
    // While hot had space, medium gave it its newest files (2.5.1). At the beginning and the end of
    // that, a cluster was divided, and could not leave as a whole.
    assert!(counters.virtual_parted <= 2, "{counters:?}");
    assert_eq!((counters.virtual_freed, counters.record_bytes_written), (0, 0));
    // The first one is on the disk only again, and returns as a whole.
    assert_eq!(paper.get(page(1)[0]), Some(Source::Disk));
    assert_eq!(paper.get(page(1)[1]), Some(Source::Ram));
}

/// A file that is requested again and again.
const HOT: File = file(8, 3, 3);

/// Returns a store with the hot file in memory, and the files of its directory and cluster that
/// have left memory.
fn parted() -> (Paper, Vec<File>) {
    let mut paper = with_pages(150);
    assert_eq!(paper.get(HOT), Some(Source::Disk));
    let in_memory = |paper: &Paper, file| paper.0.store.resident(&key(file)).is_some();
    let mut mates = page(HOT.directory).to_vec();
    mates.retain(|file| file.number != HOT.number && in_memory(&paper, *file));
    for directory in (12..=150).step_by(3) {
        assert_eq!(paper.get(page(directory)[0]), Some(Source::Disk));
        assert_eq!(paper.get(HOT), Some(Source::Ram));
    }
    mates.retain(|file| !in_memory(&paper, *file));
    assert!(mates.len() > 5 && paper.counters().virtual_parted > 0, "{mates:?}");
    (paper, mates)
}

#[test]
fn section_2_4_4_files_leave_memory_one_by_one_and_their_cluster_stays_valid() {
    let (mut paper, mates) = parted();
    let counters = paper.counters();
    assert_eq!((counters.virtual_freed, counters.record_bytes_written), (0, 0));
    assert_eq!(paper.get(HOT), Some(Source::Ram));
    let reads = paper.reads();
    // The MEM bit of the others is 0, their cluster index is unchanged: a read brings them back.
    assert_eq!(paper.get(mates[0]), Some(Source::Disk));
    assert_eq!(paper.get(mates[1]), Some(Source::Ram));
    assert_eq!(paper.reads(), reads + 1);
    // The whole cluster is in memory again: an update frees it.
    let free = paper.stats().clusters_free;
    paper.update(HOT);
    assert_eq!(paper.counters().virtual_freed, 1);
    assert_eq!((paper.stats().clusters_free, paper.stats().dead_records), (free + 1, 0));
}

#[test]
fn section_2_4_4_an_update_while_others_are_on_the_disk_only_leaves_one_dead_record() {
    for replaced in [false, true] {
        let (mut paper, mates) = parted();
        let (free, reads) = (paper.stats().clusters_free, paper.reads());
        match replaced {
            true => paper.put(HOT),
            false => paper.update(HOT),
        }
        let stats = paper.stats();
        assert_eq!((stats.clusters_free, stats.dead_records), (free, 1));
        assert_eq!((stats.counters.virtual_freed, stats.counters.record_bytes_written), (0, 0));
        assert_eq!(paper.reads(), reads, "nothing is read for it");
        assert_eq!(paper.get(HOT), Some(Source::Ram));
        assert_eq!(paper.get(mates[0]), Some(Source::Disk));
        let mut paper = paper.restart();
        assert!(mates.into_iter().all(|file| paper.get(file).is_some()));
        let store = paper.0.store.clone();
        let wanted = paper.0.run(store.lookup(&key(HOT)));
        let Lookup::Hit(entry) = wanted else { panic!("lost") };
        assert_eq!(&entry.meta()[..], if replaced { &b"meta"[..] } else { b"other" });
    }
}

/// Reads the cluster of a page, applies `change` to one of its files, and checks that the cluster
/// on the disk is free at once while the other files stay in memory.
fn frees_its_cluster(change: impl FnOnce(&mut Paper, File)) {
    let mut paper = with_pages(20);
    let files = page(7);
    assert_eq!(paper.get(files[3]), Some(Source::Disk));
    let inside: Vec<File> = {
        let reads = paper.reads();
        let inside = files.into_iter().filter(|file| paper.get(*file) == Some(Source::Ram));
        let inside = inside.collect();
        assert!(paper.reads() <= reads + 1);
        inside
    };
    let free = paper.stats().clusters_free;
    change(&mut paper, files[3]);
    assert_eq!(paper.counters().virtual_freed, 1);
    assert_eq!(paper.stats().clusters_free, free + 1, "the whole disk cluster is free at once");
    assert_eq!(paper.stats().dead_records, 0, "there is no garbage");
    let (reads, written) = (paper.reads(), paper.counters().record_bytes_written);
    for file in inside.iter().filter(|file| file.number != 3) {
        assert_eq!(paper.get(*file), Some(Source::Ram));
    }
    assert_eq!((paper.reads(), paper.counters().record_bytes_written), (reads, written));
    // They are not lost: they are written again when they leave memory.
    let mut paper = paper.restart();
    for file in inside.iter().filter(|file| file.number != 3) {
        assert!(paper.get(*file).is_some());
    }
}

#[test]
fn section_2_4_4_an_updated_file_frees_its_cluster_at_once() {
    frees_its_cluster(Paper::update);
}

#[test]
fn section_2_4_4_a_replaced_file_frees_its_cluster_at_once() {
    frees_its_cluster(|paper, file| paper.put(file));
}

#[test]
fn section_2_4_4_an_invalidated_file_frees_its_cluster_at_once() {
    frees_its_cluster(|paper, file| {
        let store = paper.0.store.clone();
        assert!(paper.0.run(store.remove(&key(file))));
    });
}

#[test]
fn section_2_4_4_an_update_survives_an_orderly_stop() {
    let mut paper = with_pages(20);
    let wanted = page(7)[3];
    paper.update(wanted);
    let mut paper = paper.restart();
    let store = paper.0.store.clone();
    let Lookup::Hit(entry) = paper.0.run(store.lookup(&key(wanted))) else { panic!("lost") };
    assert_eq!(&entry.meta()[..], b"other");
}

#[test]
fn section_2_4_6_a_large_file_spans_clusters_and_is_read_in_cluster_sized_reads() {
    let mut paper = Paper::new("ucfs", 64 * MB, |options| options.memory = 16 * MB);
    let large = file(1, 1, 200);
    paper.put(large);
    paper.0.pass(HOUR);
    assert_eq!(paper.counters().record_bytes_written, 0, "it is in memory as any other");
    assert_eq!(paper.get(large), Some(Source::Ram));
    let mut paper = paper.restart();
    assert!(paper.stats().clusters_in_use >= 4);
    let reads = paper.reads();
    let store = paper.0.store.clone();
    let Lookup::Hit(entry) = paper.0.run(store.lookup(&key(large))) else { panic!("lost") };
    let state_free = paper.0.run(crate::rig::collect(&entry, 0..200 * KB));
    assert_eq!(state_free.0, vec![1; 200 * KB as usize]);
    assert!((4..=5).contains(&(paper.reads() - reads)), "{}", paper.reads() - reads);
    // No file above 256 KB is cached.
    let store = paper.0.store.clone();
    let refused = paper.0.run(async {
        let token = store.begin_fetch(&key(file(1, 2, 257)));
        let hint = Hint { size: Some(257 * KB), ..Hint::default() };
        store.insert(&token, &key(file(1, 2, 257)), Bytes::new(), hint).await.err()
    });
    assert_eq!(refused, Some(larder_store::Refusal::TooLarge));
}

#[test]
fn section_2_4_9_a_cluster_untouched_for_115_hours_is_invalidated() {
    let mut paper = with_pages(20);
    let used = paper.stats().clusters_in_use;
    paper.0.pass(100 * HOUR);
    // A hit keeps its cluster for another 115 hours.
    assert!(paper.get(page(7)[3]).is_some());
    paper.push_out(900);
    paper.0.pass(14 * HOUR);
    assert_eq!(paper.counters().one_timer_clusters, 0);
    paper.0.pass(3 * HOUR);
    let dropped = paper.counters().one_timer_clusters;
    assert!(dropped >= u64::from(used) - 2, "{dropped} of {used}");
    assert!(paper.get(page(7)[3]).is_some());
    assert_eq!(paper.get(page(1)[1]), None);
}

#[test]
fn section_2_4_9_several_clusters_are_written_in_one_request_behind_the_disk_position() {
    let writes = |group_batch: u8| {
        let mut paper = Paper::new("ucfs", 64 * MB, |options| options.group_batch = group_batch);
        paper.push_out(1);
        let writes = paper.0.probe.memory.counts().writes;
        let clusters = paper.stats().clusters_in_use;
        for number in 0..1_000 {
            paper.put(file(2, number, 4));
            // The disk is idle: full clusters are written at once.
            paper.0.pass(Duration::from_millis(1));
        }
        assert!(paper.stats().clusters_in_use > clusters + 50);
        paper.0.probe.memory.counts().writes - writes
    };
    let (one, four) = (writes(1), writes(4));
    assert!(four * 3 < one, "{four} writes instead of {one}");
}

/// Returns the first byte on the disk of each of the files that is there.
fn offsets(paper: &mut Paper, files: &[File]) -> Vec<u64> {
    let keys: Vec<Key> = files.iter().copied().map(key).collect();
    let store = paper.0.store.clone();
    let placements = paper.0.run(store.placements(&keys)).remove(0);
    let placed = placements.records.into_iter().filter(|record| record.key.is_some());
    placed.map(|record| record.runs[0].offset).collect()
}

#[test]
fn section_2_4_9_clusters_are_written_behind_the_cluster_that_was_read_last() {
    let mut paper = with_pages(60);
    paper.0.pass(100 * HOUR);
    let touched: Vec<u64> = (1..10).chain(50..=60).collect();
    assert!(touched.iter().all(|number| paper.get(page(*number)[3]).is_some()));
    paper.push_out(900);
    // The clusters of the other pages become free.
    paper.0.pass(16 * HOUR);
    assert!(paper.counters().one_timer_clusters > 20);
    let free = offsets(&mut paper, &page(9))[0]..offsets(&mut paper, &page(50))[0];
    let new: Vec<File> = (0..1_000).map(|number| file(900, number, 4)).collect();
    let written = |paper: &mut Paper| {
        offsets(paper, &new).iter().filter(|offset| free.contains(offset)).count()
    };
    assert_eq!(written(&mut paper), 0, "the position is behind the last write");
    assert_eq!(paper.get(page(5)[3]), Some(Source::Disk));
    paper.push_out(901);
    assert!(written(&mut paper) > 20);
}

#[test]
fn section_2_5_1_reads_push_nothing_out_of_memory_that_cannot_be_written_yet() {
    let mut paper = with_pages(100);
    for number in 0..500 {
        paper.put(file(900, number, 4));
    }
    let stored = paper.counters();
    // More pages arrive than fit into memory, and nothing is written meanwhile.
    let store = paper.0.store.clone();
    for directory in 1..=100 {
        let wanted = key(page(directory)[0]);
        let found = now_or_never(store.lookup(&wanted));
        assert!(matches!(found, Lookup::Hit(_)), "{directory}");
    }
    let stats = paper.stats();
    assert_eq!(stats.counters.record_bytes_written, stored.record_bytes_written);
    assert_eq!(stats.counters.dropped_unwritten, 0, "{stats:?}");
    let bytes: usize = stats.tier_bytes.iter().sum();
    // Memory exceeds its limit by one read at most.
    assert!(bytes <= stats.tier_capacity + 2 * CLUSTER as usize, "{stats:?}");
    paper.0.pass(HOUR);
    for number in 0..500 {
        assert!(paper.get(file(900, number, 4)).is_some(), "{number}");
    }
}

#[test]
fn section_2_5_1_the_three_buffers_take_30_40_and_30_percent() {
    let mut paper = Paper::ucfs();
    // New files enter medium; a hit moves one to hot.
    for number in 0..4 {
        paper.put(file(1, number, 4));
    }
    let [hot, medium, cold] = paper.stats().tier_bytes;
    assert!(hot == 0 && medium > 16_000 && cold == 0);
    assert_eq!(paper.get(file(1, 2, 4)), Some(Source::Ram));
    let [hot, ..] = paper.stats().tier_bytes;
    assert!((4_096..6_000).contains(&hot));
    paper.push_out(2);
    let (shares, all) = (paper.stats().tier_bytes, paper.stats().tier_capacity);
    for (bytes, percent) in shares.into_iter().zip([30, 40, 30]) {
        let share = all * percent / 100;
        // Full except for less than one file; cold except for the groups written last.
        let missing = if bytes == shares[2] { 8_192 + 4 * CLUSTER as usize } else { 8_192 };
        assert!(bytes <= share + 1 && bytes + missing > share, "{shares:?} of {all}");
    }
}

#[test]
fn section_2_6_2_files_of_a_directory_are_written_into_one_cluster() {
    let mut paper = Paper::ucfs();
    // Sixteen users at once, each in another directory, whose files arrive far apart.
    for round in 0..8 {
        for number in 0..16 {
            for user in 0..8 {
                let directory = round * 8 + user;
                paper.put(File { html: number == 5, ..file(directory, number, 3) });
            }
        }
    }
    paper.push_out(1_000);
    let mut paper = paper.restart();
    let reads = paper.reads();
    for directory in 0..16 {
        for number in 0..16 {
            assert!(paper.get(file(directory, number, 3)).is_some());
        }
    }
    let reads = paper.reads() - reads;
    assert!(reads < 16 * 16 / 5, "{reads} reads for 256 files");
}

#[test]
fn section_3_1_every_outcome_of_a_lookup_is_counted() {
    let mut paper = with_pages(20);
    assert_eq!(paper.get(file(99, 1, 1)), None);
    assert_eq!(paper.get(page(7)[3]), Some(Source::Disk));
    assert_eq!(paper.get(page(7)[3]), Some(Source::Ram));
    assert_eq!(paper.get(page(7)[3]), Some(Source::Ram));
    let counters = paper.counters();
    assert_eq!((counters.misses, counters.disk_hits, counters.memory_hits), (1, 1, 2));
    // A disk stale hit: the cluster is read, invalidated, and the new version is in memory only.
    let free = paper.stats().clusters_free;
    assert_eq!(paper.get(page(12)[3]), Some(Source::Disk));
    paper.put(page(12)[3]);
    assert_eq!(paper.stats().clusters_free, free + 1);
    assert_eq!(paper.get(page(12)[3]), Some(Source::Ram));
    assert_eq!(paper.stats().dead_records, 0);
}

#[test]
fn section_3_3_a_restart_finds_every_file() {
    let mut paper = Paper::ucfs();
    for directory in 1..=40 {
        page(directory).into_iter().for_each(|file| paper.put(file));
    }
    let mut paper = paper.restart();
    for directory in 1..=40 {
        for file in page(directory) {
            assert!(paper.get(file).is_some());
        }
    }
    // The saved table was used: nothing was scanned.
    assert_eq!(paper.stats().recovered, (0, 0));
}

#[test]
fn tfs_section_2_one_lru_list_whose_last_tenth_is_the_group_buffer() {
    let mut paper = Paper::new("tfs", 64 * MB, |_| {});
    for number in 0..900 {
        paper.put(file(number / 16, number, 4));
        if number >= 10 {
            // The tenth file before it is used again and again, but never hot.
            paper.get(file((number - 10) / 16, number - 10, 4));
        }
    }
    let stats = paper.stats();
    let [hot, medium, cold] = stats.tier_bytes;
    assert_eq!(hot, 0);
    let tenth = stats.tier_capacity / 10;
    let groups = 8_192 + 4 * CLUSTER as usize;
    assert!(cold <= tenth + 1 && cold + groups > tenth, "{cold} of {}", stats.tier_capacity);
    assert!(medium <= stats.tier_capacity - tenth);
    assert!(stats.counters.record_bytes_written > 0, "the group buffer is written to clusters");
    assert_eq!(stats.cluster_size, 64 << 10);
    // Written files return a cluster at a time, and do not expire.
    let mut paper = paper.restart();
    paper.0.pass(1_000 * HOUR);
    paper.put(file(999, 1, 1));
    assert_eq!(paper.get(file(0, 1, 4)), Some(Source::Disk));
    assert_eq!(paper.get(file(0, 2, 4)), Some(Source::Ram));
}

#[test]
fn a_cache_made_for_one_index_opens_with_the_other() {
    let mut paper = Paper::ucfs();
    for directory in 1..=40 {
        page(directory).into_iter().for_each(|file| paper.put(file));
    }
    let probe = paper.0.stop();
    for kind in [IndexKind::Compact, IndexKind::Exact, IndexKind::Compact] {
        let index = IndexOptions { kind, entries: None };
        let options = Options { memory: 4 * MB, index, ..Options::ucfs() };
        let mut paper = Paper(Rig::open_probe(probe.clone(), options, 1_700_000_000).unwrap());
        paper.0.settle();
        for directory in 1..=40 {
            for file in page(directory) {
                assert!(paper.get(file).is_some(), "{kind}");
            }
        }
        paper.0.stop();
    }
    // A cache made for the small index has no space for the large one's dump.
    let compact = FormatOptions { mean_object: Some(512), ..FormatOptions::default() };
    let memory = device::MemoryDevice::new(64 * MB, 512);
    now_or_never(larder_store::format_with_seed(&memory, &compact, [7; 48], 1_700_000_000))
        .unwrap();
    let options = Options { memory: 16 * MB, ..Options::ucfs() };
    let mut paper = Paper(Rig::open(memory, options));
    page(1).into_iter().for_each(|file| paper.put(file));
    let mut paper = paper.restart();
    assert!(page(1).into_iter().all(|file| paper.get(file).is_some()));
}

#[test]
fn what_leaves_memory_late_does_so_on_every_layout() {
    for layout in larder_store::LayoutName::ALL {
        let preset = larder_store::preset("ucfs").unwrap();
        let memory = device::MemoryDevice::new(64 * MB, 512);
        let format = FormatOptions { layout, ..preset.format };
        now_or_never(larder_store::format_with_seed(&memory, &format, [7; 48], 1_700_000_000))
            .unwrap();
        let options = Options { memory: 4 * MB, ..preset.options };
        let mut paper = Paper(Rig::open(memory, options));
        paper.push_out(1);
        paper.push_out(2);
        paper.update(file(1, 3, 4));
        assert!(paper.counters().groups > 0 && paper.counters().dropped_unwritten == 0, "{layout}");
        let mut paper = paper.restart();
        for number in 0..1_000 {
            assert!(paper.get(file(1, number, 4)).is_some(), "{layout}: {number}");
        }
    }
}
