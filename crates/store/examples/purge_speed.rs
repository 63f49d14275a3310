//! What a purge costs, and what the purges in force cost hits, with many objects.
//!
//! `cargo run --release -p store --example purge_speed -- FILE OBJECTS [ARM]`
//!
//! Fills a cache on FILE (created, as large as needed) with objects of three tags each. Then it
//! times purges one after another, of tags, of prefixes and of everything, first on a store that is
//! idle, then beside lookups and insertions; each is durable when it is timed, and a bare flush of
//! the device is timed beside them. Then hits from memory: with no purge ever made, with as many in
//! force as there may be, and with one more purge before each round, so that every object is held
//! against all of them. The file is removed in the end. ARM is a preset or a layout
//! (`support/arm.rs`).

#![allow(missing_docs, clippy::print_stdout, clippy::unwrap_used)]
// A benchmark reads the clock; the crate's ban is for the engine.
#![allow(clippy::disallowed_methods)]

mod support;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use device::Device;
use store::{Key, Label, Labels, Locality, Lookup, Mode, Target};
use support::arm::Arm;
use support::{Engine, objects};
use tokio::task::LocalSet;

/// Purges timed of each kind.
const PURGES: usize = 300;
/// Objects whose hits from memory are timed, and how often each is hit.
const HOT: usize = 2_000;
const ROUNDS: usize = 50;
/// Tags that nobody bears.
const UNBORNE: usize = 1_000_000;
/// Different tags of each of the three kinds.
const TAGS: usize = 100_000;

/// The words of the metadata are labels; the key is what prefixes are of.
struct Words;

impl Labels for Words {
    fn version(&self) -> u64 {
        1
    }

    fn labels(&self, _: &[u8], meta: &[u8], see: &mut dyn FnMut(Label<'_>)) {
        let words = meta.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
        words.for_each(|name| see(Label { kind: 0, name }));
    }

    fn text<'a>(&self, key: &'a [u8]) -> Option<&'a [u8]> {
        Some(key)
    }
}

fn key(number: usize) -> Key {
    let url = format!("site{}.example/path/object-{number}", number % 1000);
    Key::new(url.into(), Locality { site: number as u64 % 1000, group: number as u64 % 10_000 })
        .unwrap()
}

fn tag(name: &str) -> Target<'_> {
    Target::Label(Label { kind: 0, name: name.as_bytes() })
}

async fn insert(store: &Engine, number: usize) {
    let tags = format!("a{} b{} c{}", number % TAGS, number / 7 % TAGS, number / 100 % TAGS);
    let body = Bytes::from_static(&[42; 40]);
    let stored = objects::store(store, &key(number), tags.into(), body).await;
    assert!(stored, "object {number} is stored");
}

/// Prints the distribution of `times` in milliseconds.
fn tell(what: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let ms = |at: usize| times[at.min(times.len() - 1)].as_secs_f64() * 1e3;
    let all = times.len();
    println!(
        "{what:44} {all:5}: median {:8.3} ms, 90% {:8.3}, 99% {:8.3}, longest {:8.3}",
        ms(all / 2),
        ms(all * 9 / 10),
        ms(all * 99 / 100),
        ms(all - 1),
    );
}

async fn purges(store: &Engine, what: &str, target: impl Fn(usize) -> String, prefix: bool) {
    let mut times = Vec::new();
    for number in 0..PURGES {
        let name = target(number);
        let begun = Instant::now();
        let target = if prefix { Target::Prefix(name.as_bytes()) } else { tag(&name) };
        store.purge_all(&[target], Mode::Hard).await.unwrap();
        times.push(begun.elapsed());
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
    tell(what, times);
}

/// Nanoseconds of one hit from memory, the median of some rounds; `before` is done before each.
async fn hits(store: &Engine, from: usize, mut before: impl AsyncFnMut()) -> f64 {
    let keys: Vec<Key> = (from..from + HOT).map(key).collect();
    for key in &keys {
        assert!(matches!(store.lookup(key).await, Lookup::Hit(_)));
    }
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        before().await;
        let begun = Instant::now();
        for key in &keys {
            assert!(matches!(store.lookup(key).await, Lookup::Hit(_)));
        }
        times.push(begun.elapsed().as_nanos() as f64 / HOT as f64);
    }
    times.sort_by(f64::total_cmp);
    times[ROUNDS / 2]
}

async fn beside_load(store: &Engine, objects: usize) {
    let (working, ended) = (store.clone(), std::rc::Rc::new(std::cell::Cell::new(false)));
    let end = std::rc::Rc::clone(&ended);
    let load = tokio::task::spawn_local(async move {
        let mut number = objects;
        while !end.get() {
            for _ in 0..20 {
                number += 1;
                insert(&working, number).await;
                _ = working.lookup(&key(number * 7919 % objects)).await;
            }
            tokio::task::yield_now().await;
        }
        number - objects
    });
    purges(store, "tags, beside lookups and insertions", |n| format!("b{n}"), false).await;
    ended.set(true);
    println!("{:44} {:5}", "  insertions meanwhile", load.await.unwrap());
}

/// Purges of names that nobody bears: many at a time, then one after another.
async fn unborne(store: &Engine) {
    let (mut times, found) = (Vec::new(), store.stats()[0].counters.purged_objects);
    for from in (0..UNBORNE).step_by(500) {
        let names: Vec<String> = (from..from + 500).map(|n| format!("nobody-{n}")).collect();
        let targets: Vec<Target<'_>> = names.iter().map(|name| tag(name)).collect();
        let begun = Instant::now();
        store.purge_all(&targets, Mode::Hard).await.unwrap();
        times.push(begun.elapsed());
    }
    tell("500 tags that nobody bears, of a million", times);
    purges(store, "one of them, then", |n| format!("nobody-again-{n}"), false).await;
    purges(store, "tags, then", |n| format!("c{n}"), false).await;
    let stats = &store.stats()[0];
    println!(
        "{} purges in force, {} took no entry, merged {} times, {} objects found purged",
        stats.purges,
        stats.counters.purges_unborne,
        stats.counters.purges_merged,
        stats.counters.purged_objects - found
    );
}

async fn run(path: &str, objects: usize, arm: &Arm) {
    let size = objects as u64 * 768 + (512 << 20);
    let records = objects * 10 / 9 + 1_000_000;
    let mut options = arm.options(records, 0);
    options.memory = (256 << 20) + arm.tables(records);
    options.labels = Some(Arc::new(Words));
    let format = arm.format(records);
    let (store, device) = support::open(Path::new(path), size, &format, options).await;
    let begun = Instant::now();
    for number in 0..objects {
        insert(&store, number).await;
    }
    tokio::time::sleep(Duration::from_secs(3)).await;
    println!(
        "{arm}: {objects} objects, {} in the index, stored in {:.0} s",
        store.stats()[0].index_entries,
        begun.elapsed().as_secs_f64()
    );
    let last = objects - HOT;
    let without = hits(&store, last, async || {}).await;
    let mut flushes = Vec::new();
    for _ in 0..PURGES {
        let begun = Instant::now();
        device.flush().await.unwrap();
        flushes.push(begun.elapsed());
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
    tell("a flush of the device with nothing to flush", flushes);
    purges(&store, "tags, idle", |n| format!("a{n}"), false).await;
    let prefix = |n: usize| format!("site{}.example/path/object-{n}", n % 1000);
    purges(&store, "prefixes, idle", prefix, true).await;
    beside_load(&store, objects).await;
    unborne(&store).await;
    // Somebody's names, so that everything is held against all of them.
    let full: Vec<String> = (0..70_000).map(|number| format!("a{number}")).collect();
    for names in full.chunks(500) {
        let targets: Vec<Target<'_>> = names.iter().map(|name| tag(name)).collect();
        store.purge_all(&targets, Mode::Hard).await.unwrap();
    }
    let stats = &store.stats()[0];
    println!("{} purges in force, merged {} times", stats.purges, stats.counters.purges_merged);
    for number in last..objects {
        insert(&store, number).await;
    }
    let with = hits(&store, last, async || {}).await;
    let number = std::cell::Cell::new(0);
    let anew = hits(&store, last, async || {
        number.set(number.get() + 1);
        let name = format!("b{}", number.get());
        store.purge_all(&[tag(&name)], Mode::Hard).await.unwrap();
    });
    let anew = anew.await;
    println!(
        "a hit from memory: {without:.0} ns without purges, {with:.0} ns with them, {anew:.0} ns \
         when it is the first since a purge"
    );
    let begun = Instant::now();
    store.purge_all(&[Target::Everything], Mode::Hard).await.unwrap();
    tell("everything", vec![begun.elapsed()]);
    assert!(matches!(store.lookup(&key(last)).await, Lookup::Miss));
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [path, objects, ..] = &words[..] else { panic!("expected FILE OBJECTS [ARM]") };
    let objects = objects.parse().expect("a number of objects");
    let arm = words.get(2).map_or("larder", String::as_str);
    let arm = Arm::list(arm).remove(0);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    LocalSet::new().block_on(&runtime, run(path, objects, &arm));
    std::fs::remove_file(path).unwrap();
}
