//! The command line.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use cli::outcome::{Failure, answer, report, warn};
use cli::units::{SIZE_EXAMPLE, parse_size, size};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::report::{Results, json, markdown};
use crate::task::{ENGINES, Plan, STEP_COMMAND};
use crate::{rounds, steps};

/// Smallest file: four of foyer's blocks.
const FILE_MIN: u64 = 64 << 20;

/// Smallest memory: twice the largest object.
const MEMORY_MIN: u64 = 8 << 20;

fn command() -> Command {
    let count = || value_parser!(u64).range(1_000..=u64::from(u32::MAX));
    Command::new("larder-engines")
        .version(env!("CARGO_PKG_VERSION"))
        .max_term_width(100)
        .about("Compares the store with the hybrid cache of the crate foyer")
        .after_help(
            "Prints a Markdown table. Exit codes: 0, measured; 1, an engine failed, or gave a \
             wrong answer from an undamaged file; 2, the command line is wrong. \
             docs/research/engines.md says what every figure means.",
        )
        .subcommand(Command::new(STEP_COMMAND).hide(true))
        .args([
            option("file-size", "SIZE", "Size of each cache.")
                .default_value("512M")
                .value_parser(size_value),
            option("memory", "SIZE", "Memory of each engine.")
                .default_value("32M")
                .value_parser(size_value),
            option("requests", "N", "Requests of the trace.")
                .default_value("200000")
                .value_parser(count()),
            option("rounds", "N", "Rounds of both engines; the table has the medians.")
                .default_value("3")
                .value_parser(value_parser!(u32).range(1..=99)),
            option("seed", "N", "The trace, the order of reads and the damage follow from it.")
                .default_value("1")
                .value_parser(value_parser!(u64)),
            option(
                "directory",
                "DIR",
                "For the caches, which are removed. [default: $TMPDIR or /tmp]",
            )
            .value_parser(value_parser!(PathBuf)),
            Arg::new("json")
                .long("json")
                .action(ArgAction::SetTrue)
                .help("Print JSON with every round instead of the table."),
        ])
}

fn option(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name(value).help(help)
}

fn size_value(text: &str) -> Result<u64, String> {
    parse_size(text).ok_or_else(|| format!("expected {SIZE_EXAMPLE}"))
}

/// Reads the command line and runs the comparison, or a step of an engine.
pub fn main() -> ExitCode {
    match run(&command().get_matches()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => report(&failure),
    }
}

fn run(matches: &ArgMatches) -> Result<(), Failure> {
    let failed = |why: String| Failure::runtime(format!("engines: {why}"));
    if matches.subcommand_matches(STEP_COMMAND).is_some() {
        return steps::run().map_err(failed);
    }
    let number = |name: &str| matches.get_one::<u64>(name).copied().unwrap_or(0);
    let plan = Plan {
        file_size: number("file-size"),
        memory: number("memory"),
        requests: number("requests"),
        seed: number("seed"),
    };
    let base = matches.get_one::<PathBuf>("directory").cloned();
    let base = base.unwrap_or_else(std::env::temp_dir);
    check(&plan, &base).map_err(|why| Failure::usage(format!("engines: {why}")))?;
    let trace_bytes: u64 = plan.trace().objects.iter().map(|item| item.size).sum();
    if trace_bytes <= plan.file_size {
        warn("engines: the requested objects fit the file: nothing is evicted");
    }
    let count = matches.get_one("rounds").copied().unwrap_or(1);
    let results = compare(&plan, &base, count).map_err(failed)?;
    let text = match matches.get_flag("json") {
        true => json(&plan, &results).map_err(failed)?,
        false => markdown(&plan, &results),
    };
    answer(&text)?;
    let wrong = results.iter().flatten().filter_map(|round| round.get("wrong")).sum::<f64>();
    match wrong == 0.0 {
        true => Ok(()),
        false => Err(failed(format!("{wrong} answers from undamaged files were wrong"))),
    }
}

/// Returns why this cannot be measured.
fn check(plan: &Plan, base: &Path) -> Result<(), String> {
    if plan.file_size < FILE_MIN {
        return Err(format!("--file-size: at least {}", size(FILE_MIN)));
    }
    if plan.memory < MEMORY_MIN {
        return Err(format!("--memory: at least {}", size(MEMORY_MIN)));
    }
    if plan.memory > plan.file_size / 2 {
        return Err("--memory: at most half of --file-size".to_owned());
    }
    match base.is_dir() {
        true => Ok(()),
        false => Err(format!("--directory: {} is not a directory", base.display())),
    }
}

/// Runs the rounds, both engines in turn; the engine that begins alternates.
fn compare(plan: &Plan, base: &Path, count: u32) -> Result<Results, String> {
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        let registered = signal_hook::flag::register(signal, Arc::clone(&interrupted));
        registered.map_err(|error| format!("signals: {error}"))?;
    }
    let mut results = Results::default();
    for turn in 0..2 * count as usize {
        let at = (turn / 2 + turn % 2) % 2;
        results[at].push(rounds::run(ENGINES[at], plan, base, &interrupted)?);
    }
    Ok(results)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_command_line_is_consistent() {
        super::command().debug_assert();
    }
}
