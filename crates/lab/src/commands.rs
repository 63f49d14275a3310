//! `larder-lab`: what the lab can be asked from the command line.
//!
//! Every command is a module of its own with its arguments and its run; `COMMANDS` lists them,
//! so that adding one is a line here.

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

/// A command of the lab: its arguments, and what it does with them.
struct LabCommand {
    arguments: fn() -> Command,
    run: fn(&ArgMatches) -> Result<(), Failure>,
}

/// In the order of the help.
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

/// The whole command line. It speaks of itself as `larder lab`, which runs it.
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

/// Reads the command line and does what it asks for.
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
        // clap requires a command and knows no other.
        None => Err(Failure::usage("lab: no such command")),
    };
    interrupted.end_if_any();
    outcome
}

/// The signal that was delivered, if any.
///
/// The handler itself writes it down: the thread that clears up learns of the signal a little
/// later, and what the same signal did to others (who wrote to our standard input, say) may end
/// the command in between, with another exit code.
struct Interrupted(Arc<AtomicUsize>);

impl Interrupted {
    /// Ends the process as the signal does when one was delivered.
    fn end_if_any(&self) {
        match self.0.load(Ordering::SeqCst) {
            0 => {}
            signal => end(signal as i32),
        }
    }
}

/// A signal that ends a command leaves nothing half done behind.
fn clear_up_when_interrupted() -> Result<Interrupted, Failure> {
    let failed = |error| Failure::runtime(format!("lab: signals cannot be heard: {error}"));
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

/// Removes what is half done and ends the process as `signal` does.
fn end(signal: i32) -> ! {
    cli::cleanup::remove_all();
    process::exit(128 + signal)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_command_line_is_consistent() {
        super::command().debug_assert();
    }
}
