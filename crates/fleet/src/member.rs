//! A node of a fleet as the other nodes see it.
//!
//! A node reports these facts about itself, and they may be some moments old. Decisions may use
//! them but must not depend on them for correctness.

use std::error::Error;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;
use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_64;

use crate::protocol::Protocols;

/// Maximum bytes of a member's name.
pub const NAME_MAX: usize = 64;

/// Error: a text is not a member's name, address or state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidMember {
    what: &'static str,
    given: Box<str>,
    wanted: &'static str,
}

impl fmt::Display for InvalidMember {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is not a valid {} of a member: {}", self.given, self.what, self.wanted)
    }
}

impl Error for InvalidMember {}

/// Name of a member, the same on all nodes and at all times. Ownership follows the name, so a node
/// keeps its documents when its address changes.
#[derive(Clone, Debug)]
pub struct MemberId {
    name: Arc<str>,
    /// XXH3 of the name; placement combines it with a key.
    digest: u64,
}

impl MemberId {
    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.name
    }

    /// Returns the hash of the name (XXH3, 64 bits, seed 0), the same on every platform.
    pub(crate) fn digest(&self) -> u64 {
        self.digest
    }
}

impl FromStr for MemberId {
    type Err = InvalidMember;

    fn from_str(name: &str) -> Result<MemberId, InvalidMember> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        if name.is_empty() || name.len() > NAME_MAX || !name.bytes().all(plain) {
            return Err(InvalidMember {
                what: "name",
                given: name.into(),
                wanted: "use 1 to 64 of A-Z, a-z, 0-9, '-', '.' and '_'",
            });
        }
        Ok(MemberId { name: name.into(), digest: xxh3_64(name.as_bytes()) })
    }
}

impl PartialEq for MemberId {
    fn eq(&self, other: &MemberId) -> bool {
        self.name == other.name
    }
}

impl Eq for MemberId {}

impl Hash for MemberId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl PartialOrd for MemberId {
    fn partial_cmp(&self, other: &MemberId) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for MemberId {
    fn cmp(&self, other: &MemberId) -> std::cmp::Ordering {
        self.name.cmp(&other.name)
    }
}

impl fmt::Display for MemberId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// Address at which other members reach a member: host name or IP address, and port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    host: Arc<str>,
    port: u16,
}

impl Address {
    /// Returns the host; an IPv6 address comes without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Returns the port, never 0.
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl FromStr for Address {
    type Err = InvalidMember;

    fn from_str(text: &str) -> Result<Address, InvalidMember> {
        parse_address(text).ok_or_else(|| InvalidMember {
            what: "address",
            given: text.into(),
            wanted: "write host:port or [IPv6 address]:port, with a port from 1 to 65535",
        })
    }
}

/// Splits `host:port` or `[address]:port`.
fn parse_address(text: &str) -> Option<Address> {
    let (host, port) = text.rsplit_once(':')?;
    let named = |host: &str| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        !host.is_empty() && host.len() <= 253 && host.bytes().all(plain)
    };
    let host = match host.strip_prefix('[') {
        Some(rest) => {
            let inner = rest.strip_suffix(']')?;
            inner.parse::<std::net::Ipv6Addr>().ok()?;
            inner
        }
        None if named(host) => host,
        None => return None,
    };
    if !port.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let port = port.parse().ok().filter(|port| *port != 0)?;
    Some(Address { host: host.into(), port })
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// State of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// It is starting: it owns no keys and is not asked.
    Joining,
    /// It owns its share of the keys and is asked.
    Serving,
    /// It is stopping: it owns no keys, is offered no copies, and serves none of its own.
    Leaving,
}

impl State {
    const ALL: [State; 3] = [State::Joining, State::Serving, State::Leaving];

    /// Returns the state as written in messages.
    pub fn as_str(self) -> &'static str {
        match self {
            State::Joining => "joining",
            State::Serving => "serving",
            State::Leaving => "leaving",
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for State {
    type Err = InvalidMember;

    fn from_str(word: &str) -> Result<State, InvalidMember> {
        State::ALL.into_iter().find(|state| state.as_str() == word).ok_or_else(|| InvalidMember {
            what: "state",
            given: word.into(),
            wanted: "the states are joining, serving and leaving",
        })
    }
}

/// A node as the others see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Name of the node.
    pub id: MemberId,
    /// Where other nodes reach it.
    pub address: Address,
    /// Failure domain (rack, data centre); copies prefer different zones. An empty zone is a zone
    /// like any other.
    pub zone: Arc<str>,
    /// Share of the keys relative to other members; use the size of the disk cache. A member of
    /// weight 0 owns nothing: it answers clients, and other nodes from its memory.
    pub weight: u32,
    /// Requests under way, as last reported.
    pub load: u64,
    /// Program version, for operators; decides nothing.
    pub program: Arc<str>,
    /// Protocols that it understands.
    pub protocols: Protocols,
    /// Version of its [`ClassTable`](crate::ClassTable), for operators; decides nothing.
    pub policy_version: u64,
    /// True if one of its disks failed: it owns less, or nothing.
    pub disk_failed: bool,
    /// True if it keeps copies, and so takes part in purges.
    pub has_cache: bool,
    /// Current state.
    pub state: State,
}

impl Member {
    /// Returns whether it may own keys.
    pub fn may_own(&self) -> bool {
        self.state == State::Serving && self.weight > 0
    }

    /// Returns whether it may be asked for its copies. A member that joins or leaves may not.
    pub fn may_be_asked(&self) -> bool {
        self.state == State::Serving
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_short_and_plain() {
        assert_eq!("node-1.eu_a".parse::<MemberId>().unwrap().as_str(), "node-1.eu_a");
        for wrong in ["", "a b", "a\n", "ä", "a:1", &"x".repeat(65)] {
            assert!(wrong.parse::<MemberId>().is_err(), "{wrong:?}");
        }
        let error = "a b".parse::<MemberId>().unwrap_err().to_string();
        assert_eq!(
            error,
            "\"a b\" is not a valid name of a member: use 1 to 64 of A-Z, a-z, 0-9, '-', '.' and \
             '_'"
        );
    }

    #[test]
    fn an_address_is_written_as_it_is_read() {
        for right in ["node1:80", "10.0.0.1:8080", "[::1]:65535"] {
            assert_eq!(right.parse::<Address>().unwrap().to_string(), right);
        }
        assert_eq!("[::1]:9".parse::<Address>().unwrap().host(), "::1");
        for wrong in ["", "node1", "node1:", ":80", "a:0", "a:65536", "a:+1", "::1:80", "[a]:1"] {
            assert!(wrong.parse::<Address>().is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_state_is_written_as_it_is_read() {
        for state in State::ALL {
            assert_eq!(state.to_string().parse(), Ok(state));
        }
        assert!("gone".parse::<State>().is_err());
    }
}
