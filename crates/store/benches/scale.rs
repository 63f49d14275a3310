//! A cache of 100 million objects and 1.2 TB, on a device whose contents are computed from the
//! position: nothing of what was stored before the start is kept anywhere.
//!
//! `cargo bench -p larder-store --bench scale [-- OBJECTS]`
//!
//! The cache looks as if its process had been killed. It is started; objects chosen at random are
//! read and compared byte by byte; others are stored until clusters are evicted for them; then it
//! is stopped in order and started again. What is written after the start is kept
//! (`support/elided.rs`).

#![allow(missing_docs, clippy::print_stdout, clippy::unwrap_used)]
// A benchmark reads the clock; the crate's ban is for the engine.
#![allow(clippy::disallowed_methods)]

mod support;

use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use device::{Device, FrozenBuf, Geometry, IoBuf, SystemClock};
use larder_store::computed::{ComputedClusters, ComputedDevice, RECORD_LEN};
use larder_store::{FormatOptions, Key, Locality, Lookup, Options, Store};
use support::elided::{ElidedDevice, FILLER};
use support::{objects, processor_seconds};
use tokio::task::LocalSet;

/// Bytes of body, metadata and key of an object.
const OBJECT: u64 = RECORD_LEN as u64;
/// Lookups between two turns of the recovery.
const LOOKUPS_PER_TURN: usize = 1000;
/// Objects looked up.
const LOOKUPS: u64 = 100_000;

/// The computed device, its time clocked. A read lets others go on before it ends, as one from a
/// real device would.
struct ClockedDevice {
    device: ComputedDevice<ElidedDevice>,
    /// Reads, bytes and processor seconds of them.
    read: Cell<(u64, u64, f64)>,
}

impl Device for ClockedDevice {
    fn geometry(&self) -> Geometry {
        self.device.geometry()
    }

    async fn read(&self, offset: u64, buf: IoBuf) -> (IoBuf, io::Result<()>) {
        let started = processor_seconds();
        let (buf, result) = self.device.read(offset, buf).await;
        let (reads, bytes, seconds) = self.read.get();
        let seconds = seconds + processor_seconds() - started;
        self.read.set((reads + 1, bytes + buf.len() as u64, seconds));
        support::yield_now().await;
        (buf, result)
    }

    async fn write(&self, offset: u64, buf: FrozenBuf) -> io::Result<()> {
        self.device.write(offset, buf).await
    }

    async fn flush(&self) -> io::Result<()> {
        self.device.flush().await
    }
}

type Cache = objects::Cache<ClockedDevice>;

fn options(objects: u64) -> Options {
    Options { memory: (256 << 20) + objects * 20, ..Options::default() }
}

async fn open(device: &Rc<ClockedDevice>, objects: u64) -> Cache {
    let cache = Store::open(vec![Rc::clone(device)], SystemClock::new(), options(objects));
    let cache = cache.await.unwrap();
    let background = cache.clone();
    tokio::task::spawn_local(async move { background.run_background().await });
    cache
}

/// Opens the cache; says when it answered first and when its index was whole.
async fn start(device: &Rc<ClockedDevice>, objects: u64, after: &str) -> Cache {
    let (started, processor, before) = (Instant::now(), processor_seconds(), device.read.get());
    let cache = open(device, objects).await;
    let filled = device.device.filled();
    let mut random = fastrand::Rng::with_seed(1);
    let mut turns = 0;
    while let Lookup::Miss = cache.lookup(&filled.key(random.u64(..objects))).await {
        turns += 1;
        if turns % LOOKUPS_PER_TURN == 0 {
            tokio::task::yield_now().await;
        }
    }
    let first = started.elapsed().as_secs_f64();
    while cache.stats()[0].recovering {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let now = device.read.get();
    println!(
        "start after a {after}: first hit after {first:.3} s, index whole after {:.3} s; {:.3} s \
         of processor, {:.3}% of the device read",
        started.elapsed().as_secs_f64(),
        processor_seconds() - processor - (now.2 - before.2),
        (now.1 - before.1) as f64 * 100.0 / device.geometry().len as f64,
    );
    tell(&cache);
    cache
}

fn tell(cache: &Cache) {
    let stats = &cache.stats()[0];
    let each = |bytes: usize| bytes as f64 / stats.index_entries as f64;
    println!(
        "  {} objects; each: index {:.2} B at {:.1}% load, cluster table {:.3} B; {} of {} \
         clusters in use, {} evicted, {} displaced, {} damaged",
        stats.index_entries,
        each(stats.index_bytes),
        stats.index_load * 100.0,
        each(stats.cluster_table_bytes),
        stats.clusters_in_use,
        stats.clusters,
        stats.counters.evicted_clusters,
        stats.counters.index_displaced,
        stats.counters.damaged_records,
    );
}

/// Reads objects at random and compares every byte.
async fn read(cache: &Cache, device: &ClockedDevice, objects: u64) {
    let filled = device.device.filled();
    let mut random = fastrand::Rng::with_seed(2);
    let (mut hits, mut compared) = (0, 0.0);
    let (processor, before) = (processor_seconds(), device.read.get());
    for _ in 0..LOOKUPS {
        let number = random.u64(..objects);
        let Lookup::Hit(entry) = cache.lookup(&filled.key(number)).await else { continue };
        let started = processor_seconds();
        assert!(entry.whole().unwrap() == filled.body(number), "object {number} is another");
        compared += processor_seconds() - started;
        hits += 1;
    }
    let now = device.read.get();
    println!(
        "{hits} hits of {LOOKUPS}, each byte compared; {:.2} µs of processor each, {:.2} reads",
        (processor_seconds() - processor - compared - (now.2 - before.2)) * 1e6 / LOOKUPS as f64,
        (now.0 - before.0) as f64 / LOOKUPS as f64,
    );
}

/// Stores new objects.
async fn store(cache: &Cache, device: &ClockedDevice, count: u64) {
    let (processor, before) = (processor_seconds(), device.device.written().seconds());
    let body = Bytes::from(vec![FILLER; OBJECT as usize - 300]);
    let mut refused = 0;
    for number in 0..count {
        let key =
            Key::new(format!("f http://new.example/{number:016}").into(), Locality::default());
        let stored = objects::store(cache, &key.unwrap(), body.slice(..150), body.clone()).await;
        refused += u64::from(!stored);
        if number % 64 == 0 {
            tokio::task::yield_now().await;
        }
    }
    let seconds = device.device.written().seconds() - before;
    println!(
        "{count} stored, {refused} refused; {:.2} µs of processor each",
        (processor_seconds() - processor - seconds) * 1e6 / count as f64,
    );
    tell(cache);
}

async fn run(objects: u64) {
    // The index is 90% full when the cache is; a hundredth of the clusters is free.
    let len = objects * OBJECT / 100 * 101 + (1 << 30);
    let written = ElidedDevice::new(len);
    let format = FormatOptions { mean_object: Some(OBJECT as u32), ..FormatOptions::default() };
    larder_store::format_with_seed(&written, &format, [7; 48], 0).await.unwrap();
    let filled = ComputedClusters::fill(&written, objects).await.unwrap();
    let device = ComputedDevice::new(written, filled);
    let device = Rc::new(ClockedDevice { device, read: Cell::default() });
    println!("{objects} objects on {:.3} TB, computed", len as f64 / 1e12);
    let cache = start(&device, objects, "kill").await;
    read(&cache, &device, objects).await;
    // More than is free.
    store(&cache, &device, objects / 50).await;
    assert!(cache.shutdown().await, "the cache stopped in order");
    drop(cache);
    start(&device, objects, "stop").await.shutdown().await;
    println!(
        "{:.2} GB of memory at most, the device's included",
        support::peak_bytes() as f64 / 1e9
    );
}

fn main() {
    let mut arguments = std::env::args().skip(1).filter(|word| word != "--bench");
    let objects = arguments.next().map_or(100_000_000, |text| text.parse().expect("OBJECTS"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    LocalSet::new().block_on(&runtime, run(objects));
}
