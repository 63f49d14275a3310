//! `larder lab disk-compare`: compares simulated drives with reference data.

use std::path::PathBuf;

use clap::{Arg, ArgMatches, Command, value_parser};
use cli::outcome::{Failure, answer};

/// Returns the arguments of `larder lab disk-compare`.
pub fn command() -> Command {
    Command::new("disk-compare")
        .about("Compare the simulated drives with a folder of reference data")
        .after_help("Exits with code 1 if a figure is out of tolerance.")
        .arg(
            Arg::new("folder")
                .value_name("FOLDER")
                .required(true)
                .value_parser(value_parser!(PathBuf))
                .help(
                    "With gold_workloads.csv, validation.csv, atlas10k_x3_regions.csv, real/ and \
                     reference/.",
                ),
        )
        .arg(
            Arg::new("seed")
                .long("seed")
                .value_name("N")
                .value_parser(value_parser!(u64))
                .default_value("1")
                .help("Seed of the generated requests."),
        )
}

/// Runs the command.
pub fn run(matches: &ArgMatches) -> Result<(), Failure> {
    let folder = matches.get_one::<PathBuf>("folder").cloned().unwrap_or_default();
    let seed = matches.get_one("seed").copied().unwrap_or(1);
    let found = crate::disks::compare::compare(&folder, seed).map_err(Failure::runtime)?;
    answer(found.text.trim_end())?;
    if found.beyond.is_empty() {
        return answer(&format!("\nAll {} figures are within their tolerance.", found.figures));
    }
    let beyond = found.beyond.join("\n");
    Err(Failure::runtime(format!(
        "{} of {} figures are beyond their tolerance:\n{beyond}",
        found.beyond.len(),
        found.figures
    )))
}
