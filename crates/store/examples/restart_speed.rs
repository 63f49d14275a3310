//! How long a start takes: after an orderly stop and after a kill, with many objects.
//!
//! `cargo run --release -p store --example restart_speed -- FILE OBJECTS [BODY_BYTES]`
//!
//! Fills a cache on FILE (created, as large as needed), stops it in order, times the next start to
//! its first hit; then starts it, goes away without a stop, and times the start after that to its
//! first hit and to the end of recovery. The file is removed in the end.

#![allow(missing_docs, clippy::print_stdout, clippy::unwrap_used)]
// A benchmark reads the clock; the crate's ban is for the engine.
#![allow(clippy::disallowed_methods)]

mod support;

use std::path::Path;
use std::time::{Duration, Instant};

use bytes::Bytes;
use store::{FormatOptions, Hint, Key, Locality, Lookup, Options};
use support::Engine;
use tokio::task::LocalSet;

/// What a run works with.
struct Plan {
    path: String,
    objects: usize,
    body_len: usize,
}

fn key(number: usize) -> Key {
    let url = format!("f http://site{}.example/path/object-{number}", number % 1000);
    Key::new(url.into(), Locality { site: number as u64 % 1000, group: number as u64 % 10_000 })
        .unwrap()
}

/// One life of the cache: opened, used by `body`, and left in order or not.
fn life<T>(plan: &Plan, orderly: bool, body: impl AsyncFnOnce(&Engine, Instant) -> T) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    LocalSet::new().block_on(&runtime, async {
        let started = Instant::now();
        let size = (plan.objects * (plan.body_len + 500)) as u64 * 5 / 4 + (64 << 20);
        let options = Options { memory: 512 << 20, ..Options::default() };
        let mean_object = (plan.body_len + 400) as u32;
        let format = FormatOptions { mean_object, ..FormatOptions::default() };
        let (store, _) = support::open(Path::new(&plan.path), size, &format, options).await;
        let value = body(&store, started).await;
        if orderly {
            assert!(store.shutdown().await, "the cache stopped in order");
        }
        value
    })
}

async fn fill(store: &Engine, plan: &Plan) {
    let body = Bytes::from(vec![42; plan.body_len]);
    for number in 0..plan.objects {
        let key = key(number);
        let token = store.begin_fetch(&key);
        let hint = Hint { size: Some(body.len() as u64), ..Hint::default() };
        let meta = Bytes::from_static(&[7; 200]);
        let mut writer = store.insert(&token, &key, meta, hint).await.unwrap();
        writer.write(body.clone()).await.unwrap();
        writer.commit().await.unwrap();
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
}

async fn first_hit(store: &Engine, plan: &Plan, started: Instant, what: &str) {
    let mut number = plan.objects;
    loop {
        number = if number == 0 { plan.objects - 1 } else { number - 1 };
        if let Lookup::Hit(_) = store.lookup(&key(number)).await {
            println!("{what}: first hit after {:.3} s", started.elapsed().as_secs_f64());
            return;
        }
        tokio::task::yield_now().await;
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let usage = "usage: restart_speed FILE OBJECTS [BODY_BYTES]";
    let plan = Plan {
        path: arguments.next().expect(usage),
        objects: arguments.next().expect(usage).parse().expect("a number"),
        body_len: arguments.next().map_or(200, |bytes| bytes.parse().expect("a number")),
    };
    let filled = Instant::now();
    life(&plan, true, async |store, _| fill(store, &plan).await);
    println!("filled with {} objects in {:.1} s", plan.objects, filled.elapsed().as_secs_f64());
    life(&plan, false, async |store, started| {
        first_hit(store, &plan, started, "after an orderly stop").await;
        let stats = &store.stats()[0];
        println!(
            "{} records, index {:.2} bytes each at {:.0}% load, cluster table {:.3}",
            stats.index_entries,
            stats.index_bytes as f64 / stats.index_entries as f64,
            stats.index_load * 100.0,
            stats.cluster_table_bytes as f64 / stats.index_entries as f64,
        );
    });
    life(&plan, true, async |store, started| {
        first_hit(store, &plan, started, "after a kill").await;
        while store.stats()[0].recovering {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let stats = &store.stats()[0];
        println!(
            "after a kill: {} records, index whole after {:.3} s",
            stats.index_entries,
            started.elapsed().as_secs_f64()
        );
    });
    std::fs::remove_file(&plan.path).unwrap();
}
