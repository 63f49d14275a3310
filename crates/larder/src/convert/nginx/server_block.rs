//! The server blocks of nginx.

use crate::convert::nginx::syntax::Directive;
use crate::convert::output::Output;

/// A server block.
#[derive(Clone, Debug)]
pub struct Server<'a> {
    pub directive: &'a Directive,
    /// Hosts, without those that have no equivalent.
    pub names: Vec<String>,
    /// Domains whose hosts rules can name, and sites cannot, such as `.example.com`.
    pub below: Vec<String>,
    /// Names that sites cannot have, and why.
    pub odd: Vec<(String, &'static str)>,
    /// It listens without TLS.
    pub http: bool,
    pub https: bool,
    /// It answers for hosts that no server names.
    pub is_default: bool,
    /// Its addresses at which another server is the default.
    pub not_default_at: Vec<String>,
    /// Addresses, and whether they are with TLS.
    pub addresses: Vec<(String, bool)>,
}

impl<'a> Server<'a> {
    pub fn new(directive: &'a Directive) -> Server<'a> {
        let (mut names, mut below, mut odd) = (Vec::new(), Vec::new(), Vec::new());
        let all = directive.inner().iter().filter(|one| one.name == "server_name");
        for name in all.flat_map(|one| &one.args) {
            let name = name.to_ascii_lowercase();
            match name.as_str() {
                "_" | "" | "\"\"" => {}
                _ if name.starts_with('~') || name.starts_with('$') => {
                    odd.push((name, "a site's hosts are names, not expressions"));
                }
                _ if name.starts_with("*.") && !name[2..].contains('*') => {
                    below.push(name[1..].to_owned());
                    odd.push((name, "a site's hosts are whole names: list them"));
                }
                _ if name.contains('*') => {
                    odd.push((name, "a site's hosts are whole names: list them"));
                }
                _ if name.starts_with('.') => {
                    names.push(name[1..].to_owned());
                    below.push(name.clone());
                    odd.push((name, "a site's hosts are whole names: list those below it"));
                }
                _ => names.push(name),
            }
        }
        names.dedup();
        Server {
            directive,
            names,
            below,
            odd,
            http: false,
            https: false,
            is_default: false,
            not_default_at: Vec::new(),
            addresses: Vec::new(),
        }
    }

    pub fn block(&self) -> &'a [Directive] {
        self.directive.inner()
    }

    /// Reports a loss of the server.
    pub fn lose(&self, directive: &str, reason: &str, out: &mut Output) {
        out.lose(&self.directive.at, directive, reason);
    }

    pub fn called(&self) -> &str {
        self.names.first().or(self.below.first()).map_or("default", String::as_str)
    }

    /// Hosts as rules name them.
    pub fn hosts(&self) -> impl Iterator<Item = &String> {
        self.names.iter().chain(&self.below)
    }

    pub fn host_list(&self) -> Vec<String> {
        self.hosts().cloned().collect()
    }

    pub fn shares_scheme(&self, other: &Server<'_>) -> bool {
        (self.http && other.http) || (self.https && other.https)
    }

    pub fn shares_address(&self, other: &Server<'_>) -> bool {
        self.addresses.iter().any(|address| other.addresses.contains(address))
    }

    /// Returns whether only this machine reaches the server.
    pub fn is_local(&self) -> bool {
        self.addresses.iter().all(|(address, _)| is_local(address))
    }

    /// Returns the addresses with this server's protocols at which others listen and it does not.
    pub fn not_here<'s>(&self, all: &'s [Server<'_>]) -> Vec<&'s str> {
        let mut found: Vec<&str> = all
            .iter()
            .flat_map(|other| &other.addresses)
            .filter(|other| self.addresses.iter().any(|(_, tls)| *tls == other.1))
            .filter(|other| !self.addresses.contains(other))
            .map(|(address, _)| address.as_str())
            .collect();
        found.sort_unstable();
        found.dedup();
        found
    }
}

/// Returns whether only this machine reaches an address.
fn is_local(address: &str) -> bool {
    let parsed = address.parse::<std::net::SocketAddr>();
    parsed.map_or(address.starts_with("unix:"), |address| address.ip().is_loopback())
}
