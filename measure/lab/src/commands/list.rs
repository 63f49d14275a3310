//! `larder lab list`: lists every experiment, by paper.

use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, Command};
use cli::outcome::{Failure, answer};

use crate::experiment::{Experiment, Paper};
use crate::experiments;

/// Returns the arguments of `larder lab list`.
pub fn command() -> Command {
    Command::new("list")
        .about("List the experiments: paper, figure or table, and how long they take")
        .arg(
            Arg::new("parameters")
                .long("parameters")
                .action(ArgAction::SetTrue)
                .help("Show the parameters of each experiment and their sources."),
        )
}

/// Runs the command.
pub fn run(matches: &ArgMatches) -> Result<(), Failure> {
    let parameters = matches.get_flag("parameters");
    for paper in Paper::ALL {
        answer(&format!("{paper}: {}", paper.citation()))?;
        for experiment in experiments::of(paper) {
            answer(&line(experiment))?;
            for parameter in experiment.parameters.iter().filter(|_| parameters) {
                answer(&format!(
                    "      {}: {} ({})",
                    parameter.name, parameter.value, parameter.from
                ))?;
            }
        }
    }
    Ok(())
}

fn line(experiment: &Experiment) -> String {
    let [quick, full] = experiment.seconds.map(about);
    let Experiment { name, place, title, .. } = experiment;
    format!("  {name:24} {title}\n      {place}; quick {quick}, full {full}")
}

/// Formats seconds in words.
pub fn about(seconds: u32) -> String {
    match seconds {
        0 => "under 1s".to_owned(),
        _ => humantime::format_duration(Duration::from_secs(seconds.into())).to_string(),
    }
}
