//! `larder-lab`: the lab as a separate program, which `larder lab` runs.

use std::process::ExitCode;

fn main() -> ExitCode {
    lab::commands::main()
}
