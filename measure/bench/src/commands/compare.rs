//! `larder bench compare`: measures Larder beside the other caches on this machine.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use cli::outcome::{Failure, answer};

use super::arguments::{self, duration, get, option, size};
use super::machine::{self, Machine};
use super::run::random_seed;
use super::watched::watched;
use crate::compare::{
    Comparison, Plan, Scenario, compare, comparison_page, comparison_text, scenarios,
};
use crate::systems::{Grant, System, installed};

/// Returns the command.
pub fn command() -> Command {
    let command = Command::new("compare")
        .about("Measures Larder beside nginx, Varnish, Traffic Server and Squid, where installed")
        .after_help(
            "Wants the rights of root: each system gets a loop device and a control group of its \
             own. Nothing of that is left behind, also after Ctrl-C, and no configuration or \
             service of the machine is used.",
        )
        .arg(
            option(
                "systems",
                "NAMES",
                "Only systems whose names contain one of these, divided by \
                commas, such as larder,nginx.",
            )
            .value_delimiter(','),
        )
        .arg(
            option(
                "scenarios",
                "NAMES",
                "Only these, divided by commas: memory, disk, pass, miss, \
                pages, 1mb, 100mb.",
            )
            .value_delimiter(','),
        )
        .arg(
            option(
                "larder-with",
                "SETTINGS",
                "Larder with these settings of its configuration, such as layout=stream or \
                preset=ucfs,store.policy=lru, as another system; may be given several times.",
            )
            .action(ArgAction::Append),
        )
        .arg(
            option("rounds", "COUNT", "Rounds of each system in each scenario.")
                .default_value("3")
                .value_parser(value_parser!(u32).range(1..)),
        )
        .arg(
            option("time", "TIME", "How long a round is.")
                .default_value("4s")
                .value_parser(duration),
        )
        .arg(
            option("connections", "COUNT", "Clients that wait for their answers.")
                .default_value("32")
                .value_parser(value_parser!(u32).range(1..=10_000)),
        )
        .arg(Arg::new("site").long("site").action(ArgAction::SetTrue).help(
            "Configures the systems as sites do and asks as browsers ask: ten rules, of \
                     which three match, a trusted proxy, a static site beside, an access log in \
                     JSON. Larder and nginx alone.",
        ))
        .args(arguments::of_http2());
    of_each(command)
}

/// Adds the resources of each system, and the reports.
fn of_each(command: Command) -> Command {
    let command = command
        .arg(
            option("cache-size", "SIZE", "Of each cache.").default_value("512M").value_parser(size),
        )
        .arg(
            option("memory", "SIZE", "For each system, its own and what the kernel keeps for it.")
                .default_value("192M")
                .value_parser(size),
        )
        .arg(
            option(
                "operations",
                "COUNT",
                "Reads, and as many writes, that a device does a second \
                while something is measured.",
            )
            .value_parser(value_parser!(u32).range(1..)),
        )
        .arg(
            Arg::new("system-calls")
                .long("system-calls")
                .action(ArgAction::SetTrue)
                .help("Counts system calls, with perf."),
        );
    machine::page_argument(machine::arguments(command))
}

/// Runs the comparison.
///
/// # Errors
/// Fails if privileges are missing, a name is unknown, or responses were wrong.
pub fn run(matches: &ArgMatches, interrupted: Arc<AtomicBool>) -> Result<(), Failure> {
    let failed = |why: String| Failure::runtime(format!("bench: compare: {why}"));
    machine::enter().map_err(failed)?;
    let (plan, notes) = plan(matches)?;
    let measured =
        watched(matches, plan.seed, &notes, |say, watch| compare(&plan, &interrupted, say, watch));
    let mut comparison = measured.map_err(failed)?;
    comparison.notes.splice(0..0, notes);
    finish(matches, &comparison)
}

fn plan(matches: &ArgMatches) -> Result<(Plan, Vec<String>), Failure> {
    let failed = |why: String| Failure::runtime(format!("bench: compare: {why}"));
    let usage = |why: String| Failure::usage(format!("bench: {why}"));
    let Machine { core, generator_cores, timer, base, systems, mut notes } =
        Machine::of(matches, installed).map_err(failed)?;
    let protocol = arguments::protocol(matches).map_err(usage)?;
    let mut systems = chosen_systems(matches, with_settings(matches, systems)?)?;
    if protocol.is_http2() {
        let silent = systems.extract_if(.., |system| !system.speaks_http2());
        notes.extend(silent.map(|system| format!("SKIPPED: {} speaks no HTTP/2", system.name)));
    }
    let is_site = matches.get_flag("site");
    if is_site {
        let others = systems.extract_if(.., |system| !system.serves_sites());
        notes.extend(others.map(|system| format!("SKIPPED: {} has no such site", system.name)));
    }
    let seed = get(matches, "seed").unwrap_or_else(random_seed);
    let cache = get(matches, "cache-size").unwrap_or(512 << 20);
    let memory = get(matches, "memory").unwrap_or(192 << 20);
    let operations = get(matches, "operations");
    let plan = Plan {
        systems,
        scenarios: chosen_scenarios(matches, scenarios(cache, seed))?,
        rounds: get(matches, "rounds").unwrap_or(3),
        time: get(matches, "time").unwrap_or(Duration::from_secs(4)),
        connections: get::<u32>(matches, "connections").unwrap_or(32) as usize,
        protocol,
        is_site,
        grant: Grant { cache, memory, operations, base, core },
        system_calls: matches.get_flag("system-calls"),
        generator_cores,
        timer,
        seed,
    };
    Ok((plan, notes))
}

/// Returns the systems, of which Larder is the first, with Larder in the settings of
/// `--larder-with` added.
///
/// # Errors
/// Fails if one of them is not a setting.
pub fn with_settings(
    matches: &ArgMatches,
    mut systems: Vec<System>,
) -> Result<Vec<System>, Failure> {
    for settings in names(matches, "larder-with") {
        let variants = systems.first().map(|larder| larder.with_settings(&settings)).transpose();
        let variants = variants.map_err(|why| Failure::usage(format!("bench: {why}")))?;
        systems.extend(variants.flatten());
    }
    Ok(systems)
}

/// Returns the values of an argument that may be given several times.
pub fn names(matches: &ArgMatches, argument: &str) -> Vec<String> {
    matches.get_many::<String>(argument).into_iter().flatten().cloned().collect()
}

/// Returns the systems whose names contain one of the given names.
///
/// # Errors
/// Fails if no system's name contains one of them.
pub fn chosen_systems(matches: &ArgMatches, all: Vec<System>) -> Result<Vec<System>, Failure> {
    let names = names(matches, "systems");
    let wants =
        |system: &System, name: &str| system.name.to_lowercase().contains(&name.to_lowercase());
    if let Some(name) = names.iter().find(|name| !all.iter().any(|system| wants(system, name))) {
        let there: Vec<&str> = all.iter().map(|system| &*system.name).collect();
        let there = there.join(", ");
        return Err(Failure::usage(format!("bench: no system {name:?} here: there is {there}")));
    }
    let is_chosen =
        |system: &System| names.is_empty() || names.iter().any(|name| wants(system, name));
    Ok(all.into_iter().filter(is_chosen).collect())
}

fn chosen_scenarios(matches: &ArgMatches, all: Vec<Scenario>) -> Result<Vec<Scenario>, Failure> {
    let names = names(matches, "scenarios");
    if let Some(name) = names.iter().find(|name| !all.iter().any(|known| known.id == **name)) {
        let known: Vec<&str> = all.iter().map(|scenario| scenario.id).collect();
        let known = known.join(", ");
        return Err(Failure::usage(format!("bench: no scenario {name:?}: choose of {known}")));
    }
    let is_chosen =
        |scenario: &Scenario| names.is_empty() || names.iter().any(|name| name == scenario.id);
    Ok(all.into_iter().filter(is_chosen).collect())
}

/// Prints the result and writes it to the files that the arguments name.
///
/// # Errors
/// Fails if nothing was measured, responses were wrong, or a file cannot be written.
pub fn finish(matches: &ArgMatches, comparison: &Comparison) -> Result<(), Failure> {
    answer(&comparison_text(comparison))?;
    let failed = |why: String| Failure::runtime(format!("bench: {why}"));
    let write = |path: PathBuf, text: String| {
        std::fs::write(&path, text).map_err(|error| failed(format!("{}: {error}", path.display())))
    };
    if let Some(path) = get::<PathBuf>(matches, "json") {
        let text = serde_json::to_string_pretty(comparison)
            .map_err(|error| failed(format!("JSON: {error}")))?;
        write(path, format!("{text}\n"))?;
    }
    if let Some(path) = get::<PathBuf>(matches, "html") {
        write(path, comparison_page(comparison).map_err(failed)?)?;
    }
    match comparison.failure_count {
        0 if comparison.rows.is_empty() && !comparison.interrupted => {
            Err(failed("nothing was measured".to_owned()))
        }
        0 if !comparison.deviations.is_empty() => {
            Err(failed(format!("not as expected: {}", comparison.deviations.join("; "))))
        }
        0 => Ok(()),
        wrong => Err(failed(format!("{wrong} answers were wrong"))),
    }
}
