//! nginx: `http` with its `server` and `location` blocks.

mod access_log;
mod backend;
mod checks;
mod chosen_upstream;
mod classes;
pub mod condition;
mod constants;
mod entered;
mod file_tests;
pub mod forwarded;
mod hosts;
mod joined_fields;
mod known;
mod last_name;
mod limits;
mod listeners;
mod location;
mod lookaround;
mod mapped_fields;
mod matching;
mod media_types;
mod methods;
mod min_uses;
mod named_backend;
pub mod named_values;
mod own_directory;
mod referers;
mod replies;
mod responses;
mod restrictions;
mod rewritten;
mod scope;
mod server;
mod server_block;
mod server_group;
mod slashes;
mod spellings;
pub mod syntax;
mod target_path;
mod tries;
#[cfg(test)]
mod value_tests;
pub mod values;

use std::collections::BTreeMap;
use std::path::Path;

use crate::convert::nginx::backend::Upstreams;
use crate::convert::nginx::classes::ClassDrafts;
use crate::convert::nginx::condition::{Alternatives, Variables};
use crate::convert::nginx::limits::Zones;
use crate::convert::nginx::scope::Scope;
use crate::convert::nginx::server_block::Server;
use crate::convert::nginx::syntax::{Directive, Reader, walk};
use crate::convert::output::{Output, list, text};
use crate::convert::source::At;
use crate::convert::units_of_others::{size, time};

/// The configuration around the servers.
struct Http<'a> {
    scope: Scope<'a>,
    upstreams: Upstreams<'a>,
    variables: Variables,
    /// Longest time that something unused stays stored, by zone.
    inactive: BTreeMap<String, String>,
    compresses: bool,
    zones: Zones,
}

/// Converts a file. The error is a sentence.
pub fn convert(path: &Path, text: &str) -> Result<Output, String> {
    let mut reader = Reader::new(path);
    let tree = reader.read(path, text)?;
    let mut out = Output::default();
    for (at, why) in std::mem::take(&mut reader.missing) {
        out.lose(&at, "include", &why);
    }
    // A file with servers alone is one that a main file includes within `http`.
    let is_main = tree.iter().any(|one| one.name == "http");
    let is_outside = |one: &Directive| is_main && one.name == "include";
    let inner = tree.into_iter().filter(|one| !is_outside(one));
    let mut block: Vec<Directive> = inner.flat_map(opened).collect();
    file_tests::expand(&mut block);
    chosen_upstream::expand(&mut block);
    constants::expand(&mut block);
    account(&block, &mut out);
    let mut classes = ClassDrafts::default();
    let mut variables = Variables::new();
    for one in &block {
        if matches!(one.name.as_str(), "map" | "geo" | "split_clients") {
            class(one, &mut classes, &mut variables, &mut out);
        }
    }
    let mut http = Http {
        scope: Scope::default().with_classes(&classes).inner(&block),
        upstreams: Upstreams::new(),
        variables,
        inactive: BTreeMap::new(),
        compresses: false,
        zones: Zones::default(),
    };
    http.zones = Zones::new(&block, &http.variables);
    for one in &block {
        match one.name.as_str() {
            "upstream" => {
                http.upstreams.insert(one.arg(0), one);
            }
            "proxy_cache_path" => cache(one, &mut http.inactive, &mut out),
            _ => {}
        }
    }
    min_uses::write(&block, &mut out);
    http.compresses = compression(&block, &http.scope, &mut out);
    general(&http.scope, &block, &mut out);
    let servers: Vec<&Directive> = block.iter().filter(|one| one.name == "server").collect();
    if servers.is_empty() {
        return Err(format!("{}: expected a server block", path.display()));
    }
    let mut servers: Vec<Server> = servers.into_iter().map(Server::new).collect();
    listeners::write(&mut servers, &mut out);
    out.settle();
    server::write(&servers, &http, &mut out);
    classes.write(&mut out);
    Ok(out)
}

/// Returns the directives of an `http` block, or the directive itself.
fn opened(directive: Directive) -> Vec<Directive> {
    match directive.name.as_str() {
        "http" => directive.block.unwrap_or_default(),
        _ => vec![directive],
    }
}

/// Reports the directives of a block without an equivalent.
fn account(block: &[Directive], out: &mut Output) {
    for one in block {
        let Some(reason) = known::loss(one) else { continue };
        let programs = ["fastcgi_", "uwsgi_", "scgi_"];
        match programs.iter().find(|begin| one.name.starts_with(**begin)) {
            Some(begin) => out.lose_once(&one.at, &format!("{begin}…"), reason),
            None => out.lose(&one.at, &one.name, reason),
        }
    }
}

/// Reads `map`, `geo` and `split_clients`: as a condition, and as a class.
fn class(
    directive: &Directive,
    classes: &mut ClassDrafts,
    variables: &mut Variables,
    out: &mut Output,
) {
    let is_map = directive.name == "map";
    let name = directive.args.last().map_or("", String::as_str);
    let name = name.trim_start_matches('$').to_owned();
    let refused = classes.add(directive).err();
    if let Some(why) = refused.as_ref().filter(|_| !is_map) {
        out.lose(&directive.at, &format!("{} ${name}", directive.name), why);
    }
    let class = classes.get(&name);
    let of_map = is_map.then(|| condition::of_map(directive, variables));
    let found = match (of_map, class) {
        (Some(Ok(found)), class) => Ok(found.with_class(class)),
        (_, Some(class)) => Alternatives::of_class(class),
        (of_map, None) => of_map.unwrap_or_else(|| Err(refused.unwrap_or_default())),
    };
    variables.insert(name, found);
}

/// Reads `proxy_cache_path`: the size, and how long something unused stays.
fn cache(directive: &Directive, inactive: &mut BTreeMap<String, String>, out: &mut Output) {
    out.set("cache", text("/var/lib/larder/larder.cache"));
    let (mut zone, mut unused) = (String::new(), "10m".to_owned());
    for option in &directive.args[1.min(directive.args.len())..] {
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        match name {
            "keys_zone" => zone = value.split(':').next().unwrap_or_default().to_owned(),
            "inactive" => unused = time(value).unwrap_or(unused),
            "max_size" => {
                let before = out.get("cache-size").and_then(|text| size(text.trim_matches('"')));
                let all = size(value).map(|size| size.saturating_add(before.unwrap_or(0)));
                match all {
                    Some(all) => {
                        out.set("cache-size", text(&cli::units::size(all.max(64 << 20))));
                    }
                    None => out.lose(&directive.at, "max_size", "expected a size"),
                }
            }
            // One cache file has no directories, no temporary files, and is read at once.
            "levels" | "use_temp_path" | "min_free" => {}
            name if name.starts_with("loader_") || name.starts_with("manager_") => {}
            name => {
                let name = format!("proxy_cache_path {name}");
                out.lose(&directive.at, &name, "the cache has a fixed size");
            }
        }
    }
    inactive.insert(zone, unused);
}

/// Reads `gzip` and `brotli`; returns whether anything is compressed.
fn compression(block: &[Directive], scope: &Scope<'_>, out: &mut Output) -> bool {
    let mut all = Vec::new();
    walk(block, &mut |one| all.push(one));
    let is_on = |name: &str| all.iter().any(|one| one.name == name && one.arg(0) == "on");
    let codings: Vec<&str> = [("brotli", "br"), ("gzip", "gzip")]
        .into_iter()
        .filter(|(name, _)| is_on(name))
        .map(|(_, coding)| coding)
        .collect();
    if codings.is_empty() {
        return false;
    }
    out.set("compression.codings", list(&codings));
    out.set("files.compress", list(&codings));
    let find =
        |name: &str| scope.get(name).or_else(|| all.iter().copied().find(|one| one.name == name));
    let mut types = vec!["text/html".to_owned()];
    if let Some(given) = find("gzip_types") {
        types.extend(given.args.iter().filter(|name| *name != "text/html").cloned());
    }
    if types.iter().any(|name| name == "*") {
        types.clear();
    }
    if !types.is_empty() {
        types.sort();
        types.dedup();
        out.set("compression.types", list(&types));
        out.set("files.compress-types", list(&types));
    }
    let least = find("gzip_min_length").and_then(|one| size(one.arg(0))).unwrap_or(20);
    out.set("compression.min", text(&cli::units::size(least)));
    out.set("files.compress-min", text(&cli::units::size(least)));
    for name in ["gzip_types", "gzip_min_length"] {
        let values: Vec<_> = all.iter().filter(|one| one.name == name).collect();
        if let Some(other) = values.iter().find(|one| one.args != values[0].args) {
            out.lose(&other.at, name, "is one for all sites: another value was taken");
        }
    }
    true
}

/// Settings that are one for all sites: the directives, and the key.
const TIMES: [(&str, &[&str]); 6] = [
    ("proxy_connect_timeout", &["upstream.connect-timeout"]),
    ("proxy_read_timeout", &["upstream.head-timeout", "upstream.body-timeout"]),
    ("keepalive_timeout", &["client.idle-timeout"]),
    ("client_header_timeout", &["client.head-timeout"]),
    ("client_body_timeout", &["client.stall-timeout"]),
    ("send_timeout", &["client.stall-timeout"]),
];

/// Reads what is one for all sites.
fn general(scope: &Scope<'_>, block: &[Directive], out: &mut Output) {
    // nginx guesses no lifetimes, and adds no fields that it is not told to.
    out.set("caching.heuristic-percent", "0".to_owned());
    // nginx does not look at Cache-Control of requests.
    out.set("caching.client-reload", text("ignore"));
    let mut all = Vec::new();
    walk(block, &mut |one| all.push(one));
    let sends = |field: &str| {
        all.iter().any(|one| {
            one.name == "proxy_set_header"
                && one.arg(0).eq_ignore_ascii_case(field)
                && !one.arg(1).is_empty()
        })
    };
    let added = ["x-forwarded-for", "x-forwarded-proto", "x-forwarded-host"];
    let added: Vec<&str> = added.into_iter().filter(|field| sends(field)).collect();
    out.set("forwarded.add", list(&added));
    for (name, keys) in TIMES {
        longest(name, keys, &all, out);
    }
    if scope.is_on("underscores_in_headers") {
        out.set("client.field-names", text("underscores"));
    }
    let trusted: Vec<String> = all
        .iter()
        .filter(|one| one.name == "set_real_ip_from" && one.arg(0) != "unix:")
        .map(|one| one.arg(0).to_owned())
        .collect();
    if !trusted.is_empty() {
        out.set("forwarded.trust", list(&trusted));
    }
    if let Some(field) = all.iter().find(|one| one.name == "real_ip_header") {
        let is_known = ["x-forwarded-for", "proxy_protocol"]
            .contains(&field.arg(0).to_ascii_lowercase().as_str());
        if !is_known {
            out.lose(&field.at, "real_ip_header", "the client is named in X-Forwarded-For");
        }
    }
    purgers(&all, out);
    forwarded::account(&all, out);
    media_types::general(block, out);
    resolver(&all, out);
    hostname(&all, out);
    access_log::general(scope, &all, out);
}

/// Sets the networks that may purge by the method PURGE: those of all locations that say so.
fn purgers(all: &[&Directive], out: &mut Output) {
    let mut lists = all.iter().filter(|one| known::is_purge_method(one));
    let Some(first) = lists.next() else { return };
    let mut networks = first.args[2..].to_vec();
    for other in lists.filter(|other| other.args != first.args) {
        networks.retain(|network| other.args[2..].contains(network));
        let reason = "is one for all sites: the networks of all lists were taken";
        out.lose(&other.at, &other.name, reason);
    }
    let networks: Vec<&str> = match networks.iter().any(|network| network == "all") {
        true => vec!["0.0.0.0/0", "::/0"],
        // Without a network, purges would be passed on.
        false if networks.is_empty() => vec!["0.0.0.0/32"],
        false => networks.iter().map(String::as_str).collect(),
    };
    out.set("purge.from", list(&networks));
}

/// Sets the longest of several times, a loss where they differ.
fn longest(name: &str, keys: &[&str], all: &[&Directive], out: &mut Output) {
    let found: Vec<(&At, std::time::Duration)> = all
        .iter()
        .filter(|one| one.name == name)
        .filter_map(|one| {
            let time = cli::units::parse_duration(&time(one.arg(0))?)?;
            Some((&one.at, time)).filter(|(_, time)| !time.is_zero())
        })
        .collect();
    let Some((_, longest)) = found.iter().max_by_key(|(_, time)| *time) else { return };
    // Locations with other times have rules.
    let is_of_rules = name.starts_with("proxy_");
    if let Some((at, _)) = found.iter().find(|(_, time)| time != longest && !is_of_rules) {
        out.lose(at, name, "is one for all sites: the longest was taken");
    }
    for key in keys {
        let old = out.get(key).and_then(|old| cli::units::parse_duration(old.trim_matches('"')));
        if old.is_none_or(|old| old < *longest) {
            out.set(key, text(&cli::units::duration(*longest)));
        }
    }
}

fn resolver(all: &[&Directive], out: &mut Output) {
    let Some(resolver) = all.iter().find(|one| one.name == "resolver") else { return };
    let mut servers = Vec::new();
    for arg in &resolver.args {
        let with_port = |arg: &str| match arg.parse::<std::net::IpAddr>() {
            Ok(std::net::IpAddr::V6(address)) => format!("[{address}]:53"),
            Ok(address) => format!("{address}:53"),
            Err(_) if arg.ends_with(']') => format!("{arg}:53"),
            Err(_) => arg.to_owned(),
        };
        match arg.split_once('=') {
            Some(("ipv6" | "ipv4" | "status_zone", _)) => {}
            Some(("valid", time)) => {
                if let Some(time) = self::time(time) {
                    out.set("upstream.dns-ttl-min", text(&time));
                    out.set("upstream.dns-ttl-max", text(&time));
                }
            }
            _ if with_port(arg).parse::<std::net::SocketAddr>().is_ok() => {
                servers.push(with_port(arg));
            }
            _ => out.lose(&resolver.at, "resolver", "expected addresses"),
        }
    }
    if !servers.is_empty() {
        out.set("upstream.resolver", text("dns"));
        out.set("upstream.dns-servers", list(&servers));
    }
}

/// Says where the value of `$hostname` comes from.
fn hostname(all: &[&Directive], out: &mut Output) {
    let has_name = |one: &&&Directive| one.args.iter().any(|arg| arg.contains("$hostname"));
    if let Some(one) = all.iter().find(has_name) {
        let reason = "the environment variable HOSTNAME, or larder without one";
        out.note(&one.at, "$hostname", reason);
    }
}
