//! The comparison: in each scenario all systems are started and filled, then measured in turn,
//! round by round.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::report::{Comparison, Row};
use super::scenario::Scenario;
use super::under_load::{SystemLoad, UnderLoad};
use crate::client::Protocol;
use crate::load::{LoadOptions, RequestsPerConnection};
use crate::measure::{PhaseFigures, TimerAccuracy};
use crate::origin;
use crate::run::Live;
use crate::systems::{Grant, System};

/// The parameters of the comparison.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The systems.
    pub systems: Vec<System>,
    /// The loads.
    pub scenarios: Vec<Scenario>,
    /// Rounds of each system in each scenario.
    pub rounds: u32,
    /// Duration of a round.
    pub time: Duration,
    /// Connections of the client.
    pub connections: usize,
    /// The protocol towards the systems.
    pub protocol: Protocol,
    /// True if systems are configured as for real sites, and requests have the fields of browsers.
    pub is_site: bool,
    /// The resources of each system.
    pub grant: Grant,
    /// True if system calls are counted.
    pub system_calls: bool,
    /// Number of cores of the generator.
    pub generator_cores: usize,
    /// How accurately the generator is woken.
    pub timer: TimerAccuracy,
    /// The seed of all random choices.
    pub seed: u64,
}

/// A system and its measurements.
struct Bench {
    under_load: UnderLoad,
    rounds: Vec<PhaseFigures>,
}

/// Runs the comparison. `say` logs progress; `watch` receives the load.
///
/// # Errors
/// Fails if a device cannot be created, or the kernel refuses. A system that fails is left out, and
/// named.
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
            let UnderLoad { name, session, .. } = &bench.under_load;
            let (failures, count) = session.failures();
            let failures = failures.iter().map(|failure| format!("{name}: {failure}"));
            comparison.failures.extend(failures);
            comparison.failure_count += count;
            comparison.rows.push(Row::new(scenario.name, name, &bench.rounds));
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
    let load = SystemLoad {
        load: LoadOptions { browser: plan.is_site, ..scenario.load.clone() },
        answers: origin::Options { seed: plan.seed, ..origin::Options::default() },
        protocol: plan.protocol,
        connections: scenario.connections.unwrap_or(plan.connections),
        requests_per_connection: RequestsPerConnection::Unlimited,
        object_bytes: scenario.object_bytes(),
        system_calls: plan.system_calls,
    };
    let mut under_load = UnderLoad::start(&plan.grant, system, &load, interrupted, notes)?;
    under_load.fill(scenario.fill().as_ref(), watch)?;
    under_load.hold(plan.grant.operations)?;
    Ok(Bench { under_load, rounds: Vec::new() })
}

/// Measures one round of a system.
fn measure(
    plan: &Plan,
    scenario: &Scenario,
    bench: &mut Bench,
    round: u32,
    say: &mut dyn FnMut(&str),
    watch: &mut dyn FnMut(&Live),
) -> Result<(), String> {
    let Bench { under_load, rounds } = bench;
    if under_load.session.is_interrupted() {
        return Ok(());
    }
    let number = under_load.session.run(&scenario.round(plan.time), watch)?;
    under_load.session.settle()?;
    let mut figures = under_load.session.figures(number);
    if figures.answered == 0 && !under_load.session.is_interrupted() {
        say(&format!("   {} answers nothing: {}", under_load.name, under_load.running.said()));
    }
    figures.warn_of_generator(plan.generator_cores, &plan.timer, false);
    let cpu = figures.process.as_ref().map_or(0.0, |process| process.cpu_us());
    say(&format!(
        "   round {} {}: {:.0} requests/s, {cpu:.1} µs of CPU each, hits {:.1}%",
        round + 1,
        under_load.name,
        figures.achieved_rate,
        figures.hit_ratio * 100.0,
    ));
    rounds.push(figures);
    Ok(())
}
