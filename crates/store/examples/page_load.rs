//! What the engine does with pages: 32 sessions that ask for pages and what is embedded in them,
//! object by object, on a cache that evicts all the time.
//!
//! `cargo run --release -p store --example page_load -- FILE [--size MiB] [--memory MiB]
//! [--requests N] [--warm-up N] [--arms ARM,…] [--keys pages|random]`
//!
//! A page and its objects share a directory. Most visits are to pages visited before, the sooner
//! the likelier, so that popularity drifts. Sizes are lognormal: median 3.3 KB, mean 12 KB. What
//! misses is stored. Printed for each fifth of the counted requests: hits, reads for each request
//! and for each hit from the device (what came along included), requests a second, processor time
//! of the thread for each request (engine, load and ring), and writes and bytes written for what
//! was stored. FILE may be a block device, a loop device that the kernel holds to so many
//! operations a second, say: "warm" on standard error says that the warm-up has ended. With
//! `--keys random` every object has a directory of its own: nothing is related. An arm is written
//! as `support/arm.rs` says.

#![allow(missing_docs, clippy::print_stdout, clippy::unwrap_used)]
// A benchmark reads the clock; the crate's ban is for the engine.
#![allow(clippy::disallowed_methods)]

mod support;

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Instant;

use bytes::Bytes;
use device::AnyDevice;
use store::{Hint, Key, Kind, Locality, Lookup, Stats};
use support::arm::Arm;
use support::objects::{body_len, filler};
use support::{Engine, processor_seconds};
use tokio::task::{JoinSet, LocalSet};

/// Sessions, each of which has one request under way.
const SESSIONS: usize = 32;
/// Objects embedded in a page: as likely each, from 0 to this many.
const EMBEDDED_MAX: u32 = 17;
/// Share of visits to a page that was visited before.
const AGAIN: f64 = 0.967;
/// So many other pages were visited since then at most; the share of visits with less than `since`
/// is `(since / MOST_SINCE)^RECENCY`.
const MOST_SINCE: f64 = 25_000.0;
const RECENCY: f64 = 0.435;
/// Objects that a page may have: their numbers.
const PER_PAGE: usize = 32;
/// Bytes of the metadata of an object.
const META_LEN: usize = 200;
/// Parts of the counted requests that are reported one by one.
const PARTS: usize = 5;

struct Settings {
    path: PathBuf,
    size: u64,
    memory: u64,
    warm_up: usize,
    requests: usize,
    related: bool,
}

/// Which page is visited next.
struct Visits {
    random: fastrand::Rng,
    /// Pages by their last visit, the newest last.
    stack: Vec<u32>,
    pages: u32,
}

impl Visits {
    fn next(&mut self) -> u32 {
        let since = (MOST_SINCE * self.random.f64().powf(1.0 / RECENCY)) as usize;
        let again = self.random.f64() < AGAIN && since < self.stack.len();
        let page = if again {
            self.stack.remove(self.stack.len() - 1 - since)
        } else {
            self.pages += 1;
            self.pages
        };
        self.stack.push(page);
        if self.stack.len() as f64 > MOST_SINCE {
            self.stack.remove(0);
        }
        page
    }
}

/// Objects embedded in a page: the same for a page every time.
fn embedded(page: u32) -> u32 {
    fastrand::Rng::with_seed(u64::from(page) ^ 0x5bd1_e995).u32(..=EMBEDDED_MAX)
}

fn key(settings: &Settings, number: usize) -> Key {
    let page = number / PER_PAGE;
    let url = format!("f http://site{}.example/{page}/object-{number}", page % 1000);
    let group = if settings.related { page } else { number };
    let locality = Locality { site: group as u64 % 1000, group: group as u64 };
    Key::new(url.into(), locality).unwrap()
}

#[derive(Clone, Copy, Default)]
struct Count {
    requests: usize,
    hits: usize,
    bytes: u64,
    hit_bytes: u64,
    stored: usize,
    refused: usize,
}

struct Load {
    visits: Visits,
    until: usize,
    count: Count,
}

async fn look_up(cache: &Engine, key: &Key) -> bool {
    let Lookup::Hit(entry) = cache.lookup(key).await else { return false };
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

async fn insert(cache: &Engine, key: &Key, len: usize, page: bool, filler: &Bytes) -> bool {
    let token = cache.begin_fetch(key);
    let kind = if page { Kind::Html } else { Kind::Other };
    let hint = Hint { size: Some(len as u64), kind, ..Hint::default() };
    let Ok(mut writer) = cache.insert(&token, key, filler.slice(..META_LEN), hint).await else {
        return false;
    };
    writer.write(filler.slice(..len)).await.is_ok() && writer.commit().await.is_ok()
}

async fn session(cache: Engine, load: Rc<RefCell<Load>>, settings: Rc<Settings>) {
    let filler = filler();
    loop {
        let page = load.borrow_mut().visits.next();
        for object in 0..=embedded(page) {
            {
                let mut load = load.borrow_mut();
                if load.count.requests >= load.until {
                    return;
                }
                load.count.requests += 1;
            }
            let number = page as usize * PER_PAGE + object as usize;
            let key = key(&settings, number);
            let len = body_len(number);
            let hit = look_up(&cache, &key).await;
            let stored = !hit && insert(&cache, &key, len, object == 0, &filler).await;
            let mut load = load.borrow_mut();
            let count = &mut load.count;
            count.bytes += len as u64;
            count.hits += usize::from(hit);
            count.hit_bytes += if hit { len as u64 } else { 0 };
            count.stored += usize::from(stored);
            count.refused += usize::from(!hit && !stored);
        }
    }
}

async fn run(cache: &Engine, load: &Rc<RefCell<Load>>, settings: &Rc<Settings>, requests: usize) {
    {
        let mut load = load.borrow_mut();
        load.count = Count::default();
        load.until = requests;
    }
    let mut sessions = JoinSet::new();
    for _ in 0..SESSIONS {
        sessions.spawn_local(session(cache.clone(), Rc::clone(load), Rc::clone(settings)));
    }
    while let Some(ended) = sessions.join_next().await {
        ended.unwrap();
    }
}

/// All counts at one moment.
struct Moment {
    stats: Stats,
    device: device::Counts,
    processor: f64,
    at: Instant,
}

impl Moment {
    fn now(cache: &Engine, device: &AnyDevice) -> Moment {
        Moment {
            stats: cache.stats()[0],
            device: device.counters().snapshot(),
            processor: processor_seconds(),
            at: Instant::now(),
        }
    }
}

fn report(name: &str, from: &Moment, to: &Moment, count: &Count) {
    let requests = count.requests as f64;
    let (old, new) = (&from.stats.counters, &to.stats.counters);
    let reads = (to.device.reads - from.device.reads) as f64;
    let read_bytes = (to.device.bytes_read - from.device.bytes_read) as f64;
    let disk_hits = (new.disk_hits - old.disk_hits) as f64;
    let memory_hits = (new.memory_hits - old.memory_hits) as f64;
    let brought = (new.prefetch_hits - old.prefetch_hits) as f64;
    let writes = (to.device.writes - from.device.writes) as f64;
    let written = (to.device.bytes_written - from.device.bytes_written) as f64;
    let stored = (new.inserted_bytes - old.inserted_bytes) as f64;
    let seconds = (to.at - from.at).as_secs_f64();
    println!(
        "{name}: hits {:.3} (bytes {:.3}, memory {:.3}), {:.0} req/s, {:.1} us; reads {:.3} a \
         request, {:.3} a hit from the device, {:.0} KB each; writes {:.3} an object, {:.3} B a \
         byte; stored {}, refused {}",
        count.hits as f64 / requests,
        count.hit_bytes as f64 / count.bytes as f64,
        (memory_hits - brought) / requests,
        requests / seconds,
        (to.processor - from.processor) / requests * 1e6,
        reads / requests,
        reads / (disk_hits + brought).max(1.0),
        read_bytes / reads.max(1.0) / 1e3,
        writes / count.stored.max(1) as f64,
        written / stored.max(1.0),
        count.stored,
        count.refused,
    );
}

async fn measure(arm: &Arm, settings: &Rc<Settings>) {
    let path: &Path = &settings.path;
    let records = (settings.size / u64::from(support::arm::MEAN_OBJECT)) as usize * 2;
    if std::fs::metadata(path).is_ok_and(|file| file.is_file()) {
        std::fs::remove_file(path).unwrap();
    }
    let mut options = arm.options(records, settings.memory);
    options.index.entries = Some(records as u64);
    let (cache, device) = support::open(path, settings.size, &arm.format(records), options).await;
    let visits = Visits { random: fastrand::Rng::with_seed(7), stack: Vec::new(), pages: 0 };
    let load = Load { visits, until: 0, count: Count::default() };
    let load = Rc::new(RefCell::new(load));
    run(&cache, &load, settings, settings.warm_up).await;
    eprintln!("warm");
    let begin = Moment::now(&cache, &device);
    let mut all = Count::default();
    let mut before = Moment::now(&cache, &device);
    for part in 1..=PARTS {
        run(&cache, &load, settings, settings.requests / PARTS).await;
        let count = load.borrow().count;
        let now = Moment::now(&cache, &device);
        report(&format!("{arm} {part}/{PARTS}"), &before, &now, &count);
        all.requests += count.requests;
        all.hits += count.hits;
        all.bytes += count.bytes;
        all.hit_bytes += count.hit_bytes;
        all.stored += count.stored;
        all.refused += count.refused;
        before = now;
    }
    let end = Moment::now(&cache, &device);
    report(&format!("{arm} in all"), &begin, &end, &all);
    println!("{:?} {:?}", end.stats.reads, end.stats.read_cost);
    println!("{:?}", end.stats.counters);
    cache.shutdown().await;
    if std::fs::metadata(path).is_ok_and(|file| file.is_file()) {
        std::fs::remove_file(path).unwrap();
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().expect("usage: page_load FILE [--size MiB] …").into();
    let (size, memory, warm_up, requests, related) = (1024, 64, 600_000, 500_000, true);
    let mut settings =
        Settings { path, size: size << 20, memory: memory << 20, warm_up, requests, related };
    let mut arms = Arm::list("cluster");
    while let Some(name) = arguments.next() {
        let value = arguments.next().unwrap_or_else(|| panic!("{name} wants a value"));
        let number = || value.parse::<u64>().unwrap_or_else(|_| panic!("{name}: a number"));
        match name.as_str() {
            "--size" => settings.size = number() << 20,
            "--memory" => settings.memory = number() << 20,
            "--requests" => settings.requests = number() as usize,
            "--warm-up" => settings.warm_up = number() as usize,
            "--keys" => settings.related = value != "random",
            "--arms" => arms = Arm::list(&value),
            _ => panic!("{name} is no option"),
        }
    }
    let settings = Rc::new(settings);
    for arm in arms {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        LocalSet::new().block_on(&runtime, measure(&arm, &settings));
    }
}
