//! `larder-bench`: the load generator as a separate program, which `larder bench` runs.

use std::process::ExitCode;

fn main() -> ExitCode {
    bench::commands::main()
}
