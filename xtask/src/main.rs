//! Commands of the project: continuous integration, source rules, long tests.
//!
//! `cargo xtask help` lists them. Continuous integration only runs `cargo xtask ci`, so a failure
//! there can be reproduced here with the same command.

// A command-line tool prints to standard output.
#![allow(clippy::print_stdout)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod applications;
mod ci;
mod differential;
mod fleet_faults;
mod fuzz;
mod goldens;
mod package;
mod reading;
mod sim;
mod tidy;
mod try_packages;
mod workspace;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Chores of the project.
#[derive(Parser)]
#[command(name = "xtask", version, about)]
struct Arguments {
    #[command(subcommand)]
    chore: Chore,
}

/// The chores.
#[derive(Subcommand)]
enum Chore {
    /// All that continuous integration checks: format, clippy, docs, source rules, tests, fuzzing.
    Ci(ci::Options),
    /// Compares an older program with this one: the bytes to clients and origins, the access log
    /// and what is counted.
    Differential(differential::Options),
    /// Checks the rules of the source text (lengths, module comments, words, dead files).
    Tidy {
        /// First wraps comments and Markdown paragraphs of more than 100 columns.
        #[arg(long)]
        fix: bool,
    },
    /// Prints which file of a crate imports which.
    Imports {
        /// The crate's folder: proxy, store and so on.
        name: String,
    },
    /// Runs the randomised tests of all crates for longer than `cargo test` does.
    Fuzz(fuzz::Options),
    /// Runs the engine on simulated disks that fail, through crashes and reopenings, or a fleet in
    /// virtual time, by seed.
    Sim(sim::Options),
    /// Runs a fleet in network namespaces through faults of network, processes and disks, and
    /// prints what each costs. Wants the rights of root; ends with 77 where they do not suffice.
    FleetFaults(fleet_faults::Options),
    /// Drives real applications of several frameworks through Larder and directly, with several
    /// users at once, and compares all answers. Installs the frameworks from their registries.
    Applications(applications::Options),
    /// Runs the experiments of the lab quickly and compares every number with the golden ones.
    Goldens(goldens::Options),
    /// Writes the packages: tarball, deb, rpm and container image, and their sums.
    Package(package::Options),
    /// Installs the packages in roots of their own, starts larder there, and removes them. Wants
    /// the rights of root.
    TryPackages(try_packages::Options),
    /// Runs the loads of reading in full: read units and the read queue on simulated drives.
    Reading,
    /// Runs a small, always full cache under verified traffic for longer than `cargo test` does.
    Soak(fuzz::SoakOptions),
}

fn main() -> ExitCode {
    let done = match Arguments::parse().chore {
        Chore::Ci(options) => ci::run(&options),
        Chore::Differential(options) => differential::run(&options),
        Chore::Tidy { fix: false } => tidy::run(),
        Chore::Tidy { fix: true } => tidy::fix(),
        Chore::Imports { name } => tidy::print_imports(&name),
        Chore::Fuzz(options) => fuzz::run(&options),
        Chore::Sim(options) => sim::run(&options),
        Chore::FleetFaults(options) => match fleet_faults::run(&options) {
            Ok(code) => return code,
            Err(why) => Err(why),
        },
        Chore::Applications(options) => applications::run(&options),
        Chore::Goldens(options) => goldens::run(&options),
        Chore::Package(options) => package::run(&options),
        Chore::TryPackages(options) => try_packages::run(&options),
        Chore::Reading => reading::run(),
        Chore::Soak(options) => fuzz::soak(&options),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("xtask: {why}");
            ExitCode::FAILURE
        }
    }
}
