//! The replay driver: what it counts, times and detects. It runs on a file system that models
//! costs, on one that returns wrong bytes, and with the engine on a simulated disk.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod support;

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use device::Clock;
use lab::run::replay::{ReplayOptions, Report, Stage, replay};
use lab::space::baselines::{BuddyFiles, FilePerObject, Simple, Squid, SyncPolicy};
use lab::space::engine::EngineSpace;
use lab::space::file_system::FileSystem;
use lab::space::manager::{SpaceError, SpaceManager};
use lab::space::real_directory::RealDirectory;
use lab::space::real_engine::RealClock;
use sim::{Executor, Handle, SimDisk, Uniform};
use store::{FormatOptions, Options};
use support::{block_on, seed};
use workload::generator::Workload;
use workload::request::Request;
use workload::two_level::TwoLevel;

const REQUESTS: u64 = 4_000;

/// Bytes of the disk cache.
const DISK: u64 = 4 << 20;

/// Returns small memory and disk caches, so that every kind of operation occurs.
fn cache() -> TwoLevel {
    TwoLevel::new(1 << 20, DISK)
}

/// Returns requests for objects that all fit: one larger than the disk cache would always miss.
fn requests(seed: u64) -> impl Iterator<Item = Request> {
    let workload = Workload::named("dec-1996").unwrap().with_requests(REQUESTS);
    let requests = workload.iter(seed).take(REQUESTS as usize);
    requests.map(|request| Request { size: request.size.min(DISK / 2), ..request })
}

async fn run(
    manager: &impl SpaceManager,
    clock: &impl Clock,
    seed: u64,
    options: ReplayOptions,
) -> Result<Report, SpaceError> {
    replay(manager, clock, requests(seed), &mut cache(), &options, |_| {}).await
}

/// A file system that keeps names but no contents; each call takes a fixed virtual time.
struct Model {
    clock: Handle,
    names: RefCell<BTreeSet<String>>,
}

const CREATE: u64 = 20_000_000;
const UNLINK: u64 = 15_000_000;
const DATA: u64 = 9_000_000;
const REST: u64 = 100_000;

impl Model {
    fn new(clock: Handle) -> Model {
        Model { clock, names: RefCell::default() }
    }

    async fn takes(&self, nanos: u64) {
        self.clock.sleep_until(self.clock.now() + nanos).await;
    }

    fn known(&self, path: &str) -> io::Result<()> {
        let is_known = self.names.borrow().contains(path);
        is_known.then_some(()).ok_or(io::ErrorKind::NotFound.into())
    }
}

impl FileSystem for Model {
    type File = String;

    async fn create(&self, path: &str) -> io::Result<String> {
        self.takes(CREATE).await;
        let is_new = self.names.borrow_mut().insert(path.to_owned());
        is_new.then(|| path.to_owned()).ok_or(io::ErrorKind::AlreadyExists.into())
    }

    async fn open(&self, path: &str) -> io::Result<String> {
        self.takes(REST).await;
        self.known(path)?;
        Ok(path.to_owned())
    }

    async fn read(&self, file: &String, _: u64, _: u64) -> io::Result<Option<Bytes>> {
        self.takes(DATA).await;
        self.known(file)?;
        Ok(None)
    }

    async fn write(&self, file: &String, _: u64, _: Bytes) -> io::Result<()> {
        self.takes(DATA).await;
        self.known(file)
    }

    async fn sync(&self, file: &String) -> io::Result<()> {
        self.takes(DATA).await;
        self.known(file)
    }

    async fn close(&self, _: String) -> io::Result<()> {
        self.takes(REST).await;
        Ok(())
    }

    async fn unlink(&self, path: &str) -> io::Result<()> {
        self.takes(UNLINK).await;
        let was_known = self.names.borrow_mut().remove(path);
        was_known.then_some(()).ok_or(io::ErrorKind::NotFound.into())
    }

    async fn mkdir(&self, _: &str) -> io::Result<()> {
        self.takes(CREATE).await;
        Ok(())
    }

    async fn sync_all(&self) -> io::Result<()> {
        self.takes(DATA).await;
        Ok(())
    }
}

#[test]
fn in_virtual_time_a_run_takes_what_its_calls_cost() {
    let seed = seed();
    let executor = Executor::new(None, 0);
    let clock = executor.handle();
    let report = executor.run(async {
        let model = Model::new(clock.clone());
        // Its directories are preparation: neither counted nor timed.
        let squid = FilePerObject::new(model, Squid::default(), SyncPolicy::AtEnd).await.unwrap();
        run(&squid, &clock, seed, ReplayOptions::default()).await.unwrap()
    });
    let (cache, calls) = (report.cache, report.calls);
    assert!(cache.evictions > 0 && cache.disk_hits > 0 && cache.memory_hits > 0, "{cache:?}");
    assert_eq!(
        (report.stores, report.reads, report.deletes),
        (cache.misses, cache.disk_hits, cache.deletes())
    );
    assert_eq!((calls.creates, calls.unlinks, calls.mkdirs), (cache.misses, cache.deletes(), 0));
    assert_eq!((calls.opens, calls.reads), (cache.disk_hits, cache.disk_hits));
    assert_eq!(calls.closes, calls.creates + calls.opens);
    let nanos = calls.creates * CREATE
        + calls.unlinks * UNLINK
        + (calls.reads + calls.writes) * DATA
        + (calls.opens + calls.closes) * REST;
    assert_eq!(report.operations_time, Duration::from_nanos(nanos));
    assert_eq!(report.finish_time, Duration::from_nanos(DATA));
    let rate = REQUESTS as f64 / Duration::from_nanos(nanos + DATA).as_secs_f64();
    assert!((report.gets_per_second() / rate - 1.0).abs() < 1e-9);
}

#[test]
fn operations_under_way_together_keep_the_order_of_each_object() {
    let seed = seed();
    let executor = Executor::new(Some(seed), 0);
    let clock = executor.handle();
    let run_with = async |outstanding| {
        // The model rejects creating an existing file and opening a missing one.
        let model = Model::new(clock.clone());
        let simple = FilePerObject::new(model, Simple, SyncPolicy::EachStore).await.unwrap();
        let options = ReplayOptions { outstanding, ..ReplayOptions::default() };
        run(&simple, &clock, seed, options).await.unwrap()
    };
    let (one, many) = executor.run(async { (run_with(1).await, run_with(16).await) });
    let timeless = |report: Report| Report {
        operations_time: Duration::ZERO,
        finish_time: Duration::ZERO,
        ..report
    };
    assert_eq!(timeless(one), timeless(many));
    assert!(many.time() * 8 < one.time(), "{:?} of {:?}", many.time(), one.time());
}

#[test]
fn the_engine_replays_on_a_simulated_disk() {
    let seed = seed();
    let run_with = |outstanding| {
        let executor = Executor::new(Some(seed), 1_000_000_000);
        let clock = executor.handle();
        let report = executor.run(async {
            let engine = simulated_engine(&clock).await;
            let options = ReplayOptions { outstanding, ..ReplayOptions::default() };
            run(&engine, &clock, seed, options).await.unwrap()
        });
        (report, executor.handle().history())
    };
    let (report, history) = run_with(4);
    // The file has spare space, so nothing is lost; every byte was compared.
    assert_eq!((report.gone, report.refused), (0, 0));
    // An object that is replaced while it waits for its batch is never written.
    assert!(report.checked_bytes > 0 && report.calls.written_bytes > 0);
    assert!(report.operations_time > Duration::ZERO);
    assert_eq!(run_with(4), (report, history), "a seed says everything");
    assert_eq!(run_with(1).0.cache, report.cache);
}

async fn simulated_engine(clock: &Handle) -> EngineSpace<SimDisk, Handle> {
    let len = 16 << 20;
    let drive = Uniform { flush: 5_000_000, request: 2_000_000, ..Uniform::fast(len) };
    let options = sim::Options { block: 4096, ..sim::Options::default() };
    let disk = SimDisk::new(clock.clone(), Box::new(drive), options);
    let counts = disk.clone();
    let format = FormatOptions { mean_object: Some(5_000), ..FormatOptions::default() };
    let engine = EngineSpace::create(
        Rc::new(disk),
        clock.clone(),
        &format,
        Options { memory: 8 << 20, ..Options::default() },
        Rc::new(move || counts.counts()),
        |background| _ = clock.spawn(background),
    );
    engine.await.unwrap()
}

/// A directory whose reads return wrong bytes from the n-th on.
struct Damaged {
    below: RealDirectory,
    good_reads: Cell<u32>,
}

impl FileSystem for Damaged {
    type File = <RealDirectory as FileSystem>::File;

    async fn create(&self, path: &str) -> io::Result<Self::File> {
        self.below.create(path).await
    }

    async fn open(&self, path: &str) -> io::Result<Self::File> {
        self.below.open(path).await
    }

    async fn read(&self, file: &Self::File, offset: u64, len: u64) -> io::Result<Option<Bytes>> {
        let bytes = self.below.read(file, offset, len).await?;
        let Some(left) = self.good_reads.get().checked_sub(1) else {
            return Ok(bytes.map(|bytes| {
                let mut bytes = bytes.to_vec();
                let middle = bytes.len() / 2;
                bytes[middle] ^= 0x10;
                bytes.into()
            }));
        };
        self.good_reads.set(left);
        Ok(bytes)
    }

    async fn write(&self, file: &Self::File, offset: u64, data: Bytes) -> io::Result<()> {
        self.below.write(file, offset, data).await
    }

    async fn sync(&self, file: &Self::File) -> io::Result<()> {
        self.below.sync(file).await
    }

    async fn close(&self, file: Self::File) -> io::Result<()> {
        self.below.close(file).await
    }

    async fn unlink(&self, path: &str) -> io::Result<()> {
        self.below.unlink(path).await
    }

    async fn mkdir(&self, path: &str) -> io::Result<()> {
        self.below.mkdir(path).await
    }

    async fn sync_all(&self) -> io::Result<()> {
        self.below.sync_all().await
    }
}

#[test]
fn one_wrong_bit_ends_the_run() {
    let (seed, place) = (seed(), tempfile::tempdir().unwrap());
    block_on(async {
        let below = RealDirectory::new(place.path()).unwrap();
        let files = Damaged { below, good_reads: Cell::new(20) };
        let buddy = BuddyFiles::new(files, 256, SyncPolicy::AtEnd).await.unwrap();
        let failed = run(&buddy, &RealClock::start(), seed, ReplayOptions::default()).await;
        let error = failed.unwrap_err();
        let SpaceError::Wrong { object, position } = error else { panic!("{error}") };
        assert_eq!(position, object.size / 2);
        assert_eq!(buddy.calls().reads, 21);
    });
}

#[test]
fn a_run_ends_after_the_operations_that_were_asked_for() {
    let (seed, place) = (seed(), tempfile::tempdir().unwrap());
    block_on(async {
        let files = RealDirectory::new(place.path()).unwrap();
        let buddy = BuddyFiles::new(files, 256, SyncPolicy::AtEnd).await.unwrap();
        let options = ReplayOptions { operations: Some(500), ..ReplayOptions::default() };
        let mut stages = Vec::new();
        let (clock, mut cache) = (RealClock::start(), cache());
        let report = replay(&buddy, &clock, requests(seed), &mut cache, &options, |stage| {
            stages.push(stage)
        });
        let report = report.await.unwrap();
        // The last request is completed: a store may need several deletions.
        assert!((500..700).contains(&report.operations()), "{report:?}");
        assert!(report.cache.gets < REQUESTS);
        assert_eq!(stages.first(), Some(&Stage::Requests(0)));
        assert_eq!(stages.last(), Some(&Stage::Finishing));
    });
}
