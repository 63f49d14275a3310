//! The part of the configuration that clients meet before their first request: listeners,
//! certificates, TLS and HTTP/2.

use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;

use crate::config::listen_addr::ListenAddr;
use crate::config::loaded::Config;

/// The keys of `[tls]`.
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct Tls {
    pub min_version: TlsMin,
    pub handshake_timeout: Duration,
    pub strict_sni: bool,
}

/// The oldest version of TLS that is spoken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TlsMin {
    /// TLS 1.2.
    #[default]
    Tls12,
    /// TLS 1.3.
    Tls13,
}

/// The keys of `[http2]`.
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct Http2 {
    pub enabled: bool,
    pub streams: u32,
    pub stream_window: u32,
    pub connection_window: u32,
    pub send_buffer: usize,
    pub early_resets: usize,
    pub error_resets: usize,
    pub ping_interval: Duration,
    pub ping_timeout: Duration,
}

/// One `[[listener]]`.
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct Listener {
    /// Only a table that is refused has none.
    pub address: Option<ListenAddr>,
    pub tls: bool,
    pub h2c: bool,
    pub proxy_protocol: Vec<IpNet>,
    pub mode: String,
    pub owner: Option<String>,
    pub group: Option<String>,
}

/// One `[[certificate]]`.
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct Certificate {
    pub chain: PathBuf,
    pub key: Option<PathBuf>,
    pub hosts: Vec<String>,
}

/// Permissions of a Unix socket that has no table of its own.
const MODE: &str = "660";

impl Config {
    /// All places where clients come in: those of `listen`, without any manners, and those of the
    /// `[[listener]]` tables.
    pub fn all_listeners(&self) -> Vec<Listener> {
        let plain = self.listen.iter().map(|address| Listener {
            address: Some(address.clone()),
            mode: MODE.to_owned(),
            ..Listener::default()
        });
        plain.chain(self.listeners.iter().cloned()).collect()
    }

    /// Whether any listener speaks TLS.
    pub fn speaks_tls(&self) -> bool {
        self.listeners.iter().any(|listener| listener.tls)
    }

    /// What is wrong with the listeners: the number of the `[[listener]]` table if it is in one,
    /// the key, and a sentence.
    pub fn listener_problems(&self) -> Vec<(Option<usize>, &'static str, String)> {
        let all = self.all_listeners();
        let mut problems = Vec::new();
        if all.is_empty() {
            problems.push((None, "listen", "expected at least one".to_owned()));
        }
        for (at, listener) in all.iter().enumerate() {
            let Some(address) = &listener.address else { continue };
            let table = at.checked_sub(self.listen.len());
            let mut complain = |key, text: String| problems.push((table, key, text));
            if all[..at].iter().any(|other| other.address.as_ref() == Some(address)) {
                let key = if table.is_some() { "listener.address" } else { "listen" };
                complain(key, format!("{address} is given twice"));
            }
            if listener.tls && listener.h2c {
                let text = "expected tls or h2c: with TLS the client says which HTTP it speaks";
                complain("listener.h2c", text.to_owned());
            }
            if listener.tls && self.certificates.is_empty() {
                complain("listener.tls", "TLS needs a [[certificate]] table".to_owned());
            }
            if address.ip().is_some() && (listener.owner.is_some() || listener.group.is_some()) {
                let owner = listener.owner.is_some();
                let key = if owner { "listener.owner" } else { "listener.group" };
                complain(key, "only a Unix socket has one".to_owned());
            }
        }
        problems
    }
}
