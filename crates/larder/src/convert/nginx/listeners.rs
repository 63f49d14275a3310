//! `listen` and certificates.

use std::collections::{BTreeMap, BTreeSet};

use crate::convert::nginx::server_block::Server;
use crate::convert::nginx::syntax::Directive;
use crate::convert::output::{Output, Table, list, text};

/// A listening address.
#[derive(Clone, Debug, Default)]
struct Listener {
    tls: bool,
    h2c: bool,
    is_proxied: bool,
}

/// Options of `listen` that need no translation: the system's defaults, or said elsewhere.
const NEEDLESS: [&str; 14] = [
    "reuseport",
    "backlog",
    "rcvbuf",
    "sndbuf",
    "deferred",
    "fastopen",
    "so_keepalive",
    "bind",
    "default_server",
    "default",
    "ipv6only",
    "setfib",
    "accept_filter",
    "http2",
];

/// Writes listeners and certificates; notes at each server the schemes and whether it is the
/// default of one of its addresses.
pub fn write(servers: &mut [Server], out: &mut Output) {
    let mut all: BTreeMap<String, Listener> = BTreeMap::new();
    let mut defaults: BTreeMap<String, usize> = BTreeMap::new();
    let mut marked = BTreeSet::new();
    for (number, server) in servers.iter_mut().enumerate() {
        let listens: Vec<&Directive> =
            server.block().iter().filter(|one| one.name == "listen").collect();
        let plain = Directive { args: vec!["80".to_owned()], ..Directive::default() };
        let listens = if listens.is_empty() { vec![&plain] } else { listens };
        for listen in listens {
            let Some(address) = address(listen.arg(0)) else {
                out.lose(&listen.at, "listen", "expected a port, an address or a Unix socket");
                continue;
            };
            let listener = all.entry(address.clone()).or_default();
            read(listen, listener, out);
            let is_tls = listener.tls;
            match is_tls {
                true => server.https = true,
                false => server.http = true,
            }
            server.addresses.push((port(&address).to_owned(), is_tls));
            let is_marked = listen.args.iter().any(|arg| arg.starts_with("default"));
            defaults.entry(address.clone()).or_insert(number);
            if is_marked && marked.insert(address.clone()) {
                defaults.insert(address, number);
            }
        }
    }
    for number in defaults.values() {
        servers[*number].is_default = true;
    }
    for (number, server) in servers.iter_mut().enumerate() {
        let others = defaults.iter().filter(|(_, other)| **other != number);
        let others: Vec<&str> = others.map(|(address, _)| port(address)).collect();
        let own = server.addresses.iter().map(|(address, _)| address);
        server.not_default_at = own.filter(|own| others.contains(&own.as_str())).cloned().collect();
        server.not_default_at.dedup();
    }
    push(&all, out);
    certificates(servers, out);
}

/// Returns an address without the part that stands for all addresses of the machine.
fn port(address: &str) -> &str {
    address.strip_prefix("0.0.0.0:").or(address.strip_prefix("[::]:")).unwrap_or(address)
}

fn read(listen: &Directive, listener: &mut Listener, out: &mut Output) {
    for option in &listen.args[1.min(listen.args.len())..] {
        match option.split_once('=').unwrap_or((option, "")).0 {
            "ssl" => listener.tls = true,
            "proxy_protocol" => listener.is_proxied = true,
            "http2" => listener.h2c = true,
            name if NEEDLESS.contains(&name) => {}
            name => out.lose(&listen.at, &format!("listen {name}"), "unknown option"),
        }
    }
}

fn push(all: &BTreeMap<String, Listener>, out: &mut Output) {
    let trusted = out.get("forwarded.trust").cloned();
    for (address, listener) in all {
        // `[::]` has the IPv4 clients, too.
        let both = address.strip_prefix("0.0.0.0:").map(|port| format!("[::]:{port}"));
        if both.is_some_and(|both| all.contains_key(&both)) {
            continue;
        }
        let mut table = Table::new("listener");
        table.set("address", text(address));
        if listener.tls {
            table.set("tls", "true".to_owned());
        } else if listener.h2c {
            table.set("h2c", "true".to_owned());
        }
        if listener.is_proxied {
            let everyone = list(&["0.0.0.0/0", "::/0"]);
            table.set("proxy-protocol", trusted.clone().unwrap_or(everyone));
        }
        out.push(table);
    }
}

/// Returns an address of `listen` as Larder writes it.
fn address(text: &str) -> Option<String> {
    if text.starts_with("unix:") {
        return Some(text.to_owned());
    }
    if text.parse::<u16>().is_ok() {
        return Some(format!("0.0.0.0:{text}"));
    }
    let text = text.replacen("*:", "0.0.0.0:", 1).replacen("localhost", "127.0.0.1", 1);
    let has_port = text.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    let text = if has_port { text } else { format!("{text}:80") };
    text.parse::<std::net::SocketAddr>().ok().map(|address| address.to_string())
}

fn certificates(servers: &[Server], out: &mut Output) {
    let mut known = BTreeSet::new();
    // The default server's certificate is shown for other hosts: that of the first table.
    let mut ordered: Vec<&Server> = servers.iter().collect();
    ordered.sort_by_key(|server| !(server.is_default && server.https));
    for server in ordered {
        let find = |name: &str| server.block().iter().find(|one| one.name == name);
        let (Some(chain), Some(key)) = (find("ssl_certificate"), find("ssl_certificate_key"))
        else {
            continue;
        };
        if server.block().iter().filter(|one| one.name == "ssl_certificate").count() > 1 {
            out.lose(&chain.at, "ssl_certificate", "one certificate for a host: the first");
        }
        let hosts: Vec<String> = server
            .names
            .iter()
            .map(|name| match name.strip_prefix('.') {
                Some(rest) => format!("*.{rest}"),
                None => name.clone(),
            })
            .filter(|name| !name.is_empty())
            .collect();
        if !known.insert((chain.arg(0).to_owned(), hosts.clone())) {
            continue;
        }
        let mut table = Table::new("certificate");
        table.set("chain", text(chain.arg(0)));
        table.set("key", text(key.arg(0)));
        if !hosts.is_empty() {
            table.set("hosts", list(&hosts));
        }
        out.push(table);
    }
    for server in servers {
        for one in server.block().iter().filter(|one| one.name == "ssl_protocols") {
            let has = |name: &str| one.args.iter().any(|arg| arg == name);
            if has("TLSv1.2") || has("TLSv1") || has("TLSv1.1") {
                out.set("tls.min-version", text("1.2"));
            } else if out.get("tls.min-version").is_none() {
                out.set("tls.min-version", text("1.3"));
            }
            if has("TLSv1") || has("TLSv1.1") {
                out.lose(&one.at, "ssl_protocols", "TLS before 1.2 is not spoken");
            }
        }
    }
}
