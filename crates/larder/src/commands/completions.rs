//! `larder completions` and the hidden `larder man`: completions of shells and man pages, generated
//! from the declarations of the command line.

use std::io;
use std::path::PathBuf;

use clap::{Arg, ArgMatches, Command, value_parser};
use clap_complete::Shell;
use cli::outcome::{Failure, answer};

use crate::commands::command_line;

pub fn command() -> Command {
    Command::new("completions")
        .about("Print the completions of a shell")
        .after_long_help(
            "The packages install them. To load them by hand: `source <(larder completions bash)`.",
        )
        .arg(
            Arg::new("shell")
                .value_name("SHELL")
                .required(true)
                .value_parser(["bash", "fish", "zsh"])
                .help("The shell."),
        )
}

pub fn man_command() -> Command {
    Command::new("man").hide(true).about("Write the man pages into a directory").arg(
        Arg::new("out")
            .value_name("DIR")
            .required(true)
            .value_parser(value_parser!(PathBuf))
            .help("An existing directory."),
    )
}

/// Prints the completions of the shell.
pub fn run(matches: &ArgMatches) -> Result<(), Failure> {
    let shell = matches.get_one::<String>("shell").and_then(|name| name.parse::<Shell>().ok());
    // clap accepts only the names of shells.
    let Some(shell) = shell else { return Ok(()) };
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut command_line::command(), "larder", &mut text);
    answer(String::from_utf8_lossy(&text).trim_end())
}

/// Writes a man page for the program and for each of its commands.
pub fn write_man_pages(matches: &ArgMatches) -> Result<(), Failure> {
    let out = matches.get_one::<PathBuf>("out").cloned().unwrap_or_default();
    let failed = |error: io::Error| Failure::runtime(format!("{}: {error}", out.display()));
    clap_mangen::generate_to(command_line::command(), &out).map_err(failed)
}
