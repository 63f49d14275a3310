//! The store with its default options on one file, as a server uses it.

use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use device::{AnyDevice, CacheFile, Clock, Ring, SystemClock};
use store::{FormatOptions, Hint, Key, Locality, Lookup, Options, Refusal, Store};
use tokio::task::spawn_local;
use tokio::time::sleep;

use crate::engine::{Check, Engine, Hit, Source};
use crate::task::Plan;
use crate::trace::Item;

/// Maximum number of device operations in flight.
const IN_FLIGHT: u32 = 256;

/// Interval between two looks at the figures while waiting.
const POLL: Duration = Duration::from_millis(5);

/// Maximum time to wait for recovery and pending writes.
const SETTLE_MAX: Duration = Duration::from_secs(60);

/// The store, with its background running.
pub struct LarderEngine(Store<AnyDevice, SystemClock>);

fn key(item: &Item) -> Key {
    let (site, group) = item.locality();
    Key::new(item.url().into(), Locality { site, group }).expect("a short key")
}

impl LarderEngine {
    async fn insert(&self, item: &Item, body: Bytes) -> Result<(), Refusal> {
        let key = key(item);
        let token = self.0.begin_fetch(&key);
        let hint = Hint { size: Some(item.size), ..Hint::default() };
        let mut writer = self.0.insert(&token, &key, Bytes::new(), hint).await?;
        writer.write(body).await?;
        writer.commit().await
    }
}

impl Engine for LarderEngine {
    const REPORTS_REFUSALS: bool = true;

    async fn open(directory: &Path, plan: &Plan, create: bool) -> Result<LarderEngine, String> {
        let len = create.then_some(plan.file_size);
        let open = device::OpenOptions { create: len, ..device::OpenOptions::default() };
        let file = CacheFile::open(&directory.join("cache"), &open).map_err(|e| e.to_string())?;
        let ring = Ring::new(IN_FLIGHT).ok();
        if let Some(ring) = &ring {
            spawn_local(device::drive(ring.clone()));
        }
        let device = Rc::new(file.attach(ring.as_ref()).map_err(|e| e.to_string())?);
        let clock = SystemClock::new();
        if create {
            let format = FormatOptions { memory: plan.memory, ..FormatOptions::default() };
            let formatted = store::format(&*device, &format, clock.unix_seconds()).await;
            formatted.map_err(|error| error.to_string())?;
        }
        let options = Options { memory: plan.memory, ..Options::default() };
        let opened = Store::open(vec![device], clock, options).await;
        let store = opened.map_err(|error| error.to_string())?;
        let background = store.clone();
        spawn_local(async move { background.run_background().await });
        Ok(LarderEngine(store))
    }

    async fn get(&self, item: &Item, verifies: bool) -> Option<Hit> {
        let Lookup::Hit(entry) = self.0.lookup(&key(item)).await else { return None };
        let source = match entry.source() {
            store::Source::Ram => Source::Memory,
            store::Source::Disk => Source::Disk,
        };
        let (mut body, mut check) = (entry.body(0..entry.len()), Check::new(item, verifies));
        while let Some(chunk) = body.next().await {
            check.take(&chunk.ok()?);
        }
        Some(check.end(source))
    }

    async fn put(&self, item: &Item, body: Bytes) -> bool {
        self.insert(item, body).await.is_ok()
    }

    fn knows(&self, item: &Item) -> bool {
        self.0.knows(&key(item))
    }

    fn memory_bytes(&self) -> u64 {
        let stats = self.0.stats();
        let bytes = stats.iter().map(|stats| {
            stats.tier_bytes.iter().sum::<usize>() + stats.read_ahead_bytes + stats.unwritten_bytes
        });
        bytes.sum::<usize>() as u64
    }

    async fn settle(&self) {
        let began = Instant::now();
        let is_busy =
            || self.0.stats().iter().any(|stats| stats.recovering || stats.unwritten_bytes > 0);
        while is_busy() && began.elapsed() < SETTLE_MAX {
            sleep(POLL).await;
        }
    }

    async fn close(&self) -> Result<(), String> {
        match self.0.shutdown().await {
            true => Ok(()),
            false => Err("the store could not be closed in order".to_owned()),
        }
    }
}
