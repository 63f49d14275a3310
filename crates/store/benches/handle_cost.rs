//! The cost of [`StoreHandle`] beside a direct call: median nanoseconds of a hit in memory, for one
//! caller at a time and for 64 at once.
//!
//! `cargo bench -p store --bench handle_cost`

#![allow(clippy::print_stdout, clippy::unwrap_used)]

use std::time::Instant;

use bytes::Bytes;
use device::{CacheFile, OpenOptions};
use store::{HandleOptions, Hint, Key, Locality, Lookup, StoreHandle};
use tokio::runtime::Builder;

/// Number of runs, of which the median is taken, and of hits in each.
const RUNS: usize = 21;
const HITS: u32 = 20_000;
/// Number of callers at once.
const CALLERS: u32 = 64;

fn key(number: u32) -> Key {
    let name = format!("http://bench.example/object-{number}");
    Key::new(Bytes::from(name), Locality::default()).unwrap()
}

/// Returns the median of the runs that `run` measures, in nanoseconds of one hit.
async fn median(mut run: impl AsyncFnMut()) -> f64 {
    let mut all = Vec::new();
    for _ in 0..RUNS {
        let start = Instant::now();
        run().await;
        all.push(start.elapsed().as_nanos() as f64 / f64::from(HITS));
    }
    all.sort_by(f64::total_cmp);
    all[RUNS / 2]
}

async fn hits(handle: StoreHandle, hits: u32) {
    for number in 0..hits {
        assert!(handle.get(&key(number % 100)).await.unwrap().is_some());
    }
}

async fn measure(handle: &StoreHandle) {
    for number in 0..100 {
        let (key, body) = (key(number), Bytes::from(vec![7; 4_000]));
        let token = handle.begin_fetch(&key).await.unwrap();
        let meta = Bytes::from_static(b"meta");
        handle.insert(&token, &key, meta, body, Hint::default()).await.unwrap();
    }
    let direct = handle.run(&key(0), async |store| {
        median(async || {
            for number in 0..HITS {
                let Lookup::Hit(entry) = store.lookup(&key(number % 100)).await else { panic!() };
                assert!(entry.whole().is_some());
            }
        })
        .await
    });
    println!("direct, on the store's thread:  {:8.0} ns", direct.await.unwrap());
    let one = median(async || hits(handle.clone(), HITS).await).await;
    println!("handle, one caller at a time:   {one:8.0} ns");
    let many = median(async || {
        let tasks: Vec<_> =
            (0..CALLERS).map(|_| tokio::spawn(hits(handle.clone(), HITS / CALLERS))).collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
    println!("handle, {CALLERS} callers at once:    {:8.0} ns", many.await);
}

fn main() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let create = OpenOptions { create: Some(64 << 20), ..OpenOptions::default() };
    let file = CacheFile::open(&directory.path().join("cache"), &create).unwrap();
    Builder::new_multi_thread().worker_threads(1).build().unwrap().block_on(async {
        let handle = StoreHandle::open(vec![file], HandleOptions::default()).await.unwrap();
        measure(&handle).await;
        handle.close().await.unwrap();
    });
}
