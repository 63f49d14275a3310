//! A purge by name, as it is told to another store, and a place in the log of them.

use bytes::Bytes;

use crate::base::key::Key;
use crate::base::labels::{Label, Mode, Target};

/// What a purge concerned, by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PurgedTarget {
    /// Every object.
    Everything,
    /// Every object with this label.
    Label {
        /// See [`Label::kind`].
        kind: u8,
        /// See [`Label::name`].
        name: Bytes,
    },
    /// Every object whose text begins so.
    Prefix(Bytes),
    /// The object with this key.
    Key(Key),
}

impl PurgedTarget {
    /// The same with a copy of the name.
    pub(crate) fn of(target: &Target<'_>) -> PurgedTarget {
        match *target {
            Target::Everything => PurgedTarget::Everything,
            Target::Label(Label { kind, name }) => {
                PurgedTarget::Label { kind, name: Bytes::copy_from_slice(name) }
            }
            Target::Prefix(prefix) => PurgedTarget::Prefix(Bytes::copy_from_slice(prefix)),
        }
    }

    /// As the target of a purge; `None`: it is a key.
    pub(crate) fn as_target(&self) -> Option<Target<'_>> {
        match self {
            PurgedTarget::Everything => Some(Target::Everything),
            PurgedTarget::Label { kind, name } => Some(Target::Label(Label { kind: *kind, name })),
            PurgedTarget::Prefix(prefix) => Some(Target::Prefix(prefix)),
            PurgedTarget::Key(_) => None,
        }
    }
}

/// A purge that was logged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedPurge {
    /// What it concerned.
    pub target: PurgedTarget,
    /// What it did with that. The purge of a key is hard.
    pub mode: Mode,
    /// When it was made, in unix seconds.
    pub at: u64,
}

/// A place in a store's log of purges, between two of them. It outlives the store: it holds in the
/// next run, and may be kept by whoever follows the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PurgePosition {
    /// Names the log: another one begins when what was purged before is not known for sure.
    pub(crate) log: u64,
    /// Purges before it.
    pub(crate) number: u64,
}

impl PurgePosition {
    /// Makes the position behind the first `number` purges of the log with the number `log`.
    pub const fn new(log: u64, number: u64) -> PurgePosition {
        PurgePosition { log, number }
    }

    /// Returns the number of the log.
    pub const fn log(self) -> u64 {
        self.log
    }

    /// Returns how many purges of the log stand before it.
    pub const fn number(self) -> u64 {
        self.number
    }

    /// The position as bytes, to be stored or sent.
    pub fn to_bytes(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.log.to_le_bytes());
        bytes[8..].copy_from_slice(&self.number.to_le_bytes());
        bytes
    }

    /// The position that [`PurgePosition::to_bytes`] gave. Any other bytes name a place that no log
    /// has.
    pub fn from_bytes(bytes: [u8; 16]) -> PurgePosition {
        let bits = u128::from_le_bytes(bytes);
        PurgePosition { log: bits as u64, number: (bits >> 64) as u64 }
    }
}

/// What a log says of the purges since a position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PurgesSince {
    /// These, in their order, and the position behind them. There may be more: ask again from there
    /// until there are none.
    Purges(Vec<LoggedPurge>, PurgePosition),
    /// The log does not reach back so far, or is another one: whatever was stored before counts as
    /// purged. It goes on from this position.
    TooOld(PurgePosition),
}
