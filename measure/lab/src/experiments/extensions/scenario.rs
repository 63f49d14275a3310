//! A scenario: the workload, the drive and the sizes of one of the papers' experiments, divided by
//! a scale. Any preset of the engine can run on it as a whole cache.
//!
//! All systems on a scenario get the same requests, the same part of the same drive, and the same
//! total memory. Tables, index, buffers and objects together take as much as in the paper's system,
//! so a smaller index leaves more for objects. Amounts are divided; the size of a cluster, like a
//! seek, stays that of the undivided disk. Requests are served one after another.

use std::collections::VecDeque;
use std::time::Duration;

use sim::ffs::Parameters;
use store::policy::AdmissionName;
use store::{CLUSTER_SIZES, LayoutName, MEAN_OBJECT, WritePolicy};

use super::drives::{Model, Prices};
use crate::experiment::{Failed, Variant};
use crate::experiments::tfs::setup::web_server;
use crate::run::whole_cache;
use crate::run::whole_cache::{
    Accelerated, EngineCache, EngineOptions, Figures, Machine, Pace, Plan, Region, Shape, WebCache,
};
use workload::generator::Workload;
use workload::request::{Method, Request};
use workload::two_level::{Operation, TwoLevel};

const MIB: u64 = 1 << 20;
/// Bytes of the disk cache of UCFS.
const UCFS_DISK: u64 = 16_000_000_000;
const SEED: u64 = 1_999;
/// Bytes that the engine stores besides a body: metadata of 300 bytes and a key of about 46.
pub(super) const BESIDE: u64 = 346;
/// A disk hit shares the read of an object of its directory among the last 32 reads: a visit
/// requests its objects close together, and about twenty visits run concurrently.
pub(super) const TOGETHER: usize = 32;

/// The role of the whole cache in a paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Proxy,
    /// TFS: a cache in front of a web server's files, which are on the other half of the drive.
    Accelerator,
}

/// One of the papers' experiments, divided by a scale.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scenario {
    pub(super) name: &'static str,
    pub(super) workload: &'static str,
    /// Number of merged copies of the workload, each with objects of its own.
    pub(super) copies: u32,
    /// The preset of the paper's best system.
    pub(super) paper: &'static str,
    pub(super) role: Role,
    pub(super) drive: Model,
    /// Bytes of memory for objects in the paper's system, undivided.
    pub(super) tier: u64,
    /// Bytes of the disk cache, undivided.
    pub(super) disk: u64,
    /// Share of `disk` that the cache has in percent; the web server's files keep all of theirs.
    pub(super) percent: u64,
    /// Maximum bytes of the drive that the cache is spread over, if less than it has.
    pub(super) spread: Option<u64>,
    /// Size of the largest object in bytes.
    pub(super) largest: u64,
    pub(super) pace: Pace,
    /// Number of requests for warm-up, and of those that count.
    pub(super) requests: [u64; 2],
    /// The divisor of all amounts.
    pub(super) scale: u32,
}

/// A system that runs on a scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum System {
    Paper,
    /// The product with its defaults and this admission.
    Larder(AdmissionName),
    /// The product with a change that explains a result.
    Changed(Change),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// Stored objects may stay unwritten for a minute.
    Minute,
    SmallClusters,
    /// Clusters of 256 KB, between the two.
    Clusters256,
    /// Objects are written when they are evicted from memory.
    OnEvict,
    /// An index for objects of 12 KB on average, as in a cache that is large relative to its
    /// memory.
    LargeObjects,
}

impl Change {
    pub(super) fn text(self) -> &'static str {
        match self {
            Change::Minute => "unwritten for a minute",
            Change::SmallClusters => "small clusters",
            Change::Clusters256 => "clusters of 256 KB",
            Change::OnEvict => "written on eviction",
            Change::LargeObjects => "mean-object 12 KB",
        }
    }
}

impl System {
    pub(super) fn name(self, scenario: &Scenario) -> String {
        match self {
            System::Paper => scenario.paper.to_owned(),
            System::Larder(AdmissionName::All) => "Larder".to_owned(),
            System::Larder(admission) => format!("Larder, {admission}"),
            System::Changed(change) => format!("Larder, {}", change.text()),
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Run {
    /// Figures of the requests that count.
    pub(super) figures: Figures,
    pub(super) shape: Shape,
    /// Bytes of the objects stored: bodies, metadata and keys.
    pub(super) stored: u64,
    pub(super) objects: u64,
    /// Objects that were evicted from the disk while requests counted.
    pub(super) evicted: u64,
}

impl Run {
    /// Returns bytes written to the drive divided by bytes stored; NaN if nothing was stored.
    pub(super) fn amplification(&self) -> f64 {
        self.figures.usage.writes.bytes as f64 / self.stored as f64
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Bound {
    /// Minimum milliseconds of drive time per request.
    pub(super) ms: f64,
    /// The same if stored objects must be on the drive within a second, as the product guarantees;
    /// only where requests come at a pace of their own.
    pub(super) durable_ms: Option<f64>,
    /// Hits divided by requests in two LRU caches of the same bytes, in percent.
    pub(super) hits: f64,
}

impl Scenario {
    fn divided(&self, bytes: u64) -> u64 {
        (bytes / u64::from(self.scale)).next_multiple_of(MIB)
    }

    /// Returns the part of the drive for the cache, spread as widely as the undivided one.
    pub(super) fn region(&self) -> Region {
        let start = if self.role == Role::Accelerator { self.disk / MIB * MIB } else { 0 };
        self.part(start, self.cache())
    }

    fn part(&self, start: u64, bytes: u64) -> Region {
        let most = self.spread.unwrap_or(bytes).min(bytes);
        let (len, spread) = (self.divided(bytes), most / MIB * MIB);
        Region { start, spread: spread.max(len), len }
    }

    /// Returns the bytes of the cache, undivided.
    fn cache(&self) -> u64 {
        self.disk * self.percent / 100
    }

    pub(super) fn len(&self) -> u64 {
        self.requests.iter().sum()
    }

    /// Measures the minimum costs on the drive, by positioning and by byte.
    pub(super) fn prices(&self) -> Result<Prices, Failed> {
        Prices::of(self.drive, self.region())
    }

    pub(super) fn requests(&self) -> Result<impl Iterator<Item = Request> + use<>, Failed> {
        let workload = Workload::named(self.workload);
        let workload =
            workload.ok_or_else(|| format!("no workload {:?} is known", self.workload))?;
        let all = workload.scaled(self.scale).copies(SEED, self.copies).take(self.len() as usize);
        Ok(all.filter(|request| request.method == Method::Get && !request.uncacheable))
    }

    /// Returns the options of a preset, adapted to the scenario.
    pub(super) fn options(&self, name: &str) -> Result<EngineOptions, Failed> {
        let preset = store::preset(name).ok_or_else(|| format!("there is no preset {name:?}"))?;
        let mut engine = EngineOptions::from(preset);
        engine.options.object_max = Some(self.largest);
        let format = &mut engine.format;
        if format.layout == LayoutName::Cluster && format.cluster_size.is_none() {
            // The product's choice for the undivided disk: an 8,192nd of it.
            let size = (self.cache() / 8_192).clamp(64 << 10, u64::from(*CLUSTER_SIZES.end()));
            format.cluster_size = Some(1 << size.ilog2());
        }
        Ok(engine)
    }

    /// Returns the options of the paper's system: it has the paper's memory for objects; its tables
    /// come on top.
    fn paper(&self) -> Result<EngineOptions, Failed> {
        let mut engine = self.options(self.paper)?;
        let tier = self.tier / u64::from(self.scale);
        engine.tier = Some(tier);
        engine.options.memory = 2 * tier;
        if self.paper == "ucfs" {
            // 4 million entries (section 2.3.2); for other disks in proportion.
            let paper = 4 << 20;
            let entries = match self.cache() / UCFS_DISK {
                0 => paper * self.cache() / UCFS_DISK,
                times => paper * times,
            };
            let entries = Some(entries / u64::from(self.scale));
            engine.format.index.entries = entries;
            engine.options.index.entries = entries;
            let age = engine.options.one_timer_age;
            engine.options.one_timer_age = age.map(|age| age / self.scale);
        }
        Ok(engine)
    }

    /// Returns the options of a preset, with as much memory as the paper's system takes in total.
    pub(super) fn with_memory_of_paper(&self, name: &str) -> Result<EngineOptions, Failed> {
        let mut engine = self.options(name)?;
        engine.options.memory = self.memory()?;
        Ok(engine)
    }

    /// Returns the total bytes of memory of the paper's system.
    pub(super) fn memory(&self) -> Result<u64, Failed> {
        let machine = Machine::new(self.drive.drive()?);
        Ok(EngineCache::create(&machine, self.region(), &self.paper()?)?.shape().memory)
    }

    fn system(&self, system: System) -> Result<EngineOptions, Failed> {
        let (admission, change) = match system {
            System::Paper => return self.paper(),
            System::Larder(admission) => (admission, None),
            System::Changed(change) => (AdmissionName::All, Some(change)),
        };
        let mut engine = self.with_memory_of_paper("larder")?;
        engine.options.admission = admission;
        let keys = engine.options.admission_keys / u64::from(self.scale);
        engine.options.admission_keys = keys.max(1_000);
        match change {
            None => {}
            Some(Change::Minute) => {
                let minute = Duration::from_secs(60);
                engine.options.durability_bound = minute;
                engine.options.flush_interval = minute;
            }
            Some(Change::SmallClusters) => engine.format.cluster_size = None,
            Some(Change::Clusters256) => engine.format.cluster_size = Some(256 << 10),
            Some(Change::LargeObjects) => engine.format.mean_object = Some(MEAN_OBJECT),
            Some(Change::OnEvict) => {
                engine.options.write_policy = WritePolicy::OnEvict;
            }
        }
        Ok(engine)
    }

    pub(super) fn run(&self, variant: &Variant, system: System) -> Result<Run, Failed> {
        self.run_with(variant, &self.system(system)?)
    }

    /// Runs the engine on the scenario with these options.
    pub(super) fn run_with(
        &self,
        variant: &Variant,
        options: &EngineOptions,
    ) -> Result<Run, Failed> {
        let machine = Machine::new(self.drive.drive()?);
        let requests = variant.watch(self.len(), self.requests()?);
        match self.role {
            Role::Proxy => {
                let cache = EngineCache::create(&machine, self.region(), options)?;
                self.serve(&machine, &cache, &cache, requests)
            }
            Role::Accelerator => {
                let (front, files) = (self.region(), self.part(0, self.disk));
                let tier = self.tier / u64::from(self.scale);
                let parameters = Parameters::ucfs_ffs(tier).asynchronous();
                let server = web_server(&machine, files, parameters, self.requests()?)?;
                let front = EngineCache::create(&machine, front, options)?;
                let both = Accelerated::new(front, server);
                self.serve(&machine, &both, both.front(), requests)
            }
        }
    }

    /// Runs the requests on a cache of the scenario's machine, whose engine is `engine`; first
    /// those of the warm-up.
    ///
    /// # Errors
    /// The cache failed.
    pub(super) fn serve<S: WebCache>(
        &self,
        machine: &Machine,
        cache: &S,
        engine: &EngineCache,
        mut requests: impl Iterator<Item = Request>,
    ) -> Result<Run, Failed> {
        let plan = Plan { warm_up: 0, pace: self.pace };
        let warm_up = requests.by_ref().take(self.requests[0] as usize);
        whole_cache::run(machine, cache, warm_up, &plan)?;
        let before = engine.stats().counters;
        let figures = whole_cache::run(machine, cache, requests, &plan)?;
        let after = engine.stats().counters;
        let stored = after.inserted_bytes - before.inserted_bytes;
        let objects = after.insertions - before.insertions;
        let evicted = after.evicted_records - before.evicted_records;
        Ok(Run { figures, shape: engine.shape(), stored, objects, evicted })
    }

    /// Computes the minimum work of the drive. It assumes two LRU caches that use all of the memory
    /// and all of the disk for objects alone. Stored objects are written once, at the rate of a
    /// long sequential write. Misses of the memory are read at the rate of a long read, with one
    /// positioning for all objects of a directory that are requested at about the same time. The
    /// bound with durability adds a write for each second in which something is stored.
    pub(super) fn bound(&self) -> Result<Bound, Failed> {
        let prices = self.prices()?;
        let mut caches = TwoLevel::new(self.memory()?, self.region().len);
        let mut operations = Vec::new();
        let mut last: VecDeque<(u32, u32)> = VecDeque::new();
        let (mut positions, mut read, mut written) = (0_u64, 0_u64, 0_u64);
        let mut seconds = 0_u64;
        let mut written_by = 0;
        let mut before = (caches.counts(), 0, 0, 0, 0);
        let mut requests = 0;
        for (number, request) in (0..).zip(self.requests()?) {
            if number == self.requests[0] {
                before = (caches.counts(), positions, read, written, seconds);
                requests = 0;
            }
            requests += 1;
            if request.size > self.largest {
                continue;
            }
            operations.clear();
            caches.request(&request, &mut operations);
            for operation in &operations {
                match operation {
                    Operation::Delete(_) => {}
                    Operation::Store(object) => {
                        written += object.size + BESIDE;
                        if request.time_ms >= written_by {
                            seconds += 1;
                            written_by = request.time_ms + 1_000;
                        }
                        if self.role == Role::Accelerator {
                            // The object is read from the file system.
                            positions += 1;
                            read += object.size;
                        }
                    }
                    Operation::Read(object) => {
                        read += object.size + BESIDE;
                        let page = (object.site, object.group);
                        positions += u64::from(!last.contains(&page));
                        last.push_back(page);
                        if last.len() > TOGETHER {
                            last.pop_front();
                        }
                    }
                }
            }
        }
        let counts = caches.counts() - before.0;
        let [positions, read, written] =
            [positions - before.1, read - before.2, written - before.3].map(|count| count as f64);
        let requests = requests as f64;
        let hits = counts.memory_hits + counts.disk_hits;
        let ms = prices.ms(positions, read, written) / requests;
        let appends = (seconds - before.4) as f64 * prices.append / 1e6 / requests;
        Ok(Bound {
            ms,
            durable_ms: (self.pace == Pace::Stated).then_some(ms + appends),
            hits: 100.0 * hits as f64 / requests,
        })
    }
}
