//! How fast the engine runs on a simulated disk: requests a second of wall time.
//!
//! `cargo run --release -p lab --example simulation_speed [-- ARM…]`, the arms by their numbers,
//! all without. Everything runs on one thread. Populations and traces are made beforehand, and each
//! arm first gets requests that do not count, until its memory and disk are in use.

#![allow(clippy::print_stdout)]

use std::time::Instant;

use device::{Extent, Nanos, Operation};
use fastrand::Rng;
use lab::run::simulation::{Bodies, Parameters, Popularity, Population, Simulation, Tally, Trace};
use sim::drives::Drive;
use sim::drives::flash;
use sim::drives::mechanical::{Config, MechanicalDrive};
use sim::{Fault, FaultPlan};
use store::{FormatOptions, Options};

const SEED: u64 = 1;

/// What is measured.
struct Arm {
    name: &'static str,
    bodies: Bodies,
    popularity: Popularity,
    objects: u32,
    /// Bytes of memory for the engine, and of its device.
    memory: u64,
    len: u64,
    warm: usize,
    counted: usize,
    interval: Nanos,
    /// A shipped drive; mechanical ones are slow in virtual time only.
    drive: &'static str,
    faults: bool,
}

fn arms() -> Vec<Arm> {
    let memory = Arm {
        name: "mostly from memory",
        bodies: Bodies::Elided,
        popularity: Popularity::Zipf(0.9),
        objects: 100_000,
        memory: 1 << 30,
        len: 4 << 30,
        warm: 400_000,
        counted: 2_000_000,
        interval: 10_000,
        drive: "nvme_tlc",
        faults: false,
    };
    let disk = Arm {
        name: "all reach the disk",
        popularity: Popularity::Equal,
        objects: 200_000,
        memory: 32 << 20,
        len: 1 << 30,
        warm: 200_000,
        counted: 300_000,
        ..memory
    };
    let faults = Arm {
        name: "real bytes and faults",
        bodies: Bodies::Bytes,
        faults: true,
        counted: 200_000,
        ..disk
    };
    let disk_of_1999 =
        Arm { name: "all reach a disk of 1999", drive: "atlas10k", interval: 20_000_000, ..disk };
    vec![memory, disk, faults, disk_of_1999]
}

fn drive(name: &str) -> Result<Box<dyn Drive>, String> {
    if let Some(drive) = flash::named(name) {
        return Ok(Box::new(drive));
    }
    let file =
        sim::drives::shipped::named(name).ok_or_else(|| format!("there is no drive {name}"))?;
    let file = file.map_err(|error| error.to_string())?;
    let drive = MechanicalDrive::new(&file, Config::Shipped).map_err(|error| error.to_string())?;
    Ok(Box::new(drive))
}

/// Errors that pass, rot, writes that go astray and slow operations, all over the run.
fn faults(seed: u64, len: u64, operations: u64) -> FaultPlan {
    let mut random = Rng::with_seed(seed);
    let fault = |number: u32| {
        let after = random.u64(..operations);
        match number % 5 {
            0 => Fault::Error { operation: Operation::Read, after: after / 2, times: 2 },
            1 => Fault::Error { operation: Operation::Write, after: after / 40, times: 1 },
            2 => {
                let extent = Extent { offset: random.u64(len / 16..len - 4096), len: 100 };
                Fault::Rot { after, extent, mask: random.u8(1..) }
            }
            3 => Fault::Misdirected { after: after / 20, by: random.u64(1..len >> 12) << 12 },
            _ => Fault::Slow { after, times: 10, by: 20_000_000 },
        }
    };
    FaultPlan { faults: (0..50).map(fault).collect() }
}

fn processor_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn measure(arm: &Arm) -> Result<(), String> {
    let population = Population::new(SEED, arm.objects, 4_000, 9_000);
    let trace = |seed, requests| Trace::new(seed, arm.objects, arm.popularity, requests);
    let (warm, counted) = (trace(2, arm.warm), trace(3, arm.counted));
    let parameters = Parameters {
        seed: Some(SEED),
        options: Options { memory: arm.memory, ..Options::default() },
        format: FormatOptions {
            mean_object: Some(8_000),
            labels: false,
            ..FormatOptions::default()
        },
        len: arm.len,
        bodies: arm.bodies,
        interval: arm.interval,
        under_way: 64,
    };
    let bytes = population.bytes();
    let simulation = Simulation::new(&parameters, drive(arm.drive)?, population)?;
    simulation.serve(warm.requests(), &parameters)?;
    if arm.faults {
        simulation.set_plan(faults(SEED, arm.len, arm.counted as u64));
    }
    let before = (simulation.counts(), simulation.now());
    let requests = counted.requests();
    let (wall, processor) = (Instant::now(), processor_seconds());
    let tally = simulation.serve(requests, &parameters)?;
    let (wall, processor) = (wall.elapsed().as_secs_f64(), processor_seconds() - processor);
    let Tally { requests, memory_hits, disk_hits, misses, stored, cut, .. } = tally;
    let counts = simulation.counts();
    println!(
        "{} ({}, {:?}, {} objects of {} bytes in all)\n  {:.0} requests/s of wall time; \
         {processor:.3} processor seconds, {:.2} µs each",
        arm.name,
        arm.drive,
        arm.bodies,
        arm.objects,
        bytes,
        requests as f64 / wall,
        processor * 1e6 / requests as f64,
    );
    println!(
        "  hit ratio {:.3}: {memory_hits} from memory, {disk_hits} from disk, {misses} misses \
         ({stored} stored); {:.3} reach the disk; {cut} cut",
        tally.hit_ratio(),
        tally.disk_share(),
    );
    println!(
        "  device: {} reads, {} writes, {} errors; {:.1} s of virtual time, mean answer {:.3} ms; \
         history {:016x}",
        counts.reads - before.0.reads,
        counts.writes - before.0.writes,
        counts.errors - before.0.errors,
        (simulation.now() - before.1) as f64 / 1e9,
        tally.latency as f64 / requests as f64 / 1e6,
        simulation.history(),
    );
    Ok(())
}

fn main() {
    let chosen: Vec<usize> = std::env::args()
        .skip(1)
        .map(|word| word.parse().unwrap_or_else(|_| panic!("{word} is no arm: a number from 1")))
        .collect();
    for (number, arm) in (1..).zip(arms()) {
        if !chosen.is_empty() && !chosen.contains(&number) {
            continue;
        }
        if let Err(error) = measure(&arm) {
            panic!("{}: {error}", arm.name);
        }
    }
}
