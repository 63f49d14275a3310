//! Trials in virtual time: of the engine on simulated disks that fail, and of a fleet of nodes on a
//! simulated network that fails. Replays one seed, or runs many.

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
    /// Histories of a fleet instead: partitions, kills, old disks, purges.
    #[arg(long, conflicts_with_all = ["layout", "minutes"])]
    pub fleet: bool,
    /// A fleet of this number of nodes instead: what a node sends, computes and knows.
    #[arg(long, conflicts_with_all = ["seed", "first", "layout", "minutes", "seeds", "fleet"])]
    pub nodes: Option<usize>,
}

/// Runs random histories of a fleet.
fn run_fleet(options: &Options) -> Result<(), String> {
    let test = "histories::whatever_happens_nothing_is_wrong_and_the_nodes_agree_afterwards";
    let (first, count) = options.seed.map_or((options.first, options.seeds), |seed| (seed, 1));
    let end = first.checked_add(count).ok_or("there are no seeds behind the last")?;
    run_test(test, ("LARDER_SEEDS", format!("{first}..{end}")))
}

/// Runs a test of fleets in virtual time with this variable.
fn run_test(test: &str, (name, value): (&str, String)) -> Result<(), String> {
    let mut command = workspace::cargo(&["test", "--release", "--quiet"]);
    command.args(["--package", "simulation", "--test", "fleet", test, "--", "--nocapture"]);
    command.env(name, value);
    workspace::succeed(command)
}

/// Builds the trials with optimisation and runs them.
///
/// # Errors
///
/// When a guarantee was violated; the output says which, and how to reproduce it.
pub fn run(options: &Options) -> Result<(), String> {
    if let Some(nodes) = options.nodes {
        return run_test("scale::a_large_fleet_stays_current", ("LARDER_NODES", nodes.to_string()));
    }
    if options.fleet {
        return run_fleet(options);
    }
    let mut command = workspace::cargo(&[
        "run",
        "--release",
        "--quiet",
        "--package",
        "store-oracle",
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
