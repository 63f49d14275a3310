//! `larder bench fleet`: measures nodes that share their caches.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use clap::builder::PossibleValuesParser;
use clap::{ArgMatches, Command, value_parser};
use cli::outcome::Failure;

use super::arguments::{duration, get, option, size};
use super::compare::{finish, names};
use super::machine::{self, Machine};
use super::run::random_seed;
use super::watched::watched;
use crate::fleet::{PARTS, Plan, run as measure};
use crate::systems::{Grant, sharing};

/// Returns the command.
pub fn command() -> Command {
    let command = Command::new("fleet")
        .about("Measures Larder as a fleet beside nginx and Varnish whose nodes share documents")
        .after_help(
            "Wants the rights of root: each node gets a loop device and a control group of its \
             own. Nothing of that is left behind, also after Ctrl-C, and no configuration or \
             service of the machine is used.",
        )
        .arg(
            option(
                "only",
                "PARTS",
                "Only these parts, divided by commas; mechanisms and presets are no default.",
            )
            .default_value("sharing,recovery,remote")
            .value_delimiter(',')
            .value_parser(PossibleValuesParser::new(PARTS)),
        )
        .arg(
            option("systems", "NAMES", "Only systems whose names contain one of these.")
                .value_delimiter(','),
        )
        .arg(
            option("nodes", "COUNT", "Nodes of each system.")
                .default_value("3")
                .value_parser(value_parser!(u16).range(2..=16)),
        );
    of_load(of_nodes(machine::page_argument(machine::arguments(command))))
}

/// Adds the resources of each node.
fn of_nodes(command: Command) -> Command {
    command
        .arg(
            option("cache-size", "SIZE", "Of each cache.").default_value("128M").value_parser(size),
        )
        .arg(
            option("limit", "SIZE", "For each node, its own and what the kernel keeps for it.")
                .default_value("128M")
                .value_parser(size),
        )
        .arg(
            option("memory", "SIZE", "Of that, Larder's setting `memory`.")
                .default_value("32M")
                .value_parser(size),
        )
}

/// Adds the requests and the times.
fn of_load(command: Command) -> Command {
    let count = || value_parser!(u64).range(1..);
    command
        .arg(
            option(
                "documents",
                "COUNT",
                "Documents that are popular at a time, 12 KB in the mean.",
            )
            .default_value("20000")
            .value_parser(value_parser!(u32).range(1..)),
        )
        .arg(
            option("alpha", "NUMBER", "The exponent of Zipf's law.")
                .default_value("0.8")
                .value_parser(value_parser!(f64)),
        )
        .arg(
            option(
                "drift",
                "COUNT",
                "Requests after which one document takes the place of another.",
            )
            .default_value("200")
            .value_parser(count()),
        )
        .arg(
            option("warm-up", "COUNT", "Requests before those that are measured.")
                .default_value("150000")
                .value_parser(count()),
        )
        .arg(
            option("requests", "COUNT", "Requests that are measured.")
                .default_value("100000")
                .value_parser(count()),
        )
        .arg(
            option("recovery", "TIME", "How long requests go on after a node was killed.")
                .default_value("20s")
                .value_parser(duration),
        )
        .arg(
            option("time", "TIME", "How long a measurement of remote is.")
                .default_value("4s")
                .value_parser(duration),
        )
        .arg(
            option("rounds", "COUNT", "Rounds of each system.")
                .default_value("3")
                .value_parser(value_parser!(u32).range(1..)),
        )
        .arg(
            option("connections", "COUNT", "Clients that wait for their answers.")
                .default_value("32")
                .value_parser(value_parser!(u32).range(1..=10_000)),
        )
}

/// Runs the comparison.
///
/// # Errors
/// Fails if privileges are missing, nothing was measured, or responses were wrong.
pub fn run(matches: &ArgMatches, interrupted: Arc<AtomicBool>) -> Result<(), Failure> {
    let failed = |why: String| Failure::runtime(format!("bench: fleet: {why}"));
    machine::enter().map_err(failed)?;
    let (plan, notes) = plan(matches)?;
    let measured =
        watched(matches, plan.seed, &notes, |say, watch| measure(&plan, &interrupted, say, watch));
    let mut comparison = measured.map_err(failed)?;
    comparison.notes.splice(0..0, notes);
    finish(matches, &comparison)
}

fn plan(matches: &ArgMatches) -> Result<(Plan, Vec<String>), Failure> {
    let failed = |why: String| Failure::runtime(format!("bench: fleet: {why}"));
    let bytes = |name: &str| get::<u64>(matches, name).unwrap_or_default();
    let (limit, larder_memory) = (bytes("limit"), bytes("memory"));
    if larder_memory >= limit {
        let why =
            format!("bench: fleet: --memory {larder_memory} is not less than --limit {limit}");
        return Err(Failure::usage(why));
    }
    let alpha: f64 = get(matches, "alpha").unwrap_or(0.8);
    if !(0.0..10.0).contains(&alpha) {
        return Err(Failure::usage(format!("bench: fleet: --alpha {alpha} is not from 0 to 10")));
    }
    let Machine { core, generator_cores, timer, base, systems, notes } =
        Machine::of(matches, sharing).map_err(failed)?;
    let time = |name: &str| get::<Duration>(matches, name).unwrap_or_default();
    let plan = Plan {
        systems,
        parts: names(matches, "only"),
        only: names(matches, "systems"),
        nodes: get::<u16>(matches, "nodes").unwrap_or(3).into(),
        grant: Grant { cache: bytes("cache-size"), memory: limit, operations: None, base, core },
        larder_memory,
        documents: get(matches, "documents").unwrap_or(20_000),
        alpha,
        drift: bytes("drift"),
        warm_up: bytes("warm-up"),
        requests: bytes("requests"),
        recovery: time("recovery"),
        time: time("time"),
        rounds: get(matches, "rounds").unwrap_or(3),
        connections: get::<u32>(matches, "connections").unwrap_or(32) as usize,
        generator_cores,
        timer,
        seed: get(matches, "seed").unwrap_or_else(random_seed),
    };
    Ok((plan, notes))
}
