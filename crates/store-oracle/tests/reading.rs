//! Reads of the engine on simulated drives in virtual time: the read units and the read queue
//! (LAZY-READS, systems M8).
//!
//! `cargo xtask reading` runs the loads of docs/decisions/0005 in full ([`FULL`]) and prints their
//! figures; `cargo test` runs shorter ones. Times are those of the drives: the same for a seed on
//! every machine. Bodies are elided (docs/research/lab.md): no decision depends on them, and
//! copying and checksumming whole clusters would take most of the time of these tests.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::cell::Cell;
use std::rc::Rc;

use bytes::Bytes;
use device::Clock;
use sim::drives::mechanical::{Config, MechanicalDrive};
use sim::{Executor, Handle, SimDisk, Uniform};
use store::{
    Content, Entry, FormatOptions, Hint, Key, LayoutName, Locality, Lookup, Options, ReadUnit,
    Stats, Store,
};

type Engine = Store<SimDisk, Handle>;

const CACHE: u64 = 256 << 20;
const PARTS: usize = 10;
/// Pages that arrive at once while the cache is filled.
const ARRIVING: usize = 4;
const SECOND: u64 = 1_000_000_000;

/// The environment variable that selects the full loads.
const FULL: &str = "LAB_READING_FULL";

/// Returns `short` or `full`, by the length of the loads.
fn of_scale<T>(short: T, full: T) -> T {
    if std::env::var_os(FULL).is_some() { full } else { short }
}

/// Returns the number of pages in the cache.
fn pages() -> usize {
    of_scale(900, 1_500)
}

#[derive(Clone, Copy)]
enum DriveName {
    Atlas,
    Flash,
}

impl DriveName {
    fn drive(self) -> Box<dyn sim::drives::Drive> {
        match self {
            // A bus fast enough not to matter, as in the UCFS paper's figures.
            DriveName::Atlas => {
                let file = sim::drives::shipped::named("atlas10k").unwrap().unwrap();
                Box::new(MechanicalDrive::new(&file, Config::FastBus).unwrap())
            }
            DriveName::Flash => Box::new(Uniform::fast(CACHE)),
        }
    }
}

fn key(page: usize, part: usize) -> Key {
    let url = format!("f http://site{}.example/page-{page}/part-{part}", page % 100);
    Key::new(url.into(), Locality { site: page as u64 % 100, group: page as u64 }).unwrap()
}

/// Returns the bytes of an object's body: median 3 KB.
fn body_len(page: usize, part: usize) -> usize {
    let mut random = fastrand::Rng::with_seed((page * PARTS + part) as u64);
    let normal = (0..12).map(|_| random.f64()).sum::<f64>() - 6.0;
    (3000.0 * normal.exp()).clamp(100.0, 60_000.0) as usize
}

/// Returns the identity of a body; no two bodies overlap.
fn body_id(page: usize, part: usize) -> u64 {
    ((page * PARTS + part) as u64) << 32
}

async fn insert(store: &Engine, page: usize, part: usize) {
    let key = key(page, part);
    let token = store.begin_fetch(&key);
    let body = Content::Elided { id: body_id(page, part), len: body_len(page, part) };
    let hint = Hint { size: Some(body.len() as u64), ..Hint::default() };
    let mut writer = store.insert(&token, &key, Bytes::from_static(&[7; 300]), hint).await.unwrap();
    writer.write(body).await.unwrap();
    writer.commit().await.unwrap();
}

/// Checks that the whole body is read, and that it is this object's.
async fn check(entry: &Entry<SimDisk, Handle>, page: usize, part: usize) {
    let mut body = entry.body(0..entry.len());
    let mut at = 0;
    while let Some(content) = body.next_content().await {
        let Content::Elided { id, len } = content.unwrap() else {
            panic!("page {page}, part {part} has bytes that nobody stored");
        };
        assert_eq!(id, body_id(page, part) + at as u64, "page {page}, part {part} from {at} on");
        at += len;
    }
    assert_eq!(at, body_len(page, part), "page {page}, part {part}");
}

async fn fill(store: &Engine) {
    for first in (0..pages()).step_by(ARRIVING) {
        for part in 0..PARTS {
            for page in first..(first + ARRIVING).min(pages()) {
                insert(store, page, part).await;
            }
        }
    }
}

async fn open(disk: &SimDisk, handle: &Handle, options: Options) -> Engine {
    let store = Store::open(vec![Rc::new(disk.clone())], handle.clone(), options).await.unwrap();
    let background = store.clone();
    drop(handle.spawn(async move { background.run_background().await }));
    store
}

#[derive(Clone, Copy)]
struct Load {
    clients: usize,
    /// Whole pages in order of their parts, or single objects.
    pages: bool,
    time: u64,
    layout: LayoutName,
}

async fn client(store: Engine, clock: Handle, load: Load, seed: u64, done: Rc<Cell<u64>>) {
    let mut random = fastrand::Rng::with_seed(seed);
    let (until, pages) = (clock.now() + load.time, pages());
    while clock.now() < until {
        let page = random.usize(..pages);
        let first = if load.pages { 0 } else { random.usize(..PARTS) };
        let parts = if load.pages { first..PARTS } else { first..first + 1 };
        for part in parts {
            let Lookup::Hit(entry) = store.lookup(&key(page, part)).await else {
                panic!("page {page}, part {part} is lost");
            };
            check(&entry, page, part).await;
            done.set(done.get() + 1);
            // Time of a client and a network; virtual time must pass on memory hits, too.
            clock.sleep_until(clock.now() + 20_000).await;
        }
    }
}

async fn run(store: &Engine, handle: &Handle, load: Load, phase: u64) -> u64 {
    let done = Rc::new(Cell::new(0));
    let clients: Vec<_> = (0..load.clients as u64)
        .map(|number| {
            let client =
                client(store.clone(), handle.clone(), load, phase << 32 | number, Rc::clone(&done));
            handle.spawn(client)
        })
        .collect();
    for client in clients {
        client.await;
    }
    done.get()
}

struct Figures {
    hits_per_second: f64,
    reads_each: f64,
    before: Stats,
    after: Stats,
}

/// Fills a cache on the drive, reopens it, warms up, and measures for the same number of hits.
fn measure(drive: DriveName, seed: u64, load: Load, options: Options) -> Figures {
    let executor = Executor::new(Some(seed), 1_000_000_000);
    let handle = executor.handle();
    let sim_options = sim::Options { len: Some(CACHE), power_loss: false, ..Default::default() };
    let disk = SimDisk::new(handle.clone(), drive.drive(), sim_options);
    executor.run(async move {
        let format = FormatOptions {
            cluster_size: Some(256 << 10),
            labels: false,
            ..FormatOptions::default()
        };
        let format = FormatOptions { mean_object: Some(4096), layout: load.layout, ..format };
        store::format_with_seed(&disk, &format, [7; 48], 0).await.unwrap();
        // The tables of slots are larger, by 80 bytes an object, and three eighths of the memory
        // are for other things. All layouts get the same memory for objects.
        let slotted = load.layout != LayoutName::Cluster;
        let tables = if slotted { 80 * (CACHE / 4096) } else { 0 };
        let memory = (8 << 20) + tables * 8 / 5;
        let store = open(&disk, &handle, Options { memory: 64 << 20, ..Options::default() }).await;
        fill(&store).await;
        // A disk writes single records slowly.
        while store.stats()[0].unwritten_bytes > 0 {
            handle.sleep_until(handle.now() + SECOND).await;
        }
        assert!(store.shutdown().await, "the cache is written");
        let store = open(&disk, &handle, Options { memory, ..options }).await;
        run(&store, &handle, load, 0).await;
        let (before, reads) = (store.stats()[0], disk.counts().reads);
        let done = run(&store, &handle, load, 1).await as f64;
        Figures {
            hits_per_second: done / (load.time as f64 / SECOND as f64),
            reads_each: (disk.counts().reads - reads) as f64 / done,
            before,
            after: store.stats()[0],
        }
    })
}

fn with_unit(drive: DriveName, load: Load, read_unit: ReadUnit) -> f64 {
    let figures = measure(drive, 1, load, Options { read_unit, ..Options::default() });
    let (before, after) = (figures.before, figures.after);
    let reads = |of: fn(&store::ReadCounters) -> u64| (of(&after.reads) - of(&before.reads)) as f64;
    let count = reads(|reads| reads.exact + reads.windows + reads.clusters);
    println!(
        "  {:8} {:9.0} hits/s, {:.3} reads each of {:5.1} KiB, prefetched {:4.1}% used; a read \
         costs {:.0} µs + {:.1} ns/B",
        format!("{read_unit:?}").to_lowercase(),
        figures.hits_per_second,
        figures.reads_each,
        reads(|reads| reads.bytes) / count / 1024.0,
        100.0 * (after.counters.prefetch_hits - before.counters.prefetch_hits) as f64
            / (after.counters.prefetched - before.counters.prefetched).max(1) as f64,
        after.read_cost.0.per_operation / 1e3,
        after.read_cost.0.per_byte,
    );
    figures.hits_per_second
}

fn all_units(drive: DriveName, load: Load) -> [f64; 3] {
    [ReadUnit::Object, ReadUnit::Cluster, ReadUnit::Auto].map(|unit| with_unit(drive, load, unit))
}

fn pages_of_a_disk() -> Load {
    let time = of_scale(20, 60) * SECOND;
    Load { clients: 8, pages: true, time, layout: LayoutName::Cluster }
}

fn singles_of_a_disk() -> Load {
    Load { pages: false, ..pages_of_a_disk() }
}

/// About 6,000 hits to warm up and as many to measure; twice as many with full loads.
fn singles_of_flash() -> Load {
    let time = SECOND / of_scale(32, 16);
    Load { clients: 16, pages: false, time, layout: LayoutName::Cluster }
}

#[test]
fn a_disk_reads_what_surrounds_an_object_where_pages_are_asked_for() {
    println!("Atlas 10K, pages:");
    let [object, cluster, auto] = all_units(DriveName::Atlas, pages_of_a_disk());
    assert!(auto > 2.0 * object, "{auto} hits a second, {object} with objects alone");
    assert!(auto > 0.9 * cluster, "{auto} hits a second, {cluster} with whole clusters");
}

#[test]
fn a_disk_reads_little_more_than_the_object_where_single_objects_are_asked_for() {
    println!("Atlas 10K, single objects:");
    let [object, cluster, auto] = all_units(DriveName::Atlas, singles_of_a_disk());
    assert!(auto > 0.9 * object, "{auto} hits a second, {object} with objects alone");
    assert!(auto > cluster, "{auto} hits a second, {cluster} with whole clusters");
}

#[test]
fn flash_reads_exactly_where_single_objects_are_asked_for() {
    println!("flash, single objects:");
    let [object, cluster, auto] = all_units(DriveName::Flash, singles_of_flash());
    assert!(auto > 0.9 * object, "{auto} hits a second, {object} with objects alone");
    assert!(auto > cluster, "{auto} hits a second, {cluster} with whole clusters");
    println!("flash, pages:");
    let [object, _, auto] = all_units(DriveName::Flash, Load { pages: true, ..singles_of_flash() });
    assert!(auto > 0.9 * object, "{auto} hits a second, {object} with objects alone");
}

#[test]
fn reads_that_go_out_together_by_position_cost_the_arm_less() {
    println!("Atlas 10K, single objects, 24 clients:");
    let load = Load { clients: 24, ..singles_of_a_disk() };
    let rate = |read_batch: usize, read_batch_split: usize| {
        let options = Options {
            read_unit: ReadUnit::Object,
            read_batch,
            read_batch_split,
            ..Options::default()
        };
        let figures = measure(DriveName::Atlas, 1, load, options);
        let reads = figures.after.reads;
        println!(
            "  batch {read_batch:2}, runs of {read_batch_split}: {:4.0} hits/s, {:.1} reads a \
             batch, {:.1}% of batches by time-out",
            figures.hits_per_second,
            reads.batched as f64 / reads.batches.max(1) as f64,
            100.0 * reads.batch_timeouts as f64 / reads.batches.max(1) as f64,
        );
        figures.hits_per_second
    };
    let (at_once, lazy, split) = (rate(1, 0), rate(10, 0), rate(10, 4));
    // The whole cache is near the rim, so little can be saved except by the order.
    assert!(lazy > 1.03 * at_once, "{lazy} hits a second, {at_once} without a queue");
    assert!(split > 1.03 * at_once, "{split} hits a second in runs, {at_once} without a queue");
}

/// The reads of a load with the unit `auto`.
struct Shape {
    /// Reads of the drive for each hit.
    each: f64,
    /// Mean bytes of a read.
    bytes: f64,
    /// Share of the reads that read only a record.
    exact: f64,
}

fn shape(drive: DriveName, load: Load) -> Shape {
    let figures = measure(drive, 1, load, Options::default());
    let (before, after) = (figures.before.reads, figures.after.reads);
    let of = |part: fn(&store::ReadCounters) -> u64| (part(&after) - part(&before)) as f64;
    let all = of(|reads| reads.exact + reads.windows + reads.clusters);
    let shape = Shape {
        each: figures.reads_each,
        bytes: of(|reads| reads.bytes) / all,
        exact: of(|reads| reads.exact) / all,
    };
    println!(
        "  {:8} {:9.0} hits/s, {:.3} reads each of {:5.1} KiB, {:4.1}% of a record alone",
        load.layout.as_str(),
        figures.hits_per_second,
        shape.each,
        shape.bytes / 1024.0,
        100.0 * shape.exact,
    );
    shape
}

const SLOTTED: [LayoutName; 3] = [LayoutName::Stream, LayoutName::Unified, LayoutName::Buddy];

/// A disk of about 200 operations a second.
#[test]
fn a_disk_reads_what_surrounds_an_object_in_slots_too() {
    let pages = Load { time: 20 * SECOND, ..pages_of_a_disk() };
    println!("Atlas 10K, auto, pages:");
    let cluster = shape(DriveName::Atlas, pages);
    let [stream, unified, buddy] =
        SLOTTED.map(|layout| shape(DriveName::Atlas, Load { layout, ..pages }));
    for slots in [&stream, &unified] {
        assert!(slots.each < 0.3, "{} reads each", slots.each);
        assert!(slots.bytes > 65_536.0, "{} bytes a read", slots.bytes);
        // Records written in the order of groups need fewer reads.
        assert!(cluster.each < 0.75 * slots.each, "{} reads each", cluster.each);
        assert!(cluster.bytes < 0.75 * slots.bytes, "{} bytes a read", cluster.bytes);
    }
    println!("Atlas 10K, auto, single objects:");
    let layout = LayoutName::Unified;
    let single = shape(DriveName::Atlas, Load { layout, pages: false, ..pages });
    assert!(single.exact > 0.9 && single.each > 0.9, "{} reads each", single.each);
    // In `buddy`, an object lies beside others of its length, not of its page.
    assert!(buddy.bytes < 0.25 * stream.bytes, "{} bytes a read", buddy.bytes);
}

#[test]
fn flash_reads_exactly_in_slots_too() {
    println!("flash, auto, single objects:");
    let load = singles_of_flash();
    let layouts = [LayoutName::Cluster].into_iter().chain(SLOTTED);
    for shape in layouts.map(|layout| shape(DriveName::Flash, Load { layout, ..load })) {
        assert!(shape.exact > 0.9 && shape.each > 0.9, "{} reads each", shape.each);
        assert!(shape.bytes < 12.0 * 1024.0, "{} bytes a read", shape.bytes);
    }
}

/// Stored objects wait in memory for a place. If memory is smaller than the waiting objects and no
/// cluster is free for a moment, no search for an object to evict may run forever.
#[test]
fn memory_smaller_than_what_waits_for_a_place_stops_nothing() {
    let executor = Executor::new(Some(1), 1_000_000_000);
    let handle = executor.handle();
    let len = Some(32 << 20);
    let sim_options = sim::Options { len, power_loss: false, ..Default::default() };
    let disk = SimDisk::new(handle.clone(), DriveName::Atlas.drive(), sim_options);
    executor.run(async move {
        let format = FormatOptions {
            cluster_size: Some(1 << 20),
            labels: false,
            ..FormatOptions::default()
        };
        store::format_with_seed(&disk, &format, [7; 48], 0).await.unwrap();
        // Two clusters may wait to be written, one of them a batch; the tier has 32 KiB.
        let options = Options { memory: 256 << 10, ..Options::default() };
        let store = open(&disk, &handle, options).await;
        let clients = (0..16).map(|client| {
            let store = store.clone();
            handle.spawn(async move {
                for page in (client..2_000).step_by(16) {
                    insert(&store, page, 0).await;
                }
            })
        });
        for client in clients.collect::<Vec<_>>() {
            client.await;
        }
        let counters = store.stats()[0].counters;
        assert_eq!(counters.insertions, 2_000);
        assert!(store.shutdown().await, "the cache is written");
    });
}
