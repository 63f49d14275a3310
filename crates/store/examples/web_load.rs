//! How much of a web-like load each layout and preset keeps on a disk of one size, at several
//! utilizations, and what that costs the processor and the disk.
//!
//! `cargo run --release -p store --example web_load -- FILE|elided [--objects N] [--arms ARM,…]
//! [--drift N] [--tier all|second-use] [--csv CSV]`
//!
//! The cache lies on FILE (created, removed in the end), or on a device whose bodies are not stored
//! and whose own processor time is taken off (`support/elided.rs`), and has room for a tenth of the
//! bytes of N objects, which 32 clients ask for by Zipf's law with exponent 0.9; what misses is
//! stored. The second half of 2 N requests counts. Memory, tables included, is a tenth of the disk.
//! With `--drift` one object is new after so many requests: it is the most popular, and all others
//! are one rank less so. `--tier` is what enters memory when it is read, else the preset says.
//! An arm is written as `support/arm.rs` says; without `--arms` all presets are measured, and the
//! product's with every layout, those of slots at 70, 80, 90 and 97% of the disk.

#![allow(missing_docs, clippy::print_stdout, clippy::unwrap_used)]
// A benchmark reads the clock; the crate's ban is for the engine.
#![allow(clippy::disallowed_methods)]

mod support;

use std::cell::RefCell;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::rc::Rc;
use std::time::Instant;

use device::Device;
use store::{Counters, Options, Store, TierAdmission};
use support::arm::{Arm, MEAN_OBJECT};
use support::elided::{Asked, ElidedDevice};
use support::objects::{Cache, body_len, filler, insert, look_up};
use support::{TokioClock, processor_seconds};
use tokio::task::LocalSet;

/// Exponent of Zipf's law.
const ZIPF: f64 = 0.9;
/// Requests under way at a time.
const CLIENTS: usize = 32;

const HEADER: &str = "arm,hits_percent,hit_bytes_percent,memory_hits_percent,\
processor_us_per_request,requests_per_second,writes_per_stored_object,\
written_per_stored_byte,reads_per_request,refused,records,percent_full";

fn all() -> Vec<Arm> {
    let mut names = vec!["cluster".to_owned()];
    for layout in ["stream", "unified", "buddy"] {
        names.extend([70, 80, 90, 97].map(|percent| format!("{layout}@{percent}")));
    }
    names.extend(["stream", "unified", "buddy"].map(|layout| format!("{layout}:0@90")));
    let own = store::PRESETS.iter().filter(|name| **name != "larder");
    names.extend(own.map(|name| match *name {
        // Else it would be taken for the product's preset with this layout.
        "unified" => "unified/unified".to_owned(),
        name => name.to_owned(),
    }));
    Arm::list(&names.join(","))
}

/// Numbers by Zipf's law, the most popular being 0, or at last that many less.
struct Zipf {
    sums: Vec<f64>,
    random: fastrand::Rng,
    /// Draws after which the most popular one is a new one; 0: never.
    drift: usize,
    drawn: usize,
}

impl Zipf {
    fn new(objects: usize, drift: usize) -> Zipf {
        let mut sum = 0.0;
        let weights = (1..=objects).map(|rank| (rank as f64).powf(-ZIPF));
        let sums = weights.map(|weight| {
            sum += weight;
            sum
        });
        let random = fastrand::Rng::with_seed(3);
        Zipf { sums: sums.collect(), random, drift, drawn: 0 }
    }

    fn draw(&mut self) -> usize {
        let at = self.random.f64() * self.sums.last().unwrap();
        let rank = self.sums.partition_point(|sum| *sum <= at).min(self.sums.len() - 1);
        let newest = self.drawn.checked_div(self.drift).unwrap_or(0);
        self.drawn += 1;
        // As many objects as there are ranks are alive; what has faded comes back as new.
        (rank + self.sums.len() - newest % self.sums.len()) % self.sums.len()
    }
}

/// What the clients do and count.
struct Load {
    zipf: Zipf,
    turns: usize,
    hits: usize,
    bytes: usize,
    hit_bytes: usize,
    stores: usize,
    refused: usize,
}

/// Sends requests until `until` were sent.
async fn client<D: Device>(cache: Cache<D>, load: Rc<RefCell<Load>>, until: usize) {
    let filler = filler();
    loop {
        let number = {
            let mut load = load.borrow_mut();
            if load.turns == until {
                return;
            }
            load.turns += 1;
            load.zipf.draw()
        };
        let len = body_len(number);
        if look_up(&cache, number).await {
            let mut load = load.borrow_mut();
            load.hits += 1;
            load.hit_bytes += len;
            load.bytes += len;
            continue;
        }
        let stored = insert(&cache, number, len, &filler).await;
        let mut load = load.borrow_mut();
        load.bytes += len;
        load.stores += usize::from(stored);
        load.refused += usize::from(!stored);
    }
}

async fn requests<D: Device>(cache: &Cache<D>, load: &Rc<RefCell<Load>>, until: usize) {
    let client = |_| client(cache.clone(), Rc::clone(load), until);
    support::side_by_side(CLIENTS, client).await;
}

/// The cache on a file; its figures as [`HEADER`] names them.
async fn on_file(path: &Path, arm: &Arm, run: Run) -> String {
    let _ = std::fs::remove_file(path);
    let (size, records, options) = sizes(arm, run);
    let (cache, device) = support::open(path, size, &arm.format(records), options).await;
    let counters = device.counters();
    let asked = || {
        let done = counters.snapshot();
        Asked {
            reads: done.reads,
            read_bytes: done.bytes_read,
            writes: done.writes,
            written_bytes: done.bytes_written,
            ..Asked::default()
        }
    };
    let figures = measure(&cache, asked, arm, run).await;
    std::fs::remove_file(path).unwrap();
    figures
}

/// The cache on a device that elides.
async fn elided(arm: &Arm, run: Run) -> String {
    let (size, records, options) = sizes(arm, run);
    let device = Rc::new(ElidedDevice::new(size));
    store::format(&*device, &arm.format(records), [7; 48], 0).await.unwrap();
    let cache = Store::open(vec![Rc::clone(&device)], TokioClock::new(), options).await.unwrap();
    let background = cache.clone();
    tokio::task::spawn_local(async move { background.run_background().await });
    measure(&cache, || device.asked(), arm, run).await
}

/// Bytes of the disk, records that the index has room for, and options.
fn sizes(arm: &Arm, run: Run) -> (u64, usize, Options) {
    let size = run.objects as u64 * u64::from(MEAN_OBJECT) / 10;
    let records = run.objects / 5;
    let mut options = arm.options(records, size / 10);
    options.tier_admission = run.tier.unwrap_or(options.tier_admission);
    (size, records, options)
}

async fn measure<D: Device>(
    cache: &Cache<D>,
    asked: impl Fn() -> Asked,
    arm: &Arm,
    run: Run,
) -> String {
    let Run { objects, drift, .. } = run;
    let load = Load {
        zipf: Zipf::new(objects, drift),
        turns: 0,
        hits: 0,
        bytes: 0,
        hit_bytes: 0,
        stores: 0,
        refused: 0,
    };
    let load = Rc::new(RefCell::new(load));
    requests(cache, &load, objects).await;
    let zipf = std::mem::replace(&mut load.borrow_mut().zipf, Zipf::new(1, 0));
    load.replace(Load { zipf, turns: 0, hits: 0, bytes: 0, hit_bytes: 0, stores: 0, refused: 0 });
    let (processor, started) = (processor_seconds(), Instant::now());
    let (before, counters) = (asked(), cache.stats()[0].counters);
    requests(cache, &load, objects).await;
    let (processor, wall) = (processor_seconds() - processor, started.elapsed().as_secs_f64());
    let (now, stats) = (asked(), cache.stats()[0]);
    let since = |of: fn(&Counters) -> u64| (of(&stats.counters) - of(&counters)) as f64;
    let load = Rc::try_unwrap(load).ok().expect("no client is left").into_inner();
    let each = |count: f64| count / objects as f64;
    let figures = format!(
        "{arm},{:.2},{:.2},{:.2},{:.2},{:.0},{:.4},{:.4},{:.3},{},{},{}",
        each(load.hits as f64) * 100.0,
        load.hit_bytes as f64 * 100.0 / load.bytes as f64,
        each(since(|counters| counters.memory_hits)) * 100.0,
        each(processor - (now.seconds - before.seconds)) * 1e6,
        objects as f64 / wall,
        (now.writes - before.writes) as f64 / load.stores as f64,
        (now.written_bytes - before.written_bytes) as f64 / since(|c| c.inserted_bytes),
        each((now.reads - before.reads) as f64),
        load.refused,
        stats.index_entries,
        stats.percent_full(),
    );
    if let Some(slots) = stats.slots {
        println!("{slots:?}");
    }
    cache.shutdown().await;
    figures
}

/// What is asked of every arm.
#[derive(Clone, Copy)]
struct Run {
    objects: usize,
    drift: usize,
    tier: Option<TierAdmission>,
}

fn main() {
    let (mut arms, mut csv) = (all(), None);
    let mut run = Run { objects: 500_000, drift: 0, tier: None };
    let mut arguments = std::env::args().skip(1);
    let file = arguments.next().expect("usage: web_load FILE|elided [--objects N]");
    while let Some(name) = arguments.next() {
        let value = arguments.next().unwrap_or_else(|| panic!("{name} wants a value"));
        match name.as_str() {
            "--objects" => run.objects = value.parse().expect("--objects: a number"),
            "--drift" => run.drift = value.parse().expect("--drift: a number"),
            "--tier" => run.tier = Some(support::tier_admission(&value)),
            "--arms" => arms = Arm::list(&value),
            "--csv" => csv = Some(OpenOptions::new().append(true).create(true).open(value)),
            _ => panic!("expected --objects, --arms, --drift, --tier or --csv, got {name}"),
        }
    }
    assert!(run.objects >= 10_000, "--objects: 10,000 at least");
    let mut csv = csv.map(|file| file.expect("--csv: a file that can be written"));
    println!("{HEADER}");
    if let Some(csv) = csv.as_mut().filter(|file| file.metadata().unwrap().len() == 0) {
        writeln!(csv, "{HEADER}").unwrap();
    }
    for arm in arms {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let local = LocalSet::new();
        let figures = match file.as_str() {
            "elided" => local.block_on(&runtime, elided(&arm, run)),
            path => local.block_on(&runtime, on_file(Path::new(path), &arm, run)),
        };
        println!("{figures}");
        if let Some(csv) = &mut csv {
            writeln!(csv, "{figures}").unwrap();
        }
    }
}
