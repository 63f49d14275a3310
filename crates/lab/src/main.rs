//! `larder-lab`: the lab as a program of its own, which `larder lab` runs.

use std::process::ExitCode;

fn main() -> ExitCode {
    lab::commands::main()
}
