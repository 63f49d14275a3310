//! A node of a fleet as the other nodes see it.
//!
//! What stands here is what a node says of itself, some moments ago: decisions may follow it, and
//! none may rely on it.

use std::error::Error;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_64;

use crate::log_position::LogPosition;
use crate::protocol::Protocols;

/// Most bytes of a member's name.
pub const NAME_MAX: usize = 64;

/// A text that is no name, address or state of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidMember {
    what: &'static str,
    given: Box<str>,
    wanted: &'static str,
}

impl fmt::Display for InvalidMember {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is no {} of a member: {}", self.given, self.what, self.wanted)
    }
}

impl Error for InvalidMember {}

/// The name of a member, which is the same on all nodes and at all times: what owns keys is the
/// name, so that a node keeps its documents when its address changes.
#[derive(Clone, Debug)]
pub struct MemberId {
    name: Arc<str>,
    /// XXH3 of the name: what placement mixes with a key.
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

/// Where a member is reached by the others: a host name or IP address, and a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    host: Arc<str>,
    port: u16,
}

impl Address {
    /// Returns the host; an IPv6 address without brackets.
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

/// What a member takes part in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// It starts: it owns nothing yet and is not asked.
    Joining,
    /// It owns its share of the keys and is asked.
    Serving,
    /// It stops: it owns nothing any more, is offered nothing, and uses nothing that it has.
    Leaving,
}

impl State {
    const ALL: [State; 3] = [State::Joining, State::Serving, State::Leaving];

    /// Returns its word.
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
    /// Its name.
    pub id: MemberId,
    /// Where it is reached.
    pub address: Address,
    /// What it fails together with (a rack, a data centre); copies prefer different zones. Empty is
    /// a zone like any other.
    pub zone: Arc<str>,
    /// Its share of the keys, relative to the others', best the size of its cache on disk. A member
    /// of weight 0 owns nothing; it answers its clients, and others from its memory.
    pub weight: u32,
    /// Requests that it had under way when it last said so.
    pub load: u64,
    /// The version of its program, for operators; decides nothing.
    pub program: Arc<str>,
    /// What it understands.
    pub protocols: Protocols,
    /// The version of its [`ClassTable`](crate::ClassTable), for operators; decides nothing.
    pub policy_version: u64,
    /// The end of its log of purges.
    pub purges: LogPosition,
    /// What it takes part in.
    pub state: State,
}

impl Member {
    /// Returns whether it may own keys.
    pub fn may_own(&self) -> bool {
        self.state == State::Serving && self.weight > 0
    }

    /// Returns whether it may be asked for what it has: one that comes or goes uses none of it.
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
            "\"a b\" is no name of a member: use 1 to 64 of A-Z, a-z, 0-9, '-', '.' and '_'"
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
