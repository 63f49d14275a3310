//! foyer's hybrid cache with its block engine on a directory, as its documentation recommends.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use foyer::{
    BlockEngineConfig, Compression, DeviceBuilder, FsDeviceBuilder, HybridCache,
    HybridCacheBuilder, HybridCachePolicy, PsyncIoEngineConfig, RecoverMode,
};
use tokio::sync::Mutex;
use tokio::time::timeout;

use crate::engine::{Check, Engine, Hit, Source};
use crate::task::Plan;
use crate::trace::Item;

/// Size of a block in bytes, the default: the unit of eviction, larger than the largest object.
const BLOCK: usize = 16 << 20;

/// Bytes of insertions after which the caller waits for the write queue. foyer has no such wait of
/// its own: it drops entries that do not fit its buffers of 16 MiB.
const UNWRITTEN_MAX: u64 = 4 << 20;

/// Maximum time to wait for the write queue. If a kill left no clean block, foyer's recovery starts
/// no reclamation: no write ends any more.
const WRITE_MAX: Duration = Duration::from_secs(20);

/// The hybrid cache.
pub struct FoyerEngine {
    cache: HybridCache<String, Vec<u8>>,
    /// Bytes inserted since the write queue was last empty.
    unwritten: Mutex<u64>,
}

impl FoyerEngine {
    /// Waits until the write queue is empty, for at most [`WRITE_MAX`].
    async fn drain(&self) {
        _ = timeout(WRITE_MAX, self.cache.storage().wait()).await;
    }
}

impl Engine for FoyerEngine {
    const REPORTS_REFUSALS: bool = false;

    async fn open(directory: &Path, plan: &Plan, _create: bool) -> Result<FoyerEngine, String> {
        let device = FsDeviceBuilder::new(directory.join("cache"))
            .with_capacity(plan.file_size as usize)
            .with_direct(true)
            .build()
            .map_err(|error| error.to_string())?;
        let cache = HybridCacheBuilder::new()
            .with_policy(HybridCachePolicy::WriteOnInsertion)
            .memory(plan.memory as usize)
            .with_weighter(|key: &String, body: &Vec<u8>| key.len() + body.len())
            .storage()
            // In CPU time io_uring took more.
            .with_io_engine_config(PsyncIoEngineConfig::new())
            .with_engine_config(BlockEngineConfig::new(device).with_block_size(BLOCK))
            .with_recover_mode(RecoverMode::Quiet)
            .with_compression(Compression::None)
            .build()
            .await
            .map_err(|error| error.to_string())?;
        Ok(FoyerEngine { cache, unwritten: Mutex::new(0) })
    }

    async fn get(&self, item: &Item, verifies: bool) -> Option<Hit> {
        let entry = self.cache.get(&item.url()).await.ok()??;
        let source = match entry.source() {
            foyer::Source::Disk => Source::Disk,
            foyer::Source::Memory | foyer::Source::Outer => Source::Memory,
        };
        let mut check = Check::new(item, verifies);
        check.take(entry.value());
        Some(check.end(source))
    }

    async fn put(&self, item: &Item, body: Bytes) -> bool {
        let mut unwritten = self.unwritten.lock().await;
        if *unwritten + item.size > UNWRITTEN_MAX {
            self.drain().await;
            *unwritten = 0;
        }
        *unwritten += item.size;
        self.cache.insert(item.url(), body.into());
        true
    }

    fn knows(&self, item: &Item) -> bool {
        self.cache.contains(&item.url())
    }

    fn memory_bytes(&self) -> u64 {
        self.cache.memory().usage() as u64
    }

    async fn settle(&self) {
        self.drain().await;
    }

    async fn close(&self) -> Result<(), String> {
        match timeout(WRITE_MAX, self.cache.close()).await {
            Ok(closed) => closed.map_err(|error| error.to_string()),
            // What was written is read at the next start, as after a kill.
            Err(_) => Ok(()),
        }
    }
}
