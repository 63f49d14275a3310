//! The engine as a cache on a small drive: what counts as a hit, what counts as memory, and which
//! times count.

use sim::Uniform;
use store::preset;

use super::*;
use workload::contents::Bodies;
use workload::generator::Workload;

const MS: Nanos = 1_000_000;

fn machine() -> Machine {
    let drive = Uniform { sectors: 1 << 22, depth: 1, request: 5 * MS, sector: 2_000, flush: 0 };
    Machine::new(Box::new(drive))
}

fn region(len: u64) -> Region {
    Region { start: 0, spread: len, len }
}

fn engine(machine: &Machine, name: &str, tier: u64) -> EngineCache {
    let mut options = EngineOptions::from(preset(name).unwrap());
    options.tier = Some(tier);
    options.options.memory = 16 << 20;
    EngineCache::create(machine, region(64 << 20), &options).unwrap()
}

fn request(object: u32, version: u32, size: u64) -> Request {
    Request { object, version, size, ..Request::default() }
}

fn workload(seed: u64, requests: usize) -> impl Iterator<Item = Request> {
    let workload = Workload::named("dec-1996").unwrap().with_requests(requests as u64);
    workload.iter(seed).take(requests)
}

const PLAN: Plan = Plan { warm_up: 0, pace: Pace::Every(100 * MS) };

#[test]
fn outcomes_are_told_apart() {
    let machine = machine();
    let cache = engine(&machine, "ucfs", 4 << 20);
    let old = request(1, 0, 4_000);
    let new = request(1, 1, 5_000);
    let large = request(2, 0, 300_000);
    // Enough other objects to push the first to the disk.
    let others = (3..3_000).map(|object| request(object, 0, 4_000));
    let requests =
        [old, old, new, new, large, large].into_iter().chain(others).chain([request(3, 0, 4_000)]);
    let figures = run(&machine, &cache, requests, &PLAN).unwrap();
    let count = |outcome| figures.outcomes.of(outcome);
    assert_eq!(count(Outcome::MemoryHit), 2);
    assert_eq!(count(Outcome::MemoryStale), 1);
    assert_eq!(count(Outcome::Refused), 2);
    assert_eq!(count(Outcome::DiskHit), 1);
    assert_eq!(count(Outcome::Miss), 1 + 2_997);
    assert!(figures.prefetched > 5, "{} came along", figures.prefetched);
    let newer = request(4, 1, 4_000);
    let figures = run(&machine, &cache, [newer].into_iter(), &PLAN).unwrap();
    let stale = figures.outcomes.of(Outcome::DiskStale) + figures.outcomes.of(Outcome::MemoryStale);
    assert_eq!(stale, 1);
}

#[test]
fn memory_is_set_so_that_objects_have_what_was_asked_for() {
    let machine = machine();
    for name in ["ucfs", "tfs", "larder"] {
        let shape = engine(&machine, name, 4 << 20).shape();
        assert!(shape.tier.abs_diff(4 << 20) < 64, "{name}: {shape:?}");
    }
}

#[test]
fn disk_time_is_all_that_the_drive_did() {
    let machine = machine();
    let cache = engine(&machine, "ucfs", 2 << 20);
    let plan = Plan { warm_up: 1_000, ..PLAN };
    let workload = workload(1, 5_000);
    let figures = run(&machine, &cache, workload, &plan).unwrap();
    let usage = figures.usage;
    assert_eq!(figures.requests(), 4_000);
    let time = |of: DriveTime| of.operations * 5 * MS + of.bytes / 512 * 2_000;
    assert_eq!(usage.busy(), time(usage.reads) + time(usage.writes));
    assert!(usage.reads.operations > 50 && usage.writes.operations > 50, "{usage:?}");
    // Clients wait for reads, not for writes; the disk is idle most of the time.
    assert!(figures.waited >= usage.reads.busy && figures.waited < usage.busy(), "{figures:?}");
    assert!((figures.disk_time.percent_from(0) - 100.0).abs() < 1e-9);
    assert!(figures.disk_time.percent(0, 1) < figures.waiting.percent(0, 1));
}

#[test]
fn equal_runs_are_equal_and_pace_matters() {
    let run = |pace| {
        let machine = machine();
        let cache = engine(&machine, "ucfs", 2 << 20);
        let plan = Plan { warm_up: 500, pace };
        let workload = workload(7, 3_000);
        super::run(&machine, &cache, workload, &plan).unwrap()
    };
    assert_eq!(run(Pace::AtOnce), run(Pace::AtOnce));
    let (at_once, paced) = (run(Pace::AtOnce), run(Pace::Every(MS * 100)));
    assert!(at_once.elapsed < paced.elapsed);
    assert!(paced.elapsed >= 2_499 * 100 * MS);
}

#[test]
fn a_spread_space_keeps_its_distances() {
    // A drive whose times are the distances that the arm moves.
    struct Arm(u64);
    impl sim::drives::Drive for Arm {
        fn sectors(&self) -> u64 {
            1 << 24
        }
        fn depth(&self) -> usize {
            1
        }
        fn serve(&mut self, now: Nanos, request: sim::drives::Request) -> Nanos {
            let from = std::mem::replace(&mut self.0, request.sector + request.sectors);
            now + from.abs_diff(request.sector)
        }
    }
    let busy = |spread: u64| {
        let machine = Machine::new(Box::new(Arm(0)));
        let disk = machine.disk(Region { start: 0, spread, len: 64 << 20 }, 4096).unwrap();
        let read = async {
            for offset in [0, 63 << 20, 10 << 20] {
                device::Device::read(&disk, offset, device::IoBuf::zeroed(8192)).await.1.unwrap();
            }
            device::Device::read(&disk, (1 << 20) - 4096, device::IoBuf::zeroed(8192)).await
        };
        machine.run(read).unwrap().1.unwrap();
        machine.usage().busy() as f64
    };
    let ratio = busy(1 << 30) / busy(64 << 20);
    assert!((15.0..17.0).contains(&ratio), "{ratio}");
    let machine = Machine::new(Box::new(Arm(0)));
    assert!(machine.disk(Region { start: 0, spread: 1 << 34, len: 64 << 20 }, 4096).is_err());
}

/// Returns all results of a run with such bodies: figures, the engine's own counters, and the
/// digest of each task step, event, device request and response.
fn history(name: &str, bodies: Bodies) -> (Figures, store::Counters, store::ReadCounters, u64) {
    let machine = machine();
    let preset = preset(name).unwrap();
    let mut options = EngineOptions { bodies, ..EngineOptions::from(preset) };
    options.options.memory = 2 << 20;
    let cache = EngineCache::create(&machine, region(8 << 20), &options).unwrap();
    let figures = run(&machine, &cache, workload(1, 6_000), &PLAN).unwrap();
    let stats = cache.stats();
    (figures, stats.counters, stats.reads, machine.clock().history())
}

#[test]
fn elided_bodies_change_no_decision() {
    let mut evicting = 0;
    for name in store::PRESETS {
        let bytes = history(name, Bodies::Bytes);
        assert_eq!(bytes, history(name, Bodies::Elided), "{name}");
        let count = |outcome| bytes.0.outcomes.of(outcome);
        let all = [Outcome::MemoryHit, Outcome::DiskHit, Outcome::Miss];
        assert!(all.into_iter().all(|outcome| count(outcome) > 100), "{name}: {bytes:?}");
        evicting += usize::from(bytes.1.evicted_records > 0);
    }
    // One preset batches so much before it writes that it refuses objects first.
    assert!(evicting + 1 >= store::PRESETS.len(), "{evicting} of them evicted something");
}
