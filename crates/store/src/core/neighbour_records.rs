//! Records in the bytes that were read around a requested record: found, verified and copied
//! without the lock. See [`super::prefetch`].

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

/// Number of false starts of records that end a search: a body may imitate them.
const FALSE_STARTS: u32 = 16;

/// A record that was read beside the requested one.
pub(crate) struct Neighbour {
    pub(super) digest: Digest,
    pub(super) kind: RecordKind,
    pub(super) place: Place,
    /// Its bytes, from the start of the bytes read.
    pub(super) range: Range<usize>,
    /// True if it is alive and not in memory.
    pub(super) wanted: bool,
    /// True if it is alive and not in memory, but has its metadata in another place, so that it
    /// takes reads of its own.
    pub(super) refreshed: bool,
}

impl Neighbour {
    pub(crate) fn digest(&self) -> Digest {
        self.digest
    }

    /// Returns whether it is alive and not in memory, but has its metadata in another place.
    pub(crate) fn is_refreshed(&self) -> bool {
        self.refreshed
    }

    /// Returns the site and key of its record in `bytes`, in which it was found.
    pub(crate) fn name(&self, secret: &Secret, bytes: &Bytes) -> Option<(u64, Bytes)> {
        let record = bytes.slice(self.range.start.min(bytes.len())..);
        let found = Found::decode(secret, self.place, &record)?;
        let key = Bytes::copy_from_slice(record.get(found.key.clone())?);
        (found.header.digest == self.digest).then_some((found.header.site, key))
    }
}

/// The neighbours of a record found in the bytes read.
pub(crate) enum NeighbourScan {
    /// Records with verified heads.
    Records(Vec<Neighbour>),
    /// In slots: places where a record claims to be, with their offset from the start of the bytes
    /// read. Unverified.
    Claims(Vec<(Place, usize)>),
}

impl NeighbourScan {
    pub(crate) const NOTHING: NeighbourScan = NeighbourScan::Records(Vec::new());
}

/// Finds the neighbours of the record of `plan` in `bytes`, which were read for it. In a whole
/// cluster they are listed by the summary. In a part of a cluster, records are found one behind the
/// other. Each is accepted only if its checksum, bound to place and incarnation, proves that it was
/// written there, and if the index agrees, so that no bytes of a body can pass for a record. In
/// slots the record table says where a record begins and how long it is; scanning the bytes only
/// avoids a lookup there for every slot.
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

/// Returns the wanted ones of `neighbours` as objects in memory of their own, with every byte
/// verified, and with their distance bands. Damaged ones are left out; a lookup of them will find
/// the damage.
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
        let band = DistanceBand::of(range, plan.record_in_extent(), &plan.run_in_extent());
        Some((neighbour.digest, Arc::new(object), band))
    };
    wanted.filter_map(object).collect()
}

/// Returns the object of `ahead` from `bytes`, with every byte verified, in memory of its own.
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
