//! The paper's machine: a Seagate ST15150 under Solaris UFS, its trace behind two LRU caches, and
//! the space managers on it, in virtual time.
//!
//! A full run is as large as the paper's. A quick one is divided by one number: requests, both
//! caches, the page cache, and so the file that the managers write. Hit rates and the mix of
//! operations stay; seeks become shorter, because a smaller file covers less of the disk. The
//! drive, the file system's rules, the number of locality buffers and of reads that wait for one
//! another stay as they are.
//!
//! The engine's file grows as it is written, as BUDDY's do, and takes writes of whole slots, as the
//! paper's programs made them: pages are the host's affair.
//!
//! The operations are computed once, and all managers get the same ones. One is under way at a
//! time, but for reads of LAZY-READS: writes go on while they collect, and wait while a whole
//! batch of them is with the file system, or while one of them is of the object that comes next.
//! Then the engine is told that no others will come, and sends what it has.

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

/// Requests of the paper's runs of a million operations (note 3).
pub(crate) const GETS: u64 = 1_058_206;

/// Bytes of the memory cache.
const MEMORY: u64 = 512 << 20;

/// Bytes of the disk cache of those runs.
pub(crate) const DISK: u64 = 2 << 30;

/// Bytes that the machine has for pages of files; the paper does not say.
const PAGES: u64 = 64 << 20;

/// Longer than any run. So long may a read of LAZY-READS wait, too: the paper's runs have no bound,
/// and with one of a few milliseconds ten reads never come together in a stream of writes. When
/// the program waits for its reads, they go out.
const NEVER: Duration = Duration::from_secs(365 * 24 * 3_600);

/// What the engine stores beside a body: header, key and metadata.
const RECORD: u64 = 440;

/// Runs until an engine's file has the utilization that is wanted, and how near it comes to it.
const ATTEMPTS: usize = 4;
const EXACTLY: f64 = 0.005;

/// How often the utilization is looked at in the second half of the operations.
const LOOKS: usize = 100;

/// Requests of the runs of figure 4, which the first rows of table 2 repeat, and their disk.
pub(super) const FILES_GETS: u64 = 398_034;
pub(super) const FILES_DISK: u64 = 1 << 30;

/// Shares of the slots that are taken, where figures 6 to 8 are drawn: first those of the paper's
/// text, which are all that a quick run has. A file with more room does not fit on the disk.
const UTILIZATIONS: [f64; 5] = [0.71, 0.76, 0.95, 0.85, 0.9];

/// The axes of figures 6 to 8.
pub(super) fn time_axes() -> (Axis, Axis) {
    let y = Axis::linear("time of 1,000,000 operations (s)");
    (Axis::linear("disk utilization (%)").range(65.0, 100.0), y)
}

/// What every experiment with the machine states.
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

/// A machine that is divided.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Machine {
    /// By what.
    pub(super) divisor: u32,
    /// What its file system is like.
    host: Host,
}

/// What of the host differs from the set-up, to see what it comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Host {
    /// Nothing.
    AsSetUp,
    /// An eighth of the memory for pages.
    FewPages,
    /// What waits to be written is written every five seconds.
    EarlySync,
    /// What is written is on the disk when the call returns.
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
    /// As large as the scale of the run permits.
    pub(crate) fn of(context: &Context<'_>) -> Machine {
        Machine { divisor: context.size(256, 64, 1), host: Host::AsSetUp }
    }

    /// The same with another file system.
    pub(super) fn on(self, host: Host) -> Machine {
        Machine { host, ..self }
    }

    /// The operations of `gets` requests to a disk cache of `disk` bytes, both before dividing.
    pub(crate) fn trace(self, seed: u64, gets: u64, disk: u64) -> Result<Trace, Failed> {
        let workload = Workload::named("dec-1996").ok_or("no workload dec-1996 is known")?;
        let by = u64::from(self.divisor);
        let requests = workload.scaled(self.divisor).iter(seed).take((gets / by) as usize);
        Ok(Trace::new(requests, TwoLevel::new(MEMORY / by, disk / by)))
    }

    /// The utilizations of figures 6 to 8, the ones of the paper's text (71%, 76%, 95%) first.
    pub(super) fn utilizations(context: &Context<'_>) -> &'static [f64] {
        &UTILIZATIONS[..context.pick(3, UTILIZATIONS.len())]
    }

    /// What plots say of the scale.
    pub(crate) fn note(self) -> String {
        match self.divisor {
            1 => "As large as the paper's.".to_owned(),
            by => format!(
                "Sampled: 1/{by} of the requests, of all caches and of the file; times are for \
                 all."
            ),
        }
    }

    /// What a quick run does to the result, for the end of a paragraph.
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

    /// Solaris UFS on the whole drive, its caches divided.
    pub(crate) fn file_system(self, clock: &Handle) -> Result<Ffs, SpaceError> {
        self.timed(clock).map(|(ffs, _)| ffs)
    }

    /// The same, and what its drive spends its time on.
    fn timed(self, clock: &Handle) -> Result<(Ffs, Rc<Cell<DiskTime>>), SpaceError> {
        let drive = file_caches::write_through_drive("st15150", Config::Shipped)?;
        let (drive, time) = Timed::new(drive);
        let disk = file_caches::disk(clock, drive, None);
        let by = self.divisor;
        let parameters = ffs::Parameters::solaris_ufs(PAGES / u64::from(by));
        // A page cache below this is none: only a run at the smoke scale comes to it.
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

    /// Runs `trace` through `manager`. Of an engine that lays its file out in slots, as often as it
    /// takes until the file has the size at which the share of them is taken that is wanted.
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
            // Of a file of clusters it is not a number.
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

    /// One run; an engine's file is `len` bytes long.
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

/// What a space manager is to do, and for how many requests.
pub(crate) struct Trace {
    operations: Vec<Operation>,
    /// What the caches in front of it did.
    pub(crate) counts: CacheCounts,
    /// The most bytes of slots that the engine needs for what is kept at a time.
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

    /// Operations.
    pub(super) fn len(&self) -> usize {
        self.operations.len()
    }

    /// What is to be done, in order.
    pub(crate) fn operations(&self) -> &[Operation] {
        &self.operations
    }

    /// Bytes of the engine's file when about so much of its slots is taken.
    pub(crate) fn file_len(&self, utilization: f64) -> u64 {
        // Superblocks, journal and saved index take a few percent beside the slots.
        file_len((self.peak as f64 / utilization * 1.02) as u64 + (1 << 20))
    }
}

/// The length of a file of about `len` bytes.
fn file_len(len: u64) -> u64 {
    len.max(store::CACHE_SIZE_MIN).next_multiple_of(8_192)
}

/// A way of keeping objects on the machine's disk.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Manager {
    /// M1.
    Simple,
    /// M2.
    Squid,
    /// M3.
    MultipleDirs,
    /// M4 as the paper has it, on many files, with this threshold in blocks.
    Buddy(u32),
    /// The engine on one large file.
    Engine(Engine),
}

/// The product's engine with a paper's preset.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Engine {
    preset: &'static str,
    /// Slots taken of all slots when the cache is full, as a share.
    utilization: f64,
    /// Locality buffers; 0: none.
    buffers: u16,
    /// Batches of reads are broken into runs of so many; 0: not.
    split: usize,
    /// Clusters are as large as the engine chooses for the undivided file, not for this one.
    undivided_clusters: bool,
    /// Reads under way at a time, while the program goes on; `None`: as many as a batch has.
    reads: Option<usize>,
    /// Reads that the engine hands on together, sorted; `None`: the preset's.
    collected: Option<usize>,
    /// How long what is stored may stay unwritten and unflushed; `None`: the preset's.
    unwritten: Option<Duration>,
}

/// How the product is driven, and what of it is not as it comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Product {
    /// Reads under way at a time, while the program goes on; 1: it waits for each.
    pub(crate) reads: usize,
    /// Reads that the engine hands on together, sorted; 1: each at once, as it comes.
    pub(crate) collected: usize,
    /// What is stored may stay unwritten for a minute, as the papers' systems leave it for longer.
    pub(crate) minute: bool,
}

impl Manager {
    /// M6.
    pub(super) fn stream(utilization: f64) -> Manager {
        Manager::engine("markatos-stream", utilization, 0)
    }

    /// M7.
    pub(super) fn pack(utilization: f64) -> Manager {
        Manager::engine("markatos-stream-pack", utilization, 0)
    }

    /// M7 with locality buffers.
    pub(super) fn pack_loc(utilization: f64, buffers: u16) -> Manager {
        Manager::engine("markatos-stream-pack", utilization, buffers)
    }

    /// M8.
    pub(crate) fn lazy(utilization: f64) -> Manager {
        Manager::engine("markatos-lazy-reads", utilization, 0)
    }

    /// M8 with batches that the file system breaks into runs of four, as the paper observed.
    pub(super) fn lazy_split(utilization: f64) -> Manager {
        Manager::Engine(Engine { split: 4, ..Engine::new("markatos-lazy-reads", utilization) })
    }

    /// M9.
    pub(crate) fn lazy_loc(utilization: f64, buffers: u16) -> Manager {
        Manager::engine("markatos-lazy-reads-loc", utilization, buffers)
    }

    /// The engine as the product comes but for `product`, on a file as large as the others have at
    /// `utilization`.
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
            split: 0,
            undivided_clusters: false,
            reads: None,
            collected: None,
            unwritten: None,
        }
    }
}

/// What came of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    /// Requests, memory hits included, by the completion time of the operations.
    pub(crate) gets_per_second: f64,
    /// Share of the slots that was taken, in percent, on average over the second half of the
    /// operations; of files and clusters, not a number.
    pub(super) utilization: f64,
    /// Requests to the disk.
    pub(crate) accesses: u64,
    /// Pages that were read because a part of them was to be written.
    pub(crate) page_reads: u64,
    /// Requests to the disk, and megabytes: reads of the managers' files.
    pub(crate) reads: [f64; 2],
    /// The same of writes.
    pub(crate) writes: [f64; 2],
    /// What the disk was busy with, preparation included.
    pub(crate) disk: DiskTime,
    /// Objects that the manager did not take, or gave up by itself.
    pub(crate) missing: u64,
}

impl Run {
    /// Seconds that the paper's `gets` requests take at this rate.
    pub(super) fn seconds(&self, gets: u64) -> f64 {
        gets as f64 / self.gets_per_second
    }
}

struct Driver<'a> {
    machine: Machine,
    clock: Handle,
    variant: &'a Variant,
    trace: &'a Trace,
    /// Bytes of an engine's file.
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
        let bytes = LocalityOptions { buffers, bytes: 64 << 10 };
        let options = Options {
            // So little that what the engine has in memory, the cache in front has, too.
            memory: MEMORY / u64::from(self.machine.divisor) / 2,
            // The driver says what goes.
            fill_percent: Some(99),
            locality: (buffers > 0).then_some(bytes),
            read_batch_timeout: NEVER,
            // However long the disk takes, the program waits.
            stall_bound: NEVER,
            read_batch_split: split,
            read_batch: engine.collected.unwrap_or(preset.options.read_batch),
            durability_bound: engine.unwritten.unwrap_or(preset.options.durability_bound),
            flush_interval: engine.unwritten.unwrap_or(preset.options.flush_interval),
            // The paper's programs wrote slots; pages are the host's.
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

    /// All operations, and everything to the disk at the end.
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
                // Operations on one object come one after another: the program goes on when its
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

/// Reads that the program does not wait for one by one: it goes on while they collect, and waits
/// while as many as a batch has are with the file system.
#[derive(Default)]
struct LazyReads {
    /// How many are under way, and how many found nothing.
    state: Rc<Cell<(usize, u64)>>,
    /// Of which objects.
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

    /// Whether a read of this object is under way.
    fn is_reading(&self, object: u32) -> bool {
        self.objects.borrow().contains(&object)
    }

    /// Until fewer than `batch` of them are under way. No other read will come meanwhile: what
    /// waits for company goes out.
    async fn wait<M: SpaceManager>(&self, batch: usize, manager: &M) {
        // What is in memory is there at once, what is not joins those that wait.
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

    /// How many found nothing.
    fn end(self) -> Result<u64, SpaceError> {
        self.failed.take().map_or(Ok(self.state.get().1), Err)
    }
}

/// Reads an object and compares what came; whether it was there.
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
