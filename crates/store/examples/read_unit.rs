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
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use device::AnyDevice;
use store::{FormatOptions, Hint, Key, Locality, Lookup, Options, ReadUnit};
use support::Engine;
use tokio::task::{JoinSet, LocalSet};

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

/// A loop device over a file; both are gone when it is dropped.
struct Loop {
    file: PathBuf,
    device: PathBuf,
}

impl Loop {
    fn over(file: PathBuf) -> Result<Loop, String> {
        let made = std::fs::File::create(&file).and_then(|file| file.set_len(CACHE));
        made.map_err(|error| format!("cannot make {}: {error}", file.display()))?;
        let output = Command::new("losetup")
            .args(["--find", "--show", "--direct-io=on"])
            .arg(&file)
            .output();
        match output {
            Ok(output) if output.status.success() => {
                let device = String::from_utf8_lossy(&output.stdout).trim().into();
                Ok(Loop { file, device })
            }
            failed => {
                let _ = std::fs::remove_file(&file);
                Err(format!("no loop device (losetup needs root): {failed:?}"))
            }
        }
    }

    /// Major and minor number, as control groups want them.
    fn numbers(&self) -> Option<String> {
        let name = self.device.file_name()?.to_str()?;
        std::fs::read_to_string(format!("/sys/block/{name}/dev")).ok().map(|n| n.trim().to_owned())
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("--detach").arg(&self.device).status();
        let _ = std::fs::remove_file(&self.file);
    }
}

/// A control group that this process is in until it is dropped.
struct Throttle {
    group: PathBuf,
    parent: PathBuf,
}

impl Throttle {
    fn on(numbers: &str) -> Result<Throttle, String> {
        let v1 = Path::new("/sys/fs/cgroup/blkio");
        let v2 = Path::new("/sys/fs/cgroup");
        let (parent, file, rule) = if v1.join("blkio.throttle.read_iops_device").exists() {
            (v1, "blkio.throttle.read_iops_device", format!("{numbers} {READS_PER_SECOND}"))
        } else {
            let rule = format!("{numbers} riops={READS_PER_SECOND}");
            let _ = std::fs::write(v2.join("cgroup.subtree_control"), "+io");
            (v2, "io.max", rule)
        };
        let group = parent.join(format!("larder-read-unit-{}", std::process::id()));
        std::fs::create_dir(&group).map_err(|error| format!("{}: {error}", group.display()))?;
        let throttle = Throttle { group, parent: parent.to_owned() };
        let limit = std::fs::write(throttle.group.join(file), rule);
        limit.map_err(|error| format!("{file}: {error}"))?;
        let join = std::fs::write(throttle.group.join("cgroup.procs"), "0");
        join.map_err(|error| format!("cgroup.procs: {error}"))?;
        Ok(throttle)
    }
}

impl Drop for Throttle {
    fn drop(&mut self) {
        let _ = std::fs::write(self.parent.join("cgroup.procs"), "0");
        let _ = std::fs::remove_dir(&self.group);
    }
}

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
    let key = key(page, part);
    let token = store.begin_fetch(&key);
    let body = bytes.slice(..body_len(page, part));
    let hint = Hint { size: Some(body.len() as u64), ..Hint::default() };
    let meta = Bytes::from_static(&[7; 300]);
    let mut writer = store.insert(&token, &key, meta, hint).await.unwrap();
    writer.write(body).await.unwrap();
    writer.commit().await.unwrap();
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
    let mut clients = JoinSet::new();
    let until = Instant::now() + time;
    for number in 0..CLIENTS {
        let seed = phase * CLIENTS as u64 + number as u64;
        clients.spawn_local(client(store.clone(), load, seed, until, Rc::clone(&done)));
    }
    while clients.join_next().await.is_some() {}
    done.get()
}

/// User and system seconds of this process so far.
fn cpu() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    let ticks = fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap();
    ticks / 100.0
}

async fn measure(path: &Path, unit: ReadUnit, load: Load, time: Duration) {
    let options = Options { memory: 64 << 20, read_unit: unit, ..Options::default() };
    let (store, device): (Engine, Rc<AnyDevice>) =
        support::open(path, CACHE, &format(), options).await;
    // Memory fills, the engine learns.
    run(&store, load, time, 0).await;
    let counts = || device.counters().snapshot();
    let (before, cpu_before, started) = (counts(), cpu(), Instant::now());
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
        (cpu() - cpu_before) * 1e6 / done as f64,
        100.0 * hits as f64 / (prefetched.max(1)) as f64,
        (now.reads.joined - stats.reads.joined) as f64 / done as f64,
        now.read_cost.0.per_operation / 1e3,
        now.read_cost.0.per_byte,
    );
    store.shutdown().await;
}

/// Runs on a runtime of its own: rings and threads are made within the control group.
fn on_runtime(task: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    LocalSet::new().block_on(&runtime, task);
}

fn all_units(path: &Path, time: Duration) {
    for (what, load) in
        [("pages by popularity", Load::Pages), ("single objects at random", Load::Singles)]
    {
        println!(" {what}:");
        for unit in [ReadUnit::Object, ReadUnit::Cluster, ReadUnit::Auto] {
            on_runtime(measure(path, unit, load, time));
        }
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().expect("usage: read_unit DIRECTORY [SECONDS]");
    let seconds = arguments.next().map_or(15, |seconds| seconds.parse().expect("seconds"));
    let time = Duration::from_secs(seconds);
    let disk = match Loop::over(Path::new(&directory).join("read_unit.larder")) {
        Ok(disk) => disk,
        Err(reason) => return println!("SKIPPED: {reason}"),
    };
    on_runtime(async {
        let options = Options { memory: 64 << 20, ..Options::default() };
        let (store, _device) = support::open(&disk.device, CACHE, &format(), options).await;
        fill(&store).await;
        assert!(store.shutdown().await, "the cache is written");
    });
    println!(
        "{PAGES} pages of {PARTS} objects, {CLIENTS} clients, 64 MiB of memory, at full speed"
    );
    all_units(&disk.device, time);
    let throttle = match disk.numbers().ok_or("no numbers".to_owned()).map(|n| Throttle::on(&n)) {
        Ok(Ok(throttle)) => throttle,
        Ok(Err(reason)) | Err(reason) => {
            return println!("SKIPPED: the kernel's throttling is not permitted here: {reason}");
        }
    };
    println!("held to {READS_PER_SECOND} reads a second");
    all_units(&disk.device, time);
    drop(throttle);
}
