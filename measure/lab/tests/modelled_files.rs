//! The baselines and the engine on the modelled file system: the same calls as on a real directory,
//! and the effect of a page cache below the engine.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod support;

use std::rc::Rc;

use lab::run::replay::{ReplayOptions, Report, replay};
use lab::space::baselines::{
    BuddyFiles, FilePerObject, MultipleDirs, Placement, Simple, Squid, SyncPolicy,
};
use lab::space::engine::EngineSpace;
use lab::space::file_caches;
use lab::space::file_system::FileSystem;
use lab::space::manager::{Calls, SpaceManager};
use lab::space::modelled_directory::ModelledFiles;
use lab::space::real_directory::RealDirectory;
use lab::space::real_engine::RealClock;
use sim::Executor;
use sim::drives::mechanical::Config;
use sim::ffs::{self, Ffs, FileDevice};
use store::{FormatOptions, Options};
use support::block_on;
use workload::generator::Workload;
use workload::two_level::TwoLevel;

const REQUESTS: usize = 3_000;
const MEMORY: u64 = 1 << 20;
const DISK: u64 = 8 << 20;

fn requests() -> impl Iterator<Item = workload::request::Request> {
    let workload = Workload::named("dec-1996").unwrap().with_requests(REQUESTS as u64);
    workload.iter(5).take(REQUESTS)
}

/// Returns the paper's drive with Solaris UFS.
fn solaris(clock: &sim::Handle) -> Ffs {
    let drive = file_caches::drive("st15150", Config::Shipped).unwrap();
    let disk = file_caches::disk(clock, drive, None);
    Ffs::new(clock.clone(), disk, ffs::Parameters::solaris_ufs(4 << 20)).unwrap()
}

/// Runs the workload through a manager that `make` creates on the modelled file system.
fn modelled<M: SpaceManager>(make: impl AsyncFnOnce(ModelledFiles) -> M) -> Report {
    let executor = Executor::new(None, 0);
    let clock = executor.handle();
    let ffs = solaris(&clock);
    executor.run(async {
        let manager = make(ModelledFiles::new(ffs.clone())).await;
        let mut cache = TwoLevel::new(MEMORY, DISK);
        let options = ReplayOptions::default();
        let report = replay(&manager, &clock, requests(), &mut cache, &options, |_| {}).await;
        ffs.audit().unwrap();
        report.unwrap()
    })
}

fn real<M: SpaceManager>(make: impl AsyncFnOnce(RealDirectory) -> M) -> Calls {
    let place = tempfile::tempdir().unwrap();
    block_on(async {
        let manager = make(RealDirectory::new(place.path()).unwrap()).await;
        let mut cache = TwoLevel::new(MEMORY, DISK);
        let (clock, options) = (RealClock::start(), ReplayOptions::default());
        let report = replay(&manager, &clock, requests(), &mut cache, &options, |_| {}).await;
        report.unwrap().calls
    })
}

async fn per_object<F: FileSystem, P: Placement>(files: F, placement: P) -> FilePerObject<F, P> {
    FilePerObject::new(files, placement, SyncPolicy::AtEnd).await.unwrap()
}

#[test]
fn a_file_per_object_makes_the_calls_that_it_makes_on_a_real_directory() {
    let simple = modelled(async |files| per_object(files, Simple).await);
    assert_eq!(simple.calls, real(async |files| per_object(files, Simple).await));
    assert!(simple.deletes > 100 && simple.reads > 50, "{simple:?}");
    let squid = modelled(async |files| per_object(files, Squid::default()).await);
    assert_eq!(squid.calls, simple.calls);
    let dirs = modelled(async |files| per_object(files, MultipleDirs).await);
    assert_eq!(dirs.calls, real(async |files| per_object(files, MultipleDirs).await));
    let buddy =
        modelled(async |files| BuddyFiles::new(files, 256, SyncPolicy::AtEnd).await.unwrap());
    let on_disk = real(async |files| BuddyFiles::new(files, 256, SyncPolicy::AtEnd).await.unwrap());
    assert_eq!(buddy.calls, on_disk);
    // At least two accesses per creation, and none for a slot in a file.
    let times = [simple, squid, dirs, buddy].map(|report| report.gets_per_second());
    println!("SIMPLE, SQUID, MULTIPLE-DIRS, BUDDY: {times:.1?} gets per second");
    assert!(times[..3].iter().all(|rate| rate * 2.0 < times[3]), "{times:?}");
}

/// Runs the engine with `preset` in a file on Solaris UFS; returns the pages read for partial
/// writes, and the engine's writes.
fn engine_in_a_file(preset: &str) -> (u64, u64) {
    let executor = Executor::new(None, 1_700_000_000);
    let clock = executor.handle();
    let ffs = solaris(&clock);
    executor.run(async {
        let preset = store::preset(preset).unwrap();
        let options = Options { memory: 32 << 20, ..preset.options };
        let format = FormatOptions { mean_object: Some(5_400), ..preset.format };
        let len = store::CACHE_SIZE_MIN.max((DISK * 100 / 70).next_multiple_of(4_096));
        let device = Rc::new(FileDevice::preallocate(&ffs, "cache", len).unwrap());
        let counted = Rc::clone(&device);
        let counts = Rc::new(move || counted.counts());
        let spawn = |background| drop(clock.spawn(background));
        let time = clock.clone();
        let engine = EngineSpace::create(device, time, &format, options, counts, spawn).await;
        let engine = engine.unwrap();
        let before = ffs.counts().reads_for_write;
        let mut cache = TwoLevel::new(MEMORY, DISK);
        let options = ReplayOptions::default();
        // Every returned body is verified.
        let report = replay(&engine, &clock, requests(), &mut cache, &options, |_| {}).await;
        let report = report.unwrap();
        assert!(report.checked_bytes > 0, "{report:?}");
        ffs.audit().unwrap();
        (ffs.counts().reads_for_write - before, report.calls.writes)
    })
}

/// The reason why STREAM-PACKETIZER is faster than STREAM in the paper: a page that is written in
/// part is read first.
#[test]
fn the_packetizer_spares_the_pages_that_stream_reads() {
    let (stream, writes) = engine_in_a_file("markatos-stream");
    let (pack, pack_writes) = engine_in_a_file("markatos-stream-pack");
    println!("pages read to be written: STREAM {stream}, {writes} writes");
    println!("                          PACK {pack}, {pack_writes} writes");
    assert!(stream > 4 * pack, "STREAM {stream}, PACK {pack}");
}
