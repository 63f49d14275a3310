//! What the read units are worth on a real device, as it is and slowed by the kernel.
//!
//! `cargo run --release -p store --example read_unit -- DIRECTORY [SECONDS]`
//!
//! A file in DIRECTORY becomes a loop device, a cache on it is filled with pages of ten objects
//! (web-like sizes, several pages arriving at a time), and then lookups run with each read unit
//! over and over: pages asked for by popularity, the parts once their page is there; and single
//! objects at random. First at the device's own speed, then held to 200 reads a second by a control
//! group of the kernel (v1 `blkio`, or v2 `io.max`).
//! Needs root. What is not permitted here is said and skipped. Everything is removed at the end.

#![allow(missing_docs, clippy::print_stdout, clippy::unwrap_used)]
// A benchmark reads the clock; the crate's ban is for the engine.
#![allow(clippy::disallowed_methods)]

mod support;

use std::cell::Cell;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use device::AnyDevice;
use store::{FormatOptions, Key, Locality, Lookup, Options, ReadUnit};
use support::{Engine, objects, on_runtime, process_seconds};
use testbed::loop_device::{Blocks, LoopDevice};
use testbed::throttle::{Limit, Throttle};
use tokio::task::JoinSet;

const CACHE: u64 = 2 << 30;

fn format() -> FormatOptions {
    FormatOptions { mean_object: Some(8192), ..FormatOptions::default() }
}

const PAGES: usize = 12_000;
const PARTS: usize = 10;
const CLIENTS: usize = 32;
/// Pages that arrive at a time when the cache is filled.
const ARRIVING: usize = 8;
const READS_PER_SECOND: u32 = 200;

fn key(page: usize, part: usize) -> Key {
    let url = format!("f http://site{}.example/page-{page}/part-{part}", page % 100);
    let locality = Locality { site: page as u64 % 100, group: page as u64 };
    Key::new(url.into(), locality).unwrap()
}

/// Bytes of a body: median 3 KB, mean some 8 KB; always the same for the same object.
fn body_len(page: usize, part: usize) -> usize {
    let mut random = fastrand::Rng::with_seed((page * PARTS + part) as u64);
    let normal = (0..12).map(|_| random.f64()).sum::<f64>() - 6.0;
    (3000.0 * (1.4 * normal).exp()).clamp(100.0, 100_000.0) as usize
}

async fn insert(store: &Engine, page: usize, part: usize, bytes: &Bytes) {
    let body = bytes.slice(..body_len(page, part));
    let meta = Bytes::from_static(&[7; 300]);
    assert!(objects::store(store, &key(page, part), meta, body).await, "it is stored");
}

/// Fills the cache: `ARRIVING` pages at a time, an object of each in turn.
async fn fill(store: &Engine) {
    let bytes = Bytes::from(vec![42; 100_000]);
    for pages in (0..PAGES).step_by(ARRIVING) {
        for part in 0..PARTS {
            for page in pages..(pages + ARRIVING).min(PAGES) {
                insert(store, page, part, &bytes).await;
            }
        }
    }
}

/// What clients ask for.
#[derive(Clone, Copy)]
enum Load {
    /// A page, then its parts, six at a time; pages by popularity (Zipf, exponent 0.8).
    Pages,
    /// One object, any.
    Singles,
}

/// A page by popularity; which pages are popular has nothing to do with when they came.
fn popular(random: &mut fastrand::Rng) -> usize {
    // The inverse of the distribution's integral.
    let exponent: f64 = 1.0 - 0.8;
    let most = (PAGES as f64).powf(exponent) - 1.0;
    let rank = (1.0 + random.f64() * most).powf(1.0 / exponent) as usize - 1;
    rank.min(PAGES - 1) * 7919 % PAGES
}

/// Counts into `done` when it is there; a device that stalls answers with misses.
async fn look_up(store: &Engine, page: usize, part: usize, done: &Cell<u64>) {
    if let Lookup::Hit(entry) = store.lookup(&key(page, part)).await {
        let whole = entry.whole().expect("objects in one piece");
        assert_eq!(whole.len(), body_len(page, part), "the right body");
        done.set(done.get() + 1);
    }
}

async fn client(store: Engine, load: Load, seed: u64, until: Instant, done: Rc<Cell<u64>>) {
    let mut random = fastrand::Rng::with_seed(seed);
    while Instant::now() < until {
        match load {
            Load::Singles => {
                look_up(&store, random.usize(..PAGES), random.usize(..PARTS), &done).await;
            }
            Load::Pages => {
                let page = popular(&mut random);
                look_up(&store, page, 0, &done).await;
                let mut parts = JoinSet::new();
                let next = Rc::new(Cell::new(1));
                for _ in 0..6 {
                    let (store, next, done) = (store.clone(), Rc::clone(&next), Rc::clone(&done));
                    parts.spawn_local(async move {
                        while next.get() < PARTS {
                            let part = next.replace(next.get() + 1);
                            look_up(&store, page, part, &done).await;
                        }
                    });
                }
                while parts.join_next().await.is_some() {}
            }
        }
    }
}

async fn run(store: &Engine, load: Load, time: Duration, phase: u64) -> u64 {
    let done = Rc::new(Cell::new(0));
    let until = Instant::now() + time;
    let client = |number| {
        let seed = phase * CLIENTS as u64 + number as u64;
        client(store.clone(), load, seed, until, Rc::clone(&done))
    };
    support::side_by_side(CLIENTS, client).await;
    done.get()
}

async fn measure(path: &Path, unit: ReadUnit, load: Load, time: Duration) {
    let options = Options { memory: 64 << 20, read_unit: unit, ..Options::default() };
    let (store, device): (Engine, Rc<AnyDevice>) =
        support::open(path, CACHE, &format(), options).await;
    // Memory fills, the engine learns.
    run(&store, load, time, 0).await;
    let counts = || device.counters().snapshot();
    let (before, cpu_before, started) = (counts(), process_seconds(), Instant::now());
    let stats = store.stats()[0];
    let done = run(&store, load, time, 1).await;
    let seconds = started.elapsed().as_secs_f64();
    let (after, now) = (counts(), store.stats()[0]);
    let reads = (after.reads - before.reads) as f64;
    let prefetched = now.counters.prefetched - stats.counters.prefetched;
    let hits = now.counters.prefetch_hits - stats.counters.prefetch_hits;
    let errors = now.counters.device_errors - stats.counters.device_errors;
    if errors > 0 {
        println!("  {errors} reads failed: the device stalled, misses are not counted");
    }
    println!(
        "  {:8} {:9.0} hits/s {:6.3} reads each {:7.1} KiB a read {:6.1} µs CPU each; \
         prefetched {:4.1}% used, joined {:.3}; a read {:.0} µs + {:.2} ns/B",
        format!("{unit:?}").to_lowercase(),
        done as f64 / seconds,
        reads / done as f64,
        (after.bytes_read - before.bytes_read) as f64 / reads / 1024.0,
        (process_seconds() - cpu_before) * 1e6 / done as f64,
        100.0 * hits as f64 / (prefetched.max(1)) as f64,
        (now.reads.joined - stats.reads.joined) as f64 / done as f64,
        now.read_cost.0.per_operation / 1e3,
        now.read_cost.0.per_byte,
    );
    store.shutdown().await;
}

fn all_units(path: &Path, time: Duration) -> Result<(), String> {
    for (what, load) in
        [("pages by popularity", Load::Pages), ("single objects at random", Load::Singles)]
    {
        println!(" {what}:");
        for unit in [ReadUnit::Object, ReadUnit::Cluster, ReadUnit::Auto] {
            on_runtime(measure(path, unit, load, time))?;
        }
    }
    Ok(())
}

fn all(file: &Path, time: Duration) -> Result<(), String> {
    let disk = LoopDevice::over(file, CACHE, Blocks::Sparse)?;
    on_runtime(async {
        let options = Options { memory: 64 << 20, ..Options::default() };
        let (store, _device) = support::open(disk.path(), CACHE, &format(), options).await;
        fill(&store).await;
        assert!(store.shutdown().await, "the cache is written");
    })?;
    println!(
        "{PAGES} pages of {PARTS} objects, {CLIENTS} clients, 64 MiB of memory, at full speed"
    );
    all_units(disk.path(), time)?;
    let limit = Limit { reads: Some(READS_PER_SECOND), writes: None };
    let _throttle = Throttle::hold(&disk, limit)?;
    println!("held to {READS_PER_SECOND} reads a second");
    all_units(disk.path(), time)
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().expect("usage: read_unit DIRECTORY [SECONDS]");
    let seconds = arguments.next().map_or(15, |seconds| seconds.parse().expect("seconds"));
    let file = Path::new(&directory).join("read_unit.larder");
    if let Err(reason) = all(&file, Duration::from_secs(seconds)) {
        println!("SKIPPED: {reason}");
    }
}
