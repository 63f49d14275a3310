//! Benchmarks of fleets, beside other programs: `cargo xtask bench`.
//!
//! `cargo xtask bench --fleet` measures several nodes that share their caches: see [`fleet`].
//!
//!
//! Servers run as separate processes. The load generators and the origin ([`origin`]) are threads
//! of this process, so their time is not counted. The status, length and bytes of every response
//! are checked. `larder bench compare` measures a single cache.

mod cores;
mod exchange;
mod fleet;
mod interruption;
mod load;
mod median;
mod options;
mod origin;
mod process;
mod scenario;
mod system;

use std::os::unix::process::CommandExt;

pub use self::options::Options;
use crate::workspace;

/// Measures and prints.
///
/// # Errors
///
/// When larder cannot be built or started, or responds wrongly. A peer that is absent is skipped.
pub fn run(options: &Options) -> Result<(), String> {
    if cfg!(debug_assertions) {
        return again_optimised();
    }
    workspace::succeed(workspace::cargo(&["build", "--release", "--package", "larder"]))?;
    match options.fleet.fleet {
        true => fleet::run(options),
        false => Err("choose --fleet; `larder bench compare` measures single caches".into()),
    }
}

/// Runs the same command in a release build: an unoptimised load generator would measure itself.
fn again_optimised() -> Result<(), String> {
    let mut command =
        workspace::cargo(&["run", "--release", "--quiet", "--package", "xtask", "--"]);
    command.args(std::env::args_os().skip(1));
    // Replaces this process, so that a signal to it reaches the measurement.
    Err(format!("cannot start {command:?}: {}", command.exec()))
}
