//! `larder fleet`: shows the state and the policy of a fleet, and changes the policy, through the
//! admin interface of a running node.

pub mod policy;
pub mod status;

use clap::{Arg, ArgAction, ArgMatches, Command};
use cli::outcome::Failure;
use serde_json::Value;

use crate::commands::admin_client::{AdminClient, Answer, flags};

pub fn command() -> Command {
    Command::new("fleet")
        .about("Show the state and the policy of a fleet, and change the policy")
        .after_help("Ask any node; each reports its own view of the fleet (docs/guide/fleet.md).")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(status::command().args(flags()))
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
        Some(("policy", matches)) => match matches.subcommand() {
            Some(("show", matches)) => policy::show(matches),
            Some(("set", matches)) => policy::set(matches),
            // clap requires a subcommand and accepts no others.
            _ => Ok(()),
        },
        _ => Ok(()),
    }
}

/// Returns the flag that selects JSON output.
fn json_flag() -> Arg {
    Arg::new("json")
        .long("json")
        .action(ArgAction::SetTrue)
        .help("Print the response of the admin interface as JSON.")
}

/// Requests `target` and returns the JSON of the response.
fn ask(matches: &ArgMatches, target: &str) -> Result<Value, Failure> {
    understood(&AdminClient::of(matches)?.get(target)?)
}

/// Returns the JSON of a response; an error of the interface is a failure.
fn understood(told: &Answer) -> Result<Value, Failure> {
    let json: Option<Value> = serde_json::from_str(&told.body).ok();
    match (told.status, json) {
        (200, Some(json)) => Ok(json),
        (200, None) => Err(Failure::runtime("the response of the admin interface is not JSON")),
        (_, json) => Err(Failure::runtime(match json.as_ref().map(|json| &json["error"]) {
            Some(Value::String(why)) => why.clone(),
            _ => told.to_string(),
        })),
    }
}
