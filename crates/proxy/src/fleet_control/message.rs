//! The messages, as they are on the wire.
//!
//! It promises: what is read was checked as far as its types tell; a name, position or key that is
//! none is an error, never a default.

use std::error::Error;
use std::time::Duration;

use bytes::Bytes;
use fleet::{FleetSeed, KeyHash, Member};
use serde::{Deserialize, Serialize};
use store::{Key, Locality, LoggedPurge, Mode, PurgedTarget};

use crate::peers::greeted::Known;

/// Where a node is met: both sides tell what they are and how far they have come.
pub(crate) const HELLO: &str = "/hello";
/// Where the purges of a log are read.
pub(crate) const PURGES: &str = "/purges";
/// Where a node is told purges by the one at which they were made, and answers when it has carried
/// them out.
pub(crate) const PURGED: &str = "/purged";

/// Where a node is asked about a table of classes.
pub(crate) const POLICY: &str = "/policy";

/// Where a node is offered a copy that leaves another's memory.
pub(crate) const OFFER: &str = "/offer";
/// Where a node is offered a copy of what it owns as soon as the other has left.
pub(crate) const OFFER_OWNED: &str = "/offer/owned";
/// Where a node is asked to make documents invalid everywhere by one that keeps no log of purges.
pub(crate) const FORGET: &str = "/forget";

/// The reason why a message cannot be understood.
pub(crate) type Misunderstood = Box<dyn Error>;

/// Greeting between two nodes, and its answer. The same in every protocol: see [`fleet::protocol`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Hello {
    pub member: MemberFacts,
    /// How far it has come in the logs of all.
    pub positions: String,
    /// How far logs have come of which it has only heard: who meets this node alone must not take
    /// itself for up to date.
    #[serde(default)]
    pub heard: String,
    /// The digest of the last purge that it carried out of the log of the node that it tells this,
    /// if it knows which that was ([`Purge::digest`]).
    #[serde(default)]
    pub last: Option<u64>,
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
    pub purges: String,
    pub state: String,
}

impl MemberFacts {
    pub fn of(member: &Member) -> MemberFacts {
        MemberFacts {
            name: member.id.to_string(),
            address: member.address.to_string(),
            zone: member.zone.to_string(),
            weight: member.weight,
            load: member.load,
            program: member.program.to_string(),
            protocols: member.protocols.to_string(),
            policy_version: member.policy_version,
            disk_failed: member.disk_failed,
            purges: member.purges.to_string(),
            state: member.state.to_string(),
        }
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
            purges: self.purges.parse()?,
            state: self.state.parse()?,
        })
    }
}

/// A question for the purges of one node's log, which another may have kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PurgesOf {
    pub node: String,
    pub since: String,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Purges {
    /// `None`: it cannot be said which there were.
    pub purges: Option<Vec<Purge>>,
    /// The position behind them.
    pub end: String,
    /// The digest of the last purge before that, where the log tells.
    #[serde(default)]
    pub last: Option<u64>,
}

/// Purges, as the node at which they were made tells them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Purged {
    /// The node at which they were made.
    pub maker: MemberFacts,
    /// The position before the first of them.
    pub since: String,
    /// `None`: the log does not reach back to `since`.
    pub purges: Option<Vec<Purge>>,
    /// The position behind them.
    pub end: String,
    /// The nodes that are told.
    #[serde(default)]
    pub told: Vec<String>,
}

/// The answer of a node that was told of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CarriedOut {
    /// Why it has not been carried out durably. Such a node may use nothing that it has before it
    /// has, and forgets that when it ends.
    #[serde(default)]
    pub failed: Option<String>,
    /// How far it follows the log of the node that tells, and the digest of the last purge before
    /// that, as far as it knows: that node may have an older log, or other purges in it.
    #[serde(default)]
    pub followed: Option<String>,
    #[serde(default)]
    pub last: Option<u64>,
    /// Nodes that it knows besides those that are told.
    #[serde(default)]
    pub others: Vec<KnownNode>,
}

/// A node that another one knows of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KnownNode {
    pub name: String,
    pub address: String,
    /// For how many milliseconds it has been lost there; `None`: it lives.
    pub lost_for: Option<u64>,
}

impl KnownNode {
    pub fn of(known: &Known) -> KnownNode {
        let lost_for = known.lost_for.map(|since| since.as_millis() as u64);
        KnownNode { name: known.id.to_string(), address: known.at.to_string(), lost_for }
    }

    pub fn known(&self) -> Result<Known, Misunderstood> {
        let lost_for = self.lost_for.map(Duration::from_millis);
        Ok(Known { id: self.name.parse()?, at: self.address.parse()?, lost_for })
    }
}

/// Documents that were made invalid by an answer to an unsafe request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Forget {
    /// Purges of keys; others are ignored.
    pub keys: Vec<Purge>,
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
