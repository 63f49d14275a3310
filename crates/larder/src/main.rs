//! The program `larder`: command line, configuration, wiring, run.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod caches;
mod commands;
mod config;
mod convert;
#[cfg(test)]
mod cookbook;
mod process;
#[cfg(test)]
mod simulated_scripts;

use std::process::ExitCode;

use cli::outcome::{Failure, report};
use commands::command_line::Invocation;

/// Returns memory that many clients have left behind to the system within seconds
/// (docs/decisions/0013-allocator.md).
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    process::accounts::look_up_in_files_only();
    let refused = process::signals::outlive_file_size_limit();
    if let Err(error) = refused {
        return report(&Failure::runtime(format!("cannot handle SIGXFSZ: {error}")));
    }
    let outcome = match commands::command_line::parse() {
        Ok(Invocation::Serve { file, flags, demo }) => commands::serve::run(file, flags, demo),
        Ok(Invocation::CheckConfig { file }) => commands::check_config::run(&file),
        Ok(Invocation::Convert(matches)) => commands::convert::run(&matches),
        Ok(Invocation::PrintConfig) => commands::print_config::run(),
        Ok(Invocation::Format { path, size, force, options }) => {
            commands::format::run(&path, size, force, &options)
        }
        Ok(Invocation::Inspect { path, what, json }) => commands::inspect::run(&path, &what, json),
        Ok(Invocation::Purge(matches)) => commands::purge::run(&matches),
        Ok(Invocation::Explain(matches)) => commands::explain::run(&matches),
        Ok(Invocation::Fleet(matches)) => commands::fleet::run(&matches),
        Ok(Invocation::Operate(name, matches)) => commands::operate::run(&name, &matches),
        Ok(Invocation::Completions(matches)) => commands::completions::run(&matches),
        Ok(Invocation::Man(matches)) => commands::completions::write_man_pages(&matches),
        Ok(Invocation::Program(program, matches)) => program.run(&matches),
        Err(problems) => Err(Failure::usage(config::layers::Problems { list: problems })),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => report(&failure),
    }
}
