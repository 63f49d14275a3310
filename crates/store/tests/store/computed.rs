//! A small computed device (`store::computed`): the benchmark of scale measures what the engine
//! would have written.

use std::rc::Rc;
use std::time::Duration;

use device::{AnyDevice, Clock, Device, Extent, MemoryDevice, Nanos, OtherDevice};
use larder_store::computed::{ComputedClusters, ComputedDevice, META, RECORD_LEN, STORED_AT};
use larder_store::{FormatOptions, Hint, Lookup, Options, Store};
use tokio::task::LocalSet;
use tokio::time::Instant;

/// A clock with a fixed date.
#[derive(Clone)]
struct FixedDate(Instant);

impl Clock for FixedDate {
    fn now(&self) -> Nanos {
        self.0.elapsed().as_nanos() as Nanos
    }
    fn unix_seconds(&self) -> u64 {
        u64::from(STORED_AT)
    }
    async fn sleep_until(&self, deadline: Nanos) {
        tokio::time::sleep_until(self.0 + Duration::from_nanos(deadline)).await;
    }
}

type Cache = Store<AnyDevice, FixedDate>;

/// Opens the cache, runs `body` and stops it in order.
fn life(device: &Rc<AnyDevice>, body: impl AsyncFnOnce(&Cache)) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    LocalSet::new().block_on(&runtime, async {
        let options = Options { memory: 32 << 20, batch: 0, ..Options::default() };
        let clock = FixedDate(Instant::now());
        let cache = Store::open(vec![Rc::clone(device)], clock, options).await.unwrap();
        let background = cache.clone();
        tokio::task::spawn_local(async move { background.run_background().await });
        body(&cache).await;
        assert!(cache.shutdown().await, "the cache stopped in order");
    });
}

/// Returns a cache with `objects` computed objects, on a device with space for some more.
fn computed(objects: u64) -> ComputedDevice<MemoryDevice> {
    let memory = MemoryDevice::new(objects * RECORD_LEN as u64 + (24 << 20), 4096);
    let format = FormatOptions { cluster_size: Some(256 << 10), ..FormatOptions::default() };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        larder_store::format_with_seed(&memory, &format, [7; 48], 0).await.unwrap();
        let filled = ComputedClusters::fill(&memory, objects).await.unwrap();
        ComputedDevice::new(memory, filled)
    })
}

/// Stores the objects with these numbers.
async fn insert(cache: &Cache, from: &ComputedClusters, numbers: std::ops::Range<u64>) {
    for number in numbers {
        let (key, body) = (from.key(number), from.body(number));
        let token = cache.begin_fetch(&key);
        let hint = Hint { size: Some(body.len() as u64), ..Hint::default() };
        let mut writer = cache.insert(&token, &key, META.into(), hint).await.unwrap();
        writer.write(body).await.unwrap();
        writer.commit().await.unwrap();
    }
}

/// Verifies the objects with these numbers byte by byte; returns how many are missing.
async fn missing(
    cache: &Cache,
    from: &ComputedClusters,
    numbers: impl Iterator<Item = u64>,
) -> u64 {
    let mut missing = 0;
    for number in numbers {
        match cache.lookup(&from.key(number)).await {
            Lookup::Miss => missing += 1,
            Lookup::Hit(entry) => {
                assert_eq!(entry.meta(), META, "the metadata of object {number}");
                assert!(entry.whole().unwrap() == from.body(number), "the body of object {number}");
            }
        }
    }
    missing
}

#[test]
fn the_bytes_are_those_that_the_engine_would_have_written() {
    let objects = 400;
    let computed = computed(objects);
    let written = MemoryDevice::new(computed.geometry().len, 4096);
    let format = FormatOptions { cluster_size: Some(256 << 10), ..FormatOptions::default() };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(larder_store::format_with_seed(&written, &format, [7; 48], 0)).unwrap();
    let device = Rc::new(AnyDevice::Memory(written.clone()));
    life(&device, async |cache| insert(cache, computed.filled(), 0..objects).await);
    let mut compared = 0;
    let len = computed.geometry().len;
    for offset in (0..len).step_by(4096) {
        let Some((cluster, extent)) = computed.filled().cluster_at(offset) else { continue };
        if extent.offset != offset {
            continue;
        }
        let mut bytes = vec![1; extent.len as usize];
        computed.filled().read(cluster, 0, &mut bytes);
        let stored = written.peek(Extent { offset, len: extent.len });
        let differs = bytes.iter().zip(&stored).position(|(computed, stored)| computed != stored);
        assert_eq!(differs, None, "byte of cluster {cluster}");
        compared += 1;
    }
    assert_eq!(compared, 20);
}

#[test]
fn a_computed_cache_of_20_000_objects_starts_and_serves() {
    let (objects, new) = (20_000, 2_000);
    let computed = computed(objects);
    let of = &Rc::clone(computed.filled());
    let device = Rc::new(AnyDevice::Other(OtherDevice::new(computed)));
    life(&device, async |cache| {
        assert_eq!(cache.stats()[0].index_entries as u64, objects);
        assert_eq!(missing(cache, of, (0..objects).step_by(10)).await, 0, "after a kill");
        // More than the free space: some old objects are evicted.
        insert(cache, of, objects..objects + new).await;
        assert!(cache.stats()[0].counters.evicted_clusters > 0);
    });
    life(&device, async |cache| {
        assert_eq!(missing(cache, of, (objects..objects + new).step_by(10)).await, 0);
        let gone = missing(cache, of, (0..objects).step_by(10)).await;
        let entries = cache.stats()[0].index_entries as u64;
        assert!(0 < gone && gone * 10 < new && entries < objects + new, "{gone}, {entries}");
        assert_eq!(cache.stats()[0].counters.damaged_records, 0);
    });
}
