//! Web servers over files, and fleets of nodes, beside others: `cargo xtask bench`.
//!
//! `cargo xtask bench --files` measures web servers over a tree of small files: see [`files`].
//!
//! `cargo xtask bench --fleet` measures several nodes that share their caches: see [`fleet`].
//!
//! `cargo xtask instructions` counts instructions instead of time: see [`instructions`].
//! `cargo xtask steps` divides the time of a request among its steps: see [`steps`].
//!
//! Servers run as processes of their own; the load generators and the origin ([`origin`]) are
//! threads of this one, so their time is not counted. Every answer's status, length and bytes are
//! checked. A single cache is measured by `larder bench compare`.

mod apache;
mod caddy;
mod cores;
mod exchange;
mod files;
mod fleet;
pub mod instructions;
mod interruption;
mod load;
mod median;
mod nginx;
mod options;
mod origin;
mod process;
mod scenario;
pub mod steps;
mod system;

use std::os::unix::process::CommandExt;

pub use self::options::Options;
use crate::workspace;

/// Measures and prints.
///
/// # Errors
///
/// When larder cannot be built or started, or answers wrongly. A peer that is absent is skipped.
pub fn run(options: &Options) -> Result<(), String> {
    if cfg!(debug_assertions) {
        return again_optimised();
    }
    workspace::succeed(workspace::cargo(&["build", "--release", "--package", "larder"]))?;
    match (options.files.files, options.fleet.fleet) {
        (true, _) => files::run(options),
        (_, true) => fleet::run(options),
        _ => Err("choose --files or --fleet; `larder bench compare` measures single caches".into()),
    }
}

/// Runs the same chore in a release build: an unoptimised load generator would measure itself.
fn again_optimised() -> Result<(), String> {
    let mut command =
        workspace::cargo(&["run", "--release", "--quiet", "--package", "xtask", "--"]);
    command.args(std::env::args_os().skip(1));
    // In the place of this process: a signal to it is one to the measurement.
    Err(format!("cannot start {command:?}: {}", command.exec()))
}
