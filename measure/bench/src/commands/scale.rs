//! `larder bench scale`: measures many objects, connections and workers, background work, and long
//! runs.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::{ArgMatches, Command, value_parser};
use cli::outcome::{Failure, answer};

use super::arguments::{duration, get, option, positive, size};
use super::machine;
use super::run::random_seed;
use super::watched::watched;
use crate::scale::{PARTS, Part, PartReport, Plan, Watcher};

/// Returns the command.
pub fn command() -> Command {
    let parts = PARTS.map(|part| format!("{}: {}", part.id, part.about)).join("; ");
    let command = Command::new("scale")
        .about("Measures Larder with many objects, connections and workers, and for long")
        .after_help(format!(
            "Parts: {parts}. Larder runs on a file in --dir, which is removed, with the last \
             cores of the machine; the generator keeps to the first ones. docs/guide/bench.md \
             says what the columns mean."
        ))
        .arg(option("only", "PARTS", "Only these parts, divided by commas.").value_delimiter(','))
        .arg(
            option("time", "TIME", "How long something is measured.")
                .default_value("10s")
                .value_parser(duration),
        )
        .arg(
            option("rounds", "COUNT", "Rounds, in restart and background.")
                .default_value("3")
                .value_parser(value_parser!(u32).range(1..)),
        )
        .arg(
            option("connections", "COUNT", "Clients that wait for their answers.")
                .default_value("64")
                .value_parser(value_parser!(u32).range(1..=10_000)),
        );
    of_surroundings(of_parts(command))
}

/// Adds the arguments of single parts.
fn of_parts(command: Command) -> Command {
    command
        .arg(
            option("workers", "COUNTS", "Numbers of workers, in workers.")
                .default_value("1,2")
                .value_delimiter(',')
                .value_parser(value_parser!(u32).range(1..=1_024)),
        )
        .arg(
            option("idle", "COUNT", "Idle connections, in connections.")
                .default_value("10000")
                .value_parser(value_parser!(u32).range(1..=60_000)),
        )
        .arg(
            option("busy", "COUNT", "Busy connections, in connections.")
                .default_value("1000")
                .value_parser(value_parser!(u32).range(1..=60_000)),
        )
        .arg(
            option("objects", "COUNT", "Objects that are stored, in restart.")
                .default_value("1000000")
                .value_parser(value_parser!(u64).range(1..=1_000_000_000)),
        )
        .arg(
            option(
                "filled",
                "FILE",
                "The cache for restart, which an earlier run has stored them in with the same \
                 seed: larder bench --workload unique --sizes fixed:300 --host objects.test.",
            )
            .value_parser(value_parser!(PathBuf)),
        )
        .arg(
            option("host", "NAME", "The host that they are objects of.")
                .default_value("objects.test"),
        )
        .arg(
            option("rate", "RATE", "Hits a second, in background.")
                .default_value("2000")
                .value_parser(positive),
        )
        .arg(
            option("endurance", "TIME", "How long endurance is.")
                .default_value("30m")
                .value_parser(duration),
        )
}

fn of_surroundings(command: Command) -> Command {
    let command = command
        .arg(
            option("cache-size", "SIZE", "Of a cache, but in restart.")
                .default_value("512M")
                .value_parser(size),
        )
        .arg(option("memory", "SIZE", "Larder's memory.").default_value("64M").value_parser(size));
    machine::arguments(command)
}

/// Runs the parts.
///
/// # Errors
/// Fails if a name is unknown, Larder fails, or responses were wrong.
pub fn run(matches: &ArgMatches, interrupted: Arc<AtomicBool>) -> Result<(), Failure> {
    let failed = |why: String| Failure::runtime(format!("bench: scale: {why}"));
    let parts = chosen(matches)?;
    let plan = plan(matches, interrupted).map_err(failed)?;
    let reports = watched(matches, plan.seed, &[], |say, watch| {
        let mut reports = Vec::new();
        for part in parts.into_iter().take_while(|_| !plan.is_interrupted()) {
            say(&format!("== {}: {}", part.id, part.about));
            let report = (part.run)(&plan, &mut Watcher { say, watch }).map_err(failed)?;
            say(&format!("   {} is measured", part.id));
            answer(&format!("{}\n", report.text()))?;
            reports.push(report);
        }
        Ok::<_, Failure>(reports)
    })?;
    finish(matches, &reports)
}

fn chosen(matches: &ArgMatches) -> Result<Vec<&'static Part>, Failure> {
    let names: Vec<&String> = matches.get_many("only").into_iter().flatten().collect();
    if let Some(name) = names.iter().find(|name| !PARTS.iter().any(|part| part.id == ***name)) {
        let known = PARTS.map(|part| part.id).join(", ");
        return Err(Failure::usage(format!("bench: no part {name:?}: choose of {known}")));
    }
    let is_chosen =
        |part: &&Part| names.is_empty() || names.iter().any(|name| name.as_str() == part.id);
    Ok(PARTS.iter().filter(is_chosen).collect())
}

fn plan(matches: &ArgMatches, interrupted: Arc<AtomicBool>) -> Result<Plan, String> {
    let cores = machine::divide_cores()?;
    let larder = machine::larder(matches);
    if !larder.exists() {
        return Err(format!("{}: no such program: name it with --larder", larder.display()));
    }
    let usual = Plan::new(larder, machine::base(matches)?, interrupted);
    let number = |name: &str| get::<u32>(matches, name).unwrap_or(1) as usize;
    let workers = matches.get_many::<u32>("workers").into_iter().flatten();
    Ok(Plan {
        seed: get(matches, "seed").unwrap_or_else(random_seed),
        cache: get(matches, "cache-size").unwrap_or(usual.cache),
        memory: get(matches, "memory").unwrap_or(usual.memory),
        time: get(matches, "time").unwrap_or(usual.time),
        rounds: get(matches, "rounds").unwrap_or(usual.rounds),
        connections: number("connections"),
        objects: get(matches, "objects").unwrap_or(usual.objects),
        filled: get(matches, "filled"),
        host: get(matches, "host").unwrap_or_default(),
        idle: number("idle"),
        busy: number("busy"),
        workers: workers.map(|count| *count as usize).collect(),
        rate: get(matches, "rate").unwrap_or(usual.rate),
        endurance: get(matches, "endurance").unwrap_or(usual.endurance),
        cores,
        ..usual
    })
}

fn finish(matches: &ArgMatches, reports: &[PartReport]) -> Result<(), Failure> {
    let failed = |why: String| Failure::runtime(format!("bench: scale: {why}"));
    if let Some(path) = get::<PathBuf>(matches, "json") {
        let text = serde_json::to_string_pretty(reports)
            .map_err(|error| failed(format!("JSON: {error}")))?;
        std::fs::write(&path, format!("{text}\n"))
            .map_err(|error| failed(format!("{}: {error}", path.display())))?;
    }
    match reports.iter().map(|report| report.failure_count).sum() {
        0 => Ok(()),
        wrong => Err(failed(format!("{wrong} answers were wrong or missing"))),
    }
}
