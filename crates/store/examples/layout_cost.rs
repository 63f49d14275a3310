//! What each layout costs: processor time per operation, memory per object, requests and bytes to
//! the device, how long a start takes; and how much of a web-like load it keeps.
//!
//! `cargo run --release -p store --example layout_cost -- [--objects N] [--layout NAME[:PACKET]]`
//! `… -- --web FILE [--objects N] [--layout NAME[:PACKET]]`
//!
//! Without `--web` the device is one whose bodies are not stored (`support/elided.rs`): a cache of
//! 10 million objects of 12 KB in the mean takes some 4 GB of memory. Its own processor time is
//! taken off. Objects are as large as those of the web (lognormal, median 3.3 KB, mean 12 KB), the
//! index has room for N. The cache is filled, read and emptied a little, stopped in order and
//! started, killed and started.
//!
//! With `--web` the cache is on FILE (created, removed in the end) and has room for a tenth of the
//! bytes of N objects, which are asked for by Zipf's law with exponent 0.9; what misses is stored.
//! The second half of 2 N requests counts.
//!
//! PACKET is in bytes (`Options::packet`), 0: none. Without `--layout` all are measured, one after
//! another.

#![allow(missing_docs, clippy::print_stdout, clippy::unwrap_used)]
// A benchmark reads the clock; the crate's ban is for the engine.
#![allow(clippy::disallowed_methods)]

mod support;

use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use device::Device;
use store::{FormatOptions, Hint, Key, LayoutName, Locality, Lookup, Options, Stats, Store};
use support::elided::{Asked, ElidedDevice, FILLER};
use support::{TokioClock, processor_seconds};
use tokio::task::LocalSet;

type Cache<D> = Store<D, TokioClock>;

/// Bytes of body, metadata and key of an object in the mean.
const MEAN_OBJECT: u32 = 12 << 10;
const META_LEN: usize = 200;
/// Bytes of the largest body.
const BODY_MAX: usize = 1 << 20;
/// Operations timed at a time, but for insertions.
const LOOKUPS: usize = 100_000;
/// Exponent of Zipf's law.
const ZIPF: f64 = 0.9;

/// A layout to be measured.
#[derive(Clone, Copy)]
struct Arm {
    layout: LayoutName,
    packet: Option<u32>,
}

impl Arm {
    const ALL: [Arm; 6] = [
        Arm { layout: LayoutName::Cluster, packet: None },
        Arm { layout: LayoutName::Stream, packet: Some(256 << 10) },
        Arm { layout: LayoutName::Stream, packet: Some(0) },
        Arm { layout: LayoutName::Unified, packet: Some(256 << 10) },
        Arm { layout: LayoutName::Unified, packet: Some(0) },
        Arm { layout: LayoutName::Buddy, packet: Some(0) },
    ];

    fn parse(text: &str) -> Arm {
        let (name, packet) = text.split_once(':').map_or((text, None), |(n, p)| (n, Some(p)));
        let layout = LayoutName::from_name(name)
            .unwrap_or_else(|| panic!("--layout: one of {:?}, got {name}", LayoutName::NAMES));
        let packet = packet.map(|bytes| bytes.parse().expect("--layout: a packet in bytes"));
        Arm { layout, packet }
    }

    fn name(self) -> String {
        match self.packet {
            None => self.layout.to_string(),
            Some(packet) => format!("{}:{}", self.layout, packet),
        }
    }

    fn format(self, objects: usize) -> FormatOptions {
        let mut format = FormatOptions { layout: self.layout, ..FormatOptions::default() };
        format.mean_object = MEAN_OBJECT;
        format.index.entries = Some(objects as u64);
        format
    }

    fn options(self, objects: usize) -> Options {
        let mut options = Options::default();
        options.packet = self.packet.unwrap_or(options.packet);
        options.index.entries = Some(objects as u64);
        let tables = match self.layout {
            LayoutName::Cluster => 12,
            _ => 100,
        };
        options.memory = (128 << 20) + objects as u64 * tables;
        options
    }
}

fn key(number: usize) -> Key {
    let url = format!("f http://site{}.example/path/object-{number}", number % 1000);
    let locality = Locality { site: number as u64 % 1000, group: number as u64 % 10_000 };
    Key::new(url.into(), locality).unwrap()
}

/// Bytes of the body of an object: lognormal, the same for a number every time.
fn body_len(number: usize) -> usize {
    let mut random = fastrand::Rng::with_seed(number as u64);
    let radius = (-2.0 * (1.0 - random.f64()).ln()).sqrt();
    let normal = radius * (std::f64::consts::TAU * random.f64()).cos();
    ((3300.0 * (1.61 * normal).exp()) as usize).clamp(100, BODY_MAX)
}

/// All bodies are parts of this one.
fn filler() -> Bytes {
    Bytes::from(vec![FILLER; BODY_MAX])
}

/// Stores an object; false when it was refused.
async fn insert<D: Device>(cache: &Cache<D>, number: usize, filler: &Bytes) -> bool {
    let key = key(number);
    let token = cache.begin_fetch(&key);
    let body = filler.slice(..body_len(number));
    let hint = Hint { size: Some(body.len() as u64), ..Hint::default() };
    let Ok(mut writer) = cache.insert(&token, &key, filler.slice(..META_LEN), hint).await else {
        return false;
    };
    writer.write(body).await.is_ok() && writer.commit().await.is_ok()
}

/// Looks an object up and reads all of it; false when it is not there.
async fn look_up<D: Device>(cache: &Cache<D>, number: usize) -> bool {
    let Lookup::Hit(entry) = cache.lookup(&key(number)).await else { return false };
    if entry.whole().is_some() {
        return true;
    }
    let mut body = entry.body(0..entry.len());
    while let Some(part) = body.next().await {
        if part.is_err() {
            return false;
        }
    }
    true
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

impl<'a> Timed<'a> {
    fn begin(device: &'a ElidedDevice) -> Timed<'a> {
        Timed { device, asked: device.asked(), processor: processor_seconds() }
    }

    fn end(self, arm: Arm, what: &str, count: usize) {
        let processor = processor_seconds() - self.processor;
        let (before, now) = (self.asked, self.device.asked());
        let each = |total: u64| total as f64 / count as f64;
        println!(
            "{:14} {what:12} {:8.2} µs each; {:.3} reads of {:.0} B, {:.4} writes, {:.0} B written",
            arm.name(),
            (processor - (now.seconds - before.seconds)) * 1e6 / count as f64,
            each(now.reads - before.reads),
            (now.read_bytes - before.read_bytes) as f64 / (now.reads - before.reads).max(1) as f64,
            each(now.writes - before.writes),
            each(now.written_bytes - before.written_bytes),
        );
    }
}

fn tell_memory(arm: Arm, stats: &Stats, objects: usize) {
    let (index, tables) = (stats.index_bytes as f64, stats.cluster_table_bytes as f64);
    let entries = stats.index_entries as f64;
    println!(
        "{:14} memory       {} records of {objects} objects; a record: index {:.2} B at {:.0}% \
         load ({:.2} at 90%), tables {:.2} B",
        arm.name(),
        stats.index_entries,
        index / entries,
        stats.index_load * 100.0,
        index / entries * stats.index_load / 0.9,
        tables / entries,
    );
}

/// Fills, reads, removes.
async fn operations(cache: &Cache<ElidedDevice>, device: &ElidedDevice, arm: Arm, objects: usize) {
    let filler = filler();
    let timed = Timed::begin(device);
    let mut stored = 0;
    for number in 0..objects {
        stored += usize::from(insert(cache, number, &filler).await);
        if number % 64 == 0 {
            tokio::task::yield_now().await;
        }
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    timed.end(arm, "insert", objects);
    let counters = cache.stats()[0].counters;
    let payload = counters.inserted_bytes as f64;
    println!(
        "{:14} stored       {stored}, {:.0} B each, {:.4} B written per byte; {} evicted, {} \
         displaced, {:?}",
        arm.name(),
        payload / objects as f64,
        device.asked().written_bytes as f64 / payload,
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
    timed.end(arm, "hit, memory", LOOKUPS);

    let mut random = fastrand::Rng::with_seed(1);
    let timed = Timed::begin(device);
    let mut hits = 0;
    for _ in 0..LOOKUPS {
        hits += usize::from(look_up(cache, random.usize(..objects)).await);
    }
    timed.end(arm, "hit, device", LOOKUPS);
    println!("{:14}              {hits} hits of {LOOKUPS}", arm.name());

    let timed = Timed::begin(device);
    let removals = LOOKUPS.min(objects / 20);
    let mut removed = 0;
    for number in 0..removals {
        removed += usize::from(cache.remove(&key(number * 10)).await);
    }
    timed.end(arm, "remove", removals);
    println!("{:14}              {removed} of {removals} were there", arm.name());
}

/// Starts a filled cache and times it.
async fn start(
    cache: &Cache<ElidedDevice>,
    started: Instant,
    arm: Arm,
    objects: usize,
    what: &str,
) {
    let mut random = fastrand::Rng::with_seed(2);
    while !look_up(cache, random.usize(..objects)).await {
        tokio::task::yield_now().await;
    }
    let first = started.elapsed().as_secs_f64();
    while cache.stats()[0].recovering {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    println!(
        "{:14} {what:12} first hit after {first:.3} s, whole after {:.3} s, {} records",
        arm.name(),
        started.elapsed().as_secs_f64(),
        cache.stats()[0].index_entries,
    );
}

fn filled(arm: Arm, objects: usize) {
    let size = (objects as u64 * u64::from(MEAN_OBJECT)) * 8 / 5 + (256 << 20);
    let device = Rc::new(ElidedDevice::new(size));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    // What is stored in pieces has more than one record.
    let records = objects * 21 / 20;
    let format = arm.format(records);
    runtime.block_on(store::format(&*device, &format, [7; 48], 0)).unwrap();
    let options = arm.options(records);
    life(&device, &options, true, async |cache, _| {
        operations(cache, &device, arm, objects).await;
    });
    for (what, orderly) in [("stopped", false), ("killed", false)] {
        let (before, processor) = (device.asked(), processor_seconds());
        life(&device, &options, orderly, async |cache, started| {
            start(cache, started, arm, objects, what).await;
        });
        let now = device.asked();
        println!(
            "{:14}              {:.3} s of processor, {:.3} s of it the device's, {:.2}% of it \
             read",
            arm.name(),
            processor_seconds() - processor,
            now.seconds - before.seconds,
            (now.read_bytes - before.read_bytes) as f64 * 100.0 / size as f64,
        );
    }
}

/// Eviction in the steady state: three times as many objects as there is room for.
fn evicting(arm: Arm, objects: usize) {
    let size = objects as u64 * u64::from(MEAN_OBJECT);
    let device = Rc::new(ElidedDevice::new(size));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let records = objects * 11 / 10;
    runtime.block_on(store::format(&*device, &arm.format(records), [7; 48], 0)).unwrap();
    life(&device, &arm.options(records), true, async |cache, _| {
        let filler = filler();
        let mut refused = 0;
        let mut timed = None;
        for number in 0..3 * objects {
            if number == 2 * objects {
                timed = Some(Timed::begin(&device));
            }
            refused += usize::from(!insert(cache, number, &filler).await);
            if number % 64 == 0 {
                tokio::task::yield_now().await;
            }
        }
        if let Some(timed) = timed {
            timed.end(arm, "evict+insert", objects);
        }
        let stats = &cache.stats()[0];
        println!(
            "{:14}              {refused} refused of {}, {} evicted, {} records are left, {:?}",
            arm.name(),
            3 * objects,
            stats.counters.evicted_records,
            stats.index_entries,
            stats.slots.map(|slots| (slots.free_pieces, slots.split_records, slots.split_runs)),
        );
    });
}

/// Numbers by Zipf's law, the most popular being 0.
struct Zipf {
    sums: Vec<f64>,
    random: fastrand::Rng,
}

impl Zipf {
    fn new(objects: usize) -> Zipf {
        let mut sum = 0.0;
        let weights = (1..=objects).map(|rank| (rank as f64).powf(-ZIPF));
        let sums = weights.map(|weight| {
            sum += weight;
            sum
        });
        Zipf { sums: sums.collect(), random: fastrand::Rng::with_seed(3) }
    }

    fn draw(&mut self) -> usize {
        let at = self.random.f64() * self.sums.last().unwrap();
        self.sums.partition_point(|sum| *sum <= at).min(self.sums.len() - 1)
    }
}

/// A web-like load on a real file.
async fn web(path: &Path, arm: Arm, objects: usize) {
    let _ = std::fs::remove_file(path);
    let size = objects as u64 * u64::from(MEAN_OBJECT) / 10;
    let records = objects / 5;
    let options = Options { memory: 64 << 20, ..arm.options(records) };
    let (cache, device) = support::open(path, size, &arm.format(records), options).await;
    let (filler, mut zipf) = (filler(), Zipf::new(objects));
    let [mut hits, mut stores, mut bytes, mut hit_bytes, mut refused] = [0_usize; 5];
    let mut before = (processor_seconds(), Instant::now(), device.counters().snapshot());
    let mut counters = cache.stats()[0].counters;
    for turn in 0..2 * objects {
        if turn == objects {
            before = (processor_seconds(), Instant::now(), device.counters().snapshot());
            counters = cache.stats()[0].counters;
            [hits, stores, bytes, hit_bytes, refused] = [0; 5];
        }
        let number = zipf.draw();
        bytes += body_len(number);
        if look_up(&cache, number).await {
            hits += 1;
            hit_bytes += body_len(number);
        } else if insert(&cache, number, &filler).await {
            stores += 1;
        } else {
            refused += 1;
        }
    }
    let (wall, now) = (before.1.elapsed().as_secs_f64(), device.counters().snapshot());
    let processor = processor_seconds() - before.0;
    let stats = &cache.stats()[0];
    let stored = stats.counters.inserted_bytes - counters.inserted_bytes;
    println!(
        "{:14} hits {:.2}% (bytes {:.2}%, from memory {:.2}%), {:.0} gets/s, {:.1} µs of \
         processor each",
        arm.name(),
        hits as f64 * 100.0 / objects as f64,
        hit_bytes as f64 * 100.0 / bytes as f64,
        (stats.counters.memory_hits - counters.memory_hits) as f64 * 100.0 / objects as f64,
        objects as f64 / wall,
        processor * 1e6 / objects as f64,
    );
    println!(
        "{:14} per object stored: {:.4} writes, {:.4} B written per byte; reads per get {:.3}; \
         {refused} refused, {} records",
        "",
        (now.writes - before.2.writes) as f64 / stores as f64,
        (now.bytes_written - before.2.bytes_written) as f64 / stored as f64,
        (now.reads - before.2.reads) as f64 / objects as f64,
        stats.index_entries,
    );
    cache.shutdown().await;
    std::fs::remove_file(path).unwrap();
}

fn main() {
    let (mut objects, mut arms, mut file) = (1_000_000, Arm::ALL.to_vec(), None);
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let value = arguments.next().unwrap_or_else(|| panic!("{name} wants a value"));
        match name.as_str() {
            "--objects" => objects = value.parse().expect("--objects: a number"),
            "--layout" => arms = vec![Arm::parse(&value)],
            "--web" => file = Some(value),
            _ => panic!("expected --objects, --layout or --web, got {name}"),
        }
    }
    assert!(objects >= 1000, "--objects: 1000 at least");
    for arm in arms {
        match &file {
            Some(file) => {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                LocalSet::new().block_on(&runtime.unwrap(), web(Path::new(file), arm, objects));
            }
            None => {
                filled(arm, objects);
                evicting(arm, objects.min(100_000));
            }
        }
    }
}
