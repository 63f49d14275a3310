//! `larder status`: asks a running proxy whether it is ready; the health check of containers.

use clap::{ArgMatches, Command};
use cli::outcome::{Failure, answer};

use crate::commands::admin_client::{AdminClient, flags};

pub fn command() -> Command {
    Command::new("status")
        .about("Say whether a running proxy is ready")
        .after_long_help(
            "Prints what /readyz of the admin interface answers. Exit codes: 0 if the proxy is \
             ready; 1 if it is not, or does not respond; 2 for a wrong command line or \
             configuration.",
        )
        .args(flags())
}

/// Asks the proxy, and prints its response.
pub fn run(matches: &ArgMatches) -> Result<(), Failure> {
    let told = AdminClient::of(matches)?.get("/readyz")?;
    match told.status {
        200 => answer(told.body.trim()),
        _ => Err(Failure::runtime(format!("not ready: {told}"))),
    }
}
