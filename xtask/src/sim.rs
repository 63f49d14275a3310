//! Trials of the engine on simulated disks: replays one seed, or runs many.

use std::time::Duration;

use clap::Args;

use crate::workspace;

/// The trials to run.
#[derive(Args)]
pub struct Options {
    /// Only this seed.
    #[arg(long, conflicts_with_all = ["seeds", "minutes", "first"])]
    pub seed: Option<u64>,
    /// Only this layout; all of them when absent.
    #[arg(long)]
    pub layout: Option<String>,
    /// The first seed of many.
    #[arg(long, default_value_t = 0)]
    pub first: u64,
    /// Number of seeds for every layout.
    #[arg(long, default_value_t = 100, conflicts_with = "minutes")]
    pub seeds: u64,
    /// Minutes after which no further seed begins, in place of a number.
    #[arg(long)]
    pub minutes: Option<u64>,
}

/// Builds the trials with optimisation and runs them.
///
/// # Errors
///
/// When a promise was not kept; the output says which, and how to see it again.
pub fn run(options: &Options) -> Result<(), String> {
    let mut command = workspace::cargo(&[
        "run",
        "--release",
        "--quiet",
        "--package",
        "engine-tests",
        "--example",
    ]);
    command.args(["trials", "--"]);
    let mut say = |name: &str, value: String| _ = command.args([name, &value]);
    if let Some(layout) = &options.layout {
        say("--layout", layout.clone());
    }
    match (options.seed, options.minutes) {
        (Some(seed), _) => say("--seed", seed.to_string()),
        (None, minutes) => {
            say("--first", options.first.to_string());
            match minutes.map(|minutes| Duration::from_secs(60 * minutes)) {
                Some(time) => say("--seconds", time.as_secs().to_string()),
                None => say("--seeds", options.seeds.to_string()),
            }
        }
    }
    workspace::succeed(command)
}
