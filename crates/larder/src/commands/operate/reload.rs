//! `larder reload`: lets a running proxy read its configuration again, and says what was applied.

use clap::{ArgMatches, Command};
use cli::outcome::{Failure, answer};
use serde_json::Value;

use crate::commands::admin_client::AdminClient;
use crate::commands::asking::understood;

pub fn command() -> Command {
    Command::new("reload")
        .about("Let a running proxy read its configuration and certificates again")
        .after_help(
            "Prints what was applied. Exit codes: 0 if everything is in effect, 3 if something \
             waits for a restart, 1 if the configuration was refused and nothing has changed, or \
             there is no response, 2 for a wrong command line.",
        )
}

pub fn run(matches: &ArgMatches) -> Result<(), Failure> {
    let told = understood(&AdminClient::of(matches)?.post("/reload", "{}")?)?;
    match names(&told["applied"]) {
        names if names.is_empty() => answer("reloaded; no setting has changed")?,
        names => answer(&format!("reloaded; now in effect: {names}"))?,
    }
    match names(&told["waiting"]) {
        names if names.is_empty() => Ok(()),
        names => Err(Failure::partial(format!("in effect only after a restart: {names}"))),
    }
}

fn names(list: &Value) -> String {
    let names = list.as_array().into_iter().flatten().filter_map(Value::as_str);
    names.collect::<Vec<_>>().join(", ")
}
