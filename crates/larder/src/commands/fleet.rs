//! `larder fleet`: shows the state and the policy of a fleet, changes the policy, and forgets lost
//! nodes, through the admin interface of a running node.

pub mod forget;
pub mod policy;
pub mod status;

use clap::{ArgMatches, Command};
use cli::outcome::Failure;

use crate::commands::admin_client::flags;

pub fn command() -> Command {
    Command::new("fleet")
        .about("Show the state of a fleet, change its policy, and forget lost nodes")
        .after_long_help(
            "Ask any node; each reports its own view of the fleet (docs/guide/fleet.md).",
        )
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(status::command().args(flags()))
        .subcommand(forget::command().args(flags()))
        .subcommand(
            Command::new("policy")
                .about("Show or replace the policy by which documents are treated")
                .subcommand_required(true)
                .arg_required_else_help(true)
                .subcommand(policy::show_command().args(flags()))
                .subcommand(policy::set_command().args(flags())),
        )
}

pub fn run(matches: &ArgMatches) -> Result<(), Failure> {
    match matches.subcommand() {
        Some(("status", matches)) => status::run(matches),
        Some(("forget", matches)) => forget::run(matches),
        Some(("policy", matches)) => match matches.subcommand() {
            Some(("show", matches)) => policy::show(matches),
            Some(("set", matches)) => policy::set(matches),
            // clap requires a subcommand and accepts no others.
            _ => Ok(()),
        },
        _ => Ok(()),
    }
}
