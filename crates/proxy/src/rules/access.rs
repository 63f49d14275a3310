//! Access rules, which decide what each client may request, and the guard of addresses that must
//! not be reached.
//!
//! Decisions are pure: they depend only on the arguments and the rules. Each request is decided
//! twice. [`Access::before`] runs when the request's head is known; it keeps clients without any
//! permission from causing even a name lookup. [`Access::at`] runs for each address about to be
//! connected to, because a name can resolve to anything.
//!
//! No rule can open the proxy's own listeners to a request. Only a rule that names the network lets
//! a client from elsewhere reach this machine or a private network. A response from the cache needs
//! no connection, but it may come from such a network. If [`Access::before`] returns
//! [`Verdict::ByAddress`], the address must be known and checked before stored bytes are served.
//!
//! Rules are tried in order, and the first match decides. Without a match the forward proxy serves
//! the clients of this machine and of the allowed networks, the reverse proxy serves all clients.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::str::FromStr;

use arc_swap::ArcSwap;
use http::Method;
use ipnet::IpNet;
use net::address;
use net::address::Locals;
use net::networks::Networks;

use crate::observe::front_kind::FrontKind;
use crate::observe::outcome::Denied;
use crate::rules::access::access_index::{AccessIndex, HeadMatches, Match};

mod access_index;

/// The action of a matching rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Action {
    /// Serve the request.
    Allow,
    /// Refuse it with 403.
    #[default]
    Deny,
}

/// An access rule. Every non-empty list must have a match; an empty list matches everything.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rule {
    /// The action for requests that match.
    pub action: Action,
    /// Networks of the client.
    pub clients: Vec<IpNet>,
    /// Methods of the request.
    pub methods: Vec<Method>,
    /// Names of the destination, as the URL spells them.
    pub hosts: Vec<HostPattern>,
    /// Networks of the destination, compared with the address that is connected to. An allowing
    /// rule that names the network of a private address opens it to clients from elsewhere.
    pub destinations: Vec<IpNet>,
    /// Ports of the destination.
    pub ports: Vec<PortRange>,
}

impl Rule {
    /// Creates a rule that matches everything.
    pub fn new(action: Action) -> Rule {
        Rule {
            action,
            clients: Vec::new(),
            methods: Vec::new(),
            hosts: Vec::new(),
            destinations: Vec::new(),
            ports: Vec::new(),
        }
    }
}

/// The name of a destination in a rule: `example.com` for the name itself, `.example.com` for the
/// name and all names below it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostPattern {
    /// Lower case, without leading or trailing dots.
    name: String,
    below: bool,
}

impl HostPattern {
    /// Returns whether the pattern matches `host`, ignoring case and a final dot.
    pub fn matches(&self, host: &str) -> bool {
        let host = host.strip_suffix('.').unwrap_or(host).as_bytes();
        let name = self.name.as_bytes();
        let Some(split) = host.len().checked_sub(name.len()) else { return false };
        host[split..].eq_ignore_ascii_case(name)
            && (split == 0 || (self.below && host[split - 1] == b'.'))
    }

    /// Returns the pattern's name, in lower case, without leading or trailing dots.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns whether the pattern also matches all names below its name.
    pub(crate) fn is_for_all_below(&self) -> bool {
        self.below
    }

    /// Returns whether the pattern matches every host that `other` matches.
    pub fn covers(&self, other: &HostPattern) -> bool {
        // A pattern with `below` covers more than its own name.
        self.matches(&other.name) && (self.below || !other.below)
    }
}

impl FromStr for HostPattern {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<HostPattern, PatternError> {
        let wrong = |why: &str| {
            Err(PatternError(format!(
                "{text:?} is not a host pattern: {why}; expected a name (\"example.com\") or a \
                 name with all below it (\".example.com\")"
            )))
        };
        let bare = text.trim_start_matches('[').trim_end_matches(']');
        if bare.parse::<IpAddr>().is_ok() || text.parse::<IpNet>().is_ok() {
            return wrong("it is an address, which belongs into `destinations`");
        }
        let (below, name) = match text.strip_prefix('.') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let name = name.strip_suffix('.').unwrap_or(name);
        if name.is_empty() || name.split('.').any(str::is_empty) {
            return wrong("a part of the name is empty");
        }
        let legal = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
        if !name.bytes().all(legal) {
            return wrong("it has characters that a host name cannot have (no `*`, no port)");
        }
        Ok(HostPattern { name: name.to_ascii_lowercase(), below })
    }
}

/// A port, or an inclusive range of ports: `443`, `8000-8999`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortRange(RangeInclusive<u16>);

impl PortRange {
    /// Makes a range of one port.
    pub fn one(port: u16) -> PortRange {
        PortRange(port..=port)
    }

    /// Returns whether `port` is in the range.
    pub fn contains(&self, port: u16) -> bool {
        self.0.contains(&port)
    }
}

impl FromStr for PortRange {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<PortRange, PatternError> {
        let port = |s: &str| s.parse::<u16>().ok().filter(|&p| p > 0);
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        match (port(first), port(last)) {
            (Some(first), Some(last)) if first <= last => Ok(PortRange(first..=last)),
            _ => Err(PatternError(format!(
                "{text:?} is not a port; expected 1 to 65535, or a range such as 8000-8999"
            ))),
        }
    }
}

/// Error for a pattern that cannot be parsed. Names the text and the expected form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatternError(String);

impl fmt::Display for PatternError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for PatternError {}

/// The facts of a request that access rules decide by.
#[derive(Clone, Copy, Debug)]
pub struct Query<'a> {
    /// Address of the client.
    pub client: IpAddr,
    /// Method of the request.
    pub method: &'a Method,
    /// Host of the target, without port; an IPv6 literal with or without brackets.
    pub host: &'a str,
    /// Port of the target, or the scheme's default port.
    pub port: u16,
}

/// The decision before the destination's address is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Allowed, whatever the address; [`Access::at`] still guards the proxy's own listeners.
    Allow,
    /// The address decides: call [`Access::at`], also before serving stored bytes.
    ByAddress,
    /// Refused.
    Deny(Denial),
}

/// Refusal, with the text that the client gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    /// The reason, for the outcome.
    pub reason: Denied,
    /// Body of the 403: what was refused, why, and how to change it. Plain text with a final line
    /// feed. Contains no address that the client did not name itself.
    pub text: String,
}

/// The access rules of one front.
#[derive(Debug)]
pub struct Access {
    front: FrontKind,
    rules: AccessIndex,
    allow: Networks,
    connect_ports: Vec<PortRange>,
    own: Vec<SocketAddr>,
    locals: ArcSwap<Locals>,
}

impl Access {
    /// Creates access rules with their defaults: no rules, no further allowed networks, `CONNECT`
    /// to port 443.
    pub fn new(front: FrontKind, locals: Locals) -> Access {
        Access {
            front,
            rules: AccessIndex::default(),
            allow: Networks::default(),
            connect_ports: vec![PortRange::one(443)],
            own: Vec::new(),
            locals: ArcSwap::from_pointee(locals),
        }
    }

    /// Sets the rules, which are tried in this order.
    pub fn rules(mut self, rules: Vec<Rule>) -> Access {
        self.rules = AccessIndex::new(&rules);
        self
    }

    /// Sets the networks whose clients may use the forward proxy.
    pub fn allow(mut self, networks: Vec<IpNet>) -> Access {
        self.allow = networks.into();
        self
    }

    /// Sets the ports that `CONNECT` may go to, instead of 443.
    pub fn connect_ports(mut self, ports: Vec<PortRange>) -> Access {
        self.connect_ports = ports;
        self
    }

    /// Sets the bound addresses of all the proxy's listeners, including the admin interface.
    pub fn own(mut self, listeners: Vec<SocketAddr>) -> Access {
        self.own = listeners;
        self
    }

    /// Sets the machine's current addresses.
    pub fn set_locals(&self, locals: Locals) {
        self.locals.store(locals.into());
    }

    /// Decides on a request before its destination is resolved.
    pub fn before(&self, query: &Query<'_>) -> Verdict {
        // A rule that depends on the address may match or not. Each result is possible, up to the
        // first rule that certainly matches.
        let HeadMatches { allowed, by_address, decided } = self.rules.head_matches(query);
        let denial = match decided {
            _ if allowed => None,
            true => Some(by_rule(query)),
            false => self.default(query).err(),
        };
        if let Some(denial) = denial {
            return Verdict::Deny(denial);
        }
        if let Err(denial) = self.connect_port(query) {
            return Verdict::Deny(denial);
        }
        if by_address || self.guards_private(query) { Verdict::ByAddress } else { Verdict::Allow }
    }

    /// Decides on a request for the address that is about to be connected to.
    pub fn at(&self, query: &Query<'_>, address: SocketAddr) -> Result<(), Denial> {
        let matched = self.rules.find(query, address.ip());
        match &matched {
            Some(rule) if rule.action == Action::Deny => return Err(by_rule(query)),
            Some(_) => {}
            None => self.default(query)?,
        }
        self.connect_port(query)?;
        if self.is_own(address) {
            return Err(Denial {
                reason: Denied::OwnAddress,
                text: format!(
                    "Larder refused this request: {}:{} is one of its own addresses. This cannot \
                     be changed; ask the service behind it directly.\n",
                    query.host, query.port
                ),
            });
        }
        if self.guards_private(query) && self.is_private(address.ip(), matched.as_ref()) {
            return Err(Denial {
                reason: Denied::PrivateAddress,
                text: format!(
                    "Larder refused this request: {} is on a private network or on the machine \
                     that Larder runs on, and {} is a client from elsewhere. To allow it, add a \
                     rule to the configuration whose `destinations` contain the destination.\n",
                    query.host, query.client
                ),
            });
        }
        Ok(())
    }

    /// Decides on the address of a server that a request, or a redirect of the origin, names.
    /// Unlike [`Access::at`] it closes private addresses in every kind of proxy and for every
    /// client.
    pub fn at_named(&self, query: &Query<'_>, address: SocketAddr) -> Result<(), Denial> {
        self.at(query, address)?;
        let matched = self.rules.find(query, address.ip());
        if self.is_private(address.ip(), matched.as_ref()) {
            let text = format!(
                "Larder refused this request: the server that {} leads to has a private address. \
                 To allow it, name the server in `allowed-hosts`, or its network in the \
                 `destinations` of an access rule.\n",
                query.host
            );
            return Err(Denial { reason: Denied::PrivateAddress, text });
        }
        Ok(())
    }

    /// Decides on a request that no rule matches.
    fn default(&self, query: &Query<'_>) -> Result<(), Denial> {
        let client = address::canonical(query.client);
        if self.front == FrontKind::Reverse || self.is_local(client) || self.allow.contain(client) {
            return Ok(());
        }
        Err(Denial {
            reason: Denied::Client,
            text: format!(
                "Larder refused this request: the proxy is open to clients of its own machine, \
                 and {client} is not one. To open it, start Larder with `--allow {client}` or \
                 with a network (`--allow CIDR`), or add it to `allow` in the configuration.\n"
            ),
        })
    }

    fn connect_port(&self, query: &Query<'_>) -> Result<(), Denial> {
        if query.method != Method::CONNECT
            || self.connect_ports.iter().any(|ports| ports.contains(query.port))
        {
            return Ok(());
        }
        Err(Denial {
            reason: Denied::ConnectPort,
            text: format!(
                "Larder refused this request: CONNECT to port {} is not open. To open it, add \
                 the port to `connect-ports` in the configuration.\n",
                query.port
            ),
        })
    }

    /// Returns whether private addresses are closed to this client unless a rule names them.
    fn guards_private(&self, query: &Query<'_>) -> bool {
        self.front == FrontKind::Forward && !self.is_local(query.client)
    }

    /// Returns whether any form of the address is special or belongs to this machine, and the rule
    /// names no network that contains it.
    fn is_private(&self, ip: IpAddr, rule: Option<&Match>) -> bool {
        let locals = self.locals.load();
        let is_opened = |face| rule.is_some_and(|rule| self.rules.names_network_of(rule, face));
        address::faces(ip).any(|f| (address::is_special(f) || locals.contains(f)) && !is_opened(f))
    }

    fn is_own(&self, address: SocketAddr) -> bool {
        self.own.iter().any(|own| {
            own.port() == address.port()
                && (self.is_local(address.ip())
                    || address::faces(address.ip()).any(|f| f == address::canonical(own.ip())))
        })
    }

    fn is_local(&self, ip: IpAddr) -> bool {
        self.locals.load().contains(ip)
    }
}

fn by_rule(query: &Query<'_>) -> Denial {
    Denial {
        reason: Denied::Rule,
        text: format!(
            "Larder refused this request: a rule in its configuration forbids {} {}:{} for {}.\n",
            query.method, query.host, query.port, query.client
        ),
    }
}

#[cfg(test)]
mod tests;
