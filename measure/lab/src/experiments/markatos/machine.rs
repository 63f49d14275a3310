//! The paper's machine: a Seagate ST15150 under Solaris UFS, its trace behind two LRU caches, and
//! the space managers on it, in virtual time.
//!
//! A full run is as large as the paper's. A quick one divides requests, both caches, the page
//! cache, and thus the managers' file, by one number. Hit rates and the mix of operations stay;
//! seeks become shorter, because a smaller file covers less of the disk. The drive, the file
//! system's rules, the number of locality buffers and the size of read batches stay unchanged.
//!
//! The engine's file grows as it is written, as BUDDY's files do. It is written in whole slots, as
//! by the paper's programs; the host handles pages.
//!
//! The operations are computed once and are the same for all managers. One operation runs at a
//! time, except for reads of LAZY-READS. Writes continue while reads collect. They wait while a
//! whole batch of reads is with the file system, or while the next object has a read in flight. The
//! engine is then told that no further reads will come, and sends those that it has.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::rc::Rc;
use std::time::Duration;

use device::{Clock, Nanos};
use sim::drives::mechanical::Config;
use sim::ffs::{self, DataWrites, Ffs, FileDevice, Names};
use sim::{Executor, Handle};
use store::{FormatOptions, LocalityOptions, Options};
use tokio::sync::Notify;
use tokio::task::yield_now;

use super::disk_time::{DiskTime, Timed};
use crate::experiment::{Axis, Context, Failed, Parameter, Variant};
use crate::run::replay;
use crate::space::baselines::{BuddyFiles, FilePerObject, MultipleDirs, Simple, Squid, SyncPolicy};
use crate::space::engine::EngineSpace;
use crate::space::file_caches;
use crate::space::manager::{Read, SpaceError, SpaceManager, Stored};
use crate::space::modelled_directory::ModelledFiles;
use workload::contents;
use workload::generator::Workload;
use workload::request::Object;
use workload::two_level::{CacheCounts, Operation, TwoLevel};

/// Number of requests of the paper's runs of a million operations (note 3).
pub(crate) const GETS: u64 = 1_058_206;

/// Bytes of the memory cache.
const MEMORY: u64 = 512 << 20;

/// Bytes of the disk cache of those runs.
pub(crate) const DISK: u64 = 2 << 30;

/// Bytes of the page cache; the paper does not state it.
const PAGES: u64 = 64 << 20;

/// Longer than any run. Also the time that a read of LAZY-READS may wait: the paper's runs have no
/// bound, and with a bound of a few milliseconds ten reads never come together in a stream of
/// writes. When the program waits for its reads, they are sent.
const NEVER: Duration = Duration::from_secs(365 * 24 * 3_600);

/// Bytes that the engine stores besides a body: header, key and metadata.
const RECORD: u64 = 440;

/// Maximum number of runs to reach the utilization of an engine's file, and its tolerance.
const ATTEMPTS: usize = 4;
const EXACTLY: f64 = 0.005;

/// Number of utilization samples in the second half of the operations.
const LOOKS: usize = 100;

/// Number of requests and bytes of disk in the runs of figure 4, which the first rows of table 2
/// repeat.
pub(super) const FILES_GETS: u64 = 398_034;
pub(super) const FILES_DISK: u64 = 1 << 30;

/// Utilizations of the slots for figures 6 to 8. Those of the paper's text come first; a quick run
/// has only these. A larger file would not fit on the disk.
const UTILIZATIONS: [f64; 5] = [0.71, 0.76, 0.95, 0.85, 0.9];

/// Returns the axes of figures 6 to 8.
pub(super) fn time_axes() -> (Axis, Axis) {
    let y = Axis::linear("time of 1,000,000 operations (s)");
    (Axis::linear("disk utilization (%)").range(65.0, 100.0), y)
}

/// The parameters that all experiments on the machine share.
pub(super) const PARAMETERS: [Parameter; 7] = [
    Parameter {
        name: "scale",
        value: "the paper's (quick: 1/64 of requests, caches, page cache and file)",
        from: "Methodology; quick is ours: sampled, for time",
    },
    Parameter {
        name: "trace",
        value: "dec-1996, 1,058,206 requests, 512 MB of memory, 2 GB of disk",
        from: "Methodology; the log is gone, generated after its published counts",
    },
    Parameter {
        name: "drive",
        value: "ST15150, 7,200 rpm, writes through",
        from: "Methodology; docs/research/models.md",
    },
    Parameter {
        name: "page cache",
        value: "64 MB, and 2.56 MB for inodes, bitmaps and indirect blocks",
        from: "ours: unstated; Solaris's bufhwm, 2% of 128 MB",
    },
    Parameter {
        name: "changed documents",
        value: "13.7% of all requests find another version",
        from: "measured in the Boston log of 1995; unstated",
    },
    Parameter {
        name: "utilization",
        value: "share of slots taken, to half a percent, mean of the second half of the operations",
        from: "figures 6 to 8, table 1; what it is the mean of is ours",
    },
    Parameter {
        name: "LAZY-READS",
        value: "reads go ten at a time, fewer when the program waits for them",
        from: "Improving Read Requests",
    },
];

/// The paper's machine, divided by a number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Machine {
    pub(super) divisor: u32,
    /// The variant of its file system.
    host: Host,
}

/// A change of the host, to measure its effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Host {
    AsSetUp,
    /// An eighth of the memory for pages.
    FewPages,
    /// Dirty pages are written every five seconds.
    EarlySync,
    /// Writes are on the disk when the call returns.
    Through,
}

impl Host {
    pub(super) fn name(self) -> &'static str {
        match self {
            Host::AsSetUp => "as set up",
            Host::FewPages => "8 MB of pages",
            Host::EarlySync => "synced every 5 s",
            Host::Through => "every write at once",
        }
    }

    fn changed(self, parameters: ffs::Parameters) -> ffs::Parameters {
        match self {
            Host::AsSetUp => parameters,
            Host::FewPages => ffs::Parameters { memory: parameters.memory / 8, ..parameters },
            Host::EarlySync => {
                ffs::Parameters { sync_interval: parameters.sync_step, ..parameters }
            }
            Host::Through => ffs::Parameters { data: DataWrites::Through, ..parameters },
        }
    }
}

impl Machine {
    /// Returns the machine for the scale of the run.
    pub(crate) fn of(context: &Context<'_>) -> Machine {
        Machine { divisor: context.size(256, 64, 1), host: Host::AsSetUp }
    }

    /// Returns the machine with another file system.
    pub(super) fn on(self, host: Host) -> Machine {
        Machine { host, ..self }
    }

    /// Returns the operations of `gets` requests to a disk cache of `disk` bytes, both before
    /// division.
    pub(crate) fn trace(self, seed: u64, gets: u64, disk: u64) -> Result<Trace, Failed> {
        let workload = Workload::named("dec-1996").ok_or("no workload dec-1996 is known")?;
        let by = u64::from(self.divisor);
        let requests = workload.scaled(self.divisor).iter(seed).take((gets / by) as usize);
        Ok(Trace::new(requests, TwoLevel::new(MEMORY / by, disk / by)))
    }

    /// Returns the utilizations of figures 6 to 8; those of the paper's text (71%, 76%, 95%) come
    /// first.
    pub(super) fn utilizations(context: &Context<'_>) -> &'static [f64] {
        &UTILIZATIONS[..context.pick(3, UTILIZATIONS.len())]
    }

    /// Returns the note on the scale for plots.
    pub(crate) fn note(self) -> String {
        match self.divisor {
            1 => "As large as the paper's.".to_owned(),
            by => format!(
                "Sampled: 1/{by} of the requests, of all caches and of the file; times are for \
                 all."
            ),
        }
    }

    /// Returns the effect of a quick run on the result, for the end of a paragraph.
    pub(super) fn smaller(self) -> String {
        match self.divisor {
            1 => String::new(),
            by => format!(
                " Everything but the memory for metadata is divided by {by}: files cover less of \
                 the disk and seeks are shorter, most of all for BUDDY; a directory has fewer \
                 entries; and the page cache, which is divided too, holds what is written for a \
                 shorter time."
            ),
        }
    }

    /// Creates Solaris UFS on the whole drive, with its caches divided.
    pub(crate) fn file_system(self, clock: &Handle) -> Result<Ffs, SpaceError> {
        self.timed(clock).map(|(ffs, _)| ffs)
    }

    /// Creates the file system, and the record of its drive's times.
    fn timed(self, clock: &Handle) -> Result<(Ffs, Rc<Cell<DiskTime>>), SpaceError> {
        let drive = file_caches::write_through_drive("st15150", Config::Shipped)?;
        let (drive, time) = Timed::new(drive);
        let disk = file_caches::disk(clock, drive, None);
        let by = self.divisor;
        let parameters = ffs::Parameters::solaris_ufs(PAGES / u64::from(by));
        // A smaller page cache would not work; only the smoke scale gets here.
        let memory = parameters.memory.max(16 * u64::from(parameters.cluster));
        let parameters = self.host.changed(ffs::Parameters { memory, ..parameters });
        let names = match parameters.names {
            Names::Recent { entries } => Names::Recent { entries: entries / by as usize },
            other => other,
        };
        let ffs = Ffs::new(clock.clone(), disk, ffs::Parameters { names, ..parameters });
        let ffs = ffs.map_err(|error| SpaceError::Engine(error.to_string()))?;
        Ok((ffs, time))
    }

    /// Runs `trace` through `manager`. For an engine with slots, it repeats the run until the file
    /// has the size that gives the wanted utilization.
    pub(crate) fn run(
        self,
        variant: &Variant,
        manager: Manager,
        trace: &Trace,
    ) -> Result<Run, Failed> {
        let Manager::Engine(engine) = manager else {
            return self.run_on(variant, manager, trace, 0);
        };
        let mut len = trace.file_len(engine.utilization);
        let mut run = self.run_on(variant, manager, trace, len)?;
        for _ in 1..ATTEMPTS {
            // For a file of clusters, the utilization is NaN.
            let off = run.utilization / 100.0 - engine.utilization;
            if off.is_nan() || off.abs() <= EXACTLY {
                break;
            }
            let fitting = len as f64 * run.utilization / 100.0 / engine.utilization;
            len = file_len(fitting as u64);
            run = self.run_on(variant, manager, trace, len)?;
        }
        Ok(run)
    }

    /// Runs once; an engine's file is `len` bytes long.
    fn run_on(
        self,
        variant: &Variant,
        manager: Manager,
        trace: &Trace,
        len: u64,
    ) -> Result<Run, Failed> {
        let executor = Executor::new(None, 1_700_000_000);
        let clock = executor.handle();
        let driver = Driver { machine: self, clock, variant, trace, len };
        let run = async {
            let (ffs, time) = self.timed(&driver.clock)?;
            let run = driver.run(manager, ffs).await?;
            Ok::<Run, SpaceError>(Run { disk: time.get(), ..run })
        };
        Ok(executor.run(run)?)
    }
}

/// The operations for a space manager, and the requests that they come from.
pub(crate) struct Trace {
    operations: Vec<Operation>,
    /// Counts of the caches in front of it.
    pub(crate) counts: CacheCounts,
    /// Maximum bytes of slots that the engine needs at one time.
    peak: u64,
}

impl Trace {
    fn new(
        requests: impl Iterator<Item = workload::request::Request>,
        mut cache: TwoLevel,
    ) -> Trace {
        let mut operations = Vec::new();
        requests.for_each(|request| cache.request(&request, &mut operations));
        let slots = |object: &Object| (object.size + RECORD).next_multiple_of(512);
        let (mut kept, mut peak) = (0, 0);
        for operation in &operations {
            match operation {
                Operation::Store(object) => kept += slots(object),
                Operation::Delete(object) => kept -= slots(object),
                Operation::Read(_) => {}
            }
            peak = peak.max(kept);
        }
        Trace { operations, counts: cache.counts(), peak }
    }

    pub(super) fn len(&self) -> usize {
        self.operations.len()
    }

    pub(crate) fn operations(&self) -> &[Operation] {
        &self.operations
    }

    /// Returns the length of the engine's file at about this utilization of its slots.
    pub(crate) fn file_len(&self, utilization: f64) -> u64 {
        // Superblocks, journal and saved index take a few percent in addition to the slots.
        file_len((self.peak as f64 / utilization * 1.02) as u64 + (1 << 20))
    }
}

/// Rounds `len` up to a valid file length.
fn file_len(len: u64) -> u64 {
    len.max(store::CACHE_SIZE_MIN).next_multiple_of(8_192)
}

/// A way of keeping objects on the machine's disk.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Manager {
    /// M1: a file per object in one directory.
    Simple,
    /// M2: a file per object in Squid's tree of directories.
    Squid,
    /// M3: a file per object in a directory per server.
    MultipleDirs,
    /// M4 as in the paper, on many files, with this threshold in blocks.
    Buddy(u32),
    Engine(Engine),
}

/// Bytes of a locality buffer; the paper does not state it.
const LOCALITY_BUFFER: u32 = 64 << 10;

/// The product's engine with a paper's preset.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Engine {
    preset: &'static str,
    /// Share of slots in use when the cache is full.
    utilization: f64,
    /// Number of locality buffers; 0: none.
    buffers: u16,
    /// Bytes of a locality buffer.
    buffer_bytes: u32,
    /// Batches of reads are split into runs of this many; 0: no split.
    split: usize,
    /// True if clusters have the size that the engine chooses for the undivided file.
    undivided_clusters: bool,
    /// Reads in flight at a time, while the program goes on; `None`: as many as a batch has.
    reads: Option<usize>,
    /// Number of reads that the engine submits together, sorted; `None`: the preset's.
    collected: Option<usize>,
    /// How long stored objects may stay unwritten and unflushed; `None`: the preset's.
    unwritten: Option<Duration>,
}

/// How the product is driven, and its changes from the defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Product {
    /// Reads in flight at a time, while the program goes on; 1: it waits for each.
    pub(crate) reads: usize,
    /// Number of reads that the engine submits together, sorted; 1: each at once.
    pub(crate) collected: usize,
    /// True if stored objects may stay unwritten for a minute; the papers' systems leave them
    /// longer.
    pub(crate) minute: bool,
}

impl Manager {
    /// Returns M6 at this utilization.
    pub(super) fn stream(utilization: f64) -> Manager {
        Manager::engine("markatos-stream", utilization, 0)
    }

    /// Returns M7 at this utilization.
    pub(super) fn pack(utilization: f64) -> Manager {
        Manager::engine("markatos-stream-pack", utilization, 0)
    }

    /// Returns M7 with locality buffers.
    pub(super) fn pack_loc(utilization: f64, buffers: u16) -> Manager {
        Manager::engine("markatos-stream-pack", utilization, buffers)
    }

    /// Returns M8 at this utilization.
    pub(crate) fn lazy(utilization: f64) -> Manager {
        Manager::engine("markatos-lazy-reads", utilization, 0)
    }

    /// Returns M8 with batches that the file system splits into runs of four, as the paper
    /// observed.
    pub(super) fn lazy_split(utilization: f64) -> Manager {
        Manager::Engine(Engine { split: 4, ..Engine::new("markatos-lazy-reads", utilization) })
    }

    /// Returns M9 with `buffers` locality buffers.
    pub(crate) fn lazy_loc(utilization: f64, buffers: u16) -> Manager {
        Manager::engine("markatos-lazy-reads-loc", utilization, buffers)
    }

    /// Returns M9 with 128 locality buffers of `bytes` bytes.
    pub(super) fn lazy_loc_of(utilization: f64, bytes: u32) -> Manager {
        let new = Engine::new("markatos-lazy-reads-loc", utilization);
        Manager::Engine(Engine { buffers: 128, buffer_bytes: bytes, ..new })
    }

    /// Returns the engine with the product's defaults except for `product`, on a file as large as
    /// the others' at `utilization`.
    pub(crate) fn product(utilization: f64, product: Product) -> Manager {
        let Product { reads, collected, minute } = product;
        Manager::Engine(Engine {
            undivided_clusters: true,
            reads: Some(reads),
            collected: Some(collected),
            unwritten: minute.then_some(Duration::from_secs(60)),
            ..Engine::new("larder", utilization)
        })
    }

    fn engine(preset: &'static str, utilization: f64, buffers: u16) -> Manager {
        Manager::Engine(Engine { buffers, ..Engine::new(preset, utilization) })
    }
}

impl Engine {
    fn new(preset: &'static str, utilization: f64) -> Engine {
        Engine {
            preset,
            utilization,
            buffers: 0,
            buffer_bytes: LOCALITY_BUFFER,
            split: 0,
            undivided_clusters: false,
            reads: None,
            collected: None,
            unwritten: None,
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    /// Requests, memory hits included, divided by the completion time of the operations.
    pub(crate) gets_per_second: f64,
    /// Share of slots in use in percent, on average over the second half of the operations; NaN for
    /// files and clusters.
    pub(super) utilization: f64,
    /// Number of requests to the disk.
    pub(crate) accesses: u64,
    /// Number of pages read because only a part of them was written.
    pub(crate) page_reads: u64,
    /// Reads of the managers' files: requests to the disk, and MB.
    pub(crate) reads: [f64; 2],
    /// Writes of the managers' files, likewise.
    pub(crate) writes: [f64; 2],
    /// Busy time of the disk, preparation included.
    pub(crate) disk: DiskTime,
    /// Number of objects that the manager refused or evicted by itself.
    pub(crate) missing: u64,
}

impl Run {
    /// Returns the seconds that the paper's `gets` requests take at this rate.
    pub(super) fn seconds(&self, gets: u64) -> f64 {
        gets as f64 / self.gets_per_second
    }
}

struct Driver<'a> {
    machine: Machine,
    clock: Handle,
    variant: &'a Variant,
    trace: &'a Trace,
    len: u64,
}

impl Driver<'_> {
    async fn run(&self, manager: Manager, ffs: Ffs) -> Result<Run, SpaceError> {
        let files = ModelledFiles::new(ffs.clone());
        let sync = SyncPolicy::AtEnd;
        match manager {
            Manager::Simple => {
                self.files(&ffs, FilePerObject::new(files, Simple, sync).await?).await
            }
            Manager::Squid => {
                let squid = FilePerObject::new(files, Squid::default(), sync).await?;
                self.files(&ffs, squid).await
            }
            Manager::MultipleDirs => {
                self.files(&ffs, FilePerObject::new(files, MultipleDirs, sync).await?).await
            }
            Manager::Buddy(threshold) => {
                self.files(&ffs, BuddyFiles::new(files, threshold, sync).await?).await
            }
            Manager::Engine(engine) => self.engine(&ffs, engine).await,
        }
    }

    async fn files<M: SpaceManager + 'static>(
        &self,
        ffs: &Ffs,
        manager: M,
    ) -> Result<Run, SpaceError> {
        self.drive(ffs, Rc::new(manager), 1, || f64::NAN).await
    }

    async fn engine(&self, ffs: &Ffs, engine: Engine) -> Result<Run, SpaceError> {
        let Engine { preset, buffers, split, undivided_clusters, reads, .. } = engine;
        let unknown = || SpaceError::Engine(format!("there is no preset {preset:?}"));
        let preset = store::preset(preset).ok_or_else(unknown)?;
        let len = self.len;
        let error = |error| SpaceError::file("preallocate", "cache", error);
        let device = Rc::new(FileDevice::reserve(ffs, "cache", len).map_err(error)?);
        let bytes = LocalityOptions { buffers, bytes: engine.buffer_bytes };
        let options = Options {
            // Everything in this little memory is also in the cache in front of the engine.
            memory: MEMORY / u64::from(self.machine.divisor) / 2,
            // The driver decides on evictions.
            fill_percent: Some(99),
            locality: (buffers > 0).then_some(bytes),
            read_batch_timeout: NEVER,
            // The program waits for the disk without a limit.
            stall_bound: NEVER,
            write_bound: NEVER,
            read_batch_split: split,
            read_batch: engine.collected.unwrap_or(preset.options.read_batch),
            durability_bound: engine.unwritten.unwrap_or(preset.options.durability_bound),
            flush_interval: engine.unwritten.unwrap_or(preset.options.flush_interval),
            // The paper's programs wrote slots; the host handles pages.
            write_page: 512,
            ..preset.options
        };
        let mut format = FormatOptions { mean_object: Some(5_400), labels: false, ..preset.format };
        if undivided_clusters {
            let size = len * u64::from(self.machine.divisor) / 8_192;
            format.cluster_size = Some(1 << size.clamp(64 << 10, 4 << 20).ilog2());
        }
        let batch = reads.unwrap_or(options.read_batch);
        let counted = Rc::clone(&device);
        let counts = Rc::new(move || counted.counts());
        let spawn = |background| drop(self.clock.spawn(background));
        let clock = self.clock.clone();
        let space = EngineSpace::create(device, clock, &format, options, counts, spawn).await?;
        let space = Rc::new(space.eliding_bodies());
        let full = Rc::clone(&space);
        let utilization = move || {
            let slots = full.engine().stats().first().and_then(|stats| stats.slots);
            slots.map_or(f64::NAN, |slots| {
                100.0 * (slots.slots - slots.free) as f64 / slots.slots.max(1) as f64
            })
        };
        self.drive(ffs, space, batch, utilization).await
    }

    /// Runs all operations, then brings everything to the disk.
    async fn drive<M: SpaceManager + 'static>(
        &self,
        ffs: &Ffs,
        manager: Rc<M>,
        batch: usize,
        utilization: impl Fn() -> f64,
    ) -> Result<Run, SpaceError> {
        let (begun, before) = (self.clock.now(), ffs.counts());
        let mut missing = 0;
        let lazy = LazyReads::default();
        let operations = self.trace.len();
        let (mut taken, mut looks) = (0.0, 0);
        let watched = self.variant.watch(operations as u64, &self.trace.operations);
        for (number, operation) in watched.enumerate() {
            if number >= operations / 2 + looks * operations / (2 * LOOKS) {
                (taken, looks) = (taken + utilization(), looks + 1);
            }
            if lazy.is_reading(operation.object().id) {
                // Operations on one object run one after another: the program continues when its
                // reads are done, and no other read will join them.
                lazy.wait(1, &*manager).await;
            }
            match operation {
                Operation::Store(object) => {
                    let stored = manager.store(object, contents::body(object)).await?;
                    missing += u64::from(stored != Stored::Kept);
                }
                Operation::Read(object) if batch > 1 => {
                    lazy.begin(&self.clock, object.id, read(Rc::clone(&manager), *object));
                    lazy.wait(batch, &*manager).await;
                }
                Operation::Read(object) => {
                    missing += u64::from(!read(Rc::clone(&manager), *object).await?);
                }
                Operation::Delete(object) => {
                    manager.delete(object).await?;
                }
            }
        }
        lazy.wait(1, &*manager).await;
        missing += lazy.end()?;
        let utilization = taken / looks.max(1) as f64;
        manager.finish().await?;
        let (time, after) = (self.clock.now() - begun, ffs.counts());
        let data = |of: fn(&ffs::Counts) -> [u64; 2]| {
            let ([requests, bytes], before) = (of(&after), of(&before));
            [(requests - before[0]) as f64, (bytes - before[1]) as f64 / 1e6]
        };
        Ok(Run {
            gets_per_second: self.trace.counts.gets as f64 / seconds(time),
            utilization,
            accesses: after.requests() - before.requests(),
            page_reads: after.reads_for_write - before.reads_for_write,
            reads: data(|counts| [counts.data_reads, counts.data_read_bytes]),
            writes: data(|counts| {
                let requests = counts.data_writes + counts.data_writes_behind;
                [requests, counts.data_written_bytes]
            }),
            disk: DiskTime::default(),
            missing,
        })
    }
}

/// Reads that the program does not wait for individually: it continues while they collect, and
/// waits while a whole batch is with the file system.
#[derive(Default)]
struct LazyReads {
    /// Number of reads in flight, and of reads that found nothing.
    state: Rc<Cell<(usize, u64)>>,
    objects: Rc<RefCell<Vec<u32>>>,
    failed: Rc<RefCell<Option<SpaceError>>>,
    ended: Rc<Notify>,
}

impl LazyReads {
    fn begin(
        &self,
        clock: &Handle,
        object: u32,
        read: impl Future<Output = Result<bool, SpaceError>> + 'static,
    ) {
        let objects = Rc::clone(&self.objects);
        objects.borrow_mut().push(object);
        let (state, failed) = (Rc::clone(&self.state), Rc::clone(&self.failed));
        let ended = Rc::clone(&self.ended);
        state.update(|(open, missing)| (open + 1, missing));
        drop(clock.spawn(async move {
            let result = read.await;
            let gone = result.as_ref().is_ok_and(|there| !there);
            state.update(|(open, missing)| (open - 1, missing + u64::from(gone)));
            let at = objects.borrow().iter().position(|id| *id == object);
            at.map(|at| objects.borrow_mut().swap_remove(at));
            if let Err(why) = result {
                *failed.borrow_mut() = Some(why);
            }
            ended.notify_one();
        }));
    }

    /// Returns whether a read of this object is in flight.
    fn is_reading(&self, object: u32) -> bool {
        self.objects.borrow().contains(&object)
    }

    /// Waits until fewer than `batch` reads are in flight. No other read comes meanwhile, so
    /// collected reads are sent.
    async fn wait<M: SpaceManager>(&self, batch: usize, manager: &M) {
        // Reads from memory complete at once; the others join the collected ones.
        yield_now().await;
        if self.state.get().0 < batch {
            return;
        }
        manager.hold_reads(false);
        while self.state.get().0 >= batch {
            self.ended.notified().await;
        }
        manager.hold_reads(true);
    }

    /// Returns the number of reads that found nothing.
    fn end(self) -> Result<u64, SpaceError> {
        self.failed.take().map_or(Ok(self.state.get().1), Err)
    }
}

/// Reads an object and verifies it; returns whether it was there.
async fn read<M: SpaceManager>(manager: Rc<M>, object: Object) -> Result<bool, SpaceError> {
    match manager.read(&object).await? {
        Read::Body(parts) => replay::check(&object, &parts).map(|()| true),
        Read::Unseen => Ok(true),
        Read::Gone => Ok(false),
    }
}

fn seconds(time: Nanos) -> f64 {
    time as f64 * 1e-9
}
