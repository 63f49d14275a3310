//! Cost of the engine alone, without HTTP: CPU per insertion, per hit from memory and per hit
//! from the device, on a real file.
//!
//! `cargo bench -p larder-store --bench engine_speed -- DIRECTORY [BODY_BYTES [ARM [UNIT
//! [TIER]]]]`
//!
//! ARM is a preset or a layout (`support/arm.rs`). The read unit is object, cluster or auto, or the
//! preset's. TIER, all or second-use, is what enters memory when it is read. Lookups come at
//! random, or page by page: objects that were stored together, one after another.

#![allow(missing_docs, clippy::print_stdout, clippy::unwrap_used)]
// A benchmark reads the clock; the crate's ban is for the engine.
#![allow(clippy::disallowed_methods)]

mod support;

use std::path::Path;
use std::time::{Duration, Instant};

use bytes::Bytes;
use larder_store::{FormatOptions, Key, Locality, Lookup, Options, ReadUnit};
use support::arm::Arm;
use support::{Engine, objects, process_seconds};
use tokio::task::{JoinSet, LocalSet};

fn key(number: usize) -> Key {
    let url = format!("f http://site{}.example/path/object-{number}", number % 100);
    Key::new(url.into(), Locality { site: number as u64 % 100, group: number as u64 % 1000 })
        .unwrap()
}

async fn insert(store: &Engine, number: usize, body: Bytes) {
    let meta = Bytes::from_static(&[7; 300]);
    assert!(objects::store(store, &key(number), meta, body).await, "object {number} is stored");
}

/// A load of lookups.
#[derive(Clone, Copy)]
struct Load {
    /// How many are under way at a time.
    width: usize,
    /// Objects to choose from.
    of: usize,
    /// Objects asked for in the order in which they were stored before the next random one.
    page: usize,
}

/// Looks `count` objects up; says how many hit.
async fn look_up(store: &Engine, count: usize, load: Load) -> usize {
    let Load { width, of, page } = load;
    let mut tasks = JoinSet::new();
    for lane in 0..width {
        let store = store.clone();
        tasks.spawn_local(async move {
            let (mut hits, mut at) = (0, lane * 7919);
            for turn in 0..count / width {
                at = if turn % page == 0 { (at + 104_729) % of } else { (at + 1) % of };
                if let Lookup::Hit(entry) = store.lookup(&key(at)).await {
                    hits += usize::from(entry.whole().is_some());
                }
            }
            hits
        });
    }
    let mut hits = 0;
    while let Some(lane) = tasks.join_next().await {
        hits += lane.unwrap();
    }
    hits
}

fn report(what: &str, count: usize, cpu_before: f64, started: Instant) {
    let (cpu, wall) = (process_seconds() - cpu_before, started.elapsed().as_secs_f64());
    println!(
        "{what:32} {:8.2} µs CPU each, {:9.0} per second",
        cpu * 1e6 / count as f64,
        count as f64 / wall
    );
}

async fn run(directory: &Path, body_len: usize, format: FormatOptions, options: Options) {
    let path = directory.join("engine_speed.larder");
    let _ = std::fs::remove_file(&path);
    let (store, device) = support::open(&path, 10 << 30, &format, options).await;

    let count = 100_000;
    let body = Bytes::from(vec![42; body_len]);
    let (before, started) = (process_seconds(), Instant::now());
    for number in 0..count {
        insert(&store, number, body.clone()).await;
    }
    report("insert", count, before, started);
    tokio::time::sleep(Duration::from_secs(2)).await;
    let device_loads = [(1, 1), (32, 1), (1, 10), (32, 10)].map(|(width, page)| {
        (format!("{width} at a time, pages of {page}"), Load { width, of: count, page })
    });
    let memory = ("from memory".to_owned(), Load { width: 1, of: 1000, page: 1 });
    for (what, load) in [memory].into_iter().chain(device_loads) {
        look_up(&store, 2000, load).await;
        let (before, started, reads) =
            (process_seconds(), Instant::now(), device.counters().snapshot());
        let hits = look_up(&store, count, load).await;
        report(&format!("hit, {what}"), count, before, started);
        let reads = device.counters().snapshot().reads - reads.reads;
        println!("{:32} {hits} hits, {:.2} reads each", "", reads as f64 / count as f64);
    }
    let stats = store.stats()[0];
    let places = stats.index_entries as f64 / stats.index_load;
    println!(
        "index: {:.2} bytes per object at 90% load, {:.2} at 95%",
        stats.index_bytes as f64 / (0.9 * places),
        stats.index_bytes as f64 / (0.95 * places)
    );
    println!("{:#?}", stats.counters);
    println!("{:?} {:?}", store.stats()[0].reads, store.stats()[0].read_cost);
    println!("{:?}", device.counters());
    store.shutdown().await;
    std::fs::remove_file(&path).unwrap();
}

fn main() {
    let mut arguments = std::env::args().skip(1).filter(|word| word != "--bench");
    let directory = arguments.next().expect("usage: engine_speed DIRECTORY [BODY_BYTES]");
    let body_len = arguments.next().map_or(3000, |bytes| bytes.parse().expect("a number"));
    let arms = Arm::list(&arguments.next().unwrap_or_else(|| "larder".to_owned()));
    let [arm] = &arms[..] else { panic!("one arm at a time") };
    let records = (10 << 30) / 3000;
    let mut options = arm.options(records, 256 << 20);
    options.read_unit = match arguments.next().as_deref() {
        None => options.read_unit,
        Some("auto") => ReadUnit::Auto,
        Some("object") => ReadUnit::Object,
        Some("cluster") => ReadUnit::Cluster,
        Some(other) => panic!("expected object, cluster or auto, got {other}"),
    };
    options.tier_admission = match arguments.next().as_deref() {
        None => options.tier_admission,
        Some(name) => support::tier_admission(name),
    };
    let format = FormatOptions { mean_object: Some(3000), ..arm.format(records) };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    LocalSet::new().block_on(&runtime, run(Path::new(&directory), body_len, format, options));
}
