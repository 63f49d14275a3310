//! `larder status`: shows the state of a running proxy on one screen.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::{Arg, ArgAction, ArgMatches, Command};
use cli::outcome::{Failure, answer};
use cli::units;
use proxy::TokioClock;
use serde_json::Value;

use crate::commands::asking::{ask, json_flag};
use crate::commands::columns::in_columns;

pub fn command() -> Command {
    Command::new("status")
        .about("Show the state of a running proxy")
        .after_help(
            "Exit codes: 0 if it is ready; 3 if it serves, but a cache or an origin server is out \
             of use or the last reload failed; 1 if it is not ready, or there is no response; 2 \
             for a wrong command line.",
        )
        .arg(json_flag())
        .arg(Arg::new("ready").long("ready").action(ArgAction::SetTrue).help(
            "Exit with code 0 also if a part is out of use: for the health check of a container.",
        ))
}

pub fn run(matches: &ArgMatches) -> Result<(), Failure> {
    let told = ask(matches, "/status")?;
    match matches.get_flag("json") {
        true => answer(&format!("{told:#}"))?,
        false => answer(&in_lines(&told, TokioClock::system().wall()))?,
    }
    health(&told, matches.get_flag("ready"))
}

/// Returns an error unless the proxy is ready, and complete or `is_enough` that it is ready.
fn health(told: &Value, is_enough: bool) -> Result<(), Failure> {
    let why = told["why"].as_str().unwrap_or_default();
    match told["state"].as_str() {
        Some("ready" | "degraded") => {}
        state => {
            let state = state.unwrap_or("in an unknown state");
            return Err(Failure::runtime(format!("{state}: {why}").trim_end_matches(": ")));
        }
    }
    let mut wrong = Vec::new();
    if told["state"] == "degraded" {
        wrong.push(why.to_owned());
    }
    for server in told["servers"]["out"].as_array().into_iter().flatten() {
        wrong.push(format!("{} of {}: {}", server["server"], server["site"], server["state"]));
    }
    if let Some(error) = told["last_reload"]["error"].as_str() {
        wrong.push(format!("the last reload failed: {error}"));
    }
    match wrong.is_empty() || is_enough {
        true => Ok(()),
        false => Err(Failure::partial(wrong.join("\n"))),
    }
}

fn in_lines(told: &Value, now: SystemTime) -> String {
    let number = |key: &str| told[key].as_f64().unwrap_or_default();
    let whole = |key: &str| number(key) as u64;
    let text = |key: &str| told[key].as_str().unwrap_or("-").to_owned();
    let share = match number("cacheable") {
        0.0 => "-".to_owned(),
        all => format!("{:.1}%", 100.0 * number("hits") / all),
    };
    let state = match told["why"].as_str() {
        Some(why) => format!("{}: {why}", text("state")),
        None => text("state"),
    };
    let since = about_time(Duration::from_secs(whole("uptime_seconds")));
    let row = |name: &str, text: String| [name.to_owned(), text];
    let mut rows = vec![
        row("state", state),
        row("process", format!("{}, larder {}, up {since}", told["pid"], text("version"))),
        row("serves", format!("{} on {}", text("serves"), text("listeners"))),
        row("configuration", text("configuration")),
        row("requests", format!("{}, {share} hits, {} errors", whole("requests"), whole("errors"))),
        row(
            "clients",
            format!(
                "{} connections, {} sent",
                whole("connections"),
                units::about(whole("sent_bytes"))
            ),
        ),
        row(
            "memory",
            format!(
                "{} resident, {} for the cache",
                told["memory_bytes"].as_u64().map_or("unknown".to_owned(), units::about),
                units::about(whole("memory_limit_bytes"))
            ),
        ),
    ];
    rows.extend(told["caches"].as_array().into_iter().flatten().map(|cache| {
        let share = cache["used"].as_f64().map(|used| format!(", {:.0}% used", 100.0 * used));
        let online = if cache["online"] == true { "" } else { ", NOT IN USE" };
        let bytes = units::about(cache["bytes"].as_f64().unwrap_or_default() as u64);
        let objects = cache["objects"].as_f64().unwrap_or_default();
        let path = cache["path"].as_str().unwrap_or("-");
        let share = share.unwrap_or_default();
        row("cache", format!("{path}: {bytes}{share}, {objects} objects{online}"))
    }));
    let out = told["servers"]["out"].as_array().map_or(0, Vec::len) as u64;
    let all = told["servers"]["all"].as_u64().unwrap_or_default();
    if all > 0 {
        rows.push(row("servers", format!("{} of {all} in use", all.saturating_sub(out))));
    }
    for certificate in told["certificates"].as_array().into_iter().flatten() {
        let ends = certificate["expires"].as_u64().unwrap_or_default();
        let left = (UNIX_EPOCH + Duration::from_secs(ends)).duration_since(now);
        let left = left
            .map_or("has expired".to_owned(), |left| format!("expires in {}", about_time(left)));
        let name = certificate["name"].as_str().unwrap_or("-");
        rows.push(row("certificate", format!("{name} {left}")));
    }
    if let Some(at) = told["last_reload"]["at"].as_u64() {
        let ago = now.duration_since(UNIX_EPOCH + Duration::from_secs(at)).unwrap_or_default();
        let outcome = if told["last_reload"]["done"] == true { "done" } else { "FAILED" };
        rows.push(row("last reload", format!("{outcome}, {} ago", about_time(ago))));
    }
    in_columns(&rows).join("\n")
}

/// Formats a time in its two largest units.
fn about_time(time: Duration) -> String {
    let seconds = time.as_secs();
    let units = [(86_400, "d"), (3_600, "h"), (60, "min"), (1, "s")];
    let at = units.iter().position(|(unit, _)| seconds >= *unit).unwrap_or(units.len() - 1);
    let (unit, name) = units[at];
    let first = format!("{} {name}", seconds / unit);
    match units.get(at + 1) {
        Some((next, next_name)) if seconds % unit >= *next => {
            format!("{first} {} {next_name}", seconds % unit / next)
        }
        _ => first,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn times_have_two_units() {
        for (seconds, text) in [
            (0, "0 s"),
            (59, "59 s"),
            (60, "1 min"),
            (3_725, "1 h 2 min"),
            (86_400, "1 d"),
            (90_000, "1 d 1 h"),
        ] {
            assert_eq!(about_time(Duration::from_secs(seconds)), text);
        }
    }

    #[test]
    fn a_screen_for_people_and_an_exit_code_for_scripts() {
        let mut told = json!({
            "state": "ready", "why": null, "version": "1.0", "pid": 7, "uptime_seconds": 3725,
            "serves": "reverse proxy", "listeners": "127.0.0.1:80", "configuration": null,
            "connections": 3.0, "requests": 200.0, "cacheable": 100.0, "hits": 25.0, "errors": 1.0,
            "sent_bytes": 2048.0, "memory_bytes": 1048576.0, "memory_limit_bytes": 2097152.0,
            "caches": [{"path": "x", "online": true, "bytes": 1024.0, "objects": 5.0, "used": 0.5}],
            "servers": {"all": 2, "out": []},
            "certificates": [{"name": "a.example", "expires": 86_400}],
            "last_reload": null,
        });
        let text = in_lines(&told, UNIX_EPOCH);
        for part in [
            "state          ready",
            "7, larder 1.0, up 1 h 2 min",
            "200, 25.0% hits, 1 errors",
            "x: 1K, 50% used, 5 objects",
            "2 of 2 in use",
            "a.example expires in 1 d",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
        let code = |told: &Value| health(told, false).map_err(|failure| failure.to_string());
        assert_eq!(code(&told), Ok(()));
        told["servers"]["out"] = json!([{"site": "a", "server": "b:80", "state": "down"}]);
        assert!(code(&told).is_err_and(|why| why.contains("b:80")));
        assert!(health(&told, true).is_ok());
        told["state"] = json!("draining");
        assert_eq!(code(&told), Err("draining".to_owned()));
    }
}
