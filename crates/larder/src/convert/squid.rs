//! Squid: `squid.conf` of a forward proxy, or of an accelerator.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::convert::nginx::values::braced;
use crate::convert::output::{Output, Table, list, text};
use crate::convert::rule_draft::{RuleDraft, Tests};
use crate::convert::source::{self, At};
use crate::convert::squid::decisions::Decisions;
use crate::convert::squid::line::Line;
use crate::convert::squid::needless::NEEDLESS;
use crate::convert::squid::peers::Peers;
use crate::convert::squid::refresh_pattern::RefreshPatterns;
use crate::convert::squid::settings::{access_log, cache_dir, max_body, size, time};
use crate::convert::squid::urls::{URLS, WHOLE_URLS};

mod decisions;
mod fields;
mod line;
mod needless;
mod peers;
mod refresh_pattern;
mod settings;
#[cfg(test)]
mod tests;
mod url_parts;
mod urls;

/// Lists that requests or responses have to pass beside `http_access`.
const FURTHER_ACCESS: &[&str] =
    &["miss_access", "http_reply_access", "adapted_http_access", "http_access2"];

/// Depth of nested includes.
const INCLUDE_DEPTH_MAX: usize = 16;
/// Most lines of all files.
const LINES_MAX: usize = 500_000;

/// Converts a file. The error is a sentence.
pub fn convert(path: &Path, source: &str) -> Result<Output, String> {
    let (mut out, mut lines) = (Output::default(), Vec::new());
    read(path, source, &mut vec![path.to_owned()], &mut lines, &mut out)?;
    let lines = line::without_conditional(lines, &mut out);
    let mut squid = Squid::default();
    lines.iter().for_each(|line| squid.acl(line));
    let is_accelerator =
        lines.iter().any(|line| line.word(0) == "http_port" && line.words.iter().any(is_accel));
    squid.is_accelerator = is_accelerator;
    if is_accelerator {
        out.set("forwarded.add", list(&["x-forwarded-for"]));
    }
    squid.further_access(&lines, &mut out);
    for line in &lines {
        squid.line(line, &mut out);
    }
    squid.finish(&mut out);
    Ok(out)
}

fn is_accel(word: &String) -> bool {
    word == "accel" || word == "vhost" || word.starts_with("defaultsite=")
}

fn read(
    path: &Path,
    source: &str,
    open: &mut Vec<PathBuf>,
    lines: &mut Vec<Line>,
    out: &mut Output,
) -> Result<(), String> {
    let file: Arc<str> = path.display().to_string().into();
    let mut joined = String::new();
    for (number, line) in source.lines().enumerate() {
        // Squid skips such lines, and spaces before a line, before it joins lines.
        let line = line.trim_start();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(begin) = line.strip_suffix('\\') {
            joined.push_str(begin);
            continue;
        }
        joined.push_str(line);
        let text = std::mem::take(&mut joined);
        let text = text.trim();
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        let at = At { file: file.clone(), line: number + 1 };
        let words: Vec<String> = text
            .split_whitespace()
            .take_while(|word| !word.starts_with('#'))
            .map(str::to_owned)
            .collect();
        if lines.len() >= LINES_MAX {
            return Err(format!("{file}:{}: too many lines", number + 1));
        }
        if words[0] != "include" {
            lines.push(Line { at, words, is_conditional: false });
            continue;
        }
        for pattern in &words[1..] {
            let base = path.parent().unwrap_or(Path::new(""));
            let found = glob::glob(&base.join(pattern).to_string_lossy());
            let found: Vec<PathBuf> =
                found.map(|all| all.filter_map(Result::ok).collect()).unwrap_or_default();
            if found.is_empty() && !pattern.contains('*') {
                let reason = "there is no such file: nothing is allowed from here on, nor stored";
                out.lose(&at, "include", reason);
                for name in ["http_access", "cache"] {
                    let words = [name, "deny", "all"].map(str::to_owned).to_vec();
                    lines.push(Line { at: at.clone(), words, is_conditional: false });
                }
            }
            for other in found {
                if open.contains(&other) || open.len() > INCLUDE_DEPTH_MAX {
                    return Err(format!("{file}:{}: files include each other", number + 1));
                }
                let text = source::read(&other)?;
                open.push(other.clone());
                read(&other, &text, open, lines, out)?;
                open.pop();
            }
        }
    }
    Ok(())
}

/// An access list: keys of `[[access]]` and of rules, each with values. A key without values
/// matches no request, a list without keys every request. The error says why there is no
/// equivalent.
type Acl = Result<Vec<(&'static str, Vec<String>)>, String>;

/// Returns the values, with the lines of a file (`@FILE`) in its place.
fn lines_of(values: &[String]) -> Result<Vec<String>, String> {
    let mut all = Vec::new();
    for value in values {
        let Some(path) = value.strip_prefix('@') else {
            all.push(value.clone());
            continue;
        };
        all.extend(entries(path)?);
    }
    match all.len() {
        ..=EXPRESSIONS_MAX => Ok(all),
        _ => {
            Err(format!("more than {EXPRESSIONS_MAX} expressions: each is tried for each request"))
        }
    }
}

/// Returns the entries of a file.
fn entries(path: &str) -> Result<Vec<String>, String> {
    let text = source::read(Path::new(path))?;
    let entry = |line: &str| line.split('#').next().unwrap_or_default().trim().to_owned();
    let is_entry = |line: &&str| !line.trim().is_empty() && !line.trim().starts_with('#');
    Ok(text.lines().filter(is_entry).map(entry).collect())
}

/// Returns the networks of a list. A file stays one if Larder reads its entries as Squid does.
fn networks(values: &[String]) -> Option<Vec<String>> {
    let mut all = Vec::new();
    for value in values {
        let Some(path) = value.strip_prefix('@') else {
            all.extend(network(value)?);
            continue;
        };
        let Ok(entries) = entries(path) else {
            all.push(value.clone());
            continue;
        };
        let found = entries.iter().map(|entry| network(entry)).collect::<Option<Vec<_>>>()?;
        let is_same = |(entry, one): (&String, &Vec<String>)| one == std::slice::from_ref(entry);
        match !entries.is_empty() && entries.iter().zip(&found).all(is_same) {
            true => all.push(value.clone()),
            false => all.extend(found.concat()),
        }
    }
    Some(all)
}

/// Key of tests of fields.
const HEADERS: &str = "headers";

/// Returns whether only a rule has tests of this kind, and not `[[access]]`.
fn is_of_rules(key: &str) -> bool {
    matches!(key, URLS | WHOLE_URLS | HEADERS)
}

/// Most expressions of one list.
const EXPRESSIONS_MAX: usize = 1000;

/// Returns a list in a file as Larder names it.
fn from_file(value: &str) -> String {
    let inner = value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    inner.map_or_else(|| value.to_owned(), |path| format!("@{path}"))
}

/// One list of an access rule: whether none of its values may match, the key, and the values.
type Part = (bool, &'static str, Vec<String>);

#[derive(Default)]
struct Squid {
    acls: BTreeMap<String, Acl>,
    /// Most connections of a client, by the names of lists.
    connections: BTreeMap<String, u64>,
    is_accelerator: bool,
    peers: Peers,
    listens: Vec<String>,
    denies_all: bool,
    /// All requests are allowed from here on.
    allows_all: bool,
    /// The last line of `http_access` denies, so that Squid allows what no line decides on.
    ends_open: bool,
    /// Tunnels are denied from here on.
    denies_tunnels: bool,
    /// The permissions that were read, as conditions of a rule; an error is why one is none.
    allowed: Vec<Result<Tests, String>>,
    /// Lists of which later permissions need a value: all else is denied before.
    required: Vec<(&'static str, Vec<String>)>,
    refreshes: RefreshPatterns,
    /// The requests that are answered from the cache, that hits are sent to, and whose responses
    /// are stored, by directive.
    cached: BTreeMap<&'static str, Decisions>,
}

/// Reads a line `forwarded_for`.
fn forwarded_for(line: &Line, out: &mut Output) {
    match line.word(1) {
        "on" => out.set("forwarded.add", list(&["x-forwarded-for"])),
        "delete" | "off" => {
            out.set("forwarded.add", "[]".to_owned());
            if line.word(1) == "off" {
                let reason = "X-Forwarded-For: unknown is not sent: no such field";
                out.lose(&line.at, "forwarded_for off", reason);
            }
        }
        word => {
            let name = format!("forwarded_for {word}");
            out.lose(&line.at, &name, "the field is added to, or not sent");
        }
    }
}

/// Returns the tests that a line `acl NAME TYPE VALUE…` states.
fn tests_of(line: &Line) -> Acl {
    let values: Vec<String> =
        line.words.iter().skip(3).filter(|word| !word.starts_with('-')).cloned().collect();
    let ignores_case = line.words.iter().skip(3).any(|word| word == "-i");
    let regex = |text: &String| {
        let case = if ignores_case { "(?i)" } else { "" };
        format!("{case}{text}")
    };
    let values: Vec<String> = values.iter().map(|value| from_file(value)).collect();
    let is_file = values.iter().any(|value| value.starts_with('@'));
    match line.word(2) {
        "src" if values.iter().any(|one| one == "all") => Ok(Vec::new()),
        "src" => networks(&values)
            .map(|all| vec![("clients", all)])
            .ok_or_else(|| "expected networks".to_owned()),
        "dst" => networks(&values)
            .map(|all| vec![("destinations", all)])
            .ok_or_else(|| "expected networks".to_owned()),
        "urlpath_regex" | "url_regex" => match lines_of(&values) {
            Ok(lines) => {
                let all: Result<Vec<_>, _> =
                    lines.iter().map(|line| urls::posix(&regex(line))).collect();
                let key = if line.word(2) == "url_regex" { WHOLE_URLS } else { URLS };
                all.map(|all| vec![(key, all)])
            }
            Err(why) => Err(why),
        },
        "browser" | "req_header" => {
            let (field, start) = match line.word(2) {
                "browser" => ("User-Agent", 0),
                _ => (values.first().map_or("", String::as_str), 1),
            };
            let lines = lines_of(values.get(start..).unwrap_or_default());
            let all = lines.map(|all| all.iter().map(regex).collect::<Vec<_>>());
            let test = all.and_then(|all| fields::test(field, &all));
            test.map(|test| vec![(HEADERS, vec![test])])
        }
        kind if is_file && kind != "dstdomain" => {
            Err(format!("a file of acl {kind} has no equivalent"))
        }
        "dstdomain" => {
            let is_empty = |one: &String| {
                one.strip_prefix('@').is_some_and(|path| entries(path) == Ok(Vec::new()))
            };
            Ok(vec![("hosts", values.into_iter().filter(|one| !is_empty(one)).collect())])
        }
        "port" => Ok(vec![("ports", values)]),
        "method" => Ok(vec![("methods", values)]),
        kind => Err(format!("acl {kind} has no equivalent")),
    }
}

impl Squid {
    /// Reads a line `acl NAME TYPE VALUE…`; lines of one name add up.
    fn acl(&mut self, line: &Line) {
        if line.word(0) != "acl" || line.word(1) == "manager" {
            return;
        }
        let name = line.word(1).to_owned();
        if line.is_conditional {
            self.acls.insert(name, Err("the acl is within if".to_owned()));
            return;
        }
        if let (true, Ok(most)) = (line.word(2) == "maxconn", line.word(3).parse()) {
            self.acls.insert(name.clone(), Err("acl maxconn is for denials".to_owned()));
            self.connections.insert(name, most);
            return;
        }
        // The lines that use a lost list are reported.
        let found = tests_of(line);
        match (self.acls.get_mut(&name), found) {
            // All tests of fields hold in a rule.
            (Some(Ok(old)), Ok(new)) if old.iter().chain(&new).any(|(key, _)| *key == HEADERS) => {
                let why = "tests of fields in several lines have no equivalent";
                self.acls.insert(name, Err(why.to_owned()));
            }
            // One of the lines is for all.
            (Some(Ok(old)), Ok(new)) if old.is_empty() || new.is_empty() => old.clear(),
            (Some(Ok(old)), Ok(new)) => {
                for (key, values) in new {
                    match old.iter_mut().find(|(known, _)| *known == key) {
                        Some((_, all)) => all.extend(values),
                        None => old.push((key, values)),
                    }
                }
            }
            // A line of the list is lost.
            (Some(Err(_)), _) => {}
            (_, found) => {
                self.acls.insert(name, found);
            }
        }
    }

    fn line(&mut self, line: &Line, out: &mut Output) {
        match line.word(0) {
            "acl" => {}
            "http_port" | "https_port" => self.port(line, out),
            "cache_peer" => self.peers.add(line, out),
            "cache_peer_access" => {
                let when = self.rule_when(line.words.get(3..).unwrap_or_default());
                self.peers.access(line, when, out);
            }
            "cache_peer_domain" => self.peers.domains(line, out),
            "cache_dir" => cache_dir(line, out),
            "cache_mem" => size(line, "memory", 16 << 20, out),
            "maximum_object_size" => size(line, "store.max-object", 0, out),
            "http_access" => {
                let denies = line.word(1) == "deny";
                self.ends_open = denies && (self.ends_open || !line.is_conditional);
                self.access(line, out);
            }
            "refresh_pattern" => self.refreshes.read(line, out),
            "cache" | "no_cache" | "send_hit" | "store_miss" => self.cache(line, out),
            "visible_hostname" => {
                out.set("pseudonym", text(line.word(1).split('.').next().unwrap_or_default()));
            }
            "auth_param" => {
                out.lose_once(&line.at, "auth_param", "clients are not asked for names")
            }
            "follow_x_forwarded_for" => self.forwarded_by(line, out),
            // A name is that of a page, as those of error_directory.
            "deny_info" if line.word(1).contains(':') || line.word(1) == "TCP_RESET" => {
                out.lose(&line.at, "deny_info", "denied requests get 403 and a short text");
            }
            "deny_info" => {}
            // An accelerator's requests go to its peers.
            "never_direct" if self.is_accelerator || line.word(1) == "deny" => {}
            "icp_access" | "htcp_access" | "snmp_access" => {}
            name if FURTHER_ACCESS.contains(&name) => {}
            "request_header_replace" => header_replace(line, out),
            "request_header_add" | "reply_header_add" => {
                fields::added(line, |lists| self.rule_when(lists), out);
            }
            "negative_ttl" => time(line, &["caching.error-ttl"], out),
            "request_body_max_size" => max_body(line, out),
            "via" if line.word(1) == "off" => out.set("forwarded.via", "false".to_owned()),
            "via" => {}
            "forwarded_for" => forwarded_for(line, out),
            "access_log" | "cache_access_log" => access_log(line, out),
            "request_header_access" | "reply_header_access" => self.header_access(line, out),
            "connect_timeout" => time(line, &["upstream.connect-timeout"], out),
            "read_timeout" => {
                time(line, &["upstream.head-timeout", "upstream.body-timeout"], out);
            }
            "request_timeout" => time(line, &["client.head-timeout"], out),
            "client_idle_pconn_timeout" => time(line, &["client.idle-timeout"], out),
            "server_idle_pconn_timeout" => time(line, &["upstream.idle-timeout"], out),
            "shutdown_lifetime" => time(line, &["drain"], out),
            "dns_nameservers" => {
                let all: Vec<String> = line.words[1..]
                    .iter()
                    .filter_map(|word| word.parse::<std::net::IpAddr>().ok())
                    .map(|address| std::net::SocketAddr::new(address, 53).to_string())
                    .collect();
                out.set("upstream.resolver", text("dns"));
                out.set("upstream.dns-servers", list(&all));
            }
            name if NEEDLESS.iter().any(|(known, _)| *known == name) => {}
            name => out.lose(&line.at, name, "unknown directive, or without an equivalent"),
        }
    }

    fn port(&mut self, line: &Line, out: &mut Output) {
        let place = line.word(1);
        if line.word(0) == "https_port" {
            return out.lose(&line.at, "https_port", "TLS needs [[listener]] and [[certificate]]");
        }
        let address = match place.parse::<u16>() {
            Ok(port) => format!("[::]:{port}"),
            Err(_) => place.to_owned(),
        };
        match address.parse::<std::net::SocketAddr>() {
            Ok(_) => self.listens.push(address),
            Err(_) => out.lose(&line.at, "http_port", "expected a port, or an address and a port"),
        }
        for word in line.words.iter().skip(2) {
            match word.split('=').next().unwrap_or_default() {
                "accel" | "vhost" | "defaultsite" | "no-vhost" | "name" | "tcpkeepalive" => {}
                option => {
                    let name = format!("http_port {option}");
                    out.lose(&line.at, &name, "no equivalent of this option");
                }
            }
        }
    }

    /// Returns the lists of a line behind its action, `None` if one is empty and so matches
    /// nothing; an error is why there is no equivalent.
    fn lists(&self, words: &[String]) -> Result<Option<Vec<Part>>, String> {
        let mut all = Vec::new();
        let is_empty = |word: &String| {
            let found = self.acls.get(word.as_str());
            matches!(found, Some(Ok(lists)) if lists.iter().any(|(_, values)| values.is_empty()))
        };
        if words.iter().any(is_empty) {
            return Ok(None);
        }
        for word in words {
            let (name, is_not) = match word.strip_prefix('!') {
                Some(name) => (name, true),
                None => (word.as_str(), false),
            };
            let found = match (self.acls.get(name), name) {
                (Some(found), _) => found.clone()?,
                (None, "all") => Vec::new(),
                (None, "localhost") => {
                    vec![("clients", vec!["127.0.0.1".to_owned(), "::1".to_owned()])]
                }
                (None, "to_localhost") => {
                    vec![("destinations", vec!["127.0.0.0/8".to_owned(), "::1".to_owned()])]
                }
                (None, "CONNECT") => vec![("methods", vec!["CONNECT".to_owned()])],
                (None, "manager") if is_not => continue,
                (None, "manager") => return Err("the admin interface has an address".to_owned()),
                (None, name) => return Err(format!("there is no acl {name}")),
            };
            if is_not && found.is_empty() {
                return Ok(None);
            }
            // No value is in an empty list.
            let found = found.into_iter().filter(|(_, values)| !values.is_empty());
            all.extend(found.map(|(key, values)| (is_not, key, values)));
        }
        Ok(Some(all))
    }

    /// Reads the lists that requests and responses pass beside `http_access`. Their denials come
    /// before its permissions.
    fn further_access(&mut self, lines: &[Line], out: &mut Output) {
        for name in FURTHER_ACCESS {
            let all: Vec<&Line> = lines.iter().filter(|line| line.word(0) == *name).collect();
            let allowing = all.iter().position(|line| line.word(1) == "allow");
            let (before, behind) = all.split_at(allowing.unwrap_or(all.len()));
            for line in before {
                if *name == "miss_access" {
                    let reason = "hits are denied as well";
                    out.lose(&line.at, &line.words.join(" "), reason);
                }
                self.access(line, out);
            }
            let denying = behind.iter().find(|line| line.word(1) == "deny");
            let allows_all = |line: &&Line| line.word(2) == "all" && line.words.len() == 3;
            if let (Some(line), false) = (denying, behind.first().is_some_and(allows_all)) {
                let why = "behind a permission";
                self.unstated(line, &line.words.join(" "), why, "deny", out);
            }
        }
    }

    /// Reads `http_access`. `deny !LIST` becomes ports and lists to allow before a denial.
    fn access(&mut self, line: &Line, out: &mut Output) {
        let what = line.words.join(" ");
        let action = line.word(1).to_owned();
        // The admin interface is not reached by the proxy's address.
        let lists = line.words.get(2..).unwrap_or_default();
        let is_left_out = line.is_conditional && action != "deny";
        if is_left_out || lists.iter().any(|word| word == "manager") || self.limits(line, out) {
            return;
        }
        let line = &match action.as_str() {
            "deny" => self.with_known(line, out),
            _ => line.clone(),
        };
        let found = self.lists(line.words.get(2..).unwrap_or_default());
        let mut lists = match found {
            Ok(Some(lists)) => lists,
            Ok(None) => return,
            Err(why) if action == "deny" => {
                let reason = format!("{why}: nothing is allowed from here on");
                out.lose(&line.at, &what, &reason);
                return deny_all(out);
            }
            Err(why) => return out.lose(&line.at, &what, &why),
        };
        if let ("deny", [(true, key @ ("hosts" | "clients" | "destinations"), values)]) =
            (action.as_str(), lists.as_slice())
        {
            return self.required.push((key, values.clone()));
        }
        match self.denies_urls(line, &lists, out) {
            Ok(true) => return,
            Ok(false) => {}
            Err(why) => return self.unstated(line, &what, &why, &action, out),
        }
        if action == "allow"
            && let Err(why) = self.require(&mut lists)
        {
            return out.lose(&line.at, &what, &why);
        }
        let mut table = Table::new("access");
        table.set("action", text(&action));
        for (is_not, key, values) in &lists {
            let others = if *is_not { other_ports(key, values) } else { Some(values.clone()) };
            let is_twice = table.keys.iter().any(|(known, _)| known == key);
            match others.filter(|_| !is_twice && !is_of_rules(key)) {
                Some(values) => table.set(key, list(&values)),
                None => {
                    if action == "deny" && self.denies_by_rule(line, &lists, out) == Ok(true) {
                        return;
                    }
                    let reason = format!("no equivalent of this test of {key}");
                    return self.unstated(line, &what, &reason, &action, out);
                }
            }
        }
        if action == "allow" {
            let when = self.rule_when(line.words.get(2..).unwrap_or_default());
            self.allowed.extend(when.transpose());
            purgers(&lists, out);
        }
        let ports = table.keys.iter_mut().find(|(key, _)| key == "ports");
        if let Some((_, value)) = ports {
            *value = value.replace("\"0-0\"", "");
        }
        self.denies_all |= lists.is_empty() && action == "deny";
        self.allows_all |= lists.is_empty() && action == "allow";
        out.push(table);
    }

    /// Returns a denial without the lists that have no equivalent, if others are left: it is for
    /// more requests then.
    fn with_known(&self, line: &Line, out: &mut Output) -> Line {
        let words = line.words.get(2..).unwrap_or_default();
        let is_known = |word: &&String| self.lists(std::slice::from_ref(word)).is_ok();
        let known: Vec<String> = words.iter().filter(is_known).cloned().collect();
        let lists = self.lists(&known);
        match (self.lists(words), lists) {
            (Err(why), Ok(lists)) if lists.as_ref().is_none_or(|lists| !lists.is_empty()) => {
                let reason = format!("{why}: denied whatever it says");
                out.lose(&line.at, &line.words.join(" "), &reason);
                let words = [&line.words[..2], &known].concat();
                Line { words, ..line.clone() }
            }
            _ => line.clone(),
        }
    }

    /// Reads a denial of more connections than a list of `maxconn` has.
    fn limits(&self, line: &Line, out: &mut Output) -> bool {
        let words = line.words.get(2..).unwrap_or_default();
        let found = words.iter().find_map(|word| Some((word, self.connections.get(word)?)));
        let Some((name, most)) = found.filter(|_| line.word(1) == "deny") else { return false };
        let others: Vec<String> = words.iter().filter(|word| *word != name).cloned().collect();
        let Ok(Some(when)) = self.rule_when(&others) else { return false };
        let what = line.words.join(" ");
        out.note(&line.at, &what, "requests at the same time are counted, not connections");
        let mut rule = RuleDraft::new(&what, &when);
        rule.continues = true;
        rule.set("limit-concurrent", most.max(&1).to_string());
        rule.push(out);
        true
    }

    /// Adds the lists of which permissions need a value. The error says why the permission is lost.
    fn require(&self, lists: &mut Vec<Part>) -> Result<(), String> {
        for (key, values) in &self.required {
            let own = lists.iter_mut().find(|(_, known, _)| known == key);
            let Some((is_not, _, own)) = own else {
                lists.push((false, key, values.clone()));
                continue;
            };
            let both = common(own, values).filter(|_| !*is_not);
            *own = both.ok_or_else(|| format!("two tests of {key}: not allowed"))?;
            if own.is_empty() {
                return Err(format!("another line denies all these {key}"));
            }
        }
        Ok(())
    }

    /// Writes a denial that is about URLs or fields as a rule.
    fn denies_urls(
        &mut self,
        line: &Line,
        lists: &[Part],
        out: &mut Output,
    ) -> Result<bool, String> {
        let is_of_rules = lists.iter().any(|(_, key, _)| is_of_rules(key));
        match line.word(1) == "deny" && is_of_rules {
            true => self.denies_by_rule(line, lists, out),
            false => Ok(false),
        }
    }

    /// Writes a denial as a rule, which comes behind all of `[[access]]`: it exempts the requests
    /// that are allowed before it.
    fn denies_by_rule(
        &mut self,
        line: &Line,
        lists: &[Part],
        out: &mut Output,
    ) -> Result<bool, String> {
        let Some(mut when) = self.rule_when(line.words.get(2..).unwrap_or_default())? else {
            return Ok(false);
        };
        let what = line.words.join(" ");
        for allowed in &self.allowed {
            match allowed.as_ref().map(|tests| tests.0.as_slice()) {
                Ok(tests) if has_only_unseen_methods(tests) => {}
                Ok([]) => return Ok(true),
                Ok([(key, values)]) if !key.starts_with("not-") => {
                    when.add(&format!("not-{key}"), values.iter().cloned());
                }
                _ => {
                    let reason = "it is also for requests that a line before it allows";
                    out.lose(&line.at, &what, reason);
                }
            }
        }
        self.deny_tunnels(line, lists, out);
        let mut rule = RuleDraft::new(&what, &when);
        rule.continues = true;
        rule.set("deny", "true");
        rule.push(out);
        Ok(true)
    }

    /// Denies the tunnels that a denial may be for, since rules do not see them: those to the hosts
    /// and ports and of the clients that it names.
    fn deny_tunnels(&mut self, line: &Line, lists: &[Part], out: &mut Output) {
        let passes_tunnels = lists.iter().any(|(is_not, key, values)| match *key {
            URLS => !is_not,
            WHOLE_URLS => urls::match_no_tunnel(values) && !is_not,
            "methods" => !is_not && !values.iter().any(|name| name == "CONNECT"),
            _ => false,
        });
        // An accelerator has no tunnels.
        if passes_tunnels || self.is_accelerator || self.denies_tunnels {
            return;
        }
        let mut table = Table::new("access");
        table.set("action", text("deny"));
        table.set("methods", list(&["CONNECT"]));
        for (is_not, key, values) in lists {
            let is_named = matches!(*key, "clients" | "hosts" | "destinations" | "ports");
            if is_named && !is_not && !table.keys.iter().any(|(known, _)| known == key) {
                table.set(key, list(values));
            }
        }
        self.denies_tunnels = table.keys.len() == 2;
        let which = if self.denies_tunnels { "none is" } else { "none of these is" };
        let reason = format!("rules do not see tunnels: {which} allowed from here on");
        out.lose(&line.at, &line.words.join(" "), &reason);
        out.push(table);
    }

    /// Reports an access rule without an equivalent; a denial then denies all.
    fn unstated(&self, line: &Line, what: &str, why: &str, action: &str, out: &mut Output) {
        if action != "deny" {
            return out.lose(&line.at, what, why);
        }
        out.lose(&line.at, what, &format!("{why}: nothing is allowed from here on"));
        deny_all(out);
    }

    /// Reads the proxies in front whose `X-Forwarded-For` counts. A denial is what Larder does.
    fn forwarded_by(&self, line: &Line, out: &mut Output) {
        let lists = self.lists(line.words.get(2..).unwrap_or_default());
        match (line.word(1), lists.as_ref().map(Option::as_deref)) {
            ("deny", Ok(Some([]))) => {}
            ("allow", Ok(Some([(false, "clients", values)])))
                if out.get("forwarded.trust").is_none() =>
            {
                out.set("forwarded.trust", list(values));
            }
            _ => out.lose(&line.at, &line.words.join(" "), "name the proxies in forwarded.trust"),
        }
    }

    /// Reads `cache`, `send_hit` and `store_miss`.
    fn cache(&mut self, line: &Line, out: &mut Output) {
        let denies = line.word(1) != "allow";
        if line.is_conditional && !denies {
            return;
        }
        let name = match line.word(0) {
            "send_hit" => "send_hit",
            "store_miss" => "store_miss",
            _ => "cache",
        };
        let when = self.rule_when(line.words.get(2..).unwrap_or_default());
        let decisions = self.cached.entry(name).or_default();
        if let Err(why) = decisions.decide(when, denies) {
            let effect = if denies { "the cache is not used" } else { "not used for these" };
            out.lose(&line.at, &line.words.join(" "), &format!("{why}: {effect}"));
        }
    }

    /// Writes the requests for which the cache is not used.
    fn uncached(&mut self, out: &mut Output) {
        for (name, decisions) in std::mem::take(&mut self.cached) {
            for when in decisions.denied() {
                let mut rule = RuleDraft::new(&format!("{name} deny"), &when);
                rule.continues = true;
                match name {
                    "store_miss" => rule.set("store", "false"),
                    _ => rule.set("bypass", "true"),
                }
                rule.push(out);
            }
        }
    }

    /// Returns access lists as the condition of a rule; `None` if they match nothing.
    fn rule_when(&self, words: &[String]) -> Result<Option<Tests>, String> {
        let mut when = Tests::default();
        let Some(lists) = self.lists(words)? else { return Ok(None) };
        for (is_not, key, values) in lists {
            if matches!(key, "destinations" | "ports") {
                return Err(format!("a rule has no test of {key}"));
            }
            if matches!(key, URLS | WHOLE_URLS) {
                let mut one = urls::of_list(key, &values)?;
                if is_not {
                    if one.get("absolute-urls").is_some() {
                        return Err("absolute-urls are without ports".to_owned());
                    }
                    one.0.iter_mut().for_each(|(key, _)| key.insert_str(0, "not-"));
                }
                when = when.and(&one).ok_or("two lists of one kind")?;
                continue;
            }
            let one = match (key, is_not) {
                (HEADERS, true) => {
                    let not = values.iter().map(|value| format!("!{value}"));
                    Tests(vec![(key.to_owned(), not.collect())])
                }
                (_, true) => Tests(vec![(format!("not-{key}"), values)]),
                (_, false) => Tests(vec![(key.to_owned(), values)]),
            };
            when = when.and(&one).ok_or("two lists of one kind")?;
        }
        Ok(Some(when))
    }

    fn header_access(&mut self, line: &Line, out: &mut Output) {
        let what = line.words.join(" ");
        let (field, action) = (line.word(1), line.word(2));
        let when = self.rule_when(line.words.get(3..).unwrap_or_default());
        let when = match (action, when) {
            ("deny", Ok(Some(when))) => when,
            (_, Ok(None)) => return,
            ("deny", Err(why)) => return out.lose(&line.at, &what, &why),
            // What is not denied is passed.
            ("allow", Ok(Some(when))) if when.0.is_empty() && field != "All" => return,
            _ => return out.lose(&line.at, &what, "only denials of a field have an equivalent"),
        };
        let key = match line.word(0) {
            "request_header_access" => "request-remove",
            _ => "client-remove",
        };
        let mut rule = RuleDraft::new(&what, &when);
        rule.continues = true;
        let is_of_connection = ["connection", "proxy-connection", "keep-alive"]
            .iter()
            .any(|name| field.eq_ignore_ascii_case(name));
        match field {
            // Larder passes none of these on.
            _ if is_of_connection => return,
            "Via" | "Age" if key == "client-remove" => {
                rule.add("hide", field.to_ascii_lowercase());
            }
            "All" | "Other" => return out.lose(&line.at, &what, "name the fields"),
            "Via" if key == "request-remove" => {
                return out.set("forwarded.via", "false".to_owned());
            }
            "X-Forwarded-For" if key == "request-remove" => {
                return out.set("forwarded.add", "[]".to_owned());
            }
            field => rule.add(key, field),
        }
        rule.push(out);
    }

    fn finish(&mut self, out: &mut Output) {
        std::mem::take(&mut self.refreshes).push(out);
        self.uncached(out);
        if self.listens.is_empty() {
            self.listens.push("[::]:3128".to_owned());
        }
        out.set("listen", list(&self.listens));
        if self.is_accelerator || !self.peers.is_empty() {
            std::mem::take(&mut self.peers).push(out);
            self.decide_rest(out);
        } else if !self.denies_all {
            // Squid denies what no rule allows.
            deny_all(out);
        }
    }

    /// Decides on the requests that no line of `http_access` decides on, which get the opposite of
    /// the last line.
    fn decide_rest(&mut self, out: &mut Output) {
        let is_open = self.ends_open && self.required.is_empty();
        if self.denies_all || self.allows_all || is_open {
            return;
        }
        let mut lists = Vec::new();
        if self.ends_open && self.require(&mut lists).is_ok() {
            let mut table = Table::new("access");
            table.set("action", text("allow"));
            lists.iter().for_each(|(_, key, values)| table.set(key, list(values)));
            out.push(table);
        }
        deny_all(out);
    }
}

/// Writes the denial of all requests.
fn deny_all(out: &mut Output) {
    let mut table = Table::new("access");
    table.set("action", text("deny"));
    out.push(table);
}

/// Returns whether tests hold only for methods that rules do not see.
fn has_only_unseen_methods(tests: &[(String, Vec<String>)]) -> bool {
    let is_unseen = |name: &String| name == "CONNECT" || name == "PURGE";
    tests.iter().any(|(key, names)| key == "methods" && names.iter().all(is_unseen))
}

/// Sets who may purge, if lists are those of the method PURGE and of clients.
fn purgers(lists: &[Part], out: &mut Output) {
    let find = |wanted: &str| lists.iter().find(|(is_not, key, _)| !is_not && *key == wanted);
    let is_purge = find("methods").is_some_and(|(.., methods)| *methods == ["PURGE"]);
    if let Some((.., clients)) = find("clients").filter(|_| is_purge) {
        out.set("purge.from", list(clients));
    }
}

/// Returns the networks that are in both lists; `None` if that is unknown.
fn common(one: &[String], other: &[String]) -> Option<Vec<String>> {
    if one == other {
        return Some(one.to_vec());
    }
    let parse = |text: &String| -> Option<ipnet::IpNet> {
        text.parse().or_else(|_| text.parse::<std::net::IpAddr>().map(ipnet::IpNet::from)).ok()
    };
    let parsed = |all: &[String]| all.iter().map(parse).collect::<Option<Vec<_>>>();
    let (one, other) = (parsed(one)?, parsed(other)?);
    let inner = |a: &ipnet::IpNet, b: &ipnet::IpNet| match a.contains(b) {
        true => Some(b.to_string()),
        false => b.contains(a).then(|| a.to_string()),
    };
    let both = one.iter().flat_map(|a| other.iter().filter_map(move |b| inner(a, b)));
    Some(both.collect())
}

/// Returns the ports that a list leaves out.
fn other_ports(key: &str, values: &[String]) -> Option<Vec<String>> {
    if key != "ports" {
        return None;
    }
    let mut ranges = Vec::new();
    for value in values {
        let (from, to) = value.split_once('-').unwrap_or((value, value));
        ranges.push((from.parse::<u32>().ok()?, to.parse::<u32>().ok()?));
    }
    ranges.sort_unstable();
    let (mut next, mut others) = (1_u32, Vec::new());
    for (from, to) in ranges {
        if from > next {
            others.push(format!("{next}-{}", from - 1));
        }
        next = next.max(to.checked_add(1)?);
    }
    if next <= 65_535 {
        others.push(format!("{next}-65535"));
    }
    (!others.is_empty()).then_some(others)
}

/// Returns an address, a network, or a range of addresses as networks.
fn network(text: &str) -> Option<Vec<String>> {
    let (address, bits) = text.split_once('/').unwrap_or((text, ""));
    // A mask such as 255.255.255.0.
    if let Ok(mask) = bits.parse::<std::net::Ipv4Addr>() {
        let address = address.parse().ok()?;
        let network = ipnet::Ipv4Net::with_netmask(address, mask).ok()?;
        return Some(vec![network.trunc().to_string()]);
    }
    if let Some((from, to)) = text.split_once('-') {
        let (from, to) = (from.parse().ok()?, to.parse().ok()?);
        let all: Vec<String> =
            ipnet::Ipv4Subnets::new(from, to, 0).take(64).map(|net| net.to_string()).collect();
        return Some(all).filter(|all| !all.is_empty());
    }
    let network = text.parse::<ipnet::IpNet>().ok().map(|network| network.trunc().to_string());
    let address = || text.parse::<std::net::IpAddr>().ok().map(|address| address.to_string());
    network.or_else(address).map(|one| vec![one])
}

/// Sets a field that `request_header_access` removes.
fn header_replace(line: &Line, out: &mut Output) {
    let mut rule = RuleDraft::new(&line.words.join(" "), &Tests::default());
    rule.continues = true;
    let value = line.words.get(2..).unwrap_or_default().join(" ");
    rule.add("request-set", format!("{}: {}", line.word(1), braced(&value)));
    rule.push(out);
}
