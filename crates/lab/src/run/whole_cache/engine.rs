//! The product's engine as a whole cache: it decides what to keep, where, and for how long.
//!
//! Bodies are elided (docs/research/lab.md, "What is elided"), unless bytes are asked for: lengths
//! alone decide, and no bytes are moved. Whatever the engine hands out is compared with what was
//! stored.

use std::rc::Rc;

use sim::{Handle, SimDisk};
use store::{FormatOptions, Lookup, Options, Preset, Refusal, Source, Stats, Store};

use super::{CacheError, Machine, Outcome, Region, WebCache};
use crate::space::engine;
use crate::space::engine::key;
use workload::contents::Bodies;
use workload::request::{Object, Request};

/// Guesses at the memory with which the objects' part of it is as large as wanted.
const GUESSES: usize = 10;
/// Bytes of memory within which a guess is right.
const NEAR: u64 = 32;

/// Bytes that are handed to a writer at a time.
const CHUNK: usize = 256 << 10;
/// Bytes of what is written alone.
const BLOCK: u32 = 4096;

/// How the engine is to be opened.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// How it works; `memory` is everything that it may use.
    pub options: Options,
    /// How its cache is laid out.
    pub format: FormatOptions,
    /// Bytes of objects that its memory is to hold, whatever all the rest takes: `options.memory`
    /// is set so.
    pub tier: Option<u64>,
    /// What bodies are made of.
    pub bodies: Bodies,
}

impl From<Preset> for EngineOptions {
    fn from(preset: Preset) -> EngineOptions {
        EngineOptions {
            options: preset.options,
            format: preset.format,
            tier: None,
            bodies: Bodies::Elided,
        }
    }
}

/// What the engine made of its options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Bytes of memory in all.
    pub memory: u64,
    /// Bytes of objects that memory may hold.
    pub tier: u64,
    /// Bytes of index and cluster table.
    pub tables: u64,
}

/// The engine with its background running.
pub struct EngineCache {
    store: Store<SimDisk, Handle>,
    shape: Shape,
    bodies: Bodies,
}

impl EngineCache {
    /// An empty cache on a part of the machine's drive.
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
            // What else takes memory grows with it in proportion, three eighths of it and sometimes
            // a little more: the second guess is right, or one soon after it.
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

    /// What the engine made of its options.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// The engine's own figures.
    pub fn stats(&self) -> Stats {
        self.store.stats()[0]
    }

    /// Looks an object up and reads all of it: whether its version is current, and where it was.
    /// `None`: it is not there, or it is lost on the way.
    ///
    /// # Errors
    /// Its body is not what was stored.
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

    /// Stores the current version of an object: whether it was taken.
    ///
    /// # Errors
    /// The device is lost.
    pub(super) async fn keep(&self, request: &Request) -> Result<bool, CacheError> {
        let object = request.object();
        let body = self.bodies.parts(&object, CHUNK);
        match engine::insert(&self.store, &key(&object), &object, body).await {
            Ok(()) => Ok(true),
            Err(Refusal::Offline) => Err(CacheError("its device was given up".to_owned())),
            Err(_) => Ok(false),
        }
    }
}

impl WebCache for EngineCache {
    async fn answer(&self, request: &Request) -> Result<Outcome, CacheError> {
        let found = self.find(request).await?;
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
                // What was stored is out of date, and what would replace it is not taken.
                self.store.remove(&key(&request.object())).await;
                Ok(current)
            }
            false => Ok(Outcome::Refused),
        }
    }

    fn prefetched(&self) -> (u64, u64) {
        let counters = self.stats().counters;
        (counters.prefetched, counters.prefetch_hits)
    }
}
