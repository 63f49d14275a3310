//! The cost of a lookup: how often it locks the core.

use std::rc::Rc;

use bytes::Bytes;
use device::{ManualClock, MemoryDevice};

use super::*;
use crate::base::key::Locality;
use crate::config::options::FormatOptions;
use crate::interface::writer::Hint;

type TestStore = Store<MemoryDevice, ManualClock>;

/// Returns a store on an empty cache.
async fn empty() -> TestStore {
    let device = MemoryDevice::new(64 << 20, 512);
    crate::format_with_seed(&device, &FormatOptions::default(), [7; 48], 1).await.unwrap();
    let options = Options { memory: 16 << 20, ..Options::default() };
    Store::open(vec![Rc::new(device)], ManualClock::new(1), options).await.unwrap()
}

async fn put(store: &TestStore, key: &Key, len: usize) {
    let token = store.begin_fetch(key);
    let meta = Bytes::from_static(b"meta");
    let mut writer = store.insert(&token, key, meta, Hint::default()).await.unwrap();
    writer.write(Bytes::from(vec![7; len])).await.unwrap();
    writer.commit().await.unwrap();
}

/// Returns how often a lookup of `key` locks the core, and its additions to the counters of memory
/// hits and misses.
async fn cost(store: &TestStore, key: &Key) -> (u64, u64, u64) {
    let volume = &store.volumes[0].shared;
    let (before, locks) = (store.stats()[0].counters, volume.lock_figures().taken);
    let found = store.lookup(key).await;
    drop(found);
    let locks = volume.lock_figures().taken - locks;
    let after = store.stats()[0].counters;
    assert_eq!(after.disk_hits, before.disk_hits);
    (locks, after.memory_hits - before.memory_hits, after.misses - before.misses)
}

#[tokio::test(flavor = "current_thread")]
async fn a_hit_from_memory_locks_the_core_once_and_so_does_a_miss() {
    let store = empty().await;
    let key = |name: &'static str| {
        Key::new(Bytes::from_static(name.as_bytes()), Locality::default()).unwrap()
    };
    put(&store, &key("small"), 1_000).await;
    assert_eq!(cost(&store, &key("small")).await, (1, 1, 0));
    assert_eq!(cost(&store, &key("other")).await, (1, 0, 1));
    // Pieces have locks of their own.
    put(&store, &key("large"), 300_000).await;
    let (locks, hits, misses) = cost(&store, &key("large")).await;
    assert_eq!((hits, misses), (1, 0));
    assert!(locks > 1);
}
