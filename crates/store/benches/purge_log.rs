//! The log of purges: purges per second of 64 callers at once, and the time to open a cache whose
//! log is full, beside one that keeps no log.
//!
//! `cargo bench -p larder-store --bench purge_log`

#![allow(clippy::disallowed_methods, clippy::print_stdout, clippy::unwrap_used)]

use std::path::Path;
use std::time::Instant;

use bytes::Bytes;
use device::{CacheFile, OpenOptions};
use larder_store::{HandleOptions, Key, Locality, Options, StoreHandle};
use tokio::runtime::Builder;

/// Size of the cache, which has the longest log.
const CACHE: u64 = 16 << 30;
/// Number of callers at once.
const CALLERS: u32 = 64;
/// Number of purges of each caller: together somewhat more than the log has space for.
const PURGES: u32 = 15_000;

/// Number of openings, of which the median is taken.
const OPENINGS: usize = 9;

/// Returns a URL of 60 bytes.
fn url(caller: u32, number: u32) -> String {
    format!("https://www.example.org/news/2026/{caller:04}/page-{number:011}.html")
}

async fn purge(handle: StoreHandle, caller: u32, purges: u32) {
    let first = Key::new(Bytes::from(url(caller, 0)), Locality::default()).unwrap();
    let run = handle.run(&first, async move |store| {
        for number in 0..purges {
            let url = Bytes::from(url(caller, number));
            let key = Key::new(url.clone(), Locality::default()).unwrap();
            store.purge_named(url, &[key]).await.unwrap();
        }
    });
    run.await.unwrap();
}

/// Opens the cache; also returns how many milliseconds that took.
async fn open(path: &Path, purge_log: bool) -> (StoreHandle, f64) {
    let create = OpenOptions { create: Some(CACHE), ..OpenOptions::default() };
    let file = CacheFile::open(path, &create).unwrap();
    let start = Instant::now();
    let store = Options { purge_log, ..Options::default() };
    let options = HandleOptions { store, ..HandleOptions::default() };
    let handle = StoreHandle::open(vec![file], options).await.unwrap();
    (handle, start.elapsed().as_secs_f64() * 1e3)
}

async fn measure(path: &Path) {
    let (handle, _) = open(path, true).await;
    for share in [10, 1] {
        let start = Instant::now();
        let purges = PURGES / share;
        let tasks: Vec<_> = (0..CALLERS)
            .map(|caller| tokio::spawn(purge(handle.clone(), caller, purges)))
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        let count = CALLERS * purges;
        let each = f64::from(count) / start.elapsed().as_secs_f64();
        println!("{count} purges of {CALLERS} callers at once: {each:.0} per second");
    }
    handle.close().await.unwrap();
    for (purge_log, log) in [(true, "with the log"), (false, "without it")] {
        let mut times = Vec::new();
        for _ in 0..OPENINGS {
            let (handle, time) = open(path, purge_log).await;
            handle.close().await.unwrap();
            times.push(time);
        }
        times.sort_by(f64::total_cmp);
        println!("opening {log}: {:.1} ms, at least {:.1}", times[OPENINGS / 2], times[0]);
    }
}

fn main() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = directory.path().join("cache");
    Builder::new_multi_thread().worker_threads(1).build().unwrap().block_on(measure(&path));
}
