//! A destructive run: nodes of a fleet in network namespaces, faults of the network, of processes
//! and of disks, and clients that check every response.
//!
//! `cargo xtask fleet-faults` runs it; it is no part of the tests. The result is a table of the
//! share of requests for which the origin was asked, before, during and after each fault. The exit
//! code is 1 after an old response at a node that its purge did not name, or a wrong byte, and 77
//! where namespaces or TUN interfaces are not permitted.

#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs)]

mod faults;
mod network;
mod world;

use std::process::{Command, ExitCode};

use testkit::larder::larder_path;
use testkit::skip::skipped;

use crate::faults::{FAULTS, Fault, errors, is_installed};
use crate::world::{PHASES, Tally, World};

/// Exit code where the machine does not permit the run.
const CANNOT_RUN: u8 = 77;

/// Exit code of `unshare` where it is not permitted, and of a run that found old responses.
const NOT_PERMITTED: u8 = 1;

/// Name of the fault, in the process that runs in a namespace of its own.
const INSIDE: &str = "LARDER_FLEET_FAULTS_INSIDE";

/// Number of seconds that a fault lasts at least.
const SECONDS: &str = "LARDER_FLEET_FAULTS_SECONDS";

/// Set where the run prints what nodes logged and knew.
const LOG: &str = "LARDER_FLEET_FAULTS_LOG";

fn main() -> ExitCode {
    if let Ok(name) = std::env::var(INSIDE) {
        let fault = FAULTS.iter().find(|fault| fault.name == name).expect("a name of a fault");
        return run(fault).unwrap_or_else(|why| {
            skipped(&why);
            ExitCode::from(CANNOT_RUN)
        });
    }
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let is_wanted = |name: &str| wanted.iter().any(|word| name.contains(&**word));
    let mut worst = 0;
    println!("{}", header());
    for fault in FAULTS.iter().filter(|fault| wanted.is_empty() || is_wanted(fault.name)) {
        if let Some(missing) = fault.wants.filter(|program| !is_installed(program)) {
            skipped(&format!("{}: {missing} is not installed", fault.name));
            continue;
        }
        let code = run_in_namespace(fault.name);
        if code == CANNOT_RUN {
            return ExitCode::from(CANNOT_RUN);
        }
        worst = worst.max(code);
    }
    ExitCode::from(worst)
}

/// Runs a fault in a process with a network namespace of its own; returns its exit code.
fn run_in_namespace(name: &str) -> u8 {
    let own = std::env::current_exe().expect("a program knows its own path");
    let status = Command::new("unshare").arg("-n").arg(own).env(INSIDE, name).status();
    let code = status.ok().and_then(|status| status.code());
    match code.and_then(|code| u8::try_from(code).ok()) {
        Some(code) if code != NOT_PERMITTED || may_unshare() => code,
        _ => {
            skipped("no network namespaces (unshare -n)");
            CANNOT_RUN
        }
    }
}

fn may_unshare() -> bool {
    let probe = Command::new("unshare").args(["-n", "true"]).output();
    probe.is_ok_and(|output| output.status.success())
}

fn header() -> String {
    format!(
        "{:<33} {:>7} {:>7} {:>6} {:>7} {:>6} {:>7} {:>4} {:>8} {:>6} {:>5} {:>8}",
        "fault",
        PHASES[0],
        PHASES[1],
        "again",
        PHASES[2],
        "named",
        "changes",
        "old",
        "at named",
        "failed",
        "slow",
        "slowest"
    )
}

/// Runs a fault and prints its line. Fails if a response was older than it may be.
fn run(fault: &Fault) -> Result<ExitCode, String> {
    let world = World::of(fault.nodes, fault.counted, &larder_path())?;
    world.begin(fault.first);
    world.run(fault.change, fault.during, fault.after);
    let sum = |nodes: &[usize], phases: &[usize]| {
        let mut sum = Tally::default();
        for node in nodes {
            phases.iter().for_each(|phase| sum.add(&world.tallies(*node)[*phase]));
        }
        sum
    };
    let percent = |part: u64, of: u64| format!("{:.1}%", 100.0 * part as f64 / of.max(1) as f64);
    let share = |phase: usize| {
        let sum = sum(fault.counted, &[phase]);
        percent(sum.from_origin, sum.answers)
    };
    let everywhere: Vec<usize> = (1..=fault.nodes).collect();
    let (all, during) = (sum(&everywhere, &[0, 1, 2]), sum(fault.counted, &[1]));
    let (changes, named) = world.changes();
    println!(
        "{:<33} {:>7} {:>7} {:>6} {:>7} {:>6} {:>7} {:>4} {:>8} {:>6} {:>5} {:>7.1}s",
        fault.name,
        share(0),
        share(1),
        percent(during.again, during.answers),
        share(2),
        named,
        changes,
        all.old,
        all.old_at_named,
        during.failed,
        during.slow,
        during.slowest.as_secs_f64()
    );
    if std::env::var_os(LOG).is_some() {
        for node in everywhere {
            let errors = world.node(node).as_ref().map(errors).unwrap_or_default();
            errors.iter().for_each(|line| println!("    n{node}: {line}"));
        }
    }
    Ok(if all.old == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
