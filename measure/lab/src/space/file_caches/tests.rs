//! Tests the calls that the systems make, what they keep, and that runs are repeatable.

use std::rc::Rc;

use device::Nanos;
use sim::drives::SECTOR;
use sim::ffs::{Ffs, Names, Parameters};
use sim::{Executor, Handle, SimDisk, Uniform};

use super::*;
use crate::space::baselines::CallSizes;
use crate::space::modelled_directory::ModelledFiles;
use workload::generator::Workload;
use workload::request::Object;

const MIB: u64 = 1 << 20;

/// Creates a disk on which every request takes `ms` milliseconds.
fn plain_disk(clock: &Handle, bytes: u64, ms: Nanos) -> SimDisk {
    let drive =
        Uniform { sectors: bytes / SECTOR, depth: 1, request: ms * 1_000_000, sector: 0, flush: 0 };
    disk(clock, drive, None)
}

fn request(object: u32, version: u32, size: u64) -> Request {
    Request { object, version, size, site: object % 3, ..Request::default() }
}

fn workload(seed: u64, requests: usize) -> impl Iterator<Item = Request> {
    let workload = Workload::named("dec-1996").unwrap().with_requests(requests as u64);
    workload.iter(seed).take(requests)
}

/// Returns C15's file system with `memory` bytes and small cylinder groups.
fn small_ffs(memory: u64) -> Parameters {
    Parameters { group: 8 * MIB, ..Parameters::ucfs_ffs(memory) }
}

#[test]
fn squid_makes_the_calls_of_the_paper() {
    let executor = Executor::new(None, 0);
    let clock = executor.handle();
    executor.run(async {
        let ffs = Ffs::new(clock.clone(), plain_disk(&clock, 512 * MIB, 1), small_ffs(8 * MIB));
        let files = ModelledFiles::new(ffs.unwrap());
        let manager = Diskd::new([files], Machine::CALLS, Limits::default()).await.unwrap();
        let squid = LeastRecent::new(manager, 0, 50_000, 40_000);
        let before = squid.calls();
        assert_eq!(squid.serve(&request(1, 0, 20_000)).await.unwrap(), Served::Stored);
        assert_eq!(squid.serve(&request(1, 0, 20_000)).await.unwrap(), Served::Disk);
        assert_eq!(squid.serve(&request(2, 0, 40_001)).await.unwrap(), Served::Passed);
        let stored = Calls {
            creates: 1,
            opens: 1,
            closes: 2,
            writes: 3,
            written_bytes: 20_000,
            reads: 5,
            read_bytes: 20_000,
            ..Calls::default()
        };
        assert_eq!(squid.calls() - before, stored);
        // A new version, and an object that does not fit beside it.
        assert_eq!(squid.serve(&request(1, 1, 30_000)).await.unwrap(), Served::Stored);
        assert_eq!(squid.serve(&request(3, 0, 30_000)).await.unwrap(), Served::Stored);
        assert_eq!((squid.calls() - before).unlinks, 2);
        assert_eq!((squid.counts().outdated, squid.counts().evictions), (1, 1));
    });
}

#[test]
fn each_directory_makes_one_call_at_a_time_and_all_of_them_work() {
    let executor = Executor::new(None, 0);
    let clock = executor.handle();
    let make = async |limits| {
        let files = (0..4).map(|_| {
            let parameters =
                Parameters { names: Names::Rate { percent: 100, seed: 1 }, ..small_ffs(8 * MIB) };
            let disk = plain_disk(&clock, 512 * MIB, 1);
            ModelledFiles::new(Ffs::new(clock.clone(), disk, parameters).unwrap())
        });
        let manager = Diskd::new(files, CallSizes::WHOLE, limits).await.unwrap();
        Rc::new(LeastRecent::new(manager, 0, 64 * MIB, MIB))
    };
    executor.run(async {
        let squid = make(Limits::default()).await;
        let begun = clock.now();
        let stores: Vec<_> = (0..40)
            .map(|object| {
                let squid = Rc::clone(&squid);
                clock.spawn(async move { squid.serve(&request(object, 0, 4_096)).await.unwrap() })
            })
            .collect();
        for store in stores {
            assert_eq!(store.await, Served::Stored);
        }
        // Ten stores on each, with five disk requests per store: the paths have three levels here,
        // so a creation writes four inodes.
        assert_eq!(clock.now() - begun, 10 * 5 * 1_000_000);
        assert_eq!(squid.manager().waiting(), [0; 4]);

        let squid = make(Limits { opens: Some(3) }).await;
        let stores: Vec<_> = (0..40)
            .map(|object| {
                let squid = Rc::clone(&squid);
                clock.spawn(async move { squid.serve(&request(object, 0, 4_096)).await.unwrap() })
            })
            .collect();
        let mut stored = 0;
        for store in stores {
            stored += u32::from(store.await == Served::Stored);
        }
        assert_eq!((stored, squid.manager().turned_away()), (12, 28));
        let mut found = 0;
        for object in 0..40 {
            let served = squid.serve(&request(object, 0, 4_096)).await.unwrap();
            found += u32::from(served == Served::Disk);
        }
        assert_eq!((found, squid.gone()), (12, 28));
    });
}

#[test]
fn small_objects_of_squid_ml_need_no_calls() {
    let executor = Executor::new(None, 0);
    let clock = executor.handle();
    executor.run(async {
        let disk = plain_disk(&clock, 512 * MIB, 1);
        let system = squid_ml(&clock, disk, small_ffs(8 * MIB), 40 * MIB, 16 * MIB).await.unwrap();
        let (squid, ffs) = (&system.cache, &system.file_systems[0]);
        let calls = squid.calls();
        let begun = clock.now();
        assert_eq!(squid.serve(&request(1, 0, 3_000)).await.unwrap(), Served::Stored);
        // The page is read although it is overwritten.
        assert_eq!(clock.now() - begun, 1_000_000);
        assert_eq!(squid.serve(&request(1, 0, 3_000)).await.unwrap(), Served::Disk);
        assert_eq!(clock.now() - begun, 1_000_000);
        assert_eq!(squid.serve(&request(1, 1, 600)).await.unwrap(), Served::Stored);
        assert_eq!(squid.calls(), calls);
        assert_eq!(squid.counts().outdated, 1);
        assert_eq!(squid.serve(&request(4, 0, 8_193)).await.unwrap(), Served::Stored);
        assert_eq!(squid.serve(&request(4, 0, 8_193)).await.unwrap(), Served::Disk);
        assert_eq!(squid.calls().creates, 1);
        // More than the mapped file holds, so objects are replaced.
        for object in 10..5_000 {
            squid.serve(&request(object, 0, 8_000)).await.unwrap();
        }
        assert!(squid.counts().evictions > 2_000, "{:?}", squid.counts());
        assert_eq!(squid.calls().creates, 1);
        ffs.audit().unwrap();
    });
}

#[test]
fn documents_are_there_and_new_versions_replace_them() {
    let executor = Executor::new(None, 0);
    let clock = executor.handle();
    executor.run(async {
        let documents =
            (0..500).map(|id| Object { id, group: id % 7, size: 6_000, ..Object::default() });
        let disk = plain_disk(&clock, 512 * MIB, 1);
        let parameters = small_ffs(8 * MIB).asynchronous();
        let system = web_server(&clock, disk, parameters, documents).unwrap();
        assert_eq!(clock.now(), 0);
        system.file_systems[0].audit().unwrap();
        let server = &system.cache;
        let ask = |object, version, size| Request {
            object,
            version,
            size,
            group: object % 7,
            ..Request::default()
        };
        assert_eq!(server.serve(&ask(8, 0, 6_000)).await.unwrap(), Served::Disk);
        // The request was for a part; the server reads the whole document.
        assert_eq!(server.serve(&ask(9, 0, 100)).await.unwrap(), Served::Disk);
        assert_eq!(server.calls().read_bytes, 12_000);
        assert_eq!(server.serve(&ask(9, 1, 700)).await.unwrap(), Served::Stored);
        assert_eq!(server.serve(&ask(9, 1, 700)).await.unwrap(), Served::Disk);
        assert_eq!(server.serve(&ask(900, 0, 70)).await.unwrap(), Served::Stored);
        let calls = server.calls();
        assert_eq!((calls.unlinks, calls.creates, calls.opens), (1, 2, 3));
    });
}

/// Returns the results of C15's systems under one workload.
fn run_ucfs(seed: u64, ml: bool, parameters: Parameters) -> (Report, u64) {
    let executor = Executor::new(Some(seed), 0);
    let clock = executor.handle();
    let report = executor.run(async {
        let disk = plain_disk(&clock, 512 * MIB, 6);
        let requests = workload(seed, 3_000);
        let capacity = 24 * MIB;
        let (report, file_systems) = if ml {
            let made = squid_ml(&clock, disk, parameters, capacity, 8 * MIB).await.unwrap();
            (measure(&made.cache, &clock, requests, |_| {}).await, made.file_systems)
        } else {
            let made = squid_on_ffs(&clock, disk, parameters, capacity).await.unwrap();
            (measure(&made.cache, &clock, requests, |_| {}).await, made.file_systems)
        };
        file_systems[0].audit().unwrap();
        report.unwrap()
    });
    (report, clock.history())
}

/// Tests the mechanism, not the figures: which operations wait for which.
#[test]
fn synchronous_writes_cost_most_and_runs_can_be_repeated() {
    let parameters = small_ffs(4 * MIB);
    let (sync, _) = run_ucfs(1, false, parameters);
    let (asynchronous, _) = run_ucfs(1, false, parameters.asynchronous());
    let (ml, history) = run_ucfs(1, true, parameters);
    assert_eq!(run_ucfs(1, true, parameters), (ml.clone(), history));
    assert_ne!(run_ucfs(2, true, parameters).1, history);
    // Each store waits for three inodes and its data, six milliseconds each.
    assert_eq!(sync.stores.share(0, 24), 0.0);
    assert!(sync.stores.count() > 1_000 && sync.reads.count() > 100, "{sync:?}");
    assert!(asynchronous.stores.mean_ms() < sync.stores.mean_ms() / 1.5);
    assert!(ml.stores.mean_ms() < sync.stores.mean_ms());
    assert_eq!(sync.cache, asynchronous.cache);
    assert_eq!(sync.all.count(), 3_000);
    let per_request = sync.all.total_seconds() * 1e9;
    assert!((per_request - sync.time as f64).abs() < 1e3);
}

/// Many concurrent requests, for few objects and with little space.
#[test]
fn requests_at_a_time_do_not_disturb_each_other() {
    for seed in 0..4 {
        let executor = Executor::new(Some(seed), 0);
        let clock = executor.handle();
        executor.run(async {
            let disk = plain_disk(&clock, 512 * MIB, 3);
            let parameters = small_ffs(4 * MIB).asynchronous();
            let made = squid_on_ffs(&clock, disk, parameters, 300_000).await.unwrap();
            let squid = Rc::new(made.cache);
            let mut clients = Vec::new();
            for client in 0..8 {
                let (squid, clock) = (Rc::clone(&squid), clock.clone());
                let mut random = fastrand::Rng::with_seed(seed * 100 + client);
                clients.push(clock.spawn(async move {
                    for step in 0..200_u32 {
                        let object = random.u32(..40);
                        let size = 1_000 * u64::from(object) + 1;
                        squid.serve(&request(object, step / 50, size)).await.unwrap();
                    }
                }));
            }
            for client in clients {
                client.await;
            }
            let counts = squid.counts();
            assert_eq!(counts.gets, 1_600, "seed {seed}");
            assert!(counts.disk_hits > 100 && counts.evictions > 100, "seed {seed}: {counts:?}");
            assert!(squid.gone() < counts.disk_hits / 4, "seed {seed}: {}", squid.gone());
            made.file_systems[0].audit().unwrap();
        });
    }
}

#[test]
fn a_filled_cache_answers_from_the_disk() {
    let executor = Executor::new(None, 0);
    let clock = executor.handle();
    executor.run(async {
        let machine = Machine { capacity: 100_000, ..Machine::HIGH_END };
        let made = squid_diskd(&clock, &machine, Limits::default()).await.unwrap();
        let squid = &made.cache;
        let objects = (0..20).map(|id| Object { id, size: 9_000, ..Object::default() });
        let adopt = |manager: &Diskd<ModelledFiles>, object: &Object| {
            manager.adopt(object, |files, path| files.ffs().install(path, object.size))
        };
        let before = clock.now();
        squid.fill(objects, adopt).unwrap();
        assert_eq!(clock.now(), before);
        for object in 0..11 {
            assert_eq!(squid.serve(&request(object, 0, 9_000)).await.unwrap(), Served::Disk);
        }
        assert_eq!(squid.serve(&request(0, 0, 9_000)).await.unwrap(), Served::Memory);
        assert_eq!(squid.serve(&request(11, 0, 9_000)).await.unwrap(), Served::Stored);
        let used = |ffs: &Ffs| ffs.counts().data_reads > 0;
        assert!(made.file_systems.iter().all(used));
        made.file_systems.iter().for_each(|ffs| ffs.audit().unwrap());
    });
}
