//! The keys of the rule for a location: fields, lifetimes, bypass, sizes, compression.

use crate::convert::cases::both;
use crate::convert::nginx::backend::Servers;
use crate::convert::nginx::condition::{Alternatives, truth};
use crate::convert::nginx::forwarded;
use crate::convert::nginx::joined_fields::{self, Added, Joined};
use crate::convert::nginx::mapped_fields;
use crate::convert::nginx::media_types;
use crate::convert::nginx::min_uses;
use crate::convert::nginx::replies::Place;
use crate::convert::nginx::scope::Scope;
use crate::convert::nginx::syntax::Directive;
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
    /// Any responses, under the condition of an `if`.
    If,
    /// Responses of the rule itself, with this status.
    Rule(u16),
}

/// Fields that rules do not remove.
const KEPT: [&str; 9] = [
    "age",
    "cdn-loop",
    "connection",
    "content-encoding",
    "date",
    "if-range",
    "max-forwards",
    "upgrade",
    "via",
];

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
    if scope.arg("proxy_pass_request_headers") == Some("off") {
        rule.add("request-remove", "*");
    }
    let is_get = method(scope, rule, out);
    let body = scope.get("proxy_pass_request_body").filter(|one| one.arg(0) == "off");
    if let Some(one) = body.filter(|_| !is_get) {
        out.lose(&one.at, &one.name, "bodies of requests are passed on");
    }
    for field in scope.all(&["proxy_set_header"]) {
        let (key, value) = (field.arg(0), field.arg(1));
        let lower = key.to_ascii_lowercase();
        match (lower.as_str(), value) {
            // A server that the request names gets its own name.
            ("host", "$proxy_host") if servers.named.is_some() => {}
            ("host", "$host" | "$http_host") if servers.named.is_some() => {
                rule.set("set-host", text("{host}"));
            }
            ("host", "$host" | "$http_host" | "$server_name" | "$host:$server_port") => {}
            ("host", "$proxy_host") => rule.set("set-host", text(&servers.name)),
            ("host", value) => match scope.template(value, name) {
                Some(value) => rule.set("set-host", text(&value)),
                None => out.lose(&field.at, "proxy_set_header Host", "unknown variable"),
            },
            // Larder sets these by itself (`forwarded.add`), and passes upgrades on.
            ("x-forwarded-for", "$proxy_add_x_forwarded_for" | "$remote_addr") => {}
            ("x-forwarded-for", "$http_x_forwarded_for, $remote_addr") => {}
            ("x-forwarded-proto", value) if is_scheme(scope, value) => {}
            ("x-forwarded-host", "$host" | "$http_host") => {}
            ("connection", "" | "upgrade" | "Upgrade" | "close" | "$connection_upgrade")
            | ("upgrade", "$http_upgrade") => {}
            // Objects in parts are fetched by ranges.
            ("range", "$slice_range") => {}
            // The proxy frames bodies and connections itself.
            ("content-length" | "transfer-encoding" | "te" | "keep-alive", _)
            | ("proxy-connection" | "trailer" | "expect", _) => {}
            // The application sends its files itself.
            ("x-sendfile-type" | "x-accel-mapping", _) => rule.add("request-remove", key),
            (_, "") => rule.add("request-remove", key),
            _ => match scope.template(value, name) {
                Some(value) => rule.add("request-set", format!("{key}: {value}")),
                None => {
                    let what = format!("proxy_set_header {key}");
                    let reason = "unknown variable: the field is not sent, nor the client's";
                    out.lose(&field.at, &what, reason);
                    if !KEPT.contains(&lower.as_str()) {
                        rule.add("request-remove", key);
                    }
                }
            },
        }
    }
    let sets_host = |field: &&Directive| field.arg(0).eq_ignore_ascii_case("host");
    if servers.named.is_none() && !scope.all(&["proxy_set_header"]).iter().any(sets_host) {
        rule.set("set-host", text(&servers.name));
    }
}

/// Reads `proxy_method`; returns whether requests have the method GET and no body.
fn method(scope: &Scope<'_>, rule: &mut RuleDraft, out: &mut Output) -> bool {
    let Some(one) = scope.get("proxy_method") else { return false };
    if !one.arg(0).eq_ignore_ascii_case("get") {
        out.lose(&one.at, &one.name, "the client's method is sent");
        return false;
    }
    rule.set("allow-methods", list(&["GET", "HEAD"]));
    out.note(&one.at, &one.name, "other methods are answered with 405");
    true
}

/// Returns whether a value is the scheme, as the proxy in front states it.
fn is_scheme(scope: &Scope<'_>, value: &str) -> bool {
    let stated = ["$scheme", "$http_x_forwarded_proto"];
    let is_of_map = |map: &Directive| map.arg(1) == value && stated.contains(&map.arg(0));
    stated.contains(&value) || scope.maps().any(is_of_map)
}

/// Adds the fields of `add_header`, `expires` and `proxy_hide_header`.
pub fn response_fields(
    scope: &Scope<'_>,
    source: Source,
    name: &str,
    rule: &mut RuleDraft,
    out: &mut Output,
) {
    own_fields(scope, source, name, rule, out);
    inherited_fields(scope, source, rule, out);
}

/// Adds the fields of `add_header`, which an `if` with others replaces.
pub fn own_fields(
    scope: &Scope<'_>,
    source: Source,
    name: &str,
    rule: &mut RuleDraft,
    out: &mut Output,
) {
    let mut all = Vec::new();
    if let Some((at, value)) = stated_with_others(scope) {
        all.push(Added { key: "Cache-Control", value, is_always: false, at });
    }
    for field in scope.added(&ADDING) {
        let (key, value) = (field.arg(0), field.arg(1));
        if value.is_empty() {
            continue;
        }
        let is_always = field.arg(2) == "always";
        if value == "$upstream_response_time" {
            let reason = "not known when nginx sends the head, which has a - instead: left out";
            out.note(&field.at, &format!("add_header {key}"), reason);
            continue;
        }
        if value.contains("$upstream_cache_status") {
            let reason = "the words of {outcome} are those of Cache-Status, such as hit";
            out.note(&field.at, &format!("add_header {key}"), reason);
            rule.add("client-set", format!("{key}: {{outcome}}"));
            continue;
        }
        if value.contains("$slice_range") {
            let reason = "ranges are stored in parts of Larder's own: empty";
            out.note(&field.at, &format!("add_header {key} $slice_range"), reason);
        }
        match scope.template(value, name) {
            Some(value) => all.push(Added { key, value, is_always, at: field }),
            None if mapped_fields::write(field, scope, &ADDED, rule, out) => {}
            None => out.lose(&field.at, &format!("add_header {key}"), "unknown variable"),
        }
    }
    for field in joined_fields::join(&all, out) {
        add_joined(&field, source, rule);
    }
}

/// Directives that add fields to responses.
const ADDING: [&str; 2] = ["add_header", "more_set_headers"];

/// Returns the values of `Cache-Control` that a scope adds beside those of `expires`.
fn cache_controls<'a>(scope: &Scope<'a>) -> Vec<&'a str> {
    let all = scope.added(&ADDING).into_iter();
    let is_own = |one: &&Directive| one.arg(0).eq_ignore_ascii_case("cache-control");
    all.filter(is_own).map(|one| one.arg(1)).filter(|value| !value.is_empty()).collect()
}

/// Returns the `Cache-Control` of `expires`, if others are joined with it.
fn stated_with_others<'a>(scope: &Scope<'a>) -> Option<(&'a Directive, String)> {
    let expires = scope.get("expires").filter(|_| !cache_controls(scope).is_empty())?;
    Some((expires, cache_control(expires.arg(0))??))
}

/// Reports what `expires` says where an `if` adds other fields.
pub fn lose_beside_ifs(scope: &Scope<'_>, out: &mut Output) {
    if let Some((expires, _)) = stated_with_others(scope) {
        out.lose(&expires.at, "expires", "not sent where an if adds fields");
    }
}

/// Adds a field of a response with the values of all its lines.
fn add_joined(field: &Joined<'_>, source: Source, rule: &mut RuleDraft) {
    let Joined { key, usual, always } = field;
    match always {
        None => add(key, usual, false, source, rule),
        Some(always) if always == usual => add(key, usual, true, source, rule),
        Some(always) => match source {
            Source::Rule(status) if ADDED.contains(&status.to_string().as_str()) => {
                add(key, usual, true, source, rule);
            }
            Source::Rule(_) => add(key, always, true, source, rule),
            _ => {
                add(key, always, true, source, rule);
                let usual = format!("{key}: {usual}");
                rule.client_set_if(&format!("statuses = {}", list(&ADDED)), &usual);
            }
        },
    }
}

/// Adds the fields of `proxy_hide_header` and `expires`.
pub fn inherited_fields(scope: &Scope<'_>, source: Source, rule: &mut RuleDraft, out: &mut Output) {
    for field in scope.all(&["proxy_hide_header"]) {
        match field.arg(0).to_ascii_lowercase().as_str() {
            // nginx adds none of its own either.
            "via" => rule.add("hide", "via"),
            _ => rule.add("client-remove", field.arg(0)),
        }
    }
    if source == Source::Files {
        media_types::of_location(scope, rule, out);
    }
    if let Some(expires) = scope.get("expires").filter(|_| stated_with_others(scope).is_none()) {
        match cache_control(expires.arg(0)) {
            Some(Some(value)) => add("Cache-Control", &value, false, source, rule),
            Some(None) => {}
            None if by_type(scope, expires.arg(0), source, rule) => {}
            None => out.lose(&expires.at, "expires", "only a duration has an equivalent"),
        }
    }
}

/// Returns the arguments of what adds fields to responses.
pub fn added_fields<'a>(scope: &Scope<'a>) -> Vec<&'a [String]> {
    let expires = scope.get("expires").filter(|one| one.arg(0) != "off");
    let added = scope.added(&ADDING).into_iter().filter(|one| !one.arg(1).is_empty());
    added.chain(expires).map(|one| one.args.as_slice()).collect()
}

/// Returns the `Cache-Control` of a value of `expires`: `Some(None)` for none, `None` if the value
/// has no equivalent.
fn cache_control(value: &str) -> Option<Option<String>> {
    Some(match value {
        "off" => None,
        "epoch" => Some("no-cache".to_owned()),
        "max" => Some("max-age=315360000".to_owned()),
        text if text.starts_with('-') => Some("no-cache".to_owned()),
        text => Some(format!("max-age={}", seconds(text)?)),
    })
}

/// Adds what `expires` says by the media type, with a `map` from `$sent_http_content_type`. Returns
/// false if that has no equivalent.
fn by_type(scope: &Scope<'_>, variable: &str, source: Source, rule: &mut RuleDraft) -> bool {
    let types = ["$sent_http_content_type", "$upstream_http_content_type"];
    let is_map = |one: &&Directive| types.contains(&one.arg(0)) && one.arg(1) == variable;
    let Some(map) = scope.maps().find(is_map) else { return false };
    let kind = |key: &str| match key.strip_prefix('~') {
        _ if key == "default" => Some("*".to_owned()),
        None => Some(key.to_owned()),
        Some(regex) => {
            let regex = regex.trim_start_matches('*');
            let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '-');
            let text = regex.trim_start_matches('^');
            let start = if text.len() < regex.len() { "" } else { "*" };
            text.chars().all(is_plain).then(|| format!("{start}{text}*"))
        }
    };
    let mut all = Vec::new();
    for entry in map.inner() {
        match (kind(&entry.name), cache_control(entry.arg(0))) {
            (Some(kind), Some(value)) => all.push((kind, value)),
            _ => return false,
        }
    }
    if matches!(source, Source::Rule(_)) {
        return false;
    }
    // The first type that fits counts in nginx; here the last entry does.
    all.sort_by_key(|(kind, _)| kind != "*");
    let has_default = all.first().is_some_and(|(kind, value)| kind == "*" && value.is_some());
    if has_default && all.iter().any(|(_, value)| value.is_none()) {
        return false;
    }
    for (kind, value) in all {
        let Some(value) = value else { continue };
        let mut conditions = format!("statuses = {}", list(&ADDED));
        let others = cache_controls(scope).into_iter().filter(|value| !value.contains('$'));
        let value = std::iter::once(value.as_str()).chain(others).collect::<Vec<_>>().join(", ");
        if kind != "*" {
            let test = format!("Content-Type: {kind}");
            conditions.push_str(&format!(", headers = {}", list(&[test])));
        }
        rule.client_set_if(&conditions, &format!("Cache-Control: {value}"));
    }
    true
}

fn seconds(text: &str) -> Option<u64> {
    cli::units::parse_duration(&time(text)?).map(|time| time.as_secs())
}

/// Adds a field of a response. What is stored is judged without it.
fn add(key: &str, value: &str, is_always: bool, source: Source, rule: &mut RuleDraft) {
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
        Source::If => rule.client_set_if(&format!("statuses = {}", list(&ADDED)), &entry),
        // nginx writes variables for each client.
        Source::Stored if is_judged(key) || value.contains('{') => {
            rule.client_set_if(&format!("statuses = {}", list(&ADDED)), &entry);
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
    out.set("caching.targets", list(&["x-accel-expires"]));
    lifetimes(scope, rule, out);
    stale(scope, inactive, rule);
    key(scope, rule, out);
    if let Some(methods) = scope.get("proxy_cache_methods") {
        for method in methods.args.iter().filter(|name| !matches!(name.as_str(), "GET" | "HEAD")) {
            let name = format!("proxy_cache_methods {method}");
            out.lose(&methods.at, &name, "only GET and HEAD are answered from the cache");
        }
    }
    let uses = scope.get("proxy_cache_min_uses");
    if let Some(uses) = uses.filter(|uses| !min_uses::is_stated(uses.arg(0), out)) {
        let reason = "only 2 for all locations has an equivalent, store.admission = \"second-hit\"";
        out.lose(&uses.at, "proxy_cache_min_uses", reason);
    }
}

/// Stores what `proxy_store` keeps as files: for good, by its path, whatever the response says.
pub fn kept(store: &Directive, rule: &mut RuleDraft, out: &mut Output) {
    let reason = "the cache has what nginx keeps as files, until it is full";
    out.note(&store.at, "proxy_store", reason);
    rule.set("default-ttl", list(&["200 3650d"]));
    for name in ["Cache-Control", "Expires", "Set-Cookie", "Vary"] {
        rule.add("answer-ignore", name);
    }
    rule.set("query-keep", "[]");
    rule.set("query-send", text("all"));
}

fn lifetimes(scope: &Scope<'_>, rule: &mut RuleDraft, out: &mut Output) {
    let ignored: Vec<String> = scope
        .all(&["proxy_ignore_headers"])
        .iter()
        .flat_map(|one| one.args.iter().map(|name| name.to_ascii_lowercase()))
        .collect();
    let ignores = |name: &str| ignored.iter().any(|one| one == name);
    let hidden = scope.all(&["proxy_hide_header"]);
    let hides = |name: &str| hidden.iter().any(|one| one.arg(0).eq_ignore_ascii_case(name));
    for name in ["Cache-Control", "Expires", "Set-Cookie", "Vary", "X-Accel-Expires"] {
        if ignores(&name.to_ascii_lowercase()) {
            rule.add("answer-ignore", name);
        }
    }
    if let Some(one) = scope.get("proxy_ignore_headers").filter(|_| ignores("set-cookie"))
        && !hides("set-cookie")
    {
        let reason = "nginx gives a stored cookie to all clients, Larder to the first alone";
        out.note(&one.at, "proxy_ignore_headers Set-Cookie", reason);
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
        rule.set("default-ttl", list(&times));
    }
}

fn stale(scope: &Scope<'_>, inactive: &str, rule: &mut RuleDraft) {
    let words = scope.get("proxy_cache_use_stale");
    let has = |word: &str| words.is_some_and(|words| words.args.iter().any(|one| one == word));
    let unreachable = if has("error") || has("timeout") { inactive } else { "0s" };
    rule.set("stale-when-unreachable", text(unreachable));
    let words = words.map(|words| words.args.as_slice()).unwrap_or_default();
    if words.iter().any(|word| word.starts_with("http_")) {
        rule.set("stale-if-error", text(inactive));
    }
    let cases: Vec<&str> = words.iter().filter_map(|word| stale_case(word)).collect();
    if !cases.is_empty() {
        rule.set("stale-if", list(&cases));
    }
    if words.iter().any(|word| word == "updating") {
        rule.set("stale-while-revalidate", text(inactive));
    }
}

/// Returns the word of `stale-if` for one of `proxy_cache_use_stale`.
fn stale_case(word: &str) -> Option<&str> {
    match word {
        "error" => Some("unreachable"),
        "timeout" => Some("timeout"),
        word => word.strip_prefix("http_"),
    }
}

/// Makes the groups in a key without the path its path.
fn key_path(names: &[&str], rule: &mut RuleDraft, key: &Directive, out: &mut Output) {
    let groups = names.iter().filter(|name| name.parse::<u8>().is_ok());
    let captures: Vec<String> = groups.map(|group| format!("{{capture.{group}}}")).collect();
    if captures.is_empty() {
        return;
    }
    if rule.when.get("paths").is_some_and(|paths| paths.iter().all(|path| path.starts_with('~'))) {
        rule.set("key-path", text(&format!("/{}", captures.join("/"))));
    } else {
        let reason = "the whole path is the key: paths with the same groups are stored apart";
        out.note(&key.at, "proxy_cache_key", reason);
    }
}

/// Returns the names of the variables in a key.
fn key_names(key: &Directive) -> Vec<String> {
    let joined = key.args.join("").replace("${", "$").replace('}', "");
    let name = |part: &str| {
        let end = part.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        part[..end.unwrap_or(part.len())].to_owned()
    };
    joined.split('$').skip(1).map(name).collect()
}

/// Returns the spellings of a cookie's name in a key: nginx compares it in either case.
fn spellings(cookie: &str) -> Vec<String> {
    let mut all = vec![cookie.to_owned()];
    for other in [cookie.to_ascii_lowercase(), cookie.to_ascii_uppercase()] {
        if !all.contains(&other) {
            all.push(other);
        }
    }
    all
}

/// Returns the requests with a cookie of the key in a spelling that the key does not have.
fn other_spellings(scope: &Scope<'_>) -> Alternatives {
    let names = scope.get("proxy_cache_key").map(key_names).unwrap_or_default();
    let cookies = names.iter().filter_map(|name| name.strip_prefix("cookie_"));
    let test = |cookie: &str| {
        let known = spellings(cookie).join("|");
        let has = |name: &str| format!("Cookie: ~(?:^|[;,] *){name} *=");
        let tests = [has(&format!("(?i:{cookie})")), format!("!{}", has(&format!("(?:{known})")))];
        Tests(vec![("headers".to_owned(), tests.to_vec())])
    };
    Alternatives::any_of(cookies.map(test).collect())
}

fn key(scope: &Scope<'_>, rule: &mut RuleDraft, out: &mut Output) {
    let Some(key) = scope.get("proxy_cache_key") else {
        // The key is the URL that is asked for.
        if rule.has("remove-query") {
            rule.set("query-keep", "[]");
        }
        return;
    };
    const PLAIN: [&str; 15] = [
        "request_uri",
        "request_method",
        "scheme",
        "http_x_forwarded_proto",
        "proxy_host",
        "host",
        "hostname",
        "http_host",
        "server_name",
        "is_args",
        "args",
        "query_string",
        "uri",
        "server_port",
        // Ranges are stored in parts.
        "slice_range",
    ];
    let names = key_names(key);
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    // A group is a part of the path, unless an `if` has expressions of its own.
    let has_if = scope.block().iter().any(|one| one.name == "if");
    let is_plain = |name: &&str| PLAIN.contains(name) || (!has_if && name.parse::<u8>().is_ok());
    let has_query = ["request_uri", "args", "query_string"].iter().any(|name| names.contains(name));
    let has_path = ["request_uri", "uri"].iter().any(|name| names.contains(name));
    if !has_path {
        key_path(&names, rule, key, out);
    }
    let mut parameters: Vec<&str> = Vec::new();
    for name in names.into_iter().filter(|name| !is_plain(name)) {
        if forwarded::is_removed(name) {
            rule.set("bypass", "true");
            let reason = format!("${name} {}: the cache is not used here", forwarded::REASON);
            out.lose(&key.at, "proxy_cache_key", &reason);
        } else if let Some(field) = name.strip_prefix("http_") {
            rule.add("key-headers", field.replace('_', "-"));
        } else if let Some(parameter) = name.strip_prefix("arg_") {
            parameters.push(parameter);
        } else if let Some(cookie) = name.strip_prefix("cookie_") {
            let spellings = spellings(cookie);
            if spellings.len() > 1 {
                let reason = "cookies with the name in small or capital letters; the cache is not \
                              used for other spellings";
                out.note(&key.at, &format!("proxy_cache_key $cookie_{cookie}"), reason);
            }
            spellings.into_iter().for_each(|cookie| rule.add("key-cookies", cookie));
        } else if scope.has_key_class(name) {
            rule.add("key-classes", name);
        } else {
            rule.set("bypass", "true");
            let reason = format!("${name} cannot be part of the key: the cache is not used here");
            out.lose(&key.at, "proxy_cache_key", &reason);
        }
    }
    if !has_query {
        rule.set("query-keep", list(&parameters));
        rule.set("query-send", text("all"));
    }
}

/// Pushes the rules of `proxy_cache_bypass` and `proxy_no_cache` for a location.
pub fn bypasses(place: &Place<'_, '_>, name: &str, out: &mut Output) {
    let Place { when, scope, variables, .. } = place;
    let tokens = |name| -> Vec<String> {
        let all = scope.all(&[name]);
        all.iter().flat_map(|one| one.args.clone()).collect()
    };
    let (bypass, mut no_store) = (tokens("proxy_cache_bypass"), tokens("proxy_no_cache"));
    unstored_by_response(place, name, &mut no_store, out);
    let mut both = other_spellings(scope);
    let (mut unstored, mut refreshed) = (Alternatives::default(), Alternatives::default());
    let at = scope.get("proxy_cache_bypass").or(scope.get("proxy_no_cache"));
    let at = at.map(|one| one.at.clone()).unwrap_or_default();
    let mut closed = false;
    for token in bypass.iter().chain(no_store.iter().filter(|token| !bypass.contains(token))) {
        let is_bypass = bypass.contains(token);
        let directive = if is_bypass { "proxy_cache_bypass" } else { "proxy_no_cache" };
        match truth(token, variables) {
            Ok(found) => {
                if let Some(why) = &found.wider {
                    out.lose(&at, &format!("{directive} {token}"), why);
                }
                match (is_bypass, no_store.contains(token)) {
                    (false, _) => unstored.extend(found),
                    (true, false) if !is_personal(&found) => refreshed.extend(found),
                    (true, is_same) => {
                        both.extend(found);
                        if !is_same {
                            let reason = "what depends on cookies or credentials is not stored, \
                                          and replaces no stored response";
                            out.note(&at, &format!("{directive} {token}"), reason);
                        }
                    }
                }
            }
            Err(why) => {
                let reason = format!("{why}: the cache is not used here");
                out.lose(&at, &format!("{directive} {token}"), &reason);
                closed = true;
            }
        }
    }
    if closed {
        both = Alternatives::of(Tests::default());
    }
    for (found, key, value, what) in [
        (both, "bypass", "true", "bypass"),
        (unstored, "store", "false", "not stored"),
        (refreshed, "refresh", "true", "refresh"),
    ] {
        if found.any.is_empty() {
            continue;
        }
        let mut rule = RuleDraft::new(&format!("{name} {what}"), when);
        let is_for_all = found.any.iter().any(|test| test.0.is_empty());
        // Where both cannot be stated, the cache is not used for the location.
        rule.any = match (is_for_all, place.any.is_empty()) {
            (true, _) => place.any.to_vec(),
            (false, true) => found.any,
            _ => both_of(&found.any, place.any),
        };
        rule.continues = true;
        rule.set(key, value);
        rule.push(out);
    }
}

/// Pushes the rule of fields of responses that are not stored, and takes their variables out.
fn unstored_by_response(
    place: &Place<'_, '_>,
    name: &str,
    tokens: &mut Vec<String>,
    out: &mut Output,
) {
    let mut entries = Vec::new();
    tokens.retain(|token| {
        let field = token.strip_prefix("$upstream_http_");
        let is_name = |name: &&str| name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        let Some(field) = field.filter(is_name) else { return true };
        // Its value is neither empty nor 0.
        let test = format!("{}: ~[^0]|..", field.replace('_', "-"));
        entries.push(format!("{{ headers = {}, store = false }}", list(&[test])));
        false
    });
    if !entries.is_empty() {
        let mut rule = RuleDraft::new(&format!("{name} not stored"), place.when);
        rule.any = place.any.to_vec();
        rule.continues = true;
        rule.set("responses", format!("[{}]", entries.join(", ")));
        rule.push(out);
    }
}

/// Returns whether a condition looks at what tells clients apart, or may: classes.
fn is_personal(found: &Alternatives) -> bool {
    let names_client = |value: &String| {
        let name = value.trim_start_matches('!').split(':').next().unwrap_or_default();
        name.eq_ignore_ascii_case("cookie") || name.eq_ignore_ascii_case("authorization")
    };
    found.any.iter().flat_map(|test| &test.0).any(|(key, values)| {
        matches!(key.trim_start_matches("not-"), "cookies" | "classes")
            || (key.ends_with("headers") && values.iter().any(names_client))
    })
}

fn both_of(found: &Vec<Tests>, around: &[Tests]) -> Vec<Tests> {
    both(found, &around.to_vec()).unwrap_or_else(|_| around.to_vec())
}
