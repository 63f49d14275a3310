//! `larder bench instructions`: counts the instructions of a request.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::{ArgMatches, Command};
use cli::outcome::{Failure, answer};

use super::arguments::{flag, get, option};
use crate::instructions::{self, Options};

/// Returns the command.
pub fn command() -> Command {
    Command::new("instructions")
        .about(
            "Counts the instructions that a request costs Larder, beside those of the table in \
             docs/research/instructions.md",
        )
        .after_help("Run it in the repository of Larder; it wants valgrind.")
        .arg(option("only", "WORDS", "Only the routes whose names contain this.").default_value(""))
        .arg(
            flag("bless", "Writes the table anew instead of comparing with it.")
                .conflicts_with_all(["only", "check"]),
        )
        .arg(flag(
            "check",
            "Fails where a count is greater than that of the table by more than its tolerance.",
        ))
        .arg(flag("as-built", "Takes the release build that is there, without building."))
}

/// Counts and prints.
///
/// # Errors
/// Fails as [`instructions::run`].
pub fn run(matches: &ArgMatches, interrupted: &Arc<AtomicBool>) -> Result<(), Failure> {
    let options = Options {
        only: get(matches, "only").unwrap_or_default(),
        bless: matches.get_flag("bless"),
        check: matches.get_flag("check"),
        as_built: matches.get_flag("as-built"),
    };
    let mut printed = Ok(());
    let counted = instructions::run(&options, interrupted, &mut |line| {
        printed = std::mem::replace(&mut printed, Ok(())).and_then(|()| answer(line));
    });
    counted.map_err(|why| Failure::runtime(format!("bench: instructions: {why}")))?;
    printed
}
