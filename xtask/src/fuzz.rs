//! Long runs of the randomised tests.
//!
//! Randomised tests take their seed from `LARDER_SEED` and print it; the same seed gives the same
//! run. `cargo test` runs each for a moment with a seed of its own. This command runs them
//! repeatedly, each round with the next seed, for the given time.

use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

use clap::Args;

use crate::workspace;

/// Crates whose tests are randomised without real sockets or processes.
const CRATES: &[&str] = &["files", "http1", "larder-device", "larder-semantics", "larder-store"];

/// The randomised tests of the proxy that parse bytes from peers, some of them with sockets.
const PROXY: &[&str] = &["--package", "proxy", "--lib", "--test", "it", "--", "fuzz", "mutations"];

/// Maximum round time in seconds of tests that can run for any time (they read
/// `LARDER_FUZZ_SECONDS`).
const ROUND_SECONDS_MAX: u64 = 10;

/// Duration and first seed.
#[derive(Args)]
pub struct Options {
    /// Seconds after which no further round begins; one is always run.
    #[arg(long, default_value_t = 60)]
    pub seconds: u64,
    /// The seed of the first round, each further round takes the next; by chance when absent.
    #[arg(long)]
    pub seed: Option<u64>,
    /// Only the tests of this crate.
    #[arg(long = "package", short = 'p')]
    pub packages: Vec<String>,
    /// Only the tests whose names contain this.
    #[arg(long, default_value = "")]
    pub only: String,
}

/// Duration of the soak.
#[derive(Args)]
pub struct SoakOptions {
    /// Seconds of traffic.
    #[arg(long, default_value_t = 600)]
    pub seconds: u64,
    /// The seed of the traffic.
    #[arg(long)]
    pub seed: Option<u64>,
    /// A directory of files that is served while its files are changed in every way, in place of
    /// an origin server.
    #[arg(long)]
    pub files: bool,
}

/// Runs the randomised tests, round after round.
///
/// # Errors
///
/// When one of them fails; the text says how to run that round again.
pub fn run(options: &Options) -> Result<(), String> {
    let mut words = vec!["test", "--quiet"];
    let all: Vec<String> = CRATES.iter().map(|c| (*c).to_owned()).collect();
    let packages = if options.packages.is_empty() { &all } else { &options.packages };
    for package in packages {
        words.extend(["--package", package]);
    }
    words.extend(["--tests", "--", &options.only]);
    let mut commands = vec![words];
    if options.packages.is_empty() && options.only.is_empty() {
        commands.push([&["test", "--quiet"], PROXY].concat());
    }
    let end = Instant::now() + Duration::from_secs(options.seconds);
    let mut seed = options.seed.unwrap_or_else(|| RandomState::new().hash_one(()) >> 16);
    loop {
        println!("round with seed {seed}");
        for words in &commands {
            let mut command = workspace::cargo(words);
            command.env("LARDER_SEED", seed.to_string()).env("DEVICE_SEED", seed.to_string());
            let seconds = options.seconds.clamp(1, ROUND_SECONDS_MAX);
            command.env("LARDER_FUZZ_SECONDS", seconds.to_string());
            workspace::succeed(command).map_err(|why| {
                let again = format!("cargo xtask fuzz --seconds 0 --seed {seed}");
                format!("{why}\nto run this round again: {again}")
            })?;
        }
        if Instant::now() >= end {
            return Ok(());
        }
        seed = seed.wrapping_add(1);
    }
}

/// Runs an end-to-end soak: a cache much smaller than its traffic, every byte verified.
///
/// # Errors
///
/// When a response was wrong; the output has the seed.
pub fn soak(options: &SoakOptions) -> Result<(), String> {
    let tests = if options.files { "soak_files::" } else { "soak::" };
    let mut command = workspace::cargo(&[
        "test",
        "--release",
        "--package",
        "larder",
        "--test",
        "e2e",
        "--",
        tests,
        "--nocapture",
    ]);
    command.env("LARDER_SOAK_SECONDS", options.seconds.to_string());
    if let Some(seed) = options.seed {
        command.env("LARDER_SEED", seed.to_string());
    }
    workspace::succeed(command)
}
