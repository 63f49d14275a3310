//! The cost of [`StoreHandle`] beside a direct call: median nanoseconds of a hit in memory, for one
//! caller at a time and for 64 at once. Prints elapsed time, and processor time of all threads.
//!
//! `cargo bench -p larder-store --bench handle_cost`

#![allow(clippy::disallowed_methods, clippy::print_stdout, clippy::unwrap_used)]

use std::time::Instant;

use bytes::Bytes;
use device::{CacheFile, OpenOptions};
use larder_store::{HandleOptions, Hint, Key, Locality, Lookup, StoreHandle};
use rustix::time::{ClockId, clock_gettime};
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

/// Returns the processor time of this process so far, in nanoseconds.
fn processor_time() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

/// Prints the medians of the runs that `run` measures.
async fn measure(name: &str, mut run: impl AsyncFnMut()) {
    let (mut elapsed, mut processor) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        let (start, before) = (Instant::now(), processor_time());
        run().await;
        elapsed.push(start.elapsed().as_nanos() as f64 / f64::from(HITS));
        processor.push((processor_time() - before) / f64::from(HITS));
    }
    elapsed.sort_by(f64::total_cmp);
    processor.sort_by(f64::total_cmp);
    let (elapsed, processor) = (elapsed[RUNS / 2], processor[RUNS / 2]);
    println!("{name:32} {elapsed:8.0} ns, processor {processor:8.0} ns");
}

async fn hits(handle: StoreHandle, hits: u32) {
    for number in 0..hits {
        assert!(handle.get(&key(number % 100)).await.unwrap().is_some());
    }
}

async fn measure_all(handle: &StoreHandle) {
    for number in 0..100 {
        let (key, body) = (key(number), Bytes::from(vec![7; 4_000]));
        let token = handle.begin_fetch(&key).await.unwrap();
        let meta = Bytes::from_static(b"meta");
        handle.insert(&token, &key, meta, body, Hint::default()).await.unwrap();
    }
    let first = key(0);
    let direct = handle.run(&first, async |store| {
        measure("direct, on the store's thread", async || {
            for number in 0..HITS {
                let Lookup::Hit(entry) = store.lookup(&key(number % 100)).await else { panic!() };
                assert!(entry.whole().is_some());
            }
        })
        .await;
    });
    direct.await.unwrap();
    measure("handle, one caller at a time", async || hits(handle.clone(), HITS).await).await;
    measure("handle, 64 callers at once", async || {
        let tasks: Vec<_> =
            (0..CALLERS).map(|_| tokio::spawn(hits(handle.clone(), HITS / CALLERS))).collect();
        for task in tasks {
            task.await.unwrap();
        }
    })
    .await;
}

fn main() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let create = OpenOptions { create: Some(64 << 20), ..OpenOptions::default() };
    let file = CacheFile::open(&directory.path().join("cache"), &create).unwrap();
    Builder::new_multi_thread().worker_threads(1).build().unwrap().block_on(async {
        let handle = StoreHandle::open(vec![file], HandleOptions::default()).await.unwrap();
        measure_all(&handle).await;
        handle.close().await.unwrap();
    });
}
