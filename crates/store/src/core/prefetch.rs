//! Prefetching: what lies next to a record that is read comes along into memory (C4).
//!
//! In steps, so that nothing is verified or copied under the lock: [`neighbours`] finds the records
//! in the bytes, [`Core::want`] says under the lock which of them are alive and not in memory yet,
//! [`verified`] makes objects of those, and [`Core::prefetch`] takes in those that still live.
//!
//! Only the record that was asked for is pinned. What surrounds it in a space of slots may be dead,
//! given up, and written over while the read is under way: a neighbour is one only if a record of
//! this sequence number lives at its position both before it was verified and when it enters
//! memory, and all its bytes are that record's by their checksums, which are bound to both.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use device::BufPool;

use super::{Core, Now, ReadPlan};
use crate::base::digest::Digest;
use crate::base::keyed_checksum::Secret;
use crate::base::record::{Found, Place, RecordKind};
use crate::base::summary;
use crate::base::summary::Decoded;
use crate::format::device_layout::Areas;
use crate::index::Slot;
use crate::memory::object::{Buffer, Object};
use crate::read::ahead::Ahead;
use crate::read::window::Ring;
use crate::space::cluster_table::ClusterId;

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

impl Neighbour {
    pub(crate) fn digest(&self) -> Digest {
        self.digest
    }

    /// Site and key of its record in `bytes`, in which it was found.
    pub(crate) fn name(&self, secret: &Secret, bytes: &Bytes) -> Option<(u64, Bytes)> {
        let record = bytes.slice(self.range.start.min(bytes.len())..);
        let found = Found::decode(secret, self.place, &record)?;
        let key = Bytes::copy_from_slice(record.get(found.key.clone())?);
        (found.header.digest == self.digest).then_some((found.header.site, key))
    }
}

/// What the bytes that were read say lies beside a record.
pub(crate) enum Beside {
    /// Records, their heads verified.
    Records(Vec<Neighbour>),
    /// In slots: places where a record claims to be, and where from the start of what was read.
    /// Nothing of that is verified.
    Claims(Vec<(Place, usize)>),
}

impl Beside {
    /// Nothing.
    pub(crate) const NOTHING: Beside = Beside::Records(Vec::new());
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
    granule: u32,
    /// The position of the first byte of the extent.
    first: u32,
    scope: Scope,
}

impl Surroundings {
    /// Those of an extent that starts on a granule.
    pub(crate) fn new(areas: &Areas, offset: u64, scope: Scope) -> Surroundings {
        let granule = u64::from(areas.granule);
        let first = ((offset - areas.clusters_at) / granule) as u32;
        Surroundings { granule: areas.granule, first, scope }
    }

    /// The cluster that the extent is all of.
    pub(crate) fn whole(&self) -> Option<ClusterId> {
        match self.scope {
            Scope::Cluster(cluster) => Some(cluster),
            Scope::Part | Scope::Slots => None,
        }
    }
}

/// What `bytes`, which were read for `plan`, say lies beside its record. Of a whole cluster that is
/// what its summary says. In a part of one, records are found one behind the other: each is
/// believed only if its checksum, bound to place and incarnation, says that it was written there,
/// and taken only if the index says so too, so that nothing in a body can pass for one. In slots
/// the table of what lives says where a record begins and how long it is; the bytes only spare it
/// the question for every slot.
pub(crate) fn neighbours(secret: &Secret, plan: &ReadPlan, bytes: &Bytes) -> Beside {
    let Some(surroundings) = plan.surroundings else { return Beside::NOTHING };
    match surroundings.scope {
        Scope::Cluster(cluster) => {
            Beside::Records(listed(secret, plan, surroundings, cluster, bytes))
        }
        Scope::Part => Beside::Records(walked(secret, plan, surroundings, bytes)),
        Scope::Slots => Beside::Claims(claims(plan, surroundings, bytes)),
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
        let own = Bytes::copy_from_slice(&record[..found.meaningful()]);
        let buffer = Buffer { len: found.len(), spare: 0 };
        let object = Object::from_found(&found, neighbour.place, &own, buffer);
        let range = neighbour.range.start as u64..neighbour.range.end as u64;
        Some((neighbour.digest, Arc::new(object), Ring::of(range, plan.record_in_extent())))
    };
    wanted.filter_map(object).collect()
}

/// The object of `digest` in `bytes`, every byte verified, in memory of its own.
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

impl Core {
    /// Whether what a read of this plan brings along is kept as it was read.
    fn keeps_ahead(&self, plan: &ReadPlan) -> bool {
        let clusters =
            plan.surroundings.is_some_and(|around| !matches!(around.scope, Scope::Slots));
        clusters && self.reading.ahead.capacity() > 0
    }

    /// Keeps the records `beside` that of `plan` in `bytes` until they are asked for. False when
    /// they are to be taken into the memory tier.
    pub(crate) fn put_ahead(&mut self, plan: &ReadPlan, beside: &Beside, bytes: &Bytes) -> bool {
        let Beside::Records(neighbours) = beside else { return false };
        if !self.keeps_ahead(plan) {
            return false;
        }
        let own = plan.record_in_extent();
        let objects = neighbours.iter().filter(|neighbour| neighbour.kind == RecordKind::Object);
        let records = objects.map(|neighbour| {
            let range = neighbour.range.start as u64..neighbour.range.end as u64;
            Ahead {
                digest: neighbour.digest,
                place: neighbour.place,
                range: neighbour.range.clone(),
                ring: Ring::of(range, own.clone()),
            }
        });
        let records = records.collect();
        // Blocks at either end, and what the pool gives more than was asked for.
        let buffer = BufPool::room_for(plan.extent.len as usize + 2 * device::WRITE_ALIGN as usize);
        self.reading.ahead.put(bytes.clone(), buffer, records);
        true
    }

    /// What an earlier read brought along for `slot`, the present version of `digest`.
    pub(super) fn ahead(&self, digest: &Digest, slot: Slot) -> Option<(Ahead, Bytes)> {
        let (ahead, bytes) = self.reading.ahead.get(digest).filter(|_| !slot.refreshed)?;
        let current = self.is_at(slot.position, Some(ahead.place));
        (current && slot.position == ahead.place.position).then(|| (ahead.clone(), bytes.clone()))
    }

    /// What was brought along was verified: `object`, or damaged. It enters memory unless it was
    /// removed or superseded meanwhile. False when a purge has made it dead.
    pub(crate) fn found_ahead(
        &mut self,
        ahead: &Ahead,
        object: Option<&Arc<Object>>,
        now: Now,
    ) -> bool {
        let Some(object) = object else {
            self.reading.ahead.forget(&ahead.digest);
            return false;
        };
        self.reading.ahead.used(&ahead.digest);
        if !self.survives(&ahead.digest, object) {
            return false;
        }
        if self.enters_memory(&ahead.digest, ahead.range.len()) && self.memory_takes(now) {
            self.keep(ahead.digest, object, None, None);
            self.shrink_tier(now);
        }
        true
    }

    /// Marks those records `beside` one that was read that are alive and not in memory. Of slots,
    /// `len` bytes of which were read, those that are alive are all that is returned.
    pub(crate) fn want(&self, beside: Beside, len: usize) -> Vec<Neighbour> {
        let mut neighbours = match beside {
            Beside::Records(records) => records,
            Beside::Claims(claims) => self.living(&claims, len),
        };
        for neighbour in &mut neighbours {
            let Some(slot) = self.index.get(&neighbour.digest) else { continue };
            neighbour.wanted = slot.position == neighbour.place.position
                && neighbour.kind != RecordKind::Meta
                && !slot.refreshed
                && self.tier.peek(&neighbour.digest).is_none();
        }
        neighbours
    }

    /// The records of `claims` that live where they claim to be, in one run and on the device, and
    /// were read to their end.
    fn living(&self, claims: &[(Place, usize)], len: usize) -> Vec<Neighbour> {
        let Some(space) = self.space.slots() else { return Vec::new() };
        let neighbour = |(place, at): &(Place, usize)| {
            let record = space.alone_at(*place)?;
            let range = *at..*at + record.len as usize;
            let (digest, kind) = (record.digest, record.kind);
            (range.end <= len).then_some(Neighbour {
                digest,
                kind,
                place: *place,
                range,
                wanted: false,
            })
        };
        claims.iter().filter_map(neighbour).collect()
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
        if !self.memory_takes(now) {
            return;
        }
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

    /// Those of `neighbours` that live, are not in memory, and have metadata in another place: to
    /// have them in memory takes reads of their own.
    pub(crate) fn refreshed<'a>(&self, neighbours: &'a [Neighbour]) -> Vec<&'a Neighbour> {
        let is_wanted = |neighbour: &&Neighbour| {
            let slot = self.index.get(&neighbour.digest);
            neighbour.kind == RecordKind::Object
                && slot.is_some_and(|s| s.refreshed && s.position == neighbour.place.position)
                && self.tier.peek(&neighbour.digest).is_none()
        };
        neighbours.iter().filter(is_wanted).collect()
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
