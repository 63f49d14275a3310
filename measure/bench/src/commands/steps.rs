//! `larder bench steps`: divides the processor time of a request among its steps.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use clap::{ArgMatches, Command};
use cli::outcome::{Failure, answer};

use super::arguments::{duration, flag, get, option};
use super::machine;
use super::watched::watched;
use crate::repository::Repository;
use crate::scale::{Plan, Watcher};
use crate::steps;

/// Returns the command.
pub fn command() -> Command {
    Command::new("steps")
        .about("Divides the processor time of a request among its steps, by samples of perf")
        .after_help("Run it in the repository of Larder.")
        .arg(option("only", "WORDS", "Only the paths whose names contain this.").default_value(""))
        .arg(
            option("time", "TIME", "How long samples are taken.")
                .default_value("6s")
                .value_parser(duration),
        )
        .arg(flag("as-built", "Takes the release build that is there, without building."))
        .arg(flag("quiet", "Says nothing meanwhile."))
}

/// Measures and prints.
///
/// # Errors
/// Fails as [`steps::run`].
pub fn run(matches: &ArgMatches, interrupted: Arc<AtomicBool>) -> Result<(), Failure> {
    let failed = |why: String| Failure::runtime(format!("bench: steps: {why}"));
    let plan = plan(matches, interrupted).map_err(failed)?;
    let only: String = get(matches, "only").unwrap_or_default();
    let mut lines = Vec::new();
    watched(matches, plan.seed, &[], |say, watch| {
        let mut print = |line: &str| lines.push(line.to_owned());
        steps::run(&plan, &only, &mut Watcher { say, watch }, &mut print)
    })
    .map_err(failed)?;
    answer(&lines.join("\n"))
}

fn plan(matches: &ArgMatches, interrupted: Arc<AtomicBool>) -> Result<Plan, String> {
    let repository = Repository::find()?;
    let larder = repository.larder(matches.get_flag("as-built"))?;
    let cores = machine::divide_cores()?;
    let usual = Plan::new(larder, repository.join("target"), interrupted);
    let time: Duration = get(matches, "time").unwrap_or(usual.time);
    Ok(Plan { time, cores, connections: 32, ..usual })
}
