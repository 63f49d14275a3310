//! An object being inserted, and the result of the insertion.

use crate::base::home::Home;
use crate::base::record::Record;
use crate::base::refusal::Refusal;
use crate::core::fetches::Overtaken;
use crate::format::journal::JournalPosition;

/// An object or piece, complete except for its place.
pub(crate) struct NewObject {
    pub(crate) record: Record,
    /// The fetch that it came from, for objects only.
    pub(crate) fetched: Option<Fetched>,
    /// The tiers to store it in.
    pub(crate) home: Home,
}

/// The time at which an object was fetched.
#[derive(Clone)]
pub(crate) struct Fetched {
    /// Set when the key is removed after the fetch began.
    pub(crate) overtaken: Overtaken,
    /// The last sequence number before the fetch began.
    pub(crate) begun: u64,
}

pub(crate) enum TryInsert {
    /// Visible. If there is a position, the journal must be written up to it before the insertion
    /// counts as done. A record on the device died with the insertion, or shortly before (an
    /// eviction, a damaged record), and is or may be an older version of the object.
    Done(Option<JournalPosition>),
    /// No space now: wait for a change and try again.
    Wait(NewObject),
    /// Refused.
    Refused(Refusal),
}

/// The availability of a place for a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reservation {
    /// There is a place.
    Ready,
    /// There may be a place after a write, a flush or an eviction.
    Wait,
    /// There is none.
    Refused(Refusal),
}
