//! Long runs of the tests that live on chance.
//!
//! Randomised tests have `fuzz` in their names and read two variables of the environment, so that
//! `cargo test` runs them for a moment and this chore for as long as it is told:
//! `LARDER_FUZZ_SECONDS` (how long each of them goes on) and `LARDER_FUZZ_SEED` (where it begins;
//! every test prints its seed, and the same seed runs the same course). Tests written with
//! `proptest` take `PROPTEST_CASES`, which follows from the seconds.

use clap::Args;

use crate::workspace;

/// How long and from which seed.
#[derive(Args)]
pub struct Options {
    /// Seconds that each randomised test goes on.
    #[arg(long, default_value_t = 60)]
    pub seconds: u64,
    /// The seed to begin with; a new one each time when absent.
    #[arg(long)]
    pub seed: Option<u64>,
    /// Only the tests of this crate.
    #[arg(long = "package", short = 'p')]
    pub packages: Vec<String>,
}

/// How long the soak goes on.
#[derive(Args)]
pub struct SoakOptions {
    /// Seconds of traffic.
    #[arg(long, default_value_t = 600)]
    pub seconds: u64,
    /// The seed of the traffic.
    #[arg(long)]
    pub seed: Option<u64>,
}

/// Cases that a property test tries for each second asked for.
const CASES_PER_SECOND: u64 = 200;

/// Runs the randomised tests.
///
/// # Errors
///
/// When one of them fails; its output holds the seed.
pub fn run(options: &Options) -> Result<(), String> {
    let mut words = vec!["test", "--quiet"];
    if options.packages.is_empty() {
        words.push("--workspace");
    }
    for package in &options.packages {
        words.extend(["--package", package]);
    }
    words.extend(["--", "fuzz", "--nocapture", "--test-threads=2"]);
    let mut command = workspace::cargo(&words);
    command.env("LARDER_FUZZ_SECONDS", options.seconds.to_string());
    command.env("PROPTEST_CASES", (options.seconds * CASES_PER_SECOND).to_string());
    if let Some(seed) = options.seed {
        command.env("LARDER_FUZZ_SEED", seed.to_string());
    }
    workspace::succeed(command)
}

/// Runs the end-to-end soak: a cache much smaller than its traffic, every byte verified.
///
/// # Errors
///
/// When an answer was wrong; the output holds the seed.
pub fn soak(options: &SoakOptions) -> Result<(), String> {
    let mut command = workspace::cargo(&[
        "test",
        "--release",
        "--package",
        "larder",
        "--test",
        "e2e",
        "--",
        "soak",
        "--nocapture",
    ]);
    command.env("LARDER_SOAK_SECONDS", options.seconds.to_string());
    if let Some(seed) = options.seed {
        command.env("LARDER_FUZZ_SEED", seed.to_string());
    }
    workspace::succeed(command)
}
