//! The results of a lookup under the lock, and the plans of its reads.

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

/// The record that a lookup expects, so that one with an equal tag is not mistaken for it.
#[derive(Clone, Copy)]
pub(crate) enum Expected<'a> {
    /// An object with this key.
    Key(&'a [u8]),
    /// A piece, identified by its digest.
    Piece,
}

impl Expected<'_> {
    /// Returns whether `object` is the expected one.
    pub(crate) fn is(self, object: &Object) -> bool {
        match self {
            Expected::Key(key) => object.header.kind == RecordKind::Object && object.key == key,
            Expected::Piece => object.header.kind == RecordKind::Piece,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A request, counted as a hit or a miss.
    Request,
    /// A piece of an object that was found.
    Piece,
    /// A neighbour to bring into memory: it enters even if the tier's admission would not take it.
    Neighbour,
}

#[derive(Clone, Copy)]
pub(crate) struct LookupRequest<'a> {
    pub(crate) digest: Digest,
    pub(crate) expected: Expected<'a>,
    pub(crate) purpose: Purpose,
    pub(crate) options: LookupOptions,
}

/// The reason why a plan's reads failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadFailure {
    /// A read failed, or the lookup was dropped.
    NotRead,
    /// An intact record of another key with an equal tag.
    OtherKey,
    /// The record at the plan's position is damaged.
    Damaged,
}

/// True if a lookup may wait for a read under way for another record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitPolicy {
    /// The lookup may wait.
    Join,
    /// The lookup has waited, and its record was not among the bytes read.
    ReadAlone,
}

/// The result of a lookup in the memory tier alone
/// ([`Core::find_in_memory`](crate::core::Core::find_in_memory)).
pub(crate) enum MemoryFinding {
    /// An object in memory with its whole body. It has been counted.
    Whole(Arc<Object>),
    /// A lookup may find the object, but not in the memory tier.
    Elsewhere,
    /// Nothing, or an object in pieces.
    Nothing,
}

/// The result of a lookup under the lock.
pub(crate) enum Finding {
    /// The object, verified.
    Object(Arc<Object>, Source),
    /// Read ahead by an earlier read: verify it, then call `Core::loaded_ahead`.
    Ahead(Ahead, Bytes),
    /// A place on the device where the object may be, pinned until `Core::loaded` or
    /// `Core::read_failed`.
    Read(ReadPlan),
    /// A read under way for another record brings it along: look again when that has ended.
    InFlight(WindowId),
    /// A miss.
    Nothing,
}

/// The reads of a lookup.
pub(crate) struct ReadPlan {
    pub(crate) digest: Digest,
    pub(crate) position: u32,
    pub(crate) place: Place,
    /// The extent of the record on the device; up to an eighth too long.
    pub(super) record: Extent,
    /// The extent of the run of its group, as far as that is known; else `extent`.
    pub(super) run: Extent,
    pub(crate) extent: Extent,
    /// The surroundings, if the extent holds more than the record.
    pub(crate) surroundings: Option<Surroundings>,
    /// The number under which other lookups wait for this read.
    pub(crate) window: Option<WindowId>,
    /// The measured cost of the read, once it has ended.
    pub(crate) timing: Option<ReadTiming>,
    /// The runs of the record after the first, which is the extent.
    pub(crate) split: Option<Box<Split>>,
    /// Metadata that replace those in the record.
    pub(crate) meta: Option<MetaPlan>,
    /// True if the object enters memory.
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

/// The location of replaced metadata.
pub(crate) enum MetaPlan {
    /// Still in memory, for the object record with the sequence number `target`. They were placed
    /// with the sequence number `sequence`.
    Ready { position: u32, meta: Bytes, target: u64, sequence: u64 },
    /// On the device; pinned as well.
    Read { position: u32, place: Place, location: Location },
}

impl ReadPlan {
    /// Creates the plan to read just the record at `place`, without metadata and without entering
    /// memory. The caller pins the record.
    pub(super) fn of_held(digest: Digest, place: Place, location: Location) -> ReadPlan {
        let Location { extent, split } = location;
        ReadPlan {
            digest,
            position: place.position,
            place,
            record: extent,
            run: extent,
            extent,
            surroundings: None,
            window: None,
            timing: None,
            split,
            meta: None,
            keep: false,
        }
    }

    /// Returns the offset of the record in the bytes of the extent.
    pub(crate) fn start_in_extent(&self) -> usize {
        (self.record.offset - self.extent.offset) as usize
    }

    /// Returns the range of the record in the bytes of the extent.
    pub(crate) fn record_in_extent(&self) -> std::ops::Range<u64> {
        let start = self.record.offset - self.extent.offset;
        start..start + self.record.len
    }

    /// Returns the part of the bytes of the extent that lies in the run of the record.
    pub(crate) fn run_in_extent(&self) -> std::ops::Range<u64> {
        let start = self.run.offset.saturating_sub(self.extent.offset);
        start..self.run.end().saturating_sub(self.extent.offset)
    }
}

/// The scope of an extent that holds more than a record.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Scope {
    /// A whole cluster.
    Cluster(ClusterId),
    /// A part of a cluster.
    Part,
    /// Slots.
    Slots,
}

/// The surroundings of a record in a plan that reads more than the record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Surroundings {
    /// Size of a granule in bytes.
    pub(super) granule: u32,
    /// The position of the first byte of the extent.
    pub(super) first: u32,
    pub(super) scope: Scope,
}

impl Surroundings {
    /// Returns the surroundings in an extent at `offset`, which starts on a granule.
    pub(crate) fn new(areas: &Areas, offset: u64, scope: Scope) -> Surroundings {
        let granule = u64::from(areas.granule);
        let first = ((offset - areas.clusters_at) / granule) as u32;
        Surroundings { granule: areas.granule, first, scope }
    }

    /// Returns the cluster if the extent is a whole one.
    pub(crate) fn whole(&self) -> Option<ClusterId> {
        match self.scope {
            Scope::Cluster(cluster) => Some(cluster),
            Scope::Part | Scope::Slots => None,
        }
    }
}
