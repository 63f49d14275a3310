//! `larder lab report`: makes a page of all experiments that have been run.

use std::path::{Path, PathBuf};

use clap::{ArgMatches, Command};
use cli::outcome::{Failure, answer};

use super::run::{OUT, out};

/// Returns the arguments of `larder lab report`.
pub fn command() -> Command {
    Command::new("report")
        .about("Create one page with the results of all experiments run so far")
        .after_help(
            "Writes report.html to the directory: plots, every number beside the paper's, and \
             explanations of the differences, in one file that needs no network. Prints how many \
             numbers agree and a line for each that does not, and writes both to totals.md.",
        )
        .arg(out())
}

/// Runs the command.
pub fn run(matches: &ArgMatches) -> Result<(), Failure> {
    let folder = matches.get_one::<PathBuf>("out").map_or(Path::new(OUT), PathBuf::as_path);
    let report = crate::report::build(folder).map_err(Failure::runtime)?;
    if report.records == 0 {
        return Err(Failure::usage(format!(
            "lab report: {} has no results; run `larder lab run all --out {}` first",
            folder.display(),
            folder.display()
        )));
    }
    let noun = if report.records == 1 { "experiment" } else { "experiments" };
    answer(report.totals.trim_end())?;
    answer(&format!("\n{} has {} {noun}.", report.page.display(), report.records))
}
