//! `larder fleet status`: shows the nodes of a fleet as one of them sees them.

use clap::{Arg, ArgAction, ArgMatches, Command};
use cli::outcome::{Failure, answer};
use serde_json::Value;

use crate::commands::asking::{ask, json_flag};
use crate::commands::columns::in_columns;

pub fn command() -> Command {
    Command::new("status")
        .about("Show the fleet as one of its nodes sees it")
        .after_long_help(
            "Prints a line for each live node; * marks the one that responds. SHARE is the share \
             of documents that a node owns, LOAD its requests under way. ASKED counts the \
             requests of the responding node to that one since they met: HITS were stored there, \
             FETCHED were fetched there, FAILED got no response; the rest were misses. BEHIND: \
             the responding node has yet to carry out purges of that one. PURGES counts the \
             purges made there. Then follow lost nodes, nodes that left in order, and nodes with \
             an incompatible protocol. Exit codes: 0; 1 if there is no response or no fleet, or \
             with --check if there is a problem; 2 for a wrong command line or configuration.",
        )
        .arg(json_flag())
        .arg(Arg::new("check").long("check").action(ArgAction::SetTrue).help(
            "Exit with code 1 unless no other node has this one's name, and every known node left \
             in order or is present, serves, is asked, has its disks, a compatible protocol and \
             the same policy, and its purges are carried out here.",
        ))
}

/// Asks a node, and prints its response.
pub fn run(matches: &ArgMatches) -> Result<(), Failure> {
    let told = ask(matches, "/fleet")?;
    match matches.get_flag("json") {
        true => answer(&format!("{told:#}"))?,
        false => answer(&in_lines(&told))?,
    }
    let wrong = if matches.get_flag("check") { wrong(&told) } else { Vec::new() };
    if wrong.is_empty() { Ok(()) } else { Err(Failure::runtime(wrong.join("\n"))) }
}

const HEADS: [&str; 13] = [
    "", "NODE", "STATE", "ZONE", "LOAD", "SHARE", "ASKED", "HITS", "FETCHED", "FAILED", "BEHIND",
    "POLICY", "PURGES",
];

fn in_lines(told: &Value) -> String {
    let own = text(&told["node"]);
    let trust = match told["trust"].as_str().unwrap_or_default() {
        "current" => "serves its stored objects",
        "joining" => "validates its stored objects until it has met the others",
        "leaving" => "validates its stored objects",
        _ => "validates its stored objects again and again: it knows too little of the others",
    };
    let (state, policy) = (text(&told["state"]), &told["policy"]);
    let mut lines = vec![format!("node {own}: {state}, policy {policy}, {trust}")];
    lines.extend(told["name_in_use"].as_str().map(|why| format!("name in use: {why}")));
    let rows = members(told).map(|member| row(member, member["name"] == told["node"]));
    lines.extend(in_columns(
        &[HEADS.map(str::to_owned)].into_iter().chain(rows).collect::<Vec<_>>(),
    ));
    for (name, since) in named(&told["lost"]) {
        lines.push(format!("lost: {name}, {since}"));
    }
    for (name, since) in named(&told["left"]) {
        lines.push(format!("left: {name}, {since}"));
    }
    for (name, why) in named(&told["not_understood"]) {
        lines.push(format!("not understood: {name}, {why}"));
    }
    lines.join("\n")
}

fn row(member: &Value, is_own: bool) -> [String; 13] {
    let mark = if is_own { "*" } else { "" };
    let passed_by = member["passed_by"] == Value::Bool(true);
    let state = text(&member["state"]);
    let state = if passed_by { format!("{state}, not asked") } else { state };
    let disk_failed = member["disk_failed"] == Value::Bool(true);
    let state = if disk_failed { format!("{state}, disk failed") } else { state };
    let share = member["share"].as_f64().unwrap_or_default() * 100.0;
    let asked = &member["asked"];
    let count = |word: &str| asked[word].as_u64().map_or("-".to_owned(), |n| n.to_string());
    let all = asked.as_object().map(|counts| counts.values().filter_map(Value::as_u64).sum());
    let all = all.map_or("-".to_owned(), |all: u64| all.to_string());
    let behind = match (is_own, member["behind"] == Value::Bool(true)) {
        (true, _) => "-",
        (false, true) => "yes",
        (false, false) => "no",
    };
    [
        mark.to_owned(),
        text(&member["name"]),
        state,
        text(&member["zone"]),
        member["load"].to_string(),
        format!("{share:.1}%"),
        all,
        count("hit"),
        count("fetched"),
        count("failed"),
        behind.to_owned(),
        member["policy"].to_string(),
        member["purges"].as_u64().map_or("-".to_owned(), |number| number.to_string()),
    ]
}

/// Returns all problems, each as a sentence.
fn wrong(told: &Value) -> Vec<String> {
    let mut wrong = Vec::new();
    if told["caught_up"] != Value::Bool(true) {
        wrong.push(format!("{} does not know the purges of enough others", text(&told["node"])));
    }
    wrong.extend(told["name_in_use"].as_str().map(|why| format!("the name is in use: {why}")));
    for member in members(told) {
        let name = text(&member["name"]);
        match text(&member["state"]).as_str() {
            "serving" => {}
            state => wrong.push(format!("{name} is {state}")),
        }
        if member["passed_by"] == Value::Bool(true) {
            wrong.push(format!("{name} is not asked, because requests to it failed"));
        }
        if member["disk_failed"] == Value::Bool(true) {
            wrong.push(format!("a disk of {name} has failed, and its share is with other nodes"));
        }
        if member["behind"] == Value::Bool(true) {
            wrong.push(format!("purges of {name} are still to be carried out"));
        }
        if member["policy"] != told["policy"] {
            wrong.push(format!("{name} has another policy, {}", member["policy"]));
        }
    }
    wrong.extend(named(&told["lost"]).map(|(name, since)| format!("{name} is lost: {since}")));
    let not_understood = named(&told["not_understood"]);
    wrong.extend(not_understood.map(|(name, why)| format!("{name} is not understood: {why}")));
    wrong
}

fn members(told: &Value) -> impl Iterator<Item = &Value> {
    told["members"].as_array().into_iter().flatten()
}

fn named(list: &Value) -> impl Iterator<Item = (&String, String)> {
    list.as_object().into_iter().flatten().map(|(name, said)| (name, text(said)))
}

/// Returns a string value of the response; a dash if it is missing.
fn text(value: &Value) -> String {
    value.as_str().filter(|text| !text.is_empty()).unwrap_or("-").to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn told() -> Value {
        let asked = json!({"hit": 7, "fetched": 2, "absent": 1, "failed": 0});
        json!({
            "node": "a", "state": "serving", "caught_up": true, "trust": "current",
            "name_in_use": null, "policy": 0, "purges": "",
            "members": [
                {"name": "a", "zone": "", "state": "serving", "share": 0.5, "load": 3,
                 "policy": 0, "purges": 31, "behind": false, "passed_by": false,
                 "asked": null},
                {"name": "web-2", "zone": "east", "state": "serving", "share": 0.5, "load": 11,
                 "policy": 0, "purges": 0, "behind": false, "passed_by": false,
                 "disk_failed": false, "asked": asked},
            ],
            "lost": {}, "left": {}, "not_understood": {},
        })
    }

    #[test]
    fn the_state_is_a_table() {
        let expected = "\
node a: serving, policy 0, serves its stored objects
   NODE   STATE    ZONE  LOAD  SHARE  ASKED  HITS  FETCHED  FAILED  BEHIND  POLICY  PURGES
*  a      serving  -     3     50.0%  -      -     -        -       -       0       31
   web-2  serving  east  11    50.0%  10     7     2        0       no      0       0";
        assert_eq!(in_lines(&told()), expected);
        assert_eq!(wrong(&told()), [""; 0]);
        let mut told = told();
        told["lost"] = json!({"c": "it was lost 5 s ago"});
        told["left"] = json!({"d": "it left 9 s ago"});
        let lines = in_lines(&told);
        assert!(lines.ends_with("lost: c, it was lost 5 s ago\nleft: d, it left 9 s ago"));
        assert_eq!(wrong(&told), ["c is lost: it was lost 5 s ago"]);
        told["name_in_use"] = json!("the node at b:1 is named a, too");
        assert!(in_lines(&told).contains("\nname in use: the node at b:1 is named a, too\n"));
        told["name_in_use"] = Value::Null;
        told["not_understood"] = json!({"e": "it speaks protocol 2, and this node 1"});
        let lines = in_lines(&told);
        assert!(lines.ends_with("\nnot understood: e, it speaks protocol 2, and this node 1"));
        let words = "e is not understood: it speaks protocol 2, and this node 1";
        assert_eq!(wrong(&told)[1], words);
    }

    #[test]
    fn all_problems_are_named() {
        for (at, value, words) in [
            ("/name_in_use", json!("the node at b:1 is named a, too"), "the node at b:1"),
            ("/caught_up", json!(false), "a does not know the purges of enough others"),
            ("/members/1/state", json!("leaving"), "web-2 is leaving"),
            ("/members/1/passed_by", json!(true), "web-2 is not asked"),
            ("/members/1/disk_failed", json!(true), "a disk of web-2 has failed"),
            ("/members/1/behind", json!(true), "purges of web-2 are still to be carried out"),
            ("/members/1/policy", json!(65536), "web-2 has another policy, 65536"),
        ] {
            let mut told = told();
            *told.pointer_mut(at).unwrap() = value;
            let wrong = wrong(&told);
            assert!(wrong.len() == 1 && wrong[0].contains(words), "{at}: {wrong:?}");
        }
    }

    #[test]
    fn an_answer_that_lacks_things_is_no_panic() {
        assert!(in_lines(&json!({"members": [{}, 5]})).contains("NODE"));
        assert!(!wrong(&json!([])).is_empty());
    }
}
