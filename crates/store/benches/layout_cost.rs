//! What each layout costs: processor time per operation, memory per object, requests and bytes to
//! the device, how long a start takes.
//!
//! `cargo bench -p larder-store --bench layout_cost -- [--objects N,…] [--arms ARM,…]
//! [--out DIRECTORY] [--body BYTES]`
//! `… -- --draw DIRECTORY`
//!
//! The device is one whose bodies are not stored (`support/elided.rs`): a cache of 10 million
//! objects of 12 KB in the mean takes some 4 GB of memory. Its own processor time is taken off.
//! Objects are as large as those of the web, the index has room for N. The cache is filled, read
//! and emptied a little, stopped in order and started, killed and started. Then a smaller one is
//! filled three times over.
//!
//! With `--body` every body has so many bytes and the device forgets them: then the cache is just
//! filled, and its memory told, on a device as large as for objects of 12 KB.
//!
//! With `--out` the figures go to `layout-cost.csv` and `recovery-cost.csv` in DIRECTORY, behind
//! those that are there; `--draw` draws the starts found there as `recovery-cost.svg`. An arm is
//! written as `support/arm.rs` says.

#![allow(missing_docs, clippy::print_stdout, clippy::unwrap_used)]
// A benchmark reads the clock; the crate's ban is for the engine.
#![allow(clippy::disallowed_methods)]

mod support;

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

use device::Device;
use larder_store::{Options, Stats, Store};
use support::arm::{Arm, MEAN_OBJECT};
use support::elided::{Asked, ElidedDevice};
use support::objects::{Cache, body_len, filler, insert, look_up};
use support::recovery::{self, Start};
use support::{TokioClock, processor_seconds};
use tokio::task::LocalSet;

/// Operations timed at a time, but for insertions.
const LOOKUPS: usize = 100_000;
/// Lookups between two turns of the recovery.
const LOOKUPS_PER_TURN: usize = 1000;
/// Memory beside the tables, bytes.
const MEMORY: u64 = 128 << 20;

const HEADER: &str = "arm,objects,insert_us,memory_hit_us,device_hit_us,remove_us,\
evicting_insert_us,writes_per_object,written_per_byte,evicting_writes_per_object,\
evicting_written_per_byte,index_bytes_per_record,index_load,table_bytes_per_record";

/// Figures of one arm in the order of [`HEADER`].
#[derive(Default)]
struct Row(Vec<String>);

impl Row {
    fn push(&mut self, figure: f64) {
        self.0.push(format!("{figure:.4}"));
    }

    fn write(&self, directory: &Path) {
        let path = directory.join("layout-cost.csv");
        let mut file = OpenOptions::new().append(true).create(true).open(path).unwrap();
        if file.metadata().unwrap().len() == 0 {
            writeln!(file, "{HEADER}").unwrap();
        }
        writeln!(file, "{}", self.0.join(",")).unwrap();
    }
}

/// One life of the cache on a device: opened, used by `body`, and left in order or not.
fn life<D: Device, T>(
    device: &Rc<D>,
    options: &Options,
    orderly: bool,
    body: impl AsyncFnOnce(&Cache<D>, Instant) -> T,
) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    LocalSet::new().block_on(&runtime, async {
        let started = Instant::now();
        let devices = vec![Rc::clone(device)];
        let cache = Store::open(devices, TokioClock::new(), options.clone()).await.unwrap();
        let background = cache.clone();
        tokio::task::spawn_local(async move { background.run_background().await });
        let value = body(&cache, started).await;
        if orderly {
            assert!(cache.shutdown().await, "the cache stopped in order");
        }
        value
    })
}

/// Times what is done between its making and [`Timed::end`], without the device's own time.
struct Timed<'a> {
    device: &'a ElidedDevice,
    asked: Asked,
    processor: f64,
}

/// What was done, for each operation.
struct Each {
    microseconds: f64,
    writes: f64,
    written_bytes: f64,
}

impl<'a> Timed<'a> {
    fn begin(device: &'a ElidedDevice) -> Timed<'a> {
        Timed { device, asked: device.asked(), processor: processor_seconds() }
    }

    fn end(self, arm: &Arm, what: &str, count: usize) -> Each {
        let processor = processor_seconds() - self.processor;
        let (before, now) = (self.asked, self.device.asked());
        let each = |total: u64| total as f64 / count as f64;
        let done = Each {
            microseconds: (processor - (now.seconds - before.seconds)) * 1e6 / count as f64,
            writes: each(now.writes - before.writes),
            written_bytes: each(now.written_bytes - before.written_bytes),
        };
        println!(
            "{arm:14} {what:12} {:8.2} µs each; {:.3} reads of {:.0} B, {:.4} writes, {:.0} B \
             written",
            done.microseconds,
            each(now.reads - before.reads),
            (now.read_bytes - before.read_bytes) as f64 / (now.reads - before.reads).max(1) as f64,
            done.writes,
            done.written_bytes,
        );
        done
    }
}

fn tell_memory(arm: &Arm, stats: &Stats, objects: usize) {
    let (index, tables) = (stats.index_bytes as f64, stats.cluster_table_bytes as f64);
    let entries = stats.index_entries as f64;
    println!(
        "{arm:14} memory       {} records of {objects} objects; a record: index {:.2} B at {:.0}% \
         load ({:.2} at 90%), tables {:.2} B",
        stats.index_entries,
        index / entries,
        stats.index_load * 100.0,
        index / entries * stats.index_load / 0.9,
        tables / entries,
    );
}

/// Stores objects with these numbers, of `body` bytes or as the web's; says how many were.
async fn fill<D: Device>(
    cache: &Cache<D>,
    numbers: std::ops::Range<usize>,
    body: Option<usize>,
) -> usize {
    let filler = filler();
    let mut stored = 0;
    for number in numbers {
        let len = body.unwrap_or_else(|| body_len(number));
        stored += usize::from(insert(cache, number, len, &filler).await);
        if number % 64 == 0 {
            tokio::task::yield_now().await;
        }
    }
    stored
}

/// Fills, reads, removes.
async fn operations(
    cache: &Cache<ElidedDevice>,
    device: &ElidedDevice,
    arm: &Arm,
    objects: usize,
) -> (Each, [f64; 3]) {
    let timed = Timed::begin(device);
    let stored = fill(cache, 0..objects, None).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let mut insertion = timed.end(arm, "insert", objects);
    let counters = cache.stats()[0].counters;
    insertion.written_bytes *= objects as f64 / counters.inserted_bytes as f64;
    println!(
        "{arm:14} stored       {stored}, {:.0} B each, {:.4} B written per byte; {} evicted, {} \
         displaced, {:?}",
        counters.inserted_bytes as f64 / objects as f64,
        insertion.written_bytes,
        counters.evicted_records,
        counters.index_displaced,
        cache.stats()[0].slots.map(|slots| (slots.split_records, slots.page_reads)),
    );
    tell_memory(arm, &cache.stats()[0], objects);

    let recent = objects.min(500);
    for number in objects - recent..objects {
        look_up(cache, number).await;
    }
    let timed = Timed::begin(device);
    for turn in 0..LOOKUPS {
        look_up(cache, objects - 1 - turn % recent).await;
    }
    let memory_hit = timed.end(arm, "hit, memory", LOOKUPS).microseconds;

    let mut random = fastrand::Rng::with_seed(1);
    let timed = Timed::begin(device);
    let mut hits = 0;
    for _ in 0..LOOKUPS {
        hits += usize::from(look_up(cache, random.usize(..objects)).await);
    }
    let device_hit = timed.end(arm, "hit, device", LOOKUPS).microseconds;
    println!("{arm:14}              {hits} hits of {LOOKUPS}");

    let timed = Timed::begin(device);
    let removals = LOOKUPS.min(objects / 20);
    let mut removed = 0;
    for number in 0..removals {
        removed += usize::from(cache.remove(&support::objects::key(number * 10)).await);
    }
    let removal = timed.end(arm, "remove", removals).microseconds;
    println!("{arm:14}              {removed} of {removals} were there");
    (insertion, [memory_hit, device_hit, removal])
}

/// Starts a filled cache and times it; the seconds to the first hit and to the whole index.
async fn start(cache: &Cache<ElidedDevice>, started: Instant, objects: usize) -> (f64, f64) {
    let mut random = fastrand::Rng::with_seed(2);
    let mut turns = 0;
    while !look_up(cache, random.usize(..objects)).await {
        turns += 1;
        if turns % LOOKUPS_PER_TURN == 0 {
            tokio::task::yield_now().await;
        }
    }
    let first = started.elapsed().as_secs_f64();
    while cache.stats()[0].recovering {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    (first, started.elapsed().as_secs_f64())
}

fn filled(arm: &Arm, objects: usize, directory: Option<&Path>) -> (Each, [f64; 3], Stats) {
    let size = (objects as u64 * u64::from(MEAN_OBJECT)) * 8 / 5 + (256 << 20);
    let device = Rc::new(ElidedDevice::new(size));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    // What is stored in pieces has more than one record.
    let records = objects * 21 / 20;
    runtime
        .block_on(larder_store::format_with_seed(&*device, &arm.format(records), [7; 48], 0))
        .unwrap();
    let options = arm.options(records, MEMORY + arm.tables(records));
    let (insertion, others, stats) = life(&device, &options, true, async |cache, _| {
        let (insertion, others) = operations(cache, &device, arm, objects).await;
        (insertion, others, cache.stats()[0])
    });
    for after in ["stop", "kill"] {
        let (before, processor) = (device.asked(), processor_seconds());
        let (first_hit, whole) = life(&device, &options, false, async |cache, started| {
            start(cache, started, objects).await
        });
        let now = device.asked();
        let start = Start {
            layout: arm.to_string(),
            objects: objects as u64,
            after: after.to_owned(),
            first_hit,
            whole,
            processor: processor_seconds() - processor - (now.seconds - before.seconds),
            percent_read: (now.read_bytes - before.read_bytes) as f64 * 100.0 / size as f64,
        };
        start.tell(directory);
    }
    (insertion, others, stats)
}

/// Eviction in the steady state: three times as many objects as there is room for.
fn evicting(arm: &Arm, objects: usize) -> Each {
    let size = objects as u64 * u64::from(MEAN_OBJECT);
    let device = Rc::new(ElidedDevice::new(size));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let records = objects * 11 / 10;
    runtime
        .block_on(larder_store::format_with_seed(&*device, &arm.format(records), [7; 48], 0))
        .unwrap();
    let options = arm.options(records, MEMORY + arm.tables(records));
    life(&device, &options, true, async |cache, _| {
        let mut stored = fill(cache, 0..2 * objects, None).await;
        let before = cache.stats()[0].counters.inserted_bytes;
        let timed = Timed::begin(&device);
        stored += fill(cache, 2 * objects..3 * objects, None).await;
        let mut each = timed.end(arm, "evict+insert", objects);
        let stats = &cache.stats()[0];
        each.written_bytes *= objects as f64 / (stats.counters.inserted_bytes - before) as f64;
        println!(
            "{arm:14}              {} refused of {}, {} evicted, {} records are left, {:?}",
            3 * objects - stored,
            3 * objects,
            stats.counters.evicted_records,
            stats.index_entries,
            stats.slots.map(|slots| (slots.free_pieces, slots.split_records, slots.split_runs)),
        );
        each
    })
}

fn measure(arm: &Arm, objects: usize, directory: Option<&Path>) {
    let (insertion, others, stats) = filled(arm, objects, directory);
    let eviction = evicting(arm, objects.min(100_000));
    let mut row = Row(vec![arm.to_string(), objects.to_string()]);
    row.push(insertion.microseconds);
    others.into_iter().for_each(|microseconds| row.push(microseconds));
    row.push(eviction.microseconds);
    for each in [insertion, eviction] {
        row.push(each.writes);
        row.push(each.written_bytes);
    }
    row.push(stats.index_bytes as f64 / stats.index_entries as f64);
    row.push(stats.index_load);
    row.push(stats.cluster_table_bytes as f64 / stats.index_entries as f64);
    if let Some(directory) = directory {
        row.write(directory);
    }
}

/// Fills a cache with bodies of `body` bytes and tells its memory.
fn memory(arm: &Arm, objects: usize, body: usize) {
    let size = (objects as u64 * u64::from(MEAN_OBJECT)) * 11 / 10 + (1 << 30);
    // As far as where records begin.
    let device = Rc::new(ElidedDevice::forgetful(size, 64 << 20));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let records = objects * 100 / 99;
    runtime
        .block_on(larder_store::format_with_seed(&*device, &arm.format(records), [7; 48], 0))
        .unwrap();
    let options = arm.options(records, MEMORY + arm.tables(records));
    life(&device, &options, false, async |cache, _| {
        let timed = Timed::begin(&device);
        fill(cache, 0..objects, Some(body)).await;
        timed.end(arm, "insert", objects);
        tell_memory(arm, &cache.stats()[0], objects);
    });
    println!("{arm:14} {:.2} GB of memory at most", support::peak_bytes() as f64 / 1e9);
}

fn main() {
    let (mut objects, mut directory, mut body) = (vec![1_000_000], None, None);
    let mut arms = Arm::list("cluster,stream,stream:0,unified,unified:0,buddy,buddy:0");
    let mut arguments = std::env::args().skip(1).filter(|word| word != "--bench");
    while let Some(name) = arguments.next() {
        let value = arguments.next().unwrap_or_else(|| panic!("{name} wants a value"));
        match name.as_str() {
            "--objects" => {
                objects = value.split(',').map(|n| n.parse().expect("--objects: numbers")).collect()
            }
            "--arms" => arms = Arm::list(&value),
            "--out" => directory = Some(PathBuf::from(value)),
            "--body" => body = Some(value.parse().expect("--body: bytes")),
            "--draw" => return recovery::draw(Path::new(&value)),
            _ => panic!("expected --objects, --arms, --out, --body or --draw, got {name}"),
        }
    }
    for objects in objects {
        assert!(objects >= 1000, "--objects: 1000 at least");
        for arm in &arms {
            match body {
                Some(body) => memory(arm, objects, body),
                None => measure(arm, objects, directory.as_deref()),
            }
        }
    }
}
