//! `larder-lab`: the command line of the lab.
//!
//! Each command is a module with its arguments and its `run`. To add one, add a line to `COMMANDS`.

mod advise;
mod disk;
mod disk_compare;
mod layout;
mod list;
mod log_source;
mod missratio;
mod replay;
mod replay_table;
mod report;
mod run;
mod space;
mod trace;
mod watch;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{process, thread};

use clap::{ArgMatches, Command};
use cli::outcome::{Failure, report};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use signal_hook::iterator::Signals;

/// A command of the lab: its arguments and the function that runs it.
struct LabCommand {
    arguments: fn() -> Command,
    run: fn(&ArgMatches) -> Result<(), Failure>,
}

/// The commands, in the order of the help.
const COMMANDS: &[LabCommand] = &[
    LabCommand { arguments: list::command, run: list::run },
    LabCommand { arguments: run::command, run: run::run },
    LabCommand { arguments: report::command, run: report::run },
    LabCommand { arguments: replay::command, run: replay::run },
    LabCommand { arguments: advise::command, run: advise::run },
    LabCommand { arguments: disk::command, run: disk::run },
    LabCommand { arguments: disk_compare::command, run: disk_compare::run },
    LabCommand { arguments: layout::command, run: layout::run },
    LabCommand { arguments: missratio::command, run: missratio::run },
    LabCommand { arguments: space::command, run: space::run },
    LabCommand { arguments: trace::command, run: trace::run },
];

/// Returns the whole command line. It names itself `larder lab`, which runs it.
fn command() -> Command {
    Command::new("larder-lab")
        .bin_name("larder lab")
        .version(env!("CARGO_PKG_VERSION"))
        .max_term_width(100)
        .about("Simulated disks, workloads and the experiments of the papers")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommands(COMMANDS.iter().map(|command| (command.arguments)()))
}

/// Parses the command line and runs the command.
pub fn main() -> ExitCode {
    match run(&command().get_matches()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => report(&failure),
    }
}

fn run(matches: &ArgMatches) -> Result<(), Failure> {
    let interrupted = clear_up_when_interrupted()?;
    let asked = matches.subcommand();
    let command = asked.and_then(|(name, matches)| {
        let found = COMMANDS.iter().find(|command| (command.arguments)().get_name() == name)?;
        Some((found, matches))
    });
    let outcome = match command {
        Some((command, matches)) => (command.run)(matches),
        // Unreachable: clap requires a known subcommand.
        None => Err(Failure::usage("lab: no such command")),
    };
    interrupted.end_if_any();
    outcome
}

/// The signal that was delivered, if any.
///
/// The handler itself records it. The thread that cleans up learns of the signal a little later. In
/// between, the command may end with another exit code because the same signal ended another
/// process, such as the one that writes to its standard input.
struct Interrupted(Arc<AtomicUsize>);

impl Interrupted {
    /// If a signal was delivered, ends the process with its exit code.
    fn end_if_any(&self) {
        match self.0.load(Ordering::SeqCst) {
            0 => {}
            signal => end(signal as i32),
        }
    }
}

/// Installs the handlers: a signal that ends a command removes its temporary files.
fn clear_up_when_interrupted() -> Result<Interrupted, Failure> {
    let failed = |error| Failure::runtime(format!("lab: cannot install signal handlers: {error}"));
    let delivered = Arc::new(AtomicUsize::new(0));
    for signal in [SIGINT, SIGTERM] {
        let number = signal as usize;
        flag::register_usize(signal, Arc::clone(&delivered), number).map_err(failed)?;
    }
    let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(failed)?;
    let listen = move || {
        if let Some(signal) = signals.forever().next() {
            end(signal);
        }
    };
    thread::Builder::new().name("signals".to_owned()).spawn(listen).map_err(failed)?;
    Ok(Interrupted(delivered))
}

/// Removes unfinished files and ends the process with the exit code of `signal`.
fn end(signal: i32) -> ! {
    workload::cleanup::remove_all();
    process::exit(128 + signal)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_command_line_is_consistent() {
        super::command().debug_assert();
    }
}
