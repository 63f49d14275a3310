//! `larder-bench`: the load generator as a program of its own, which `larder bench` runs.

use std::process::ExitCode;

fn main() -> ExitCode {
    bench::commands::main()
}
