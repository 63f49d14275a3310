//! The comparison: in each scenario all systems are started and filled, then measured in turn,
//! round by round.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use testbed::address;

use super::bed::Bed;
use super::report::{Comparison, Row};
use super::scenario::Scenario;
use crate::client::Protocol;
use crate::load::RequestsPerConnection;
use crate::measure::{PhaseFigures, TimerAccuracy};
use crate::origin;
use crate::run::{Live, Session, SessionOptions, Subject};
use crate::systems::{Running, Setup, System};

/// What is compared, and how.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The systems.
    pub systems: Vec<System>,
    /// The loads.
    pub scenarios: Vec<Scenario>,
    /// Rounds of each system in each scenario.
    pub rounds: u32,
    /// How long a round is.
    pub time: Duration,
    /// Connections of the client.
    pub connections: usize,
    /// How systems are spoken to.
    pub protocol: Protocol,
    /// Bytes of each cache.
    pub cache: u64,
    /// Bytes of memory for each system and what the kernel keeps for it.
    pub memory: u64,
    /// Reads, and as many writes, that a device does a second while something is measured.
    pub operations: Option<u32>,
    /// Where the devices' files are made.
    pub base: PathBuf,
    /// The core of the systems.
    pub core: usize,
    /// Whether system calls are counted.
    pub system_calls: bool,
    /// The cores of the generator, and how exactly it is woken.
    pub generator_cores: usize,
    /// See `generator_cores`.
    pub timer: TimerAccuracy,
    /// All chance follows from it.
    pub seed: u64,
}

/// A system under load. Its parts are dropped in this order.
struct Bench {
    name: String,
    session: Session,
    running: Running,
    bed: Bed,
    rounds: Vec<PhaseFigures>,
}

/// Time for what was stored last to get to the device.
const SETTLE: Duration = Duration::from_secs(2);

/// Compares. `say` is told how far it is; `watch` sees the load.
///
/// # Errors
/// A device cannot be made, or the kernel refuses. A system that fails is left out, and named.
pub fn compare(
    plan: &Plan,
    interrupted: &Arc<AtomicBool>,
    say: &mut dyn FnMut(&str),
    watch: &mut dyn FnMut(&Live),
) -> Result<Comparison, String> {
    let mut comparison = Comparison::of(plan);
    for scenario in &plan.scenarios {
        say(&format!("== {}", scenario.name));
        let mut benches = Vec::new();
        for system in &plan.systems {
            if interrupted.load(Ordering::Relaxed) {
                comparison.interrupted = true;
                return Ok(comparison);
            }
            match prepare(plan, scenario, system, interrupted, &mut comparison.notes, watch) {
                Ok(bench) => {
                    say(&format!("   {} is filled", system.name));
                    benches.push(bench);
                }
                Err(why) => {
                    let note = format!("SKIPPED: {} in {:?}: {why}", system.name, scenario.name);
                    say(&note);
                    comparison.notes.push(note);
                }
            }
        }
        for round in 0..plan.rounds {
            for bench in &mut benches {
                measure(plan, scenario, bench, round, say, watch)?;
            }
        }
        for bench in &benches {
            let (failures, count) = bench.session.failures();
            let failures = failures.iter().map(|failure| format!("{}: {failure}", bench.name));
            comparison.failures.extend(failures);
            comparison.failure_count += count;
            comparison.rows.push(Row::new(scenario.name, &bench.name, &bench.rounds));
        }
    }
    comparison.interrupted = interrupted.load(Ordering::Relaxed);
    Ok(comparison)
}

/// Starts a system on a fresh device, and fills its cache.
fn prepare(
    plan: &Plan,
    scenario: &Scenario,
    system: &System,
    interrupted: &Arc<AtomicBool>,
    notes: &mut Vec<String>,
    watch: &mut dyn FnMut(&Live),
) -> Result<Bench, String> {
    let bed = Bed::new(plan, system, notes)?;
    let (origin, listen): (SocketAddr, SocketAddr) =
        (address::free_at_localhost(), address::free());
    let cache = bed.cache();
    let setup = Setup {
        base: &plan.base,
        cache: &cache,
        cache_bytes: plan.cache,
        object_bytes: scenario.object_bytes(),
        connections: scenario.connections.unwrap_or(plan.connections),
        http2: plan.protocol != Protocol::Http1,
        memory: plan.memory,
        listen,
        origin,
        groups: bed.groups(),
        core: plan.core,
    };
    let options = SessionOptions {
        target: listen,
        host: listen.to_string(),
        is_forward: false,
        origin,
        name: format!("bench-{}", plan.seed),
        answers: origin::Options { seed: plan.seed, ..origin::Options::default() },
        load: scenario.load.clone(),
        protocol: plan.protocol,
        connections: scenario.connections.unwrap_or(plan.connections),
        requests_per_connection: RequestsPerConnection::Unlimited,
        timeout: Duration::from_secs(60),
        subject: Subject::default(),
    };
    // The origin is there before the system looks for it.
    let mut session = Session::new(options, Arc::clone(interrupted))?;
    let running = system.start(&setup, interrupted)?;
    session.set_subject(Subject {
        process: Some(running.process()),
        device: Some(bed.device().to_path_buf()),
        system_calls: plan.system_calls,
    });
    if let Some(fill) = scenario.fill() {
        let number = session.run(&fill, watch)?;
        session.settle()?;
        let figures = session.figures(number);
        if figures.answered == 0 && !session.is_interrupted() {
            return Err(format!("nothing was answered: {:?}; {}", figures.errors, running.said()));
        }
    }
    let mut bench = Bench { name: system.name.clone(), session, running, bed, rounds: Vec::new() };
    std::thread::sleep(SETTLE);
    bench.bed.settle(plan.operations)?;
    Ok(bench)
}

/// Measures a round of a system.
fn measure(
    plan: &Plan,
    scenario: &Scenario,
    bench: &mut Bench,
    round: u32,
    say: &mut dyn FnMut(&str),
    watch: &mut dyn FnMut(&Live),
) -> Result<(), String> {
    if bench.session.is_interrupted() {
        return Ok(());
    }
    let number = bench.session.run(&scenario.round(plan.time), watch)?;
    bench.session.settle()?;
    let mut figures = bench.session.figures(number);
    if figures.answered == 0 && !bench.session.is_interrupted() {
        say(&format!("   {} answers nothing: {}", bench.name, bench.running.said()));
    }
    figures.warn_of_generator(plan.generator_cores, &plan.timer, false);
    let cpu = figures.process.as_ref().map_or(0.0, |process| process.cpu_us());
    say(&format!(
        "   round {} {}: {:.0} requests/s, {cpu:.1} µs of CPU each, hits {:.1}%",
        round + 1,
        bench.name,
        figures.achieved_rate,
        figures.hit_ratio * 100.0,
    ));
    bench.rounds.push(figures);
    Ok(())
}
