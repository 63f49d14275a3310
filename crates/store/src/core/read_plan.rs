//! What a lookup finds under the lock, and what must be read for it.

use std::sync::Arc;

use bytes::Bytes;
use device::Extent;

use crate::base::digest::Digest;
use crate::base::limits::ClusterId;
use crate::base::record::{Place, RecordKind};
use crate::base::source::Source;
use crate::config::lookup_options::LookupOptions;
use crate::format::device_layout::Areas;
use crate::memory::object::Object;
use crate::read::ahead::Ahead;
use crate::read::reads::{ReadTiming, WindowId};
use crate::space::{Location, Split};

/// Which record a lookup wants, so that one with an equal tag is not mistaken for it.
#[derive(Clone, Copy)]
pub(crate) enum Expected<'a> {
    /// An object with this key.
    Key(&'a [u8]),
    /// A piece; its digest names it.
    Piece,
}

impl Expected<'_> {
    /// Returns whether `object` is the one.
    pub(crate) fn is(self, object: &Object) -> bool {
        match self {
            Expected::Key(key) => object.header.kind == RecordKind::Object && object.key == key,
            Expected::Piece => object.header.kind == RecordKind::Piece,
        }
    }
}

/// What a lookup is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A request: it is counted as a hit or a miss.
    Request,
    /// A piece of an object that was found.
    Piece,
    /// A neighbour that is to be in memory: it enters whatever the tier's admission says.
    Neighbour,
}

/// What a lookup looks for, and how.
#[derive(Clone, Copy)]
pub(crate) struct LookupRequest<'a> {
    pub(crate) digest: Digest,
    pub(crate) expected: Expected<'a>,
    pub(crate) purpose: Purpose,
    pub(crate) options: LookupOptions,
}

/// Why a plan's reads did not give what was wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadFailure {
    /// Something was not read, or the lookup was dropped.
    NotRead,
    /// A whole record of another key: equal tags.
    OtherKey,
    /// The record at the plan's position is damaged.
    Damaged,
}

/// Whether a lookup may wait for a read that is under way for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitPolicy {
    /// It may.
    Join,
    /// It did, and its record did not come along.
    ReadAlone,
}

/// What a glance shows under the lock ([`Core::glance`](crate::core::Core::glance)).
pub(crate) enum Glanced {
    /// An object in memory, with all of its body. It is counted.
    Whole(Arc<Object>),
    /// Something that a lookup may find, but not in the memory tier.
    Elsewhere,
    /// Nothing, or what is in pieces.
    Nothing,
}

/// What a lookup found under the lock.
pub(crate) enum Finding {
    /// The object, verified.
    Object(Arc<Object>, Source),
    /// An earlier read brought it along: verify it, and say so with `Core::loaded_ahead`.
    Ahead(Ahead, Bytes),
    /// It may be on the device: the cluster is pinned until `Core::loaded` or `Core::read_failed`.
    Read(ReadPlan),
    /// A read that is under way for another brings it along: look again when that has ended.
    InFlight(WindowId),
    /// Not here.
    Nothing,
}

/// What must be read for a lookup.
pub(crate) struct ReadPlan {
    pub(crate) digest: Digest,
    pub(crate) position: u32,
    pub(crate) place: Place,
    /// The record on the device; up to an eighth too long.
    pub(super) record: Extent,
    /// What is read for it.
    pub(crate) extent: Extent,
    /// The extent holds more than the record.
    pub(crate) surroundings: Option<Surroundings>,
    /// The number under which others wait for it then.
    pub(crate) window: Option<WindowId>,
    /// What the device needed for it, once it was read.
    pub(crate) timing: Option<ReadTiming>,
    /// The record lies in several runs, of which the extent is the first.
    pub(crate) split: Option<Box<Split>>,
    /// Metadata that replace those in the record.
    pub(crate) meta: Option<MetaPlan>,
    /// The object is to enter memory.
    pub(crate) keep: bool,
}

impl MetaPlan {
    /// Returns the position of the metadata.
    pub(super) fn position(&self) -> u32 {
        match self {
            MetaPlan::Ready { position, .. } | MetaPlan::Read { position, .. } => *position,
        }
    }
}

/// Where replaced metadata are.
pub(crate) enum MetaPlan {
    /// In memory still, for the object record with the sequence number `target`.
    /// They were placed with this `sequence` number.
    Ready { position: u32, meta: Bytes, target: u64, sequence: u64 },
    /// On the device; pinned too.
    Read { position: u32, place: Place, location: Location },
}

impl ReadPlan {
    /// Returns the plan for a record at `place`, pinned, to which no index entry leads any more.
    pub(super) fn of_held(digest: Digest, place: Place, location: Location) -> ReadPlan {
        let Location { extent, split } = location;
        ReadPlan {
            digest,
            position: place.position,
            place,
            record: extent,
            extent,
            surroundings: None,
            window: None,
            timing: None,
            split,
            meta: None,
            keep: false,
        }
    }

    /// Returns where in the bytes of the extent the record starts.
    pub(crate) fn start_in_extent(&self) -> usize {
        (self.record.offset - self.extent.offset) as usize
    }

    /// Returns the record within the bytes of the extent.
    pub(crate) fn record_in_extent(&self) -> std::ops::Range<u64> {
        let start = self.record.offset - self.extent.offset;
        start..start + self.record.len
    }
}

/// What an extent holds beside a record.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Scope {
    /// All of this cluster.
    Cluster(ClusterId),
    /// A part of a cluster.
    Part,
    /// Slots.
    Slots,
}

/// What surrounds the record of a plan that reads more than it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Surroundings {
    /// Bytes of a granule.
    pub(super) granule: u32,
    /// The position of the first byte of the extent.
    pub(super) first: u32,
    pub(super) scope: Scope,
}

impl Surroundings {
    /// Makes those of an extent that starts on a granule.
    pub(crate) fn new(areas: &Areas, offset: u64, scope: Scope) -> Surroundings {
        let granule = u64::from(areas.granule);
        let first = ((offset - areas.clusters_at) / granule) as u32;
        Surroundings { granule: areas.granule, first, scope }
    }

    /// Returns the cluster that the extent is all of.
    pub(crate) fn whole(&self) -> Option<ClusterId> {
        match self.scope {
            Scope::Cluster(cluster) => Some(cluster),
            Scope::Part | Scope::Slots => None,
        }
    }
}
