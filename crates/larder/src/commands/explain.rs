//! `larder explain`: asks a running proxy how it treats a request, and why.
//!
//! The proxy decides exactly as it would for a real request ([`proxy`]'s admin interface); this
//! module formats its response as lines of text.

use clap::{Arg, ArgAction, ArgMatches, Command};
use cli::outcome::{Failure, answer};
use form_urlencoded::Serializer;
use serde_json::Value;

use crate::commands::admin_client::{AdminClient, flags};
use crate::commands::asking::understood;

pub fn command() -> Command {
    Command::new("explain")
        .about("Explain how a running proxy treats a request")
        .after_long_help(
            "Shows the rule that applies, the cache key, what is stored, and what the proxy would \
             do. --ask sends the request to the origin server, --answer assumes a response: would \
             it be stored, and how long would it be fresh? A node of a fleet also shows the owner \
             of the document, the policy of its class, and the nodes that it would ask, in order. \
             Nothing is stored or removed. Exit codes: 0; 1 if the proxy gave no explanation; 2 \
             for a wrong command line or configuration.",
        )
        .arg(Arg::new("url").value_name("URL").required(true).help("The requested URL."))
        .arg(
            Arg::new("method")
                .short('X')
                .long("method")
                .value_name("METHOD")
                .help("The request method [default: GET]."),
        )
        .arg(
            Arg::new("header")
                .short('H')
                .long("header")
                .value_name("FIELD")
                .action(ArgAction::Append)
                .help("A request header field, \"Name: value\"."),
        )
        .arg(
            Arg::new("client")
                .long("client")
                .value_name("ADDRESS")
                .help("The client's address, for rules that look at it [default: 127.0.0.1]."),
        )
        .arg(Arg::new("listener").long("listener").value_name("ADDRESS").help(
            "The listener's address as configured, for rules with listeners [default: none].",
        ))
        .arg(
            Arg::new("ask")
                .long("ask")
                .action(ArgAction::SetTrue)
                .conflicts_with_all(["answer", "status"])
                .help("Ask the origin server with GET or HEAD and evaluate its response."),
        )
        .arg(
            Arg::new("answer")
                .long("answer")
                .value_name("FIELD")
                .action(ArgAction::Append)
                .help("A header field of a response to evaluate, \"Name: value\"."),
        )
        .arg(
            Arg::new("status")
                .long("status")
                .value_name("CODE")
                .help("The status of that response [default: 200]."),
        )
        .arg(
            Arg::new("json")
                .long("json")
                .action(ArgAction::SetTrue)
                .help("Print the explanation as JSON."),
        )
        .args(flags())
}

/// Asks the proxy, and prints its explanation.
pub fn run(matches: &ArgMatches) -> Result<(), Failure> {
    let (client, target) = (AdminClient::of(matches)?, format!("/explain?{}", query(matches)));
    let told = match matches.get_flag("ask") {
        true => client.post(&target, "{}")?,
        false => client.get(&target)?,
    };
    let json =
        understood(&told).map_err(|why| Failure::runtime(format!("no explanation: {why}")))?;
    match matches.get_flag("json") {
        true => answer(&format!("{json:#}")),
        false => answer(&in_lines(&json)),
    }
}

fn query(matches: &ArgMatches) -> String {
    let mut query = Serializer::new(String::new());
    for name in ["url", "method", "client", "listener", "status"] {
        if let Some(text) = matches.get_one::<String>(name) {
            query.append_pair(name, text);
        }
    }
    for name in ["header", "answer"] {
        for text in matches.get_many::<String>(name).into_iter().flatten() {
            query.append_pair(name, text);
        }
    }
    if matches.get_flag("ask") {
        query.append_pair("ask", "true");
    }
    query.finish()
}

/// Returns the explanation as lines, each a label and its text.
fn in_lines(told: &Value) -> String {
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        Value::Null => "none".to_owned(),
        other => other.to_string(),
    };
    let mut lines = vec![("request", text(&told["request"]))];
    lines.extend(rules(&told["rules"]));
    for class in told["classes"].as_array().into_iter().flatten() {
        let [name, value, by] = ["name", "value", "by"].map(|key| text(&class[key]));
        lines.push(("class", format!("{name} = {value:?} ({by})")));
    }
    lines.extend([
        ("origin", text(&told["origin"])),
        ("key", format!("{} of {}", text(&told["key"]["url"]), text(&told["key"]["front"]))),
    ]);
    for part in told["key"]["parts"].as_array().into_iter().flatten() {
        lines.push(("", text(part)));
    }
    if let Some(fields) = told["key"]["fields"].as_object() {
        let fields = fields.iter().map(|(name, value)| match value {
            Value::Null => format!("without {name}"),
            value => format!("{name}: {}", text(value)),
        });
        lines.push(("for", fields.collect::<Vec<_>>().join(", ")));
    }
    let is_rewritten = |sent: &&str| !text(&told["request"]).ends_with(sent);
    if let Some(sent) = told["sent"].as_str().filter(is_rewritten) {
        lines.push(("sent", sent.to_owned()));
    }
    lines.push(("stored", stored(&told["stored"], &told["current"])));
    for field in told["stored"]["headers"].as_array().into_iter().flatten() {
        lines.push(("", text(field)));
    }
    lines.push(("would", text(&told["would"])));
    if let Some(coding) = told["compressed"].as_str() {
        lines.push(("coding", format!("{coding}, if its type and size are to be compressed")));
    }
    if told["denied"].is_string() {
        lines.push(("denied", text(&told["denied"])));
    }
    let limits = told["limited"].as_array().into_iter().flatten();
    lines.extend(limits.map(|limit| ("limited", text(limit))));
    lines.extend(in_fleet(&told["fleet"]));
    if !told["answer"].is_null() {
        lines.push(("answer", judged(&told["answer"])));
    }
    let lines = lines.into_iter().map(|(what, words)| format!("{what:<8} {words}"));
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns a line for each rule that applies, with what it states.
fn rules(told: &Value) -> Vec<(&'static str, String)> {
    let list = |value: &Value| -> Vec<String> {
        let texts = value.as_array().into_iter().flatten();
        texts.filter_map(|text| Some(text.as_str()?.to_owned())).collect()
    };
    let line = |rule: &Value| {
        let name = rule["name"].as_str().unwrap_or_default();
        let states = list(&rule["states"]);
        (
            "rule",
            if states.is_empty() {
                name.to_owned()
            } else {
                format!("{name} ({})", states.join("; "))
            },
        )
    };
    match told.as_array().filter(|rules| !rules.is_empty()) {
        Some(rules) => rules.iter().map(line).collect(),
        None => vec![("rule", "none".to_owned())],
    }
}

/// Says what a node remembers of a document, by which it knows its class before an answer.
fn remembered(facts: &Value) -> String {
    let size = facts["size"].as_u64().map(|size| format!("{size} bytes"));
    let requests = facts["requests"].as_u64().map(|requests| format!("{requests} recent requests"));
    let kind = facts["type"].as_str().map(str::to_owned);
    let known: Vec<String> = size.into_iter().chain(kind).chain(requests).collect();
    match known.as_slice() {
        [] => "by its site: its size and type are not known here".to_owned(),
        known => format!("by what is remembered of it: {}", known.join(", ")),
    }
}

/// Returns the lines about the fleet; empty if the node is in none.
fn in_fleet(told: &Value) -> Vec<(&'static str, String)> {
    let Some(node) = told["node"].as_str() else { return Vec::new() };
    let words = |list: &Value| -> Vec<String> {
        let list = list.as_array().into_iter().flatten().filter_map(Value::as_str);
        list.map(str::to_owned).collect()
    };
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let owners = words(&told["owners"]);
    let is_own = if owners.iter().any(|owner| owner == node) { ", this node" } else { "" };
    let owner = match owners.as_slice() {
        [] => "nobody".to_owned(),
        [one] => format!("{one}{is_own}"),
        many => format!("{}{}", many.join(", "), is_own.replace("this", "among them this")),
    };
    let policy = &told["policy"];
    let class = format!(
        "{}: lookup {}, copies {}, eviction {}, replication {} (policy {})",
        word(&told["class"]),
        word(&policy["lookup"]),
        word(&policy["copies"]),
        word(&policy["eviction"]),
        word(&policy["replication"]),
        told["policy_version"],
    );
    let mut lines = vec![("owner", owner), ("class", class)];
    if told["remembered"].is_object() {
        lines.push(("", format!("before the answer {}", remembered(&told["remembered"]))));
    }
    if told["kept_as"] != told["class"] {
        let kept_as = word(&told["kept_as"]);
        lines.push(("", format!("after the answer kept as {kept_as}, by its size and type")));
    }
    if told["caught_up"] != Value::Bool(true) {
        let text = "this node serves no stored object until it has caught up";
        lines.push(("", text.to_owned()));
    }
    lines.push(match (told["asks"].is_array(), words(&told["asks"])) {
        (false, _) => ("asks", "no other node".to_owned()),
        (true, steps) if steps.is_empty() => {
            ("asks", "the origin: the fleet has no other node".to_owned())
        }
        (true, steps) => ("asks", steps.join("; then ")),
    });
    let keeps = |place: &str| told["keeps"][place] == Value::Bool(true);
    if told["keeps"].is_object() {
        lines.push((
            "keeps",
            match (keeps("memory"), keeps("disk")) {
                (true, true) => "responses in memory and on disk".to_owned(),
                (true, false) => "responses in memory, not on disk".to_owned(),
                (false, true) => "responses on disk, not in memory".to_owned(),
                (false, false) => "no responses".to_owned(),
            },
        ));
    }
    lines
}

fn stored(stored: &Value, current: &Value) -> String {
    if stored.is_null() {
        return "nothing".to_owned();
    }
    let parts = if stored["in_parts"] == Value::Bool(true) { ", in parts" } else { "" };
    let place = stored["in"].as_str().unwrap_or_default();
    let (age, lifetime) = (&stored["age"], &stored["lifetime"]);
    let (status, length) = (&stored["status"], &stored["length"]);
    let time = match current {
        Value::Bool(true) => format!("{age} s old, current"),
        Value::Bool(false) => format!("{age} s old, not current"),
        _ => format!("{age} s old of {lifetime} s"),
    };
    format!("{status}, {length} bytes in the {place}{parts}, {time}")
}

fn judged(answer: &Value) -> String {
    let (from, status) = (answer["from"].as_str().unwrap_or_default(), &answer["status"]);
    let whose = if from == "origin" { "of the origin server" } else { "as given" };
    let but = answer["not_applied"].as_str().map(|words| format!("; {words}"));
    let but = but.unwrap_or_default();
    let Value::Bool(true) = answer["stored"] else {
        let why = answer["why"].as_str().unwrap_or_default();
        return format!("{status} {whose}: not stored ({why}{but})");
    };
    let (lifetime, basis) = (&answer["lifetime"], &answer["lifetime_from"]);
    let basis = basis.as_str().unwrap_or_default();
    let entries: Vec<String> =
        answer["responses"].as_array().into_iter().flatten().map(Value::to_string).collect();
    let but = match entries.is_empty() {
        true => but,
        false => format!("; responses entry {}{but}", entries.join(", ")),
    };
    let vary: Vec<&str> =
        answer["vary"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let apart = match vary.is_empty() {
        true => String::new(),
        false => format!(", varies by {}", vary.join(", ")),
    };
    let time = match basis {
        "origin" => "used as long as the origin says it is current".to_owned(),
        basis => format!("fresh for {lifetime} s (from {basis}{but})"),
    };
    format!("{status} {whose}: stored, {time}{apart}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_command_line_becomes_a_question() {
        let line = ["explain", "http://a/?b=c&d", "-H", "A: b+c", "--answer", "X: y", "-X", "HEAD"];
        let matches = command().try_get_matches_from(line).unwrap();
        let expected = "url=http%3A%2F%2Fa%2F%3Fb%3Dc%26d&method=HEAD&header=A%3A+b%2Bc\
                        &answer=X%3A+y";
        assert_eq!(query(&matches), expected);
        let both = ["explain", "http://a/", "--ask", "--answer", "X: y"];
        assert!(command().try_get_matches_from(both).is_err());
    }

    #[test]
    fn explanations_are_formatted_as_lines() {
        let told = json!({
            "request": "GET http://a/?u=1", "site": null, "origin": "a:80", "rules": [{ "name": "pages", "states": ["ttl = \"1m\""] }],
            "classes": [{"name": "plan", "value": "paid", "by": "by pro*"}],
            "key": {
                "front": "forward", "url": "http://a/", "fields": {"a": "b", "c": null},
                "parts": ["query none (query-drop)"],
            },
            "past_the_cache": null,
            "stored": {"status": 200, "length": 5, "in": "memory", "in_parts": false, "age": 1,
                       "lifetime": 60, "headers": ["etag: \"x\""]},
            "would": "answer from the cache: fresh, 1 s old",
            "answer": {"from": "given", "status": 200, "stored": true, "why": null,
                       "lifetime": 60, "lifetime_from": "max-age", "vary": ["a", "c"]},
        });
        let expected = "\
request  GET http://a/?u=1
rule     pages (ttl = \"1m\")
class    plan = \"paid\" (by pro*)
origin   a:80
key      http://a/ of forward
         query none (query-drop)
for      a: b, without c
stored   200, 5 bytes in the memory, 1 s old of 60 s
         etag: \"x\"
would    answer from the cache: fresh, 1 s old
answer   200 as given: stored, fresh for 60 s (from max-age), varies by a, c";
        assert_eq!(in_lines(&told), expected);
        let fleet = json!({
            "node": "a", "caught_up": false, "owners": ["b"], "policy_version": 0,
            "class": "rest", "kept_as": "icons",
            "remembered": {"size": 20_000, "type": "image/png", "requests": 7},
            "policy": {"lookup": "memory > disk", "copies": "exclusive", "eviction": "drop",
                       "replication": "1"},
            "asks": ["b, an owner, answers", "the origin"],
            "keeps": {"memory": true, "disk": false},
        });
        let lines: Vec<String> =
            in_fleet(&fleet).iter().map(|(what, words)| format!("{what:<6} {words}")).collect();
        assert_eq!(
            lines.join("\n"),
            "\
owner  b
class  rest: lookup memory > disk, copies exclusive, eviction drop, replication 1 (policy 0)
       before the answer by what is remembered of it: 20000 bytes, image/png, 7 recent requests
       after the answer kept as icons, by its size and type
       this node serves no stored object until it has caught up
asks   b, an owner, answers; then the origin
keeps  responses in memory, not on disk"
        );
        let not = json!({"from": "origin", "status": 200, "stored": false, "why": "private"});
        assert_eq!(judged(&not), "200 of the origin server: not stored (private)");
        let error = json!({
            "from": "given", "status": 404, "stored": true, "why": null, "lifetime": 5,
            "lifetime_from": "error-ttl of x", "not_applied": "ttl does not apply to 404",
        });
        assert_eq!(
            judged(&error),
            "404 as given: stored, fresh for 5 s (from error-ttl of x; ttl does not apply to 404)"
        );
        assert_eq!(stored(&Value::Null, &Value::Null), "nothing");
        let current = stored(&told["stored"], &json!(true));
        assert_eq!(current, "200, 5 bytes in the memory, 1 s old, current");
    }
}
