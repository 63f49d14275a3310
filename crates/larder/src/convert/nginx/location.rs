//! The keys of the rule for a location: fields, lifetimes, bypass, sizes, compression.

use crate::convert::nginx::backend::Servers;
use crate::convert::nginx::condition::{Alternatives, Variables, truth};
use crate::convert::nginx::scope::Scope;
use crate::convert::nginx::syntax::Directive;
use crate::convert::nginx::values::template;
use crate::convert::output::{Output, list, text};
use crate::convert::rule_draft::{RuleDraft, Tests};
use crate::convert::units_of_others::{size, size_text, time};

/// Statuses to which nginx adds fields without `always`.
const ADDED: [&str; 8] = ["200", "201", "204", "301", "302", "303", "307", "308"];

/// Source of the responses that a rule is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Responses of origin servers, stored or not.
    Stored,
    Passed,
    Files,
    /// Responses of the rule itself, with this status.
    Rule(u16),
}

/// Largest body without `client_max_body_size`.
const BODY_MAX: u64 = 1 << 20;

/// Adds `max-body`, which nginx bounds by default.
pub fn body(scope: &Scope<'_>, rule: &mut RuleDraft) {
    let most = scope.arg("client_max_body_size").map_or(Some(BODY_MAX), size);
    if let Some(most) = most.filter(|most| *most > 0) {
        rule.set("max-body", size_text(most));
    }
}

/// Adds the timeouts that differ from those of all.
pub fn timeouts(scope: &Scope<'_>, rule: &mut RuleDraft, out: &Output) {
    const TIMES: [(&str, &str); 3] = [
        ("proxy_connect_timeout", "connect-timeout"),
        ("proxy_read_timeout", "head-timeout"),
        ("proxy_read_timeout", "body-timeout"),
    ];
    for (name, key) in TIMES {
        let parse = cli::units::parse_duration;
        let general = out.get(&format!("upstream.{key}"));
        let general = general.and_then(|text| parse(text.trim_matches('"')));
        let own = time(scope.arg(name).unwrap_or("60s")).and_then(|text| parse(&text));
        if let (Some(general), Some(own)) = (general, own)
            && general != own
            && !own.is_zero()
        {
            rule.set(key, text(&cli::units::duration(own)));
        }
    }
}

/// Adds the fields that `proxy_set_header` sends.
pub fn request_fields(
    scope: &Scope<'_>,
    servers: &Servers,
    name: &str,
    rule: &mut RuleDraft,
    out: &mut Output,
) {
    for field in scope.all(&["proxy_set_header"]) {
        let (key, value) = (field.arg(0), field.arg(1));
        let lower = key.to_ascii_lowercase();
        match (lower.as_str(), value) {
            ("host", "$host" | "$http_host" | "$server_name" | "$host:$server_port") => {}
            ("host", "$proxy_host") => rule.set("set-host", text(&servers.name)),
            ("host", value) => match template(value, name) {
                Some(value) => rule.set("set-host", text(&value)),
                None => out.lose(&field.at, "proxy_set_header Host", "unknown variable"),
            },
            // Larder sets these by itself (`forwarded.add`), and passes upgrades on.
            ("x-forwarded-for", "$proxy_add_x_forwarded_for" | "$remote_addr") => {}
            ("x-forwarded-proto", "$scheme") | ("x-forwarded-host", "$host" | "$http_host") => {}
            ("connection", "" | "upgrade" | "Upgrade" | "close" | "$connection_upgrade")
            | ("upgrade", "$http_upgrade") => {}
            (_, "") => rule.add("request-remove", key),
            _ => match template(value, name) {
                Some(value) => rule.add("request-set", format!("{key}: {value}")),
                None => {
                    let what = format!("proxy_set_header {key}");
                    out.lose(&field.at, &what, "unknown variable");
                }
            },
        }
    }
    if !scope.all(&["proxy_set_header"]).iter().any(|f| f.arg(0).eq_ignore_ascii_case("host")) {
        rule.set("set-host", text(&servers.name));
    }
}

/// Adds the fields of `add_header`, `expires` and `proxy_hide_header`.
pub fn response_fields(
    scope: &Scope<'_>,
    source: Source,
    name: &str,
    rule: &mut RuleDraft,
    out: &mut Output,
) {
    for field in scope.all(&["proxy_hide_header"]) {
        rule.add("client-remove", field.arg(0));
    }
    for field in scope.all(&["add_header", "more_set_headers"]) {
        let (key, value) = (field.arg(0), field.arg(1));
        if value.is_empty() {
            continue;
        }
        let is_always = field.arg(2) == "always";
        if value.contains("$upstream_cache_status") {
            let reason = "the words of {outcome} are those of Cache-Status, such as hit";
            out.lose(&field.at, &format!("add_header {key}"), reason);
            rule.add("client-set", format!("{key}: {{outcome}}"));
            continue;
        }
        match template(value, name) {
            Some(value) => add(field, key, &value, is_always, source, rule, out),
            None => out.lose(&field.at, &format!("add_header {key}"), "unknown variable"),
        }
    }
    if let Some(expires) = scope.get("expires") {
        let value = match expires.arg(0) {
            "off" => return,
            "epoch" => Some("no-cache".to_owned()),
            "max" => Some("max-age=315360000".to_owned()),
            text if text.starts_with('-') => Some("no-cache".to_owned()),
            text => seconds(text).map(|seconds| format!("max-age={seconds}")),
        };
        match value {
            Some(value) => add(expires, "Cache-Control", &value, false, source, rule, out),
            None => out.lose(&expires.at, "expires", "only a duration has an equivalent"),
        }
    }
}

fn seconds(text: &str) -> Option<u64> {
    cli::units::parse_duration(&time(text)?).map(|time| time.as_secs())
}

/// Adds a field of a response. What is stored is judged without it.
fn add(
    field: &Directive,
    key: &str,
    value: &str,
    is_always: bool,
    source: Source,
    rule: &mut RuleDraft,
    out: &mut Output,
) {
    let entry = format!("{key}: {value}");
    match source {
        Source::Rule(status) if is_always || ADDED.contains(&status.to_string().as_str()) => {
            rule.add("client-set", entry);
        }
        Source::Rule(_) => {}
        _ if is_always => rule.add("client-set", entry),
        Source::Passed | Source::Files => {
            rule.set("statuses", list(&ADDED));
            rule.add("answer-set", entry);
        }
        Source::Stored if is_judged(key) => {
            let reason = "set in errors as well; elsewhere it would change what is stored";
            out.lose(&field.at, &format!("{} {key}", field.name), reason);
            rule.add("client-set", entry);
        }
        Source::Stored => {
            rule.set("statuses", list(&ADDED));
            rule.add("answer-set", entry);
        }
    }
}

/// Returns whether a field decides on storing.
fn is_judged(key: &str) -> bool {
    let names = ["cache-control", "expires", "pragma", "set-cookie", "vary", "etag", "age"];
    names.contains(&key.to_ascii_lowercase().as_str())
}

/// Adds lifetimes, stale use and the key.
pub fn caching(scope: &Scope<'_>, inactive: &str, rule: &mut RuleDraft, out: &mut Output) {
    lifetimes(scope, rule, out);
    stale(scope, inactive, rule, out);
    key(scope, rule, out);
    if let Some(methods) = scope.get("proxy_cache_methods") {
        for method in methods.args.iter().filter(|name| !matches!(name.as_str(), "GET" | "HEAD")) {
            let name = format!("proxy_cache_methods {method}");
            out.lose(&methods.at, &name, "only GET and HEAD are answered from the cache");
        }
    }
    if let Some(uses) = scope.get("proxy_cache_min_uses").filter(|uses| uses.arg(0) != "1") {
        let reason = "store.admission = \"second-hit\" is the nearest setting, for all";
        out.lose(&uses.at, "proxy_cache_min_uses", reason);
    }
}

fn lifetimes(scope: &Scope<'_>, rule: &mut RuleDraft, out: &mut Output) {
    let ignored: Vec<String> = scope
        .all(&["proxy_ignore_headers"])
        .iter()
        .flat_map(|one| one.args.iter().map(|name| name.to_ascii_lowercase()))
        .collect();
    let ignores = |name: &str| ignored.iter().any(|one| one == name);
    let at = scope.get("proxy_ignore_headers").map(|one| one.at.clone()).unwrap_or_default();
    let hidden = scope.all(&["proxy_hide_header"]);
    let hides = |name: &str| hidden.iter().any(|one| one.arg(0).eq_ignore_ascii_case(name));
    for name in ["Cache-Control", "Set-Cookie", "Vary"] {
        if !ignores(&name.to_ascii_lowercase()) {
            continue;
        }
        if hides(name) {
            rule.set("statuses", list(&["2xx", "3xx", "4xx", "5xx"]));
            rule.add("answer-remove", name);
            continue;
        }
        let reason = match name {
            "Cache-Control" => "no-store, private and no-cache of the origin server still count",
            "Set-Cookie" => "a response that sets a cookie is not stored",
            _ => "a response is given only to the requests that its Vary names",
        };
        let what = format!("proxy_ignore_headers {name}");
        out.lose(&at, &what, &format!("{reason} (answer-remove takes the field from clients too)"));
    }
    let (mut times, mut named): (Vec<String>, Vec<&str>) = (Vec::new(), Vec::new());
    for valid in scope.all(&["proxy_cache_valid"]) {
        let Some((last, statuses)) = valid.args.split_last() else { continue };
        let Some(time) = time(last) else {
            out.lose(&valid.at, "proxy_cache_valid", "expected a duration");
            continue;
        };
        let statuses: Vec<&str> = match statuses {
            [] => vec!["200", "301", "302"],
            list => list.iter().map(String::as_str).collect(),
        };
        for status in statuses {
            let all = if status == "any" { &["2xx", "3xx", "4xx", "5xx"][..] } else { &[status] };
            for status in all.iter().filter(|status| !matches!(**status, "206" | "304")) {
                if !named.contains(status) {
                    named.push(status);
                    times.push(format!("{status} {time}"));
                }
            }
        }
    }
    if !times.is_empty() {
        let key = if ignores("cache-control") { "ttl" } else { "default-ttl" };
        rule.set(key, list(&times));
    }
}

fn stale(scope: &Scope<'_>, inactive: &str, rule: &mut RuleDraft, out: &mut Output) {
    let words = scope.get("proxy_cache_use_stale");
    let has = |word: &str| words.is_some_and(|words| words.args.iter().any(|one| one == word));
    let unreachable = if has("error") || has("timeout") { inactive } else { "0s" };
    rule.set("stale-when-unreachable", text(unreachable));
    if ["http_500", "http_502", "http_503", "http_504"].into_iter().any(has) {
        rule.set("stale-if-error", text(inactive));
    }
    if has("updating") {
        rule.set("stale-while-revalidate", text(inactive));
    }
    for word in words.map(|words| words.args.as_slice()).unwrap_or_default() {
        if matches!(word.as_str(), "http_403" | "http_404" | "http_429") {
            let at = words.map(|words| words.at.clone()).unwrap_or_default();
            let name = format!("proxy_cache_use_stale {word}");
            out.lose(&at, &name, "a stale response does not replace this status");
        }
    }
}

fn key(scope: &Scope<'_>, rule: &mut RuleDraft, out: &mut Output) {
    let Some(key) = scope.get("proxy_cache_key") else { return };
    let joined = key.args.join("");
    let mut rest = joined.replace("${", "$").replace('}', "");
    let has_query = ["$request_uri", "$args", "$query_string"].iter().any(|n| rest.contains(n));
    for plain in [
        "$request_uri",
        "$request_method",
        "$scheme",
        "$proxy_host",
        "$host",
        "$http_host",
        "$server_name",
        "$is_args",
        "$args",
        "$query_string",
        "$uri",
        "$server_port",
    ] {
        rest = rest.replace(plain, "");
    }
    if !has_query {
        rule.set("query-keep", "[]");
        rule.set("query-send", text("all"));
    }
    for part in rest.split('$') {
        let end = part.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let name = &part[..end.unwrap_or(part.len())];
        if let Some(field) = name.strip_prefix("http_") {
            rule.add("key-headers", field.replace('_', "-"));
        } else if let Some(cookie) = name.strip_prefix("cookie_") {
            rule.add("key-cookies", cookie);
        } else if !name.is_empty() && rest.contains(&format!("${name}")) {
            rule.set("bypass", "true");
            let reason = format!("${name} cannot be part of the key: the cache is not used here");
            out.lose(&key.at, "proxy_cache_key", &reason);
        }
    }
}

/// Pushes the rules of `proxy_cache_bypass` and `proxy_no_cache` for a location.
pub fn bypasses(
    scope: &Scope<'_>,
    when: &Tests,
    name: &str,
    variables: &Variables,
    out: &mut Output,
) {
    let tokens = |name| -> Vec<String> {
        let all = scope.all(&[name]);
        all.iter().flat_map(|one| one.args.clone()).collect()
    };
    let (bypass, no_store) = (tokens("proxy_cache_bypass"), tokens("proxy_no_cache"));
    let mut both = Alternatives::default();
    let mut unstored = Alternatives::default();
    let at = scope.get("proxy_cache_bypass").or(scope.get("proxy_no_cache"));
    let at = at.map(|one| one.at.clone()).unwrap_or_default();
    let mut closed = false;
    for token in bypass.iter().chain(no_store.iter().filter(|token| !bypass.contains(token))) {
        let is_bypass = bypass.contains(token);
        let directive = if is_bypass { "proxy_cache_bypass" } else { "proxy_no_cache" };
        match truth(token, variables) {
            Ok(found) => {
                if let Some(note) = &found.note {
                    out.lose(&at, &format!("{directive} {token}"), note);
                }
                if is_bypass { both.extend(found) } else { unstored.extend(found) }
            }
            Err(_) if matches!(token.as_str(), "0" | "") => {}
            Err(why) => {
                let reason = format!("{why}: the cache is not used here");
                out.lose(&at, &format!("{directive} {token}"), &reason);
                closed = true;
            }
        }
        if is_bypass && !no_store.contains(token) {
            let reason = "a bypass does not store the response either";
            out.lose(&at, &format!("{directive} {token}"), reason);
        }
    }
    if closed {
        both = Alternatives { any: vec![Tests::default()], note: None };
    }
    for (found, key, value, what) in
        [(both, "bypass", "true", "bypass"), (unstored, "store", "false", "not stored")]
    {
        if found.any.is_empty() {
            continue;
        }
        let mut rule = RuleDraft::new(&format!("{name} {what}"), when);
        rule.any = found.any.into_iter().filter(|test| !test.0.is_empty()).collect();
        rule.continues = true;
        rule.set(key, value);
        rule.push(out);
    }
}
