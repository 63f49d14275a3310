//! Prefetching: what lies next to a record that is read comes along into memory (C4).
//!
//! In three steps, so that nothing is verified or copied under the lock: [`neighbours`] finds the
//! records in the bytes, [`Core::want`] says under the lock which of them are alive and not in
//! memory yet, [`verified`] makes objects of those, and [`Core::prefetch`] takes them in.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use super::{Core, Now, ReadPlan};
use crate::areas::Areas;
use crate::cluster_table::ClusterId;
use crate::digest::Digest;
use crate::object::Object;
use crate::read_window::Ring;
use crate::record::{Found, Place, RecordKind};
use crate::secret::Secret;
use crate::summary::{self, Decoded};

/// So many starts of records that are none end a search: somebody's body imitates them.
const FALSE_STARTS: u32 = 16;

/// A record that was read beside the one that was asked for.
pub(crate) struct Neighbour {
    digest: Digest,
    kind: RecordKind,
    place: Place,
    /// Where its bytes are, from the start of what was read.
    range: Range<usize>,
    /// It is alive and not in memory.
    wanted: bool,
}

/// What surrounds the record of a plan that reads more than it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Surroundings {
    /// Bytes of a granule.
    granule: u32,
    /// The position of the first byte of the extent.
    first: u32,
    /// The extent is all of this cluster.
    pub(crate) whole: Option<ClusterId>,
}

impl Surroundings {
    /// Those of an extent that starts on a granule.
    pub(crate) fn new(areas: &Areas, offset: u64, whole: Option<ClusterId>) -> Surroundings {
        let granule = u64::from(areas.granule);
        let first = ((offset - areas.clusters_at) / granule) as u32;
        Surroundings { granule: areas.granule, first, whole }
    }
}

/// The records in `bytes`, which were read for `plan`, apart from its own. Of a whole cluster they
/// are what its summary says. Otherwise they are found one behind the other: each is believed only
/// if its checksum, bound to place and incarnation, says that it was written there, and taken only
/// if the index says so too, so that nothing in a body can pass for one.
pub(crate) fn neighbours(secret: &Secret, plan: &ReadPlan, bytes: &Bytes) -> Vec<Neighbour> {
    let Some(surroundings) = plan.surroundings else { return Vec::new() };
    if let Some(cluster) = surroundings.whole {
        return listed(secret, plan, surroundings, cluster, bytes);
    }
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
            found.push(Neighbour { digest, kind, place, range, wanted: false });
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
        }
    };
    entries.iter().map(neighbour).collect()
}

/// The wanted ones of `neighbours`, every byte verified, in memory of their own, with the ring
/// that each lies in. What is damaged is left out: whoever asks for it will find that.
pub(crate) fn verified(
    secret: &Secret,
    plan: &ReadPlan,
    neighbours: &[Neighbour],
    bytes: &Bytes,
) -> Vec<(Digest, Arc<Object>, Ring)> {
    let wanted = neighbours.iter().filter(|neighbour| neighbour.wanted);
    let object = |neighbour: &Neighbour| {
        let record = bytes.get(neighbour.range.start..).unwrap_or_default();
        let found = Found::decode(secret, neighbour.place, record)?;
        if found.header.digest != neighbour.digest || !found.verify_body(secret, record) {
            return None;
        }
        let own = Bytes::copy_from_slice(&record[..found.len()]);
        let object = Object::from_found(&found, neighbour.place, &own, own.len());
        let range = neighbour.range.start as u64..neighbour.range.end as u64;
        Some((neighbour.digest, Arc::new(object), Ring::of(range, plan.record_in_extent())))
    };
    wanted.filter_map(object).collect()
}

impl Core {
    /// Marks those of `neighbours` that are alive and not in memory.
    pub(crate) fn want(&self, neighbours: &mut [Neighbour]) {
        for neighbour in neighbours {
            let Some(slot) = self.index.get(&neighbour.digest) else { continue };
            neighbour.wanted = slot.position == neighbour.place.position
                && neighbour.kind != RecordKind::Meta
                && !slot.refreshed
                && self.tier.peek(&neighbour.digest).is_none();
        }
    }

    /// Takes `objects` into memory. When all that lives in a cluster that was read whole is in
    /// memory then, it is a virtual cluster.
    pub(crate) fn prefetch(
        &mut self,
        whole: Option<ClusterId>,
        neighbours: &[Neighbour],
        objects: Vec<(Digest, Arc<Object>, Ring)>,
        now: Now,
    ) {
        for (digest, object, ring) in objects {
            self.keep(digest, &object, None, Some(ring));
        }
        if let Some(cluster) = whole
            && let Some(members) = self.members(cluster, neighbours)
        {
            self.join_memory(cluster, members);
        }
        self.shrink_tier(now);
    }

    /// What lives of the records of a cluster, if all of it is in memory.
    fn members(&self, cluster: ClusterId, records: &[Neighbour]) -> Option<Vec<Digest>> {
        let mut members = Vec::with_capacity(records.len());
        for record in records {
            let slot = self.index.get(&record.digest);
            let Some(slot) = slot.filter(|slot| slot.position == record.place.position) else {
                continue;
            };
            let resident = self.tier.peek(&record.digest);
            let here = resident.is_some_and(|resident| resident.cluster == Some(cluster));
            if record.kind == RecordKind::Meta || slot.refreshed || !here {
                return None;
            }
            members.push(record.digest);
        }
        Some(members)
    }
}
