//! `larder-engines`: the store beside the hybrid cache of the crate `foyer`.
//!
//! Both engines get the same requests, file size and memory. The program starts itself again for
//! every step of an engine, so that memory, CPU time and written bytes are the engine's alone.
//! `docs/research/engines.md` says what is compared and how to read the table.

mod commands;
mod engine;
mod foyer_engine;
mod larder_engine;
mod report;
mod rounds;
mod steps;
mod task;
mod trace;

use std::process::ExitCode;

fn main() -> ExitCode {
    commands::main()
}
