//! Commands on a running proxy, through its admin interface: its state, a reload, an upgrade, and
//! its end.

mod ending;
mod reload;
mod status;
mod upgrade;
mod upstreams;

use clap::{ArgMatches, Command};
use cli::outcome::Failure;

use crate::commands::admin_client::flags;

/// Returns the commands.
pub fn commands() -> impl Iterator<Item = Command> {
    [
        status::command(),
        upstreams::command(),
        reload::command(),
        upgrade::command(),
        ending::drain_command(),
        ending::stop_command(),
    ]
    .into_iter()
    .map(|command| command.args(flags()))
}

/// Runs the command with this name.
///
/// # Errors
///
/// Fails if it was not done, or not completely.
pub fn run(name: &str, matches: &ArgMatches) -> Result<(), Failure> {
    match name {
        "status" => status::run(matches),
        "upstreams" => upstreams::run(matches),
        "reload" => reload::run(matches),
        "upgrade" => upgrade::run(matches),
        name => ending::run(name, matches),
    }
}
