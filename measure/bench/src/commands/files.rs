//! `larder bench files`: measures Larder beside other web servers over a tree of files.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use clap::builder::PossibleValuesParser;
use clap::{ArgAction, ArgMatches, Command, value_parser};
use cli::outcome::Failure;

use super::arguments::{duration, get, option, size};
use super::compare::{chosen_systems, finish, with_settings};
use super::machine::{self, Machine};
use super::run::random_seed;
use super::watched::watched;
use crate::files::{Plan, Scenario, TREES, run as measure};
use crate::systems::web_servers;

/// Returns the command.
pub fn command() -> Command {
    let trees = TREES.map(|(name, about, _)| format!("{name}: {about}")).join("; ");
    let command = Command::new("files")
        .about("Measures Larder beside nginx, Apache httpd and Caddy over a tree of small files")
        .after_help(
            "Wants the rights of root: it makes loop devices and control groups. Nothing of that \
             is left behind, also after Ctrl-C, and no configuration or service of the machine is \
             used.",
        )
        .arg(
            option("tree", "NAME", "")
                .help(format!("The tree, beside the memory. {trees}."))
                .hide_possible_values(true)
                .default_value(TREES[0].0)
                .value_parser(PossibleValuesParser::new(TREES.map(|(name, ..)| name))),
        )
        .arg(
            option("pages", "COUNT", "Pages of the tree, each with about nine files.")
                .value_parser(value_parser!(u32).range(1..)),
        )
        .arg(
            option(
                "warm-up",
                "COUNT",
                "Requests by popularity, after every page was visited once.",
            )
            .value_parser(value_parser!(u64)),
        );
    of_each(machine::page_argument(machine::arguments(command)))
}

/// Adds the resources of each server, and the times.
fn of_each(command: Command) -> Command {
    command
        .arg(
            option("limit", "SIZE", "For each server, its own and what the kernel keeps for it.")
                .value_parser(size),
        )
        .arg(option("memory", "SIZE", "Of that, Larder's setting `memory`.").value_parser(size))
        .arg(option("cache-size", "SIZE", "Of Larder's cache.").value_parser(size))
        .arg(
            option(
                "operations",
                "COUNT",
                "Reads, and as many writes, that each device does a second while something is \
                 measured.",
            )
            .value_parser(value_parser!(u32).range(1..)),
        )
        .arg(
            option("first", "TIMES", "When the first parts after a start end.")
                .default_value("1s,2s,5s")
                .value_delimiter(',')
                .value_parser(duration),
        )
        .arg(
            option("time", "TIME", "How long a warm server is measured.")
                .default_value("20s")
                .value_parser(duration),
        )
        .arg(
            option("rounds", "COUNT", "Rounds of each server.")
                .default_value("3")
                .value_parser(value_parser!(u32).range(1..)),
        )
        .arg(
            option("connections", "COUNT", "Clients that wait for their answers.")
                .default_value("32")
                .value_parser(value_parser!(u32).range(1..=10_000)),
        )
        .arg(
            option("systems", "NAMES", "Only servers whose names contain one of these.")
                .value_delimiter(','),
        )
        .arg(
            option("larder-with", "SETTINGS", "Larder with these settings, as another server.")
                .action(ArgAction::Append),
        )
}

/// Runs the comparison.
///
/// # Errors
/// Fails if privileges are missing, a name is unknown, or responses were wrong.
pub fn run(matches: &ArgMatches, interrupted: Arc<AtomicBool>) -> Result<(), Failure> {
    let failed = |why: String| Failure::runtime(format!("bench: files: {why}"));
    machine::enter().map_err(failed)?;
    let (plan, notes) = plan(matches)?;
    let measured =
        watched(matches, plan.seed, &notes, |say, watch| measure(&plan, &interrupted, say, watch));
    let mut comparison = measured.map_err(failed)?;
    comparison.notes.splice(0..0, notes);
    finish(matches, &comparison)
}

fn plan(matches: &ArgMatches) -> Result<(Plan, Vec<String>), Failure> {
    let failed = |why: String| Failure::runtime(format!("bench: files: {why}"));
    let seed = get(matches, "seed").unwrap_or_else(random_seed);
    let scenario = scenario(matches)
        .checked(seed)
        .map_err(|why| Failure::usage(format!("bench: files: {why}")))?;
    let Machine { core, generator_cores, timer, base, systems, notes } =
        Machine::of(matches, web_servers).map_err(failed)?;
    let systems = chosen_systems(matches, with_settings(matches, systems)?)?;
    let first = matches.get_many::<Duration>("first").into_iter().flatten().copied().collect();
    let plan = Plan {
        systems,
        scenario,
        first,
        time: get(matches, "time").unwrap_or(Duration::from_secs(20)),
        rounds: get(matches, "rounds").unwrap_or(3),
        connections: get::<u32>(matches, "connections").unwrap_or(32) as usize,
        operations: get(matches, "operations"),
        base,
        core,
        generator_cores,
        timer,
        seed,
    };
    Ok((plan, notes))
}

/// Returns the tree and the memory, as given or as the kind of tree has them.
fn scenario(matches: &ArgMatches) -> Scenario {
    let name: String = get(matches, "tree").unwrap_or_default();
    let tree = TREES.iter().find(|(tree, ..)| *tree == name).unwrap_or(&TREES[0]);
    let usual = tree.2;
    Scenario {
        pages: get(matches, "pages").unwrap_or(usual.pages),
        warm_up: get(matches, "warm-up").unwrap_or(usual.warm_up),
        limit: get(matches, "limit").unwrap_or(usual.limit),
        memory: get(matches, "memory").unwrap_or(usual.memory),
        cache: get(matches, "cache-size").unwrap_or(usual.cache),
        ..usual
    }
}
