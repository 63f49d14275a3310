//! `larder lab disk`: how long a simulated drive takes for a stream of requests.

use clap::{Arg, ArgAction, ArgMatches, Command};

use crate::messages::{Failure, answer};

/// The arguments of `larder lab disk`.
pub fn command() -> Command {
    Command::new("disk")
        .about("Replay a stream of requests on a simulated drive")
        .arg_required_else_help(true)
        .arg(
            Arg::new("list")
                .long("list")
                .action(ArgAction::SetTrue)
                .help("List the drives that are shipped."),
        )
}

/// Does what the arguments ask for.
pub fn run(matches: &ArgMatches) -> Result<(), Failure> {
    if matches.get_flag("list") {
        for name in sim::drives::names() {
            answer(name)?;
        }
    }
    Ok(())
}
