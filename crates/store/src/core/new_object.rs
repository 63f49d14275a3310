//! An object on its way in, and what becomes of it.

use crate::base::home::Home;
use crate::base::record::Record;
use crate::base::refusal::Refusal;
use crate::core::fetches::Overtaken;
use crate::format::journal::JournalPosition;

/// An object or piece, complete but for its place.
pub(crate) struct NewObject {
    pub(crate) record: Record,
    /// The fetch that it came from: objects only.
    pub(crate) fetched: Option<Fetched>,
    /// Where it is kept.
    pub(crate) home: Home,
}

/// When an object was fetched.
#[derive(Clone)]
pub(crate) struct Fetched {
    /// Set when its key was removed since the fetch began.
    pub(crate) overtaken: Overtaken,
    /// The sequence number that was the last when it began.
    pub(crate) begun: u64,
}

/// What became of an insertion.
#[expect(clippy::large_enum_variant, reason = "the object is moved, and not allocated, each time")]
pub(crate) enum TryInsert {
    /// Visible. The journal must be written up to that position before the insertion counts as
    /// done: something on the device died with it, or shortly before (an eviction, a damaged
    /// record), and is, or may be, an older version of it.
    Done(Option<JournalPosition>),
    /// No room now: wait for a change and try again.
    Wait(NewObject),
    /// Refused for good.
    Refused(Refusal),
}

/// Whether there is a place for a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    /// Yes.
    Ready,
    /// After a write, a flush or an eviction, perhaps.
    Wait,
    /// No.
    Refused(Refusal),
}
