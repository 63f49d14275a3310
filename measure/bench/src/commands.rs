//! The command line of `larder bench`.

mod arguments;
mod compare;
mod files;
mod fleet;
mod instructions;
mod machine;
mod peak;
mod run;
mod scale;
mod steps;
mod target;
mod unified;
mod watched;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::Command;
use cli::outcome::{Failure, report};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

/// Returns the whole command line. It calls itself `larder bench`, which is how it is run.
fn command() -> Command {
    arguments::of_run(Command::new("larder-bench"))
        .subcommand_negates_reqs(true)
        .args_conflicts_with_subcommands(true)
        .subcommand(peak::command())
        .subcommand(compare::command())
        .subcommand(scale::command())
        .subcommand(unified::command())
        .subcommand(files::command())
        .subcommand(fleet::command())
        .subcommand(instructions::command())
        .subcommand(steps::command())
        .bin_name("larder bench")
        .version(env!("CARGO_PKG_VERSION"))
        .max_term_width(100)
        .about("Loads a web cache, checks every byte that it returns, and measures it")
        .after_help(
            "Every workload has its origin server in this program: tell the cache to fetch from \
             --origin. Exit codes: 0, every answer was right; 1, some were wrong or missing; 2, \
             the command line is wrong. docs/guide/bench.md says what every figure means.",
        )
}

/// Reads the command line and runs the command.
pub fn main() -> ExitCode {
    match run(&command().get_matches()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => report(&failure),
    }
}

fn run(matches: &clap::ArgMatches) -> Result<(), Failure> {
    // These commands create files, which must be removed before the process ends.
    let ends_at_once = matches!(matches.subcommand_name(), None | Some("peak"));
    let interrupted = hear_signals(ends_at_once)?;
    match matches.subcommand() {
        Some(("compare", matches)) => compare::run(matches, interrupted),
        Some(("scale", matches)) => scale::run(matches, interrupted),
        Some(("unified", matches)) => unified::run(matches, interrupted),
        Some(("instructions", matches)) => instructions::run(matches, &interrupted),
        Some(("steps", matches)) => steps::run(matches, interrupted),
        Some(("files", matches)) => files::run(matches, interrupted),
        Some(("fleet", matches)) => fleet::run(matches, interrupted),
        Some(("peak", matches)) => peak::run(matches, interrupted),
        _ => run::run(matches, interrupted),
    }
}

/// Installs the signal handlers. The first signal ends a run in an orderly way: all measurements
/// are reported. With `ends_at_once`, if there is nothing to remove, a second one ends the process
/// immediately.
fn hear_signals(ends_at_once: bool) -> Result<Arc<AtomicBool>, Failure> {
    let interrupted = Arc::new(AtomicBool::new(false));
    let failed = |error| Failure::runtime(format!("bench: signals: {error}"));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        if ends_at_once {
            let flag = Arc::clone(&interrupted);
            flag::register_conditional_shutdown(signal, 128 + signal, flag).map_err(failed)?;
        }
        flag::register(signal, Arc::clone(&interrupted)).map_err(failed)?;
    }
    Ok(interrupted)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_command_line_is_consistent() {
        super::command().debug_assert();
    }
}
