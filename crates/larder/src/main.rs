//! The command line of Larder: configuration, wiring, run.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod admin_client;
mod caches;
mod check;
mod cli;
mod config;
mod document;
mod executor;
mod explain;
mod field;
mod figures;
mod format;
mod handover;
mod inspect;
mod lab;
mod listen_addr;
mod listeners;
mod machine;
#[cfg(test)]
mod manual;
mod messages;
mod process;
mod progress;
mod purge;
mod reload;
mod rule;
mod serve;
mod server;
mod settings;
mod signals;
mod sizing;
mod storage;
mod translate;
mod units;
mod upgrade;
mod upstreams;
mod value;

use std::process::ExitCode;

use cli::Invocation;
use messages::{Failure, report};

/// Gives back to the system what a crowd of clients has left, seconds after they went
/// (docs/decisions/0013-allocator.md).
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    let outcome = match cli::parse() {
        Ok(Invocation::Serve { file, flags }) => serve::run(file, flags),
        Ok(Invocation::CheckConfig { file }) => check::run(&file),
        Ok(Invocation::Format { path, size, force, options }) => {
            format::run(&path, size, force, &options)
        }
        Ok(Invocation::Inspect { path, what, json }) => inspect::run(&path, &what, json),
        Ok(Invocation::Purge(matches)) => purge::run(&matches),
        Ok(Invocation::Explain(matches)) => explain::run(&matches),
        Ok(Invocation::Lab(matches)) => lab::run(&matches),
        Err(problems) => Err(Failure::usage(config::Problems::of_flags(problems))),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => report(&failure),
    }
}
