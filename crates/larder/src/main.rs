//! The command line of Larder: configuration, wiring, run.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod check;
mod cli;
mod config;
mod document;
mod field;
mod listeners;
#[cfg(test)]
mod manual;
mod messages;
mod observe;
mod process;
mod reload;
mod serve;
mod settings;
mod signals;
mod sizing;
mod translate;
mod units;
mod value;

use std::process::ExitCode;

use cli::Invocation;
use messages::{Failure, report};

fn main() -> ExitCode {
    let outcome = match cli::parse() {
        Ok(Invocation::Serve { file, flags }) => serve::run(file, flags),
        Ok(Invocation::CheckConfig { file }) => check::run(&file),
        Ok(_) => Err(Failure::usage("this version has only serve and check-config")),
        Err(problems) => Err(Failure::usage(config::Problems::of_flags(problems))),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => report(&failure),
    }
}
