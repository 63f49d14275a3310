//! Purges by name, as other stores receive them, and positions in their log.

use bytes::Bytes;

use crate::base::key::Key;
use crate::base::labels::{Label, Mode, Target};

/// The objects that a purge concerned, by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PurgedTarget {
    /// Every object.
    Everything,
    /// Every object with this label.
    Label {
        /// The kind of the label ([`Label::kind`]).
        kind: u8,
        /// The name of the label ([`Label::name`]).
        name: Bytes,
    },
    /// Every object whose text begins with these bytes.
    Prefix(Bytes),
    /// Every object that this pattern matches.
    Pattern(Bytes),
    /// The object with this key.
    Key(Key),
    /// The objects that the store's user calls by this name, such as a URL. The user alone knows
    /// their keys, which may differ from store to store.
    Name(Bytes),
}

impl PurgedTarget {
    /// Returns the bytes that name the objects; none for all objects.
    pub fn name(&self) -> &[u8] {
        match self {
            PurgedTarget::Everything => &[],
            PurgedTarget::Label { name, .. }
            | PurgedTarget::Prefix(name)
            | PurgedTarget::Pattern(name)
            | PurgedTarget::Name(name) => name,
            PurgedTarget::Key(key) => key.as_bytes(),
        }
    }

    /// Returns an owned copy of `target`.
    pub fn of(target: &Target<'_>) -> PurgedTarget {
        match *target {
            Target::Everything => PurgedTarget::Everything,
            Target::Label(Label { kind, name }) => {
                PurgedTarget::Label { kind, name: Bytes::copy_from_slice(name) }
            }
            Target::Prefix(prefix) => PurgedTarget::Prefix(Bytes::copy_from_slice(prefix)),
            Target::Pattern(pattern) => PurgedTarget::Pattern(Bytes::copy_from_slice(pattern)),
        }
    }

    /// Returns the target of a purge; `None` for a single key or a name.
    pub fn as_target(&self) -> Option<Target<'_>> {
        match self {
            PurgedTarget::Everything => Some(Target::Everything),
            PurgedTarget::Label { kind, name } => Some(Target::Label(Label { kind: *kind, name })),
            PurgedTarget::Prefix(prefix) => Some(Target::Prefix(prefix)),
            PurgedTarget::Pattern(pattern) => Some(Target::Pattern(pattern)),
            PurgedTarget::Key(_) | PurgedTarget::Name(_) => None,
        }
    }
}

/// An entry of the purge log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedPurge {
    /// The objects that it concerned.
    pub target: PurgedTarget,
    /// Its effect on them. The purge of a key is always [`Mode::Hard`].
    pub mode: Mode,
    /// Time of the purge, in unix seconds.
    pub at: u64,
}

/// A position between two entries of a store's purge log. It stays valid across restarts, and a
/// follower of the log may store it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PurgePosition {
    /// Number of the log. A new log begins when earlier purges are not known for sure.
    pub(crate) log: u64,
    /// Number of entries before the position.
    pub(crate) number: u64,
}

impl PurgePosition {
    /// Returns the position behind the first `number` purges of the log with the number `log`.
    pub const fn new(log: u64, number: u64) -> PurgePosition {
        PurgePosition { log, number }
    }

    /// Returns the number of the log.
    pub const fn log(self) -> u64 {
        self.log
    }

    /// Returns how many purges of the log precede this position.
    pub const fn number(self) -> u64 {
        self.number
    }

    /// Encodes the position, to be stored or sent.
    pub fn to_bytes(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.log.to_le_bytes());
        bytes[8..].copy_from_slice(&self.number.to_le_bytes());
        bytes
    }

    /// Decodes a position encoded by [`PurgePosition::to_bytes`]. Any other bytes yield a position
    /// that no log has.
    pub fn from_bytes(bytes: [u8; 16]) -> PurgePosition {
        let bits = u128::from_le_bytes(bytes);
        PurgePosition { log: bits as u64, number: (bits >> 64) as u64 }
    }
}

/// The purges that a log has since a position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PurgesSince {
    /// Purges in order, and the position behind them. There may be more: ask again from that
    /// position until the list is empty.
    Purges(Vec<LoggedPurge>, PurgePosition),
    /// The log does not reach back that far, or is another one: everything stored before counts as
    /// purged. The log continues at this position.
    TooOld(PurgePosition),
}

/// A node that makes purges, in one of its incarnations.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PurgeMaker {
    /// Name of the node, at most 255 bytes. Empty for the store that keeps the log.
    pub name: Bytes,
    /// Changes when the node cannot know the purges that it made before. That of the store itself
    /// is the number of its log.
    pub incarnation: u64,
}

/// A purge with the node that made it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MadePurge {
    /// The node that made it.
    pub maker: PurgeMaker,
    /// Counts the purges of the maker, from 1 without gaps.
    pub number: u64,
    /// The purge.
    pub purge: LoggedPurge,
}

/// Purges of one node that a caller lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PurgeRange {
    /// The node that made them.
    pub maker: PurgeMaker,
    /// Number of the last purge that the caller has; 0 for none.
    pub after: u64,
    /// Number of the last purge that it lacks.
    pub through: u64,
}

/// The purges in ranges that a caller lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PurgesLacking {
    /// Purges in the order in which they were logged. There may be more: ask again for what is
    /// still lacking, until the list is empty.
    Purges(Vec<MadePurge>),
    /// The log does not have all of them.
    TooOld,
}
