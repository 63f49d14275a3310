//! `larder upstreams`: shows the origin servers of a running proxy.

use clap::{ArgMatches, Command};
use cli::outcome::{Failure, answer};
use serde_json::Value;

use crate::commands::asking::{ask, json_flag};
use crate::commands::columns::in_columns;

pub fn command() -> Command {
    Command::new("upstreams")
        .about("Show the origin servers of a running proxy, and how they are")
        .after_help("Exit codes: 0; 1 if there is no response; 2 for a wrong command line.")
        .arg(json_flag())
}

pub fn run(matches: &ArgMatches) -> Result<(), Failure> {
    let told = ask(matches, "/upstreams")?;
    match matches.get_flag("json") {
        true => answer(&format!("{told:#}")),
        false => answer(&in_lines(&told)),
    }
}

const HEADS: [&str; 7] = ["SITE", "SERVER", "STATE", "ACTIVE", "REQUESTS", "FAILURES", "OUTAGES"];

fn in_lines(told: &Value) -> String {
    let mut rows = vec![HEADS.map(str::to_owned)];
    for site in told["sites"].as_array().into_iter().flatten() {
        let name = text(&site["site"]);
        let row = |server: &Value| {
            let number = |key: &str| server[key].to_string();
            let place = format!("{}://{}", text(&server["scheme"]), text(&server["server"]));
            [
                name.clone(),
                place,
                text(&server["state"]),
                number("active"),
                number("requests"),
                number("failures"),
                number("outages"),
            ]
        };
        let servers = site["servers"].as_array();
        match servers {
            Some(servers) => rows.extend(servers.iter().map(row)),
            None => {
                let [state, rest @ ..] = ["-"; 5].map(str::to_owned);
                let [active, requests, failures, outages] = rest;
                let place = text(&site["origin"]);
                rows.push([name.clone(), place, state, active, requests, failures, outages]);
            }
        }
    }
    match rows.len() {
        1 => "no site has origin servers: a forward proxy".to_owned(),
        _ => in_columns(&rows).join("\n"),
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or("-").to_owned()
}
