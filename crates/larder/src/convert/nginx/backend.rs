//! Where a location's responses come from: `proxy_pass` with its `upstream` block, or a directory.

use std::collections::BTreeMap;

use crate::convert::nginx::chosen_upstream;
use crate::convert::nginx::last_name;
use crate::convert::nginx::named_backend::NamedBackend;
use crate::convert::nginx::scope::Scope;
use crate::convert::nginx::syntax::Directive;
use crate::convert::output::{Output, list, text};
use crate::convert::units_of_others::time;

/// Origin servers of a location.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Servers {
    /// Entries of a site's `upstream`.
    pub all: Vec<String>,
    /// Settings of a site, as TOML.
    pub options: BTreeMap<&'static str, String>,
    /// `$proxy_host`.
    pub name: String,
    /// The server that requests name, in place of `all`.
    pub named: Option<NamedBackend>,
    /// The servers for values of a class, in place of `all`: the test of the class, the servers.
    pub choices: Vec<(String, Servers)>,
    /// The path in `proxy_pass`, which replaces that of the location.
    pub path: Option<String>,
    /// The path with nginx's variables, which is sent whatever the path of the location.
    pub whole_path: Option<String>,
}

/// Defaults of the settings that [`Servers::options`] may have, for sites beside one that has them.
pub const DEFAULTS: &[(&str, &str)] = &[
    ("balance", "\"round-robin\""),
    ("fail-timeout", "\"10s\""),
    ("max-fails", "3"),
    ("next-upstream", "[\"error\", \"timeout\"]"),
    ("next-upstream-tries", "3"),
    ("tls-ca", "\"system\""),
    ("tls-name", "\"none\""),
    ("tls-verify", "true"),
    ("tls-certificate", "\"none\""),
    ("tls-key", "\"none\""),
];

/// The failures that lead to the next server, a key of rules as well.
pub const NEXT: &str = "next-upstream";

/// Upstream blocks by name.
pub type Upstreams<'a> = BTreeMap<&'a str, &'a Directive>;

/// Returns the servers of a location; `None`, with a loss, where they have no equivalent.
pub fn servers(
    pass: &Directive,
    scope: &Scope<'_>,
    upstreams: &Upstreams<'_>,
    out: &mut Output,
) -> Option<Servers> {
    if let Some(choices) = chosen_upstream::choices(pass, scope, upstreams, out) {
        return Some(Servers { choices, ..Servers::default() });
    }
    let mut target = target_of(pass);
    let host_end = target.find("://").map(|at| at + 3);
    let host_end = host_end.and_then(|at| Some(at + target[at..].find('/')?));
    let whole_path = host_end.filter(|_| target.contains('$'));
    let whole_path = whole_path.map(|at| target.split_off(at));
    if target.contains('$') {
        let named = NamedBackend::new(&target, pass, scope, upstreams, out)?;
        let mut found = Servers { named: Some(named), whole_path, ..Servers::default() };
        if target.starts_with("https") {
            tls(pass, scope, &mut found, out);
        }
        return Some(found);
    }
    let (scheme, rest) = match (target.strip_prefix("http://"), target.strip_prefix("https://")) {
        (Some(rest), _) => ("http", rest),
        (_, Some(rest)) => ("https", rest),
        _ => {
            out.lose(&pass.at, "proxy_pass", "expected http:// or https://");
            return None;
        }
    };
    let mut found = Servers { whole_path, ..Servers::default() };
    if let Some(socket) = rest.strip_prefix("unix:") {
        let (socket, path) = match socket.split_once(':') {
            Some((socket, path)) => (socket, Some(path.to_owned())),
            None => (socket, None),
        };
        found.all.push(format!("unix:{socket}"));
        found.name = "localhost".to_owned();
        found.path = path;
    } else {
        let end = rest.find('/').unwrap_or(rest.len());
        found.name = rest[..end].to_owned();
        found.path = Some(rest[end..].to_owned()).filter(|path| !path.is_empty());
        match upstreams.get(&rest[..end]) {
            Some(block) => group(block, scheme, &mut found, out),
            None => found.all.push(format!("{scheme}://{}", &rest[..end])),
        }
    }
    if found.path.as_ref().is_some_and(|path| path.contains(['?', '#'])) {
        out.lose(&pass.at, "proxy_pass", "a query in the target has no equivalent");
        return None;
    }
    remove_repeated(&mut found.all);
    if found.all.is_empty() {
        out.lose(&pass.at, "proxy_pass", "no server is left");
        return None;
    }
    if scheme == "https" {
        tls(pass, scope, &mut found, out);
    }
    found.drop_idle();
    attempts(scope, &mut found, out);
    Some(found)
}

/// Returns the target without the client's path and query, if it ends with both; a path without the
/// query is behind a slash.
fn target_of(pass: &Directive) -> String {
    let mut target = pass.arg(0).to_owned();
    let has_path = |target: &str| target.split_once("://").is_some_and(|(_, t)| t.contains('/'));
    for end in ["$request_uri", "$uri$is_args$args"] {
        if let Some(rest) = target.strip_suffix(end).filter(|rest| !has_path(rest)) {
            target = rest.to_owned();
        }
    }
    if target.ends_with("$uri") && !has_path(&target) {
        target.insert(target.len() - "$uri".len(), '/');
    }
    target
}

impl Servers {
    /// Returns whether a setting has no effect on these servers.
    pub fn is_idle(&self, key: &str) -> bool {
        let is_secured = match &self.named {
            Some(named) => named.upstream.starts_with("https:"),
            None => self.all.iter().any(|one| one.starts_with("https:")),
        };
        match key.starts_with("tls-") {
            true => !is_secured,
            false => self.all.len() < 2,
        }
    }

    /// Removes settings that change nothing: a server's own name, and when one that has no other
    /// beside it is out of use.
    fn drop_idle(&mut self) {
        let host = |server: &String| {
            let authority = server.split(' ').next()?.split_once("://")?.1;
            Some(text(authority.rsplit_once(':').map_or(authority, |(host, _)| host)))
        };
        let name = self.options.get("tls-name").cloned();
        if name.is_some() && self.all.iter().all(|server| host(server) == name) {
            self.options.remove("tls-name");
        }
        if self.all.len() < 2 {
            self.options.retain(|key, _| !AMONG_SERVERS.contains(key));
        }
    }
}

/// Settings without effect on a single server.
const AMONG_SERVERS: [&str; 3] = ["balance", "fail-timeout", "max-fails"];

/// Removes servers whose address occurs before.
fn remove_repeated(servers: &mut Vec<String>) {
    let mut known = Vec::new();
    servers.retain(|server| {
        let address = server.split(' ').next().unwrap_or_default().to_owned();
        let is_new = !known.contains(&address);
        known.push(address);
        is_new
    });
}

/// Reads an `upstream` block.
fn group(block: &Directive, scheme: &str, found: &mut Servers, out: &mut Output) {
    let mut fails: Vec<(String, String)> = Vec::new();
    for one in block.inner() {
        match one.name.as_str() {
            "server" => fails.extend(server(one, scheme, found, out)),
            "least_conn" => {
                found.options.insert("balance", text("least-connections"));
            }
            "hash" if matches!(one.arg(0), "$request_uri" | "$uri" | "$host$request_uri") => {
                found.options.insert("balance", text("url-hash"));
            }
            "keepalive" => out.set("upstream.idle-per-origin", number(one.arg(0), 32).to_string()),
            "keepalive_timeout" => {
                let time = time(one.arg(0)).unwrap_or_else(|| "1m".to_owned());
                out.set("upstream.idle-timeout", text(&time));
            }
            "zone" | "keepalive_requests" | "keepalive_time" => {}
            "ip_hash" | "hash" | "random" | "sticky" | "least_time" => {
                let reason = "servers are chosen in turn, by connections, or by URL";
                out.lose(&one.at, &one.name, reason);
            }
            _ => out.lose(&one.at, &one.name, "unknown in an upstream block"),
        }
    }
    fails.dedup();
    if fails.len() > 1 {
        out.lose(&block.at, "max_fails", "is one for all servers of a site: the first is taken");
    }
    // One server is never taken out of use by nginx either.
    if let Some((count, time)) = fails.into_iter().next().filter(|_| found.all.len() > 1) {
        found.options.insert("max-fails", count);
        found.options.insert("fail-timeout", text(&time));
    }
}

/// Reads a server of a block; returns its max_fails and fail_timeout.
fn server(
    one: &Directive,
    scheme: &str,
    found: &mut Servers,
    out: &mut Output,
) -> Option<(String, String)> {
    let place = one.arg(0);
    let mut entry = match place.starts_with("unix:") {
        true => place.to_owned(),
        false => format!("{scheme}://{place}"),
    };
    // The port of a group's server is 80 whatever the scheme.
    let has_port = place.rsplit_once(':').is_some_and(|(_, port)| !port.contains(']'));
    if scheme == "https" && !place.starts_with("unix:") && !has_port {
        entry.push_str(":80");
    }
    let (mut fails, mut timeout) = ("1".to_owned(), "10s".to_owned());
    for option in &one.args[1.min(one.args.len())..] {
        match option.split_once('=').unwrap_or((option, "")) {
            ("weight", n) => entry.push_str(&format!(" weight={n}")),
            ("max_conns", "0") => {}
            ("max_conns", n) => entry.push_str(&format!(" max-conns={n}")),
            ("backup", _) => entry.push_str(" backup"),
            ("down", _) => return None,
            ("max_fails", n) => fails = number(n, 1).to_string(),
            ("fail_timeout", t) => timeout = time(t).unwrap_or(timeout),
            ("resolve", _) => {}
            (name, _) => out.lose(&one.at, &format!("server {name}"), "unknown option"),
        }
    }
    found.all.push(entry);
    Some((fails, timeout))
}

fn tls(pass: &Directive, scope: &Scope<'_>, found: &mut Servers, out: &mut Output) {
    match scope.arg("proxy_ssl_verify") {
        Some("on") => {}
        Some(_) => {
            found.options.insert("tls-verify", "false".to_owned());
        }
        None => out.note(
            &pass.at,
            "proxy_ssl_verify",
            "off by default in nginx; Larder verifies certificates (tls-verify = false does not)",
        ),
    }
    for (theirs, ours) in [
        ("proxy_ssl_name", "tls-name"),
        ("proxy_ssl_trusted_certificate", "tls-ca"),
        ("proxy_ssl_certificate", "tls-certificate"),
        ("proxy_ssl_certificate_key", "tls-key"),
    ] {
        let Some(directive) = scope.get(theirs) else { continue };
        match directive.arg(0) {
            "$proxy_host" | "$ssl_server_name" => {}
            value if value.contains('$') => {
                out.lose(&directive.at, theirs, "a value with variables has no equivalent");
            }
            value => {
                found.options.insert(ours, text(value));
            }
        }
    }
}

/// Reads `proxy_next_upstream`.
fn attempts(scope: &Scope<'_>, found: &mut Servers, out: &mut Output) {
    if let Some(next) = scope.get("proxy_next_upstream") {
        let mut words = Vec::new();
        for word in &next.args {
            match word.as_str() {
                "error" | "timeout" => words.push(word.clone()),
                "http_403" | "http_404" | "http_429" | "http_500" | "http_502" | "http_503"
                | "http_504" => {
                    words.push(word.replace('_', "-"));
                }
                "invalid_header" | "off" => {}
                "non_idempotent" => out.lose(
                    &next.at,
                    "proxy_next_upstream non_idempotent",
                    "a request that may have had an effect is not repeated",
                ),
                word => {
                    let name = format!("proxy_next_upstream {word}");
                    out.lose(&next.at, &name, "this status does not lead to the next server");
                }
            }
        }
        found.options.insert("next-upstream", list(&words));
    }
    if let Some(tries) = scope.arg("proxy_next_upstream_tries") {
        let tries = match number(tries, 0) {
            0 => 64,
            tries => tries.min(64),
        };
        found.options.insert("next-upstream-tries", tries.to_string());
    }
}

fn number(text: &str, default: u64) -> u64 {
    text.parse().unwrap_or(default)
}

/// A directory of files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Directory {
    pub root: String,
    pub strips: bool,
    /// Settings of a site, as TOML.
    pub options: BTreeMap<&'static str, String>,
}

impl Directory {
    /// Returns whether files are found as in another directory. Where nothing but the file itself
    /// is tried, `try_files` need not be stated.
    pub fn serves_as(&self, other: &Directory) -> bool {
        let options = |of: &Directory| {
            let mut options = of.options.clone();
            let plain = [list(&["$uri", "$uri/", "=404"]), list(&["$uri", "=404"])];
            options.retain(|key, value| *key != "try-files" || !plain.contains(value));
            options
        };
        let root = |of: &Directory| of.root.trim_end_matches('/').to_owned();
        root(self) == root(other) && self.strips == other.strips && options(self) == options(other)
    }
}

/// Returns the directory of a location, with its `try_files` and pages; `None`, with a loss, where
/// it has no equivalent.
pub fn directory(scope: &Scope<'_>, out: &mut Output) -> Option<Directory> {
    let mut found = bare_directory(scope, out)?;
    tries(scope, &mut found, out);
    pages(scope, &mut found, out);
    Some(found)
}

/// Returns the directory of a location; `None`, with a loss, where it has no equivalent.
pub fn bare_directory(scope: &Scope<'_>, out: &mut Output) -> Option<Directory> {
    let (place, strips) = match (scope.own("alias"), scope.get("root")) {
        (Some(alias), _) => (alias, true),
        (None, Some(root)) => (root, false),
        (None, None) => return None,
    };
    if place.arg(0).contains('$') {
        out.lose(&place.at, &place.name, "a path with variables has no equivalent");
        return None;
    }
    let mut found = Directory { root: place.arg(0).to_owned(), strips, ..Directory::default() };
    found.options.insert("dotfiles", "true".to_owned());
    let links = match scope.get("disable_symlinks") {
        Some(links) if links.arg(0) == "on" => "none",
        Some(links) if links.arg(0) != "off" => {
            out.lose(&links.at, "disable_symlinks", "links are followed not at all, or all");
            "none"
        }
        _ => "anywhere",
    };
    found.options.insert("symlinks", text(links));
    if let Some(index) = scope.get("index") {
        let names = index_files(index, out);
        if !names.is_empty() {
            found.options.insert("index", list(&names));
        }
    }
    if scope.is_on("autoindex") {
        found.options.insert("listing", "true".to_owned());
    }
    if scope.is_on("gzip_static") {
        found.options.insert("precompressed", list(&["gzip"]));
    }
    Some(found)
}

/// Returns the names of an `index` that are files.
pub fn index_files<'a>(index: &'a Directive, out: &mut Output) -> Vec<&'a String> {
    let is_file = |name: &&String| !name.contains(['$', '/']) && !is_program(name);
    let names: Vec<&String> = index.args.iter().filter(is_file).collect();
    if names.len() < index.args.len() {
        let reason = "only names of files are tried: a directory with a program is one without";
        out.lose(&index.at, "index", reason);
    }
    names
}

/// Returns whether a file's name is that of a program, which must not be sent as it is.
pub fn is_program(name: &str) -> bool {
    [".php", ".cgi", ".pl", ".py", ".jsp"].iter().any(|end| name.ends_with(end))
}

fn tries(scope: &Scope<'_>, found: &mut Directory, out: &mut Output) {
    // Locations do not inherit it.
    let Some(tries) = scope.own("try_files") else { return };
    let mut names = Vec::new();
    for name in &tries.args {
        let is_known = !name.replacen("$uri", "", 1).contains('$')
            && !name.contains('?')
            && !name.starts_with('@')
            && !is_program(name);
        let is_path = name.starts_with('/') && tries.args.last() == Some(name);
        let reason = match is_known {
            true if is_path && !last_name::is_file_of(scope, name) => last_name::elsewhere(name),
            true => {
                names.push(name.clone());
                continue;
            }
            false => format!("{name} has no equivalent: 404 instead"),
        };
        out.lose(&tries.at, "try_files", &reason);
        names.push("=404".to_owned());
        break;
    }
    found.options.insert("try-files", list(&names));
}

fn pages(scope: &Scope<'_>, found: &mut Directory, out: &mut Output) {
    const KNOWN: [&str; 8] = ["400", "403", "404", "405", "412", "416", "500", "503"];
    let mut pages = Vec::new();
    for page in scope.all(&["error_page"]) {
        let Some((target, statuses)) = page.args.split_last() else { continue };
        if !target.starts_with('/') || statuses.iter().any(|one| one.starts_with('=')) {
            out.lose(&page.at, "error_page", "an error page is a file below the root");
            continue;
        }
        for status in statuses {
            match status.as_str() {
                status if KNOWN.contains(&status) => pages.push(format!("{status}={target}")),
                // A directory of files never fails so.
                "501" | "502" | "504" => {}
                status => {
                    let name = format!("error_page {status}");
                    out.lose(&page.at, &name, "this status has no page");
                }
            }
        }
    }
    if !pages.is_empty() {
        found.options.insert("error-pages", list(&pages));
    }
}
