//! The product's engine as a whole cache, which decides what to keep, where, and for how long.
//!
//! Bodies are elided (docs/research/lab.md, "What is elided") unless bytes are requested: decisions
//! depend on lengths alone, and no bytes are moved. Everything that the engine returns is compared
//! with what was stored.

use std::rc::Rc;
use std::sync::Arc;

use device::SharedMemory;
use sim::{Handle, SimDisk};
use store::{
    FormatOptions, Lookup, Options, Preset, Refusal, SharedMemorySource, Source, Stats, Store,
};

use super::{CacheError, Machine, Outcome, Region, WebCache};
use crate::space::engine;
use crate::space::engine::key;
use workload::contents::Bodies;
use workload::request::{Object, Request};

/// Maximum number of iterations to find the memory that gives objects the wanted part of it.
const GUESSES: usize = 10;
/// Tolerance of that search, in bytes.
const NEAR: u64 = 32;

/// Bytes passed to a writer at a time.
const CHUNK: usize = 256 << 10;
/// Block size of the disk in bytes.
const BLOCK: u32 = 4096;

/// How the engine is opened.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// The store's options; `memory` is all that it may use.
    pub options: Options,
    /// The format of its cache.
    pub format: FormatOptions,
    /// Bytes of objects that its memory should hold, whatever the rest takes; determines
    /// `options.memory`.
    pub tier: Option<u64>,
    /// The content of bodies.
    pub bodies: Bodies,
}

impl From<Preset> for EngineOptions {
    fn from(preset: Preset) -> EngineOptions {
        let shared_memory: SharedMemorySource =
            Arc::new(|_, _, len| Ok(SharedMemory::simulated(len)));
        EngineOptions {
            options: Options { shared_memory: Some(shared_memory), ..preset.options },
            format: preset.format,
            tier: None,
            bodies: Bodies::Elided,
        }
    }
}

/// The sizes that follow from the engine's options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Total bytes of memory.
    pub memory: u64,
    /// Bytes of objects that memory may hold.
    pub tier: u64,
    /// Bytes of the index and the cluster table.
    pub tables: u64,
}

/// The engine with its background running.
pub struct EngineCache {
    store: Store<SimDisk, Handle>,
    shape: Shape,
    bodies: Bodies,
}

impl EngineCache {
    /// Creates an empty cache on a part of the machine's drive.
    ///
    /// # Errors
    /// The options do not fit it.
    pub fn create(
        machine: &Machine,
        region: Region,
        options: &EngineOptions,
    ) -> Result<EngineCache, CacheError> {
        let EngineOptions { mut options, format, tier, bodies } = options.clone();
        if let Some(tier) = tier {
            // The other memory grows in proportion, by three eighths and sometimes a little more,
            // so the second iteration or one soon after it is exact.
            for _ in 0..GUESSES {
                let shape = EngineCache::open(machine, region, &options, &format, bodies)?.shape;
                let missing = (tier as i64 - shape.tier as i64) * 8 / 5;
                options.memory = options.memory.saturating_add_signed(missing);
                if missing.unsigned_abs() < NEAR {
                    break;
                }
            }
        }
        EngineCache::open(machine, region, &options, &format, bodies)
    }

    fn open(
        machine: &Machine,
        region: Region,
        options: &Options,
        format: &FormatOptions,
        bodies: Bodies,
    ) -> Result<EngineCache, CacheError> {
        let clock = machine.clock();
        let device = Rc::new(machine.disk(region, BLOCK)?);
        let format = FormatOptions { memory: options.memory, ..*format };
        let created = engine::create(device, clock.clone(), &format, options.clone());
        let store = machine.run(created)?.map_err(|error| CacheError(error.to_string()))?;
        let background = store.clone();
        drop(clock.spawn(async move { background.run_background().await }));
        let stats = store.stats()[0];
        let shape = Shape {
            memory: options.memory,
            tier: stats.tier_capacity as u64,
            tables: (stats.index_bytes + stats.cluster_table_bytes) as u64,
        };
        Ok(EngineCache { store, shape, bodies })
    }

    /// Returns the sizes that follow from the options.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Returns the engine's own statistics.
    pub fn stats(&self) -> Stats {
        self.store.stats()[0]
    }

    /// Looks up an object and reads all of it. Returns whether its version is current, and where it
    /// was; `None` if it is missing or could not be read completely.
    ///
    /// # Errors
    /// Its body differs from the one stored.
    pub(super) async fn find(
        &self,
        request: &Request,
    ) -> Result<Option<(bool, Source)>, CacheError> {
        let Lookup::Hit(entry) = self.store.lookup(&key(&request.object())).await else {
            return Ok(None);
        };
        let object = Object { version: entry.stamp(), size: entry.len(), ..request.object() };
        let read = engine::read(&entry, &object).await;
        let is_whole = read.map_err(|error| CacheError(error.to_string()))?;
        Ok(is_whole.then(|| (entry.stamp() == request.version, entry.source())))
    }

    /// Stores the current version of an object; returns whether it was accepted.
    ///
    /// # Errors
    /// The device is lost.
    pub(super) async fn keep(&self, request: &Request) -> Result<bool, CacheError> {
        let object = request.object();
        let body = self.bodies.parts(&object, CHUNK);
        match engine::insert(&self.store, &key(&object), &object, body).await {
            Ok(()) => Ok(true),
            Err(Refusal::Offline) => Err(CacheError("its device is out of use".to_owned())),
            Err(_) => Ok(false),
        }
    }
}

impl EngineCache {
    /// Stores the object unless `found`, the result of [`EngineCache::find`], is current.
    pub(super) async fn answer_found(
        &self,
        request: &Request,
        found: Option<(bool, Source)>,
    ) -> Result<Outcome, CacheError> {
        let current = match found {
            Some((true, Source::Ram)) => return Ok(Outcome::MemoryHit),
            Some((true, Source::Disk)) => return Ok(Outcome::DiskHit),
            Some((false, Source::Ram)) => Outcome::MemoryStale,
            Some((false, Source::Disk)) => Outcome::DiskStale,
            None => Outcome::Miss,
        };
        match self.keep(request).await? {
            true => Ok(current),
            false if found.is_some() => {
                // The stored version is out of date, and its replacement was refused.
                self.store.remove(&key(&request.object())).await;
                Ok(current)
            }
            false => Ok(Outcome::Refused),
        }
    }
}

impl WebCache for EngineCache {
    async fn answer(&self, request: &Request) -> Result<Outcome, CacheError> {
        let found = self.find(request).await?;
        self.answer_found(request, found).await
    }

    fn prefetched(&self) -> (u64, u64) {
        let counters = self.stats().counters;
        (counters.prefetched, counters.prefetch_hits)
    }
}
