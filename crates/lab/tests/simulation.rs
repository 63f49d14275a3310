//! Simulations of the engine: the same for a seed, and the same whether bodies are bytes or elided.
//!
//! The history is a digest of every task's step, every event, every request that the device carried
//! out and every answer, so that equal histories leave nothing to differ in.

#![allow(clippy::unwrap_used)]

use device::Counts;
use lab::run::simulation::{Bodies, Parameters, Popularity, Population, Simulation, Tally, Trace};
use sim::drives::flash;
use sim::{Fault, FaultPlan};
use store::{Counters, PRESETS, ReadCounters};

const OBJECTS: u32 = 3_000;

/// All that came of a simulation.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Outcome {
    tally: Tally,
    counters: Counters,
    reads: ReadCounters,
    counts: Counts,
    now: u64,
    history: u64,
}

/// 6,000 requests for objects of 27 MB in all, with 16 MiB of disk and 2 MiB of memory; some of
/// the objects lie in pieces.
fn run(preset: &str, bodies: Bodies, seed: u64, plan: FaultPlan) -> Outcome {
    let preset = store::preset(preset).unwrap();
    let parameters = Parameters {
        seed: Some(seed),
        options: store::Options { memory: 2 << 20, ..preset.options },
        format: preset.format,
        len: 16 << 20,
        bodies,
        interval: 300_000,
        under_way: 16,
    };
    let drive = Box::new(flash::named("sata_tlc").unwrap());
    let population = Population::new(7, OBJECTS, 4_000, 9_000);
    let requests = Trace::new(seed, OBJECTS, Popularity::Zipf(0.8), 6_000);
    let simulation = Simulation::new(&parameters, drive, population).unwrap();
    simulation.set_plan(plan);
    let tally = simulation.serve(requests.requests(), &parameters).unwrap();
    simulation.pass(10_000_000_000);
    let stats = simulation.stats();
    Outcome {
        tally,
        counters: stats.counters,
        reads: stats.reads,
        counts: simulation.counts(),
        now: simulation.now(),
        history: simulation.history(),
    }
}

#[test]
fn elided_bodies_change_no_decision() {
    for preset in PRESETS {
        let bytes = run(preset, Bodies::Bytes, 1, FaultPlan::none());
        let elided = run(preset, Bodies::Elided, 1, FaultPlan::none());
        assert_eq!(bytes, elided, "{preset}");
        assert_eq!(bytes.tally.requests, 6_000);
        let Tally { memory_hits, disk_hits, misses, .. } = bytes.tally;
        assert!(memory_hits > 300 && disk_hits > 300 && misses > 300, "{preset}: {bytes:?}");
        assert!(bytes.counters.evicted_records > 0, "{preset}: nothing had to go");
    }
}

#[test]
fn a_seed_gives_one_history() {
    let late = Fault::Slow { after: 100, times: 50, by: 20_000_000 };
    let failing = Fault::Error { operation: device::Operation::Read, after: 50, times: 3 };
    let plan = FaultPlan { faults: vec![late, failing] };
    for bodies in [Bodies::Bytes, Bodies::Elided] {
        let once = run("larder", bodies, 1, plan.clone());
        assert_eq!(once, run("larder", bodies, 1, plan.clone()));
        assert!(once.counts.errors > 0, "{once:?}");
        assert_ne!(once.history, run("larder", bodies, 2, plan.clone()).history);
    }
}
