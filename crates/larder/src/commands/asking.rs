//! Requests to the admin interface of a running proxy, and its responses.

use clap::{Arg, ArgAction, ArgMatches};
use cli::outcome::Failure;
use serde_json::Value;

use crate::commands::admin_client::{AdminClient, Answer};

/// Returns the flag that selects JSON output.
pub(super) fn json_flag() -> Arg {
    Arg::new("json")
        .long("json")
        .action(ArgAction::SetTrue)
        .help("Print the response of the admin interface as JSON.")
}

/// Requests `target` and returns the JSON of the response.
pub(super) fn ask(matches: &ArgMatches, target: &str) -> Result<Value, Failure> {
    understood(&AdminClient::of(matches)?.get(target)?)
}

/// Returns the JSON of a response; an error of the interface is a failure.
pub(super) fn understood(told: &Answer) -> Result<Value, Failure> {
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
