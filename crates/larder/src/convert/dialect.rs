//! The configuration languages that can be converted, and how a file shows which one it is in.

use std::path::Path;

use crate::convert::output::Output;
use crate::convert::{nginx, source, squid, vcl};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    Nginx,
    Vcl,
    Squid,
}

impl Dialect {
    pub fn named(name: &str) -> Option<Dialect> {
        match name {
            "nginx" => Some(Dialect::Nginx),
            "vcl" => Some(Dialect::Vcl),
            "squid" => Some(Dialect::Squid),
            _ => None,
        }
    }

    /// Recognises a dialect by the first words of lines.
    pub fn of(text: &str) -> Option<Dialect> {
        let lines = text.lines().map(str::trim).filter(|line| !line.starts_with('#'));
        for line in lines.take(100_000) {
            let word = line.split([' ', '\t', '{', ';']).next().unwrap_or_default();
            match word {
                "vcl" if line.contains("4.") => return Some(Dialect::Vcl),
                "sub" | "backend" | "probe" => return Some(Dialect::Vcl),
                "http" | "server" | "events" | "location" | "upstream" | "map"
                | "worker_processes" | "proxy_pass" | "proxy_cache_path" | "server_name" => {
                    return Some(Dialect::Nginx);
                }
                "http_port" | "http_access" | "acl" | "cache_peer" | "refresh_pattern"
                    if !line.contains('{') =>
                {
                    return Some(Dialect::Squid);
                }
                _ => {}
            }
        }
        None
    }

    /// Converts a file. The error is a sentence: the file cannot be read or parsed.
    pub fn convert(self, path: &Path) -> Result<Output, String> {
        let text = source::read(path)?;
        match self {
            Dialect::Nginx => nginx::convert(path, &text),
            Dialect::Vcl => vcl::convert(path, &text),
            Dialect::Squid => squid::convert(path, &text),
        }
    }
}
