//! `larder purge`: asks a running proxy, through its admin interface, to remove stored objects.
//!
//! Each purge is durable when its line is printed: on this node, and on as many other nodes of a
//! fleet as the line states.

use std::collections::BTreeSet;

use clap::{Arg, ArgAction, ArgGroup, ArgMatches, Command};
use cli::outcome::{Failure, answer};
use serde_json::{Map, Value, json};

use crate::commands::admin_client::{AdminClient, Answer, flags};

/// Flags that take a text: name, name of the value, help.
const TEXTS: [(&str, &str, &str); 7] = [
    ("prefix", "URL", "Everything whose URL starts with this text, character by character."),
    ("host", "HOST", "Everything of this host; with :PORT, only of that port."),
    ("tag", "TAG", "Everything with this tag (Surrogate-Key, Cache-Tag, xkey)."),
    ("glob", "GLOB", "Everything whose URL, or path with its query, matches; * is any text."),
    (
        "regex",
        "REGEX",
        "Everything whose path with its query matches, and --host, --host-regex and --field if \
         given.",
    ),
    ("host-regex", "REGEX", "Everything whose host matches; see --regex."),
    ("field", "NAME: REGEX", "Everything of which a response field matches; see --regex."),
];

pub fn command() -> Command {
    let mut what = vec!["url", "all"];
    what.extend(TEXTS.iter().map(|(id, ..)| *id));
    let text = |(id, name, help): &(&'static str, &'static str, &'static str)| {
        let is_one = ["regex", "host-regex"].contains(id);
        let action = if is_one { ArgAction::Set } else { ArgAction::Append };
        Arg::new(*id).long(*id).value_name(*name).help(*help).action(action)
    };
    Command::new("purge")
        .about("Purge objects from a running proxy: by URL, prefix, host, tag, pattern, or all")
        .after_long_help(
            "Every purge for which a line is printed is durable: neither a kill nor a power loss \
             undoes it. In a fleet, send it to any one node and all carry it out. Nodes that \
             could not be reached are listed; such a node stops giving out what was purged within \
             purge.lease (10s), unless too few nodes have the purge (TOO FEW). Exit codes: 0 if \
             all purges were done, even if nothing was stored; 1 if one was not; 2 for a wrong \
             command line or configuration; 3 if all were done, but not at all nodes of the \
             fleet, or not in the stream.",
        )
        .arg(Arg::new("url").value_name("URL").num_args(0..).help(
            "All variants stored for this URL; with a final * everything whose URL starts with \
             the rest.",
        ))
        .args(TEXTS.iter().map(text))
        .arg(Arg::new("all").long("all").action(ArgAction::SetTrue).help("Everything."))
        .group(ArgGroup::new("what").args(what).multiple(true).required(true))
        .arg(Arg::new("soft").long("soft").action(ArgAction::SetTrue).help(
            "Mark objects as stale instead of removing them: the next request \
                       revalidates them.",
        ))
        .args(flags())
}

/// Sends the purges, and prints the outcome of each.
pub fn run(matches: &ArgMatches) -> Result<(), Failure> {
    let admin = AdminClient::of(matches)?;
    let mut failed = 0;
    let mut unreached = BTreeSet::new();
    for (what, request) in requests(matches) {
        let told = admin.post("/purge", &request.to_string());
        match understood(
            &told.map_err(|why| Failure::runtime(format!("{what}: not purged: {why}")))?,
        ) {
            Outcome::Done { told, unreached: here } => {
                answer(&format!("{what}: {told}"))?;
                unreached.extend(here);
            }
            Outcome::Refused(why) => {
                failed += 1;
                answer(&format!("{what}: NOT PURGED: {why}"))?;
            }
        }
    }
    match failed {
        0 if unreached.is_empty() => Ok(()),
        0 => Err(Failure::partial(format!("not purged everywhere: {}", {
            Vec::from_iter(unreached).join(", ")
        }))),
        1 => Err(Failure::runtime("one purge was not done")),
        many => Err(Failure::runtime(format!("{many} purges were not done"))),
    }
}

/// Returns the requests to send, each with a name and its body: one for all tags, and one for each
/// of the other purges.
fn requests(matches: &ArgMatches) -> Vec<(String, Value)> {
    let soft = matches.get_flag("soft");
    let given = |id: &str| -> Vec<String> {
        matches.get_many::<String>(id).into_iter().flatten().cloned().collect()
    };
    let mut requests = Vec::new();
    let ban = ban(matches);
    let alone = [("url", ""), ("prefix", "prefix "), ("glob", "glob "), ("host", "host ")];
    for (name, title) in alone {
        // Hosts are a condition of the ban, if there is one.
        if name == "host" && ban.is_some() {
            continue;
        }
        for text in given(name) {
            let mut body = Map::new();
            body.insert(name.to_owned(), json!(text));
            requests.push((format!("{title}{text}"), body));
        }
    }
    requests.extend(ban);
    let tags = given("tag");
    if !tags.is_empty() {
        let title = if tags.len() == 1 { "tag" } else { "tags" };
        let body = Map::from_iter([("tags".to_owned(), json!(tags))]);
        requests.push((format!("{title} {}", tags.join(", ")), body));
    }
    if matches.get_flag("all") {
        let body = Map::from_iter([("everything".to_owned(), json!(true))]);
        requests.push(("everything".to_owned(), body));
    }
    let complete = |(title, mut body): (String, Map<String, Value>)| {
        body.insert("soft".to_owned(), json!(soft));
        (title, Value::Object(body))
    };
    requests.into_iter().map(complete).collect()
}

/// Returns the ban that `--regex`, `--host-regex` and `--field` ask for, with its name.
fn ban(matches: &ArgMatches) -> Option<(String, Map<String, Value>)> {
    let given = |id: &str| -> Vec<String> {
        matches.get_many::<String>(id).into_iter().flatten().cloned().collect()
    };
    let mut body = Map::new();
    for name in ["regex", "host-regex"] {
        if let [text] = &given(name)[..] {
            body.insert(name.to_owned(), json!(text));
        }
    }
    let fields = given("field");
    if body.is_empty() && fields.is_empty() {
        return None;
    }
    let split = |field: &String| {
        let (name, regex) = field.split_once(':').unwrap_or((field, ""));
        (name.trim().to_owned(), json!(regex.trim()))
    };
    if !fields.is_empty() {
        body.insert("fields".to_owned(), fields.iter().map(split).collect());
    }
    let hosts = given("host");
    if !hosts.is_empty() {
        body.insert("hosts".to_owned(), json!(hosts));
    }
    Some((format!("ban {}", json!(body)), body))
}

#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    /// Done: a description, and the nodes of the fleet that could not be reached.
    Done {
        told: String,
        unreached: Vec<String>,
    },
    Refused(String),
}

/// Stands for the sites that share purges through a stream.
const STREAM: &str = "the stream";

/// The text for a purge that is stored as one entry, without a count of objects.
const UNCOUNTED: &str = ", in force for all matching objects (not counted)";

/// Returns the outcome that a response states.
fn understood(told: &Answer) -> Outcome {
    let (status, body) = (told.status, told.body.as_str());
    let json: Value = serde_json::from_str(body).unwrap_or(Value::Null);
    // Every purge that was done states this, if only as null.
    if status == 200 && json.get("objects").is_none() {
        return Outcome::Refused("the response is not that of an admin interface".to_owned());
    }
    let error = json["error"].as_str().unwrap_or_else(|| body.trim());
    let fronts = |name: &str| -> Option<String> {
        let fronts = json[name].as_array()?.iter().filter_map(Value::as_str);
        Some(fronts.collect::<Vec<_>>().join(", "))
    };
    let objects = match json["objects"].as_u64() {
        Some(1) => " 1 object".to_owned(),
        Some(many) => format!(" {many} objects"),
        None => String::new(),
    };
    let done = |told: String| {
        let (mut others, mut unreached) = at_others(&json["fleet"]);
        match json["stream"]["error"].as_str() {
            None if json["stream"].is_object() => others.push_str("; and in the stream"),
            None => {}
            Some(why) => {
                others.push_str(&format!("; NOT IN THE STREAM: {why}"));
                unreached.push(STREAM.to_owned());
            }
        }
        Outcome::Done { told: told + &others, unreached }
    };
    match status {
        200 => done(match (fronts("removed"), fronts("outdated")) {
            (Some(fronts), _) => format!("removed{objects} ({fronts})"),
            (_, Some(fronts)) => format!("outdated{objects} ({fronts})"),
            _ if json["objects"] == json!(0) => "nothing was stored at this node".to_owned(),
            _ if json["soft"] == json!(true) => format!("outdated{UNCOUNTED}"),
            _ => format!("purged{UNCOUNTED}"),
        }),
        404 if json["error"] == json!("nothing was stored") => done(match &json["hint"] {
            Value::String(hint) => format!("{error}; {hint}"),
            _ => error.to_owned(),
        }),
        _ => Outcome::Refused(format!("{status}: {error}")),
    }
}

/// Returns a description of the outcome at the other nodes of a fleet, and the unreached nodes.
fn at_others(fleet: &Value) -> (String, Vec<String>) {
    let Some(nodes) = fleet["nodes"].as_u64() else { return (String::new(), Vec::new()) };
    let unreached = || fleet["unreached"].as_object().into_iter().flatten();
    let why = |why: &Value| why.as_str().unwrap_or("no reason is given").to_owned();
    let mut told = match nodes {
        0 => String::new(),
        1 => "; and at 1 other node".to_owned(),
        many => format!("; and at {many} other nodes"),
    };
    for (name, reason) in unreached() {
        told.push_str(&format!("; NOT AT {name}: {}", why(reason)));
    }
    if let Some(copies) = fleet["copies"].as_u64() {
        told.push_str(&format!(
            "; TOO FEW: only {copies} nodes have it, and the others need not learn of it"
        ));
    }
    (told, unreached().map(|(name, _)| name.clone()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Vec<(String, Value)>, clap::Error> {
        command().try_get_matches_from(line.split(' ')).map(|matches| requests(&matches))
    }

    #[test]
    fn each_thing_is_a_request_and_all_tags_are_one() {
        let line = "purge http://a/ http://b/ --tag x --host a --tag y --prefix http://a/i --soft";
        let told: Vec<_> = parsed(line).unwrap();
        let told: Vec<_> = told.iter().map(|(name, body)| format!("{name}: {body}")).collect();
        let expected = [
            r#"http://a/: {"soft":true,"url":"http://a/"}"#,
            r#"http://b/: {"soft":true,"url":"http://b/"}"#,
            r#"prefix http://a/i: {"prefix":"http://a/i","soft":true}"#,
            r#"host a: {"host":"a","soft":true}"#,
            r#"tags x, y: {"soft":true,"tags":["x","y"]}"#,
        ];
        assert_eq!(told, expected);
        let line = "purge --regex ^/x --host a --host b --field content-type:^image --glob /y*";
        let told: Vec<_> = parsed(line).unwrap().into_iter().map(|(_, body)| body).collect();
        let fields = json!({"content-type": "^image"});
        let ban = json!({"regex": "^/x", "hosts": ["a", "b"], "fields": fields, "soft": false});
        assert_eq!(told, [json!({"glob": "/y*", "soft": false}), ban]);
        let all = parsed("purge --all").unwrap();
        assert_eq!(all, [("everything".to_owned(), json!({"everything": true, "soft": false}))]);
        assert!(parsed("purge --regex a --regex b").is_err());
        assert!(parsed("purge").is_err() && parsed("purge --soft").is_err());
        assert!(parsed("purge --all --token a --token-file b").is_err());
    }

    #[test]
    fn answers_are_told_in_words() {
        let told = |status: &str, body: &str| {
            let text = format!("HTTP/1.1 {status}\r\nA: b\r\n\r\n{body}");
            understood(&Answer::read(&text).unwrap())
        };
        let done = |text: &str| Outcome::Done { told: text.to_owned(), unreached: Vec::new() };
        let removed = r#"{"objects":2,"removed":["forward"],"soft":false}"#;
        assert_eq!(told("200 OK", removed), done("removed 2 objects (forward)"));
        let uncounted = |word: &str| done(&format!("{word}{UNCOUNTED}"));
        let soft = r#"{"objects":null,"soft":true,"tags":["a"]}"#;
        assert_eq!(told("200 OK", soft), uncounted("outdated"));
        let host = r#"{"host":"a","objects":null,"soft":false}"#;
        assert_eq!(told("200 OK", host), uncounted("purged"));
        let nothing = r#"{"error":"nothing was stored","hint":"try b","objects":0}"#;
        assert_eq!(told("404 Not Found", nothing), done("nothing was stored; try b"));
        let at_all = r#"{"objects":2,"removed":["shop"],"fleet":{"nodes":2,"unreached":{}}}"#;
        assert_eq!(told("200 OK", at_all), done("removed 2 objects (shop); and at 2 other nodes"));
        let lost = r#"{"objects":0,"hint":"x","fleet":{"nodes":1,"unreached":{"c":"no answer"}}}"#;
        let (words, unreached) = (
            "nothing was stored at this node; and at 1 other node; NOT AT c: no answer".to_owned(),
            vec!["c".to_owned()],
        );
        assert_eq!(told("200 OK", lost), Outcome::Done { told: words, unreached });
        let shared = r#"{"objects":1,"removed":["a"],"stream":{"acknowledged":true}}"#;
        assert_eq!(told("200 OK", shared), done("removed 1 object (a); and in the stream"));
        let late = r#"{"objects":0,"stream":{"acknowledged":false,"error":"late"}}"#;
        let words = "nothing was stored at this node; NOT IN THE STREAM: late".to_owned();
        let unreached = vec!["the stream".to_owned()];
        assert_eq!(told("200 OK", late), Outcome::Done { told: words, unreached });
        let refused = Outcome::Refused("401: This needs the token.".to_owned());
        assert_eq!(told("401 Unauthorized", "This needs the token.\n"), refused);
        assert_eq!(told("404 Not Found", "x"), Outcome::Refused("404: x".to_owned()));
        for other in ["<html>", "{}", "[]"] {
            assert!(matches!(told("200 OK", other), Outcome::Refused(_)), "{other}");
        }
        let cut = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{host}", host.len() + 1);
        assert_eq!(Answer::read(&cut).err(), Some("the response ended early"));
        assert!(Answer::read("SSH-2.0").is_err());
    }
}
