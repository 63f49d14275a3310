//! `backend`, `probe` and directors.

use std::collections::BTreeMap;

use crate::convert::output::{Output, list, text};
use crate::convert::units_of_others::time;
use crate::convert::vcl::syntax::Statement;

/// Backends and directors by name, as servers of a site.
#[derive(Debug, Default)]
pub struct Backends<'a> {
    servers: BTreeMap<String, Vec<String>>,
    probes: BTreeMap<&'a str, &'a [Statement]>,
    first: Option<String>,
    /// Servers that requests go to without a choice.
    pub main: Vec<String>,
}

impl<'a> Backends<'a> {
    pub fn probe(&mut self, name: &'a str, probe: &'a [Statement]) {
        self.probes.insert(name, probe);
    }

    /// Returns the servers of a backend or director (`name`, `name.backend`).
    pub fn get(&self, name: &str) -> Option<&Vec<String>> {
        self.servers.get(name.strip_suffix(".backend").unwrap_or(name))
    }

    /// Reads a `backend`.
    pub fn add(&mut self, backend: &'a Statement, out: &mut Output) {
        let name = backend.word(1).to_owned();
        if backend.block.is_none() {
            return;
        }
        let (mut host, mut port, mut options) = (String::new(), "80".to_owned(), String::new());
        for one in backend.inner() {
            let value = one.word(2);
            match (one.word(0), &one.block) {
                (".host", _) => host = value.to_owned(),
                (".port", _) => port = value.to_owned(),
                (".path", _) => host = format!("unix:{value}"),
                (".connect_timeout", _) => timeout("upstream.connect-timeout", value, out),
                (".first_byte_timeout", _) => timeout("upstream.head-timeout", value, out),
                (".between_bytes_timeout", _) => timeout("upstream.body-timeout", value, out),
                (".max_connections", _) => options = format!(" max-conns={value}"),
                (".probe", Some(inner)) => checks(inner, out),
                (".probe", None) => match self.probes.get(value) {
                    Some(probe) => checks(probe, out),
                    None => out.lose(&one.at(), ".probe", "there is no such probe"),
                },
                (name, _) => out.lose(&one.at(), name, "no equivalent of this setting"),
            }
        }
        let server = match host.starts_with("unix:") {
            true => format!("{host}{options}"),
            false if host.contains(':') => format!("http://[{host}]:{port}{options}"),
            false => format!("http://{host}:{port}{options}"),
        };
        self.servers.insert(name.clone(), vec![server]);
        if name == "default" || self.first.is_none() {
            self.first = Some(name);
        }
    }

    /// Reads `vcl_init`.
    pub fn directors(&mut self, init: &[&Statement], out: &mut Output) {
        for one in init {
            let words: Vec<&str> = one.tokens.iter().map(|token| token.text.as_str()).collect();
            match words[..] {
                ["new", name, "=", kind, ..] if kind.starts_with("directors.") => {
                    let ours = match kind.trim_start_matches("directors.") {
                        "hash" | "shard" => Some("url-hash"),
                        "round_robin" | "random" => Some("round-robin"),
                        _ => None,
                    };
                    match ours {
                        Some(ours) => out.set("upstream.balance", text(ours)),
                        None => out.lose(&one.at(), kind, "servers are used in turn"),
                    }
                    self.servers.insert(name.to_owned(), Vec::new());
                }
                [call, "(", backend, ..] if call.ends_with(".add_backend") => {
                    let weight = words.get(4).filter(|word| word.parse::<u32>().is_ok());
                    let weight = weight.map(|weight| format!(" weight={weight}"));
                    let added = self.servers.get(backend).cloned().unwrap_or_default();
                    let name = call.trim_end_matches(".add_backend");
                    let Some(all) = self.servers.get_mut(name) else { continue };
                    let weight = weight.unwrap_or_default();
                    all.extend(added.iter().map(|server| format!("{server}{weight}")));
                }
                ["return", ..] => {}
                _ => out.lose(&one.at(), "vcl_init", "no equivalent of this statement"),
            }
        }
    }

    /// Writes the servers that requests go to without a choice.
    pub fn write(&mut self, out: &mut Output) {
        let first = self.first.as_ref().and_then(|name| self.servers.get(name));
        self.main = first.cloned().unwrap_or_else(|| vec!["http://127.0.0.1:9".to_owned()]);
        out.set("reverse", list(&self.main));
    }
}

fn timeout(key: &str, value: &str, out: &mut Output) {
    if let Some(time) = time(value) {
        out.set(key, text(&time));
    }
}

/// Reads a probe.
fn checks(probe: &[Statement], out: &mut Output) {
    for one in probe {
        let value = one.word(2);
        match one.word(0) {
            ".url" => out.set("upstream.check-path", text(value)),
            ".request" => {
                let line: Vec<&str> = value.split_ascii_whitespace().collect();
                let path = line.get(1).filter(|path| path.starts_with('/'));
                match path.filter(|_| ["GET", "HEAD"].contains(&line[0])) {
                    Some(path) => {
                        out.set("upstream.check-path", text(path));
                        let reason = "the path is asked for, with fields of Larder's own";
                        out.note(&one.at(), ".request", reason);
                    }
                    None => out.lose(&one.at(), ".request", "only a path is asked for"),
                }
            }
            ".interval" => timeout("upstream.check-interval", value, out),
            ".timeout" => timeout("upstream.check-timeout", value, out),
            ".expected_response" => out.set("upstream.check-status", list(&[value])),
            ".window" | ".threshold" | ".initial" => {}
            // The last checks of a window decide there; here, checks in a row.
            name => out.lose(&one.at(), name, "check-rise and check-fall count checks in a row"),
        }
    }
    if !probe.iter().any(|one| matches!(one.word(0), ".url" | ".request")) {
        out.set("upstream.check-path", text("/"));
    }
}
