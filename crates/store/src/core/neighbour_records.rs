//! The records in the bytes that were read beside one that was asked for: found, verified and
//! copied without the lock. See [`super::prefetch`].

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use crate::base::digest::Digest;
use crate::base::keyed_checksum::Secret;
use crate::base::limits::ClusterId;
use crate::base::record::{Found, Place, RecordKind};
use crate::base::summary;
use crate::base::summary::Decoded;
use crate::core::read_plan::{ReadPlan, Scope, Surroundings};
use crate::memory::object::{Buffer, Object};
use crate::read::ahead::Ahead;
use crate::read::window::DistanceBand;

/// So many starts of records that are none end a search: somebody's body imitates them.
const FALSE_STARTS: u32 = 16;

/// A record that was read beside the one that was asked for.
pub(crate) struct Neighbour {
    pub(super) digest: Digest,
    pub(super) kind: RecordKind,
    pub(super) place: Place,
    /// Where its bytes are, from the start of what was read.
    pub(super) range: Range<usize>,
    /// It is alive and not in memory.
    pub(super) wanted: bool,
    /// It is, and its metadata are in another place: to have it in memory takes reads of its own.
    pub(super) refreshed: bool,
}

impl Neighbour {
    pub(crate) fn digest(&self) -> Digest {
        self.digest
    }

    /// Returns whether it is alive and not in memory, and has metadata in another place.
    pub(crate) fn is_refreshed(&self) -> bool {
        self.refreshed
    }

    /// Returns site and key of its record in `bytes`, in which it was found.
    pub(crate) fn name(&self, secret: &Secret, bytes: &Bytes) -> Option<(u64, Bytes)> {
        let record = bytes.slice(self.range.start.min(bytes.len())..);
        let found = Found::decode(secret, self.place, &record)?;
        let key = Bytes::copy_from_slice(record.get(found.key.clone())?);
        (found.header.digest == self.digest).then_some((found.header.site, key))
    }
}

/// What the bytes that were read say lies beside a record.
pub(crate) enum NeighbourScan {
    /// Records, their heads verified.
    Records(Vec<Neighbour>),
    /// In slots: places where a record claims to be, and where from the start of what was read.
    /// Nothing of that is verified.
    Claims(Vec<(Place, usize)>),
}

impl NeighbourScan {
    /// Nothing.
    pub(crate) const NOTHING: NeighbourScan = NeighbourScan::Records(Vec::new());
}

/// Finds in `bytes`, which were read for `plan`, what lies beside its record. Of a whole cluster
/// that is what its summary says. In a part of one, records are found one behind the other: each is
/// believed only if its checksum, bound to place and incarnation, says that it was written there,
/// and taken only if the index says so too, so that nothing in a body can pass for one. In slots
/// the table of what lives says where a record begins and how long it is; the bytes only spare it
/// the question for every slot.
pub(crate) fn neighbours(secret: &Secret, plan: &ReadPlan, bytes: &Bytes) -> NeighbourScan {
    let Some(surroundings) = plan.surroundings else { return NeighbourScan::NOTHING };
    match surroundings.scope {
        Scope::Cluster(cluster) => {
            NeighbourScan::Records(listed(secret, plan, surroundings, cluster, bytes))
        }
        Scope::Part => NeighbourScan::Records(walked(secret, plan, surroundings, bytes)),
        Scope::Slots => NeighbourScan::Claims(claims(plan, surroundings, bytes)),
    }
}

fn claims(plan: &ReadPlan, surroundings: Surroundings, bytes: &Bytes) -> Vec<(Place, usize)> {
    let granule = surroundings.granule as usize;
    let own = plan.record_in_extent();
    let claim = |(position, at): (u32, usize)| {
        let incarnation = Found::claimed_incarnation(&bytes[at..])?;
        Some((Place { position, incarnation }, at))
    };
    let slots = (surroundings.first..).zip((0..bytes.len()).step_by(granule));
    slots.filter(|(_, at)| !own.contains(&(*at as u64))).filter_map(claim).collect()
}

fn walked(
    secret: &Secret,
    plan: &ReadPlan,
    surroundings: Surroundings,
    bytes: &Bytes,
) -> Vec<Neighbour> {
    let granule = surroundings.granule as usize;
    let (mut found, mut at, mut false_starts) = (Vec::new(), 0, 0);
    while at < bytes.len() && false_starts < FALSE_STARTS {
        let position = surroundings.first + (at / granule) as u32;
        let rest = &bytes[at..];
        let Some(incarnation) = Found::claimed_incarnation(rest) else {
            at += granule;
            continue;
        };
        let place = Place { position, incarnation };
        let Some(record) = Found::decode(secret, place, rest) else {
            false_starts += 1;
            at += granule;
            continue;
        };
        let range = at..at + record.len();
        at = range.end.next_multiple_of(granule);
        if position != plan.position && range.end <= bytes.len() {
            let (digest, kind) = (record.header.digest, record.header.kind);
            found.push(Neighbour { digest, kind, place, range, wanted: false, refreshed: false });
        }
    }
    found
}

fn listed(
    secret: &Secret,
    plan: &ReadPlan,
    surroundings: Surroundings,
    cluster: ClusterId,
    bytes: &Bytes,
) -> Vec<Neighbour> {
    let incarnation = plan.place.incarnation;
    let Decoded::Whole(entries) = summary::decode(secret, cluster, incarnation, bytes) else {
        return Vec::new();
    };
    let neighbour = |entry: &summary::Entry| {
        let start = entry.granule as usize * surroundings.granule as usize;
        let digest = match entry.kind {
            RecordKind::Meta => entry.digest.derive_meta(),
            RecordKind::Object | RecordKind::Piece => entry.digest,
        };
        Neighbour {
            digest,
            kind: entry.kind,
            place: Place { position: surroundings.first + entry.granule, incarnation },
            range: start..start + entry.len as usize,
            wanted: false,
            refreshed: false,
        }
    };
    entries.iter().map(neighbour).collect()
}

/// Makes objects of the wanted ones of `neighbours`, every byte verified, in memory of their own,
/// with the band that each lies in. What is damaged is left out: whoever asks for it will find
/// that.
pub(crate) fn verified(
    secret: &Secret,
    plan: &ReadPlan,
    neighbours: &[Neighbour],
    bytes: &Bytes,
) -> Vec<(Digest, Arc<Object>, DistanceBand)> {
    let wanted = neighbours.iter().filter(|neighbour| neighbour.wanted);
    let object = |neighbour: &Neighbour| {
        let record = bytes.get(neighbour.range.start..).unwrap_or_default();
        let found = Found::decode(secret, neighbour.place, record)?;
        if found.header.digest != neighbour.digest || !found.verify_body(secret, record) {
            return None;
        }
        let own = Bytes::copy_from_slice(&record[..found.meaningful()]);
        let buffer = Buffer { len: found.len(), spare: 0 };
        let object = Object::from_found(&found, neighbour.place, &own, buffer);
        let range = neighbour.range.start as u64..neighbour.range.end as u64;
        Some((neighbour.digest, Arc::new(object), DistanceBand::of(range, plan.record_in_extent())))
    };
    wanted.filter_map(object).collect()
}

/// Makes the object of `digest` from `bytes`, every byte verified, in memory of its own.
pub(crate) fn ahead_verified(secret: &Secret, ahead: &Ahead, bytes: &Bytes) -> Option<Arc<Object>> {
    let record = bytes.get(ahead.range.start..)?;
    let found = Found::decode(secret, ahead.place, record)?;
    if found.header.digest != ahead.digest || !found.verify_body(secret, record) {
        return None;
    }
    let own = Bytes::copy_from_slice(&record[..found.meaningful()]);
    let buffer = Buffer { len: found.len(), spare: 0 };
    Some(Arc::new(Object::from_found(&found, ahead.place, &own, buffer)))
}
