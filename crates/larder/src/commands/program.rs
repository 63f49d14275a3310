//! Commands that run a separate program in place of this process. A server needs neither the lab's
//! simulated disks nor a load generator, so neither is part of it.
//!
//! The program is looked up beside this one and then in `PATH`. It replaces this process, so
//! output, exit code and signals are the program's own.

use std::env;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process;

use clap::{Arg, ArgMatches, Command, value_parser};
use cli::outcome::Failure;

#[derive(Debug)]
pub struct Program {
    /// The subcommand that runs the program.
    pub command: &'static str,
    /// The name of the executable.
    pub name: &'static str,
    /// Arguments that come before those of the user.
    pub first: &'static [&'static str],
    /// The crate that builds it.
    pub package: &'static str,
    pub about: &'static str,
    /// The documentation page.
    pub page: &'static str,
}

pub const LAB: Program = Program {
    command: "lab",
    name: "larder-lab",
    first: &[],
    package: "lab",
    about: "Simulated disks, workloads and the experiments of the papers",
    page: "docs/research/lab.md",
};

pub const ADVISE: Program = Program {
    command: "advise",
    name: "larder-lab",
    first: &["advise"],
    package: "lab",
    about: "Chooses memory, disk and settings for a server from its access logs",
    page: "docs/guide/own-logs.md",
};

pub const BENCH: Program = Program {
    command: "bench",
    name: "larder-bench",
    first: &[],
    package: "bench",
    about: "Loads a cache, Larder or another, checks every byte, and measures it",
    page: "docs/guide/bench.md",
};

/// All of them, in the order of the help.
pub const ALL: [&Program; 3] = [&ADVISE, &LAB, &BENCH];

impl Program {
    /// Returns the subcommand: the program itself parses all arguments, including `--help`.
    pub fn command(&self) -> Command {
        let Program { command, name, about, page, .. } = *self;
        Command::new(command)
            .about(about)
            .after_help(format!("Runs {name}, found beside this program or in PATH: {page}."))
            .disable_help_flag(true)
            .arg(
                Arg::new("arguments")
                    .value_name("ARGS")
                    .num_args(0..)
                    .trailing_var_arg(true)
                    .allow_hyphen_values(true)
                    .value_parser(value_parser!(OsString))
                    .help(format!("Arguments of {name}; --help lists them.")),
            )
    }

    /// Replaces this process with the program.
    ///
    /// # Errors
    /// Returns only if the program does not exist or cannot be run.
    pub fn run(&self, matches: &ArgMatches) -> Result<(), Failure> {
        let Program { command, name, first, package, .. } = *self;
        let arguments = matches.get_many::<OsString>("arguments").into_iter().flatten();
        // A name without a directory is looked up in PATH.
        let program = self.beside_this_one().unwrap_or_else(|| PathBuf::from(name));
        let error = process::Command::new(&program).args(first).args(arguments).exec();
        Err(Failure::runtime(match error.kind() {
            io::ErrorKind::NotFound => format!(
                "{command}: {name} is neither beside this program nor in PATH; build it from the \
                 sources of Larder with `cargo build --release -p {package}`"
            ),
            _ => format!("{command}: cannot run {}: {error}", program.display()),
        }))
    }

    /// Returns the program in the directory of this one; `None` if it is not there.
    fn beside_this_one(&self) -> Option<PathBuf> {
        let program = env::current_exe().ok()?.with_file_name(self.name);
        program.is_file().then_some(program)
    }
}
