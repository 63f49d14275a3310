//! The messages, as they are on the wire.
//!
//! It promises: what is read was checked as far as its types tell; a name, position or key that is
//! none is an error, never a default.

use std::collections::BTreeMap;
use std::error::Error;

use bytes::Bytes;
use fleet::{FleetSeed, KeyHash, Member};
use serde::{Deserialize, Serialize};
use store::{Key, Locality, LoggedPurge, Mode, PurgedTarget};

use crate::fleet_control::numbered_purge::NumberedPurge;
use crate::peers::node::Node;

/// Where a node is met: both sides tell what they are and which purges they have, and the one that
/// is asked tells the other those that it lacks.
pub(crate) const HELLO: &str = "/hello";
/// Where a node is told purges, and answers when they are durable there.
pub(crate) const PURGED: &str = "/purged";

/// Where a node is asked about a table of classes.
pub(crate) const POLICY: &str = "/policy";

/// Where a node is offered a copy that leaves another's memory.
pub(crate) const OFFER: &str = "/offer";
/// Where a node is offered a copy of what it owns as soon as the other has left.
pub(crate) const OFFER_OWNED: &str = "/offer/owned";
/// Where a node is asked to make documents invalid everywhere by one that keeps no log of purges.
pub(crate) const INVALIDATE: &str = "/invalidate";
/// Where a node is told to forget one that is lost for good.
pub(crate) const FORGET: &str = "/forget";

/// The reason why a message cannot be understood.
pub(crate) type Misunderstood = Box<dyn Error>;

/// Greeting between two nodes, and its answer. The same in every protocol: see [`fleet::protocol`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Hello {
    pub member: MemberFacts,
    /// The purges that are durable there.
    #[serde(default)]
    pub vector: String,
    /// The node has lost purges, and has not recovered them.
    #[serde(default)]
    pub is_recovering: bool,
    /// The digest of the last purge that it has of the log of the node that it tells this, if it
    /// knows which that was ([`Purge::digest`]).
    #[serde(default)]
    pub last: Option<u64>,
    /// In an answer: the age in milliseconds of what the node knows of others.
    #[serde(default)]
    pub ages: BTreeMap<String, u64>,
    /// In an answer: the other nodes that count for purges there, with their addresses.
    #[serde(default)]
    pub counted: BTreeMap<String, String>,
    /// In an answer: those that count there although they are lost.
    #[serde(default)]
    pub lost: BTreeMap<String, String>,
    /// In an answer: it has known an earlier process of the other.
    #[serde(default)]
    pub has_known: bool,
    /// In an answer: the purges that the other lacks, as many as fit.
    #[serde(default)]
    pub news: News,
}

/// Purges that are told to a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct News {
    /// In order of their numbers for each maker, without gaps.
    pub purges: Vec<Numbered>,
    /// Last numbers of makers whose purges up to there no node can name any more.
    #[serde(default)]
    pub forgotten: String,
}

/// Purge with its place in the sequence of its maker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Numbered {
    maker: String,
    number: u64,
    #[serde(flatten)]
    purge: Purge,
}

impl Numbered {
    pub fn of(numbered: &NumberedPurge) -> Numbered {
        let NumberedPurge { maker, number, purge } = numbered;
        Numbered { maker: maker.to_string(), number: *number, purge: Purge::of(purge) }
    }

    pub fn read(&self) -> Result<NumberedPurge, Misunderstood> {
        let maker = self.maker.parse()?;
        Ok(NumberedPurge { maker, number: self.number, purge: self.purge.logged()? })
    }
}

/// A node's description of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MemberFacts {
    pub name: String,
    pub address: String,
    pub zone: String,
    pub weight: u32,
    pub load: u64,
    pub program: String,
    pub protocols: String,
    pub policy_version: u64,
    #[serde(default)]
    pub disk_failed: bool,
    #[serde(default)]
    pub has_cache: bool,
    pub state: String,
    /// A number that differs from that of the node's former processes.
    #[serde(default)]
    pub process: u64,
    /// When the node said this, by its own monotonic clock in nanoseconds.
    #[serde(default)]
    pub said: u64,
}

impl MemberFacts {
    /// Returns the facts of a node as of now.
    pub fn of(node: &Node) -> MemberFacts {
        let member = node.own();
        MemberFacts {
            process: node.purges().process(),
            said: u64::try_from(node.now().as_nanos()).unwrap_or(u64::MAX),
            name: member.id.to_string(),
            address: member.address.to_string(),
            zone: member.zone.to_string(),
            weight: member.weight,
            load: member.load,
            program: member.program.to_string(),
            protocols: member.protocols.to_string(),
            policy_version: member.policy_version,
            disk_failed: member.disk_failed,
            has_cache: member.has_cache,
            state: member.state.to_string(),
        }
    }

    /// Returns the number of the process that says this, and when it does by its own clock.
    pub fn moment(&self) -> (u64, u64) {
        (self.process, self.said)
    }

    pub fn member(&self) -> Result<Member, Misunderstood> {
        let long = self.zone.len().max(self.program.len()) > 64;
        if long || self.zone.chars().chain(self.program.chars()).any(char::is_control) {
            return Err("a zone or a version is longer than 64 bytes, or not plain".into());
        }
        Ok(Member {
            id: self.name.parse()?,
            address: self.address.parse()?,
            zone: self.zone.as_str().into(),
            weight: self.weight,
            load: self.load,
            program: self.program.as_str().into(),
            protocols: self.protocols.parse()?,
            policy_version: self.policy_version,
            disk_failed: self.disk_failed,
            has_cache: self.has_cache,
            state: self.state.parse()?,
        })
    }
}

/// Purges, as a node tells them that has them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Purged {
    /// The node that tells them.
    pub from: MemberFacts,
    pub news: News,
}

/// The answer of a node that was told purges.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CarriedOut {
    /// Why they are not durable there.
    #[serde(default)]
    pub failed: Option<String>,
    /// The purges that are durable there, of the makers of those that were told.
    pub vector: String,
    /// The digest of the last purge that it has of the log of the node that tells, as far as it
    /// knows: that node may have an older log, or other purges in it.
    #[serde(default)]
    pub last: Option<u64>,
}

/// Documents that were made invalid by an answer to an unsafe request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Invalidate {
    /// Purges of keys; others are ignored.
    pub keys: Vec<Purge>,
}

/// Name of a node that is lost for good.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Forget {
    pub node: String,
}

/// True if a copy that was offered was taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Offered {
    pub taken: bool,
}

/// A table of classes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Policy {
    pub step: PolicyStep,
    pub version: u64,
    pub text: String,
}

/// Stage of a change to the table of classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum PolicyStep {
    /// The one in force is told.
    Tell,
    /// It is only asked whether the node could follow it.
    MayFollow,
    /// It is put in force.
    Follow,
}

/// A purge by name. Bytes are written as hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Purge {
    #[serde(flatten)]
    target: Target,
    soft: bool,
    at: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "of")]
enum Target {
    Everything,
    Label { kind: u8, name: String },
    Prefix { name: String },
    Pattern { name: String },
    Key { name: String, site: u64, group: u64 },
    Url { name: String },
}

impl Purge {
    /// Upper bound on the size in bytes of a written purge without its name, which takes two bytes
    /// for each.
    pub const MAX_BYTES_BESIDE_NAME: usize = 160;

    pub fn of(purge: &LoggedPurge) -> Purge {
        let target = match &purge.target {
            PurgedTarget::Everything => Target::Everything,
            PurgedTarget::Label { kind, name } => Target::Label { kind: *kind, name: hex(name) },
            PurgedTarget::Prefix(name) => Target::Prefix { name: hex(name) },
            PurgedTarget::Pattern(name) => Target::Pattern { name: hex(name) },
            PurgedTarget::Name(name) => Target::Url { name: hex(name) },
            PurgedTarget::Key(key) => {
                let Locality { site, group } = key.locality();
                Target::Key { name: hex(key.as_bytes()), site, group }
            }
        };
        Purge { target, soft: purge.mode == Mode::Soft, at: purge.at }
    }

    /// Returns a number that differs, as good as always, from that of another purge.
    pub fn digest(&self) -> u64 {
        let text = serde_json::to_vec(self).unwrap_or_default();
        KeyHash::of(&text, FleetSeed(0)).bits()
    }

    pub fn logged(&self) -> Result<LoggedPurge, Misunderstood> {
        let target = match &self.target {
            Target::Everything => PurgedTarget::Everything,
            Target::Label { kind, name } => PurgedTarget::Label { kind: *kind, name: unhex(name)? },
            Target::Prefix { name } => PurgedTarget::Prefix(unhex(name)?),
            Target::Pattern { name } => PurgedTarget::Pattern(unhex(name)?),
            Target::Url { name } => PurgedTarget::Name(unhex(name)?),
            Target::Key { name, site, group } => {
                let locality = Locality { site: *site, group: *group };
                let key = Key::new(unhex(name)?, locality).ok_or("a key is too long")?;
                PurgedTarget::Key(key)
            }
        };
        let mode = if self.soft { Mode::Soft } else { Mode::Hard };
        Ok(LoggedPurge { target, mode, at: self.at })
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Result<Bytes, Misunderstood> {
    let digit = |byte: u8| (byte as char).to_digit(16).map(|digit| digit as u8);
    let pairs = text.as_bytes().chunks(2).map(|pair| match pair {
        [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
        _ => None,
    });
    pairs.collect::<Option<Vec<u8>>>().map(Bytes::from).ok_or_else(|| "no hexadecimal bytes".into())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn every_purge_is_written_as_it_is_read() {
        let name = Bytes::from_static(b"\0\xffx");
        let key = Key::new(name.clone(), Locality { site: u64::MAX, group: 1 }).unwrap();
        for target in [
            PurgedTarget::Everything,
            PurgedTarget::Label { kind: 3, name: name.clone() },
            PurgedTarget::Prefix(name.clone()),
            PurgedTarget::Pattern(name.clone()),
            PurgedTarget::Name(name),
            PurgedTarget::Key(key),
        ] {
            let purge = LoggedPurge { target, mode: Mode::Soft, at: 5 };
            let text = serde_json::to_string(&Purge::of(&purge)).unwrap();
            let read: Purge = serde_json::from_str(&text).unwrap();
            assert_eq!(read.logged().unwrap(), purge, "{text}");
        }
        assert!(unhex("0").is_err() && unhex("0g").is_err());
    }
}
