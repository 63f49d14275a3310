//! The product's engine as a whole cache: it decides what to keep, where, and for how long.
//!
//! Bodies are elided (docs/research/lab.md, "What is elided"): lengths alone decide, and no bytes
//! are moved.

use std::rc::Rc;

use bytes::Bytes;
use sim::{Handle, SimDisk};
use store::{Content, Entry, FormatOptions, Hint, Key, Locality, Lookup, Options, Preset};
use store::{Refusal, Source, Stats, Store};

use super::{Broken, Machine, Outcome, Region, WebCache};
use crate::workload::contents::mix;
use crate::workload::request::Request;

/// Guesses at the memory with which the objects' part of it is as large as wanted.
const GUESSES: usize = 10;
/// Bytes of memory within which a guess is right.
const NEAR: u64 = 32;

/// The metadata of every object: about as much as the head of an answer takes.
const META: &[u8] = &[b'm'; 300];
/// Bytes that are handed to a writer at a time.
const CHUNK: usize = 256 << 10;
/// Bytes of what is written alone.
const BLOCK: u32 = 4096;
const CREATED: u64 = 1_000_000_000;

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
}

impl From<Preset> for EngineOptions {
    fn from(preset: Preset) -> EngineOptions {
        EngineOptions { options: preset.options, format: preset.format, tier: None }
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
    ) -> Result<EngineCache, Broken> {
        let EngineOptions { mut options, format, tier } = options.clone();
        if let Some(tier) = tier {
            // What else takes memory grows with it in proportion, three eighths of it and sometimes
            // a little more: the second guess is right, or one soon after it.
            for _ in 0..GUESSES {
                let shape = EngineCache::open(machine, region, &options, &format)?.shape;
                let missing = (tier as i64 - shape.tier as i64) * 8 / 5;
                options.memory = options.memory.saturating_add_signed(missing);
                if missing.unsigned_abs() < NEAR {
                    break;
                }
            }
        }
        EngineCache::open(machine, region, &options, &format)
    }

    fn open(
        machine: &Machine,
        region: Region,
        options: &Options,
        format: &FormatOptions,
    ) -> Result<EngineCache, Broken> {
        let clock = machine.clock();
        let device = Rc::new(machine.disk(region, BLOCK)?);
        let format = FormatOptions {
            memory: options.memory,
            superblock_far: false,
            labels: false,
            ..*format
        };
        let store = machine.run(async {
            let formatted = store::format(&*device, &format, [7; 48], CREATED).await;
            formatted.map_err(|error| Broken(error.to_string()))?;
            let opened = Store::open(vec![device], clock.clone(), options.clone()).await;
            opened.map_err(|(_, error)| Broken(error.to_string()))
        })??;
        let background = store.clone();
        drop(clock.spawn(async move { background.run_background().await }));
        let stats = store.stats()[0];
        let shape = Shape {
            memory: options.memory,
            tier: stats.tier_capacity as u64,
            tables: (stats.index_bytes + stats.cluster_table_bytes) as u64,
        };
        Ok(EngineCache { store, shape })
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
    pub(super) async fn find(&self, request: &Request) -> Option<(bool, Source)> {
        match self.store.lookup(&key(request)).await {
            Lookup::Hit(entry) if whole(&entry).await => {
                Some((entry.stamp() == request.version, entry.source()))
            }
            _ => None,
        }
    }

    /// Stores the current version of an object: whether it was taken.
    ///
    /// # Errors
    /// The device is lost.
    pub(super) async fn keep(&self, request: &Request) -> Result<bool, Broken> {
        match self.insert(request).await {
            Ok(()) => Ok(true),
            Err(Refusal::Offline) => Err(Broken("its device was given up".to_owned())),
            Err(_) => Ok(false),
        }
    }

    async fn insert(&self, request: &Request) -> Result<(), Refusal> {
        let key = key(request);
        let token = self.store.begin_fetch(&key);
        let hint = Hint { size: Some(request.size), kind: request.kind, stamp: request.version };
        let meta = Bytes::from_static(META);
        let mut writer = self.store.insert(&token, &key, meta, hint).await?;
        let body = mix(u64::from(request.object) << 32 | u64::from(request.version));
        let size = request.size as usize;
        for at in (0..size).step_by(CHUNK) {
            let (id, len) = (body.wrapping_add(at as u64), CHUNK.min(size - at));
            writer.write(Content::Elided { id, len }).await?;
        }
        writer.commit().await
    }
}

impl WebCache for EngineCache {
    async fn answer(&self, request: &Request) -> Result<Outcome, Broken> {
        let found = self.find(request).await;
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
                self.store.remove(&key(request)).await;
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

/// Takes the whole body; false when it is cut.
async fn whole(entry: &Entry<SimDisk, Handle>) -> bool {
    let mut body = entry.body(0..entry.len());
    while let Some(part) = body.next_content().await {
        if part.is_err() {
            return false;
        }
    }
    true
}

/// An object's name, as long as a URL is.
fn key(request: &Request) -> Key {
    let url = format!("http://server-{:07}.example/objects/{:09}", request.site, request.object);
    let site = mix(u64::from(request.site));
    let group = mix(site ^ u64::from(request.group));
    Key::new(url.into(), Locality { site, group }).expect("a short key")
}
