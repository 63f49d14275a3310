//! The golden numbers of the lab: every number of every experiment at the quick scale.

use clap::Args;

use crate::workspace;

/// The experiments, and the treatment of their numbers.
#[derive(Args)]
pub struct Options {
    /// Only the experiments with these names; all of them when absent.
    pub names: Vec<String>,
    /// Writes the golden files anew instead of comparing with them.
    #[arg(long)]
    pub bless: bool,
}

/// Runs the experiments with the profile of the tests, so that no further build is needed.
///
/// # Errors
///
/// When a number has changed; the output says which.
pub fn run(options: &Options) -> Result<(), String> {
    let mut command = workspace::cargo_in(
        &workspace::measure(),
        &["run", "--quiet", "--package", "lab", "--example"],
    );
    command.args(["goldens", "--"]).args(&options.names);
    if options.bless {
        command.arg("--bless");
    }
    workspace::succeed(command)
}
