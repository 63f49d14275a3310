//! Prefetching: the neighbours of a record that is read enter memory with it (C4).
//!
//! Done in steps, so that nothing is verified or copied under the lock. [`super::neighbours()`]
//! finds the records in the bytes. [`Core::mark_wanted`] determines under the lock which of them
//! are alive and not in memory yet. [`super::verified`] turns those into objects.
//! [`Core::prefetch`] takes in the objects that are still alive.
//!
//! Only the requested record is pinned. In a space of slots, its surroundings may be dead, evicted
//! and overwritten while the read is under way. Therefore a neighbour must pass two tests: a record
//! of this sequence number is alive at its position both before it is verified and when it enters
//! memory; and all its bytes match that record's checksums, which are bound to both.

use std::sync::Arc;

use bytes::Bytes;
use device::BufPool;

use crate::base::digest::Digest;
use crate::base::limits::ClusterId;
use crate::base::now::Now;
use crate::base::record::{Place, RecordKind};
use crate::config::lookup_options::LookupOptions;
use crate::core::neighbour_records::{Neighbour, NeighbourScan};
use crate::core::read_plan::{ReadPlan, Scope};
use crate::core::state::Core;
use crate::index::Slot;
use crate::memory::object::Object;
use crate::read::ahead::Ahead;
use crate::read::window::DistanceBand;

impl Core {
    /// Returns whether the neighbours read by this plan are kept as they were read.
    fn keeps_read_ahead(&self, plan: &ReadPlan) -> bool {
        let clusters =
            plan.surroundings.is_some_and(|around| !matches!(around.scope, Scope::Slots));
        clusters && self.reads.ahead().capacity() > 0
    }

    /// Keeps the records `beside` that of `plan` in `bytes` until they are requested. Returns false
    /// when they should enter the memory tier instead.
    pub(super) fn keep_read_ahead(
        &mut self,
        plan: &ReadPlan,
        beside: &NeighbourScan,
        bytes: &Bytes,
    ) -> bool {
        let NeighbourScan::Records(neighbours) = beside else { return false };
        if !self.keeps_read_ahead(plan) {
            return false;
        }
        let (own, run) = (plan.record_in_extent(), plan.run_in_extent());
        let objects = neighbours.iter().filter(|neighbour| neighbour.kind == RecordKind::Object);
        let records = objects.map(|neighbour| {
            let range = neighbour.range.start as u64..neighbour.range.end as u64;
            Ahead {
                digest: neighbour.digest,
                place: neighbour.place,
                range: neighbour.range.clone(),
                band: DistanceBand::of(range, own.clone(), &run),
            }
        });
        let records = records.collect();
        // Blocks at either end, and the excess of the pool's buffer over the requested size.
        let buffer = BufPool::room_for(plan.extent.len as usize + 2 * device::WRITE_ALIGN as usize);
        self.reads.ahead_mut().put(bytes.clone(), buffer, records);
        true
    }

    /// Returns the read-ahead of an earlier read for `slot`, the current version of `digest`.
    pub(super) fn read_ahead_of(&self, digest: &Digest, slot: Slot) -> Option<(Ahead, Bytes)> {
        let (ahead, bytes) = self.reads.ahead().get(digest).filter(|_| !slot.refreshed)?;
        let current = self.placement.is_at(slot.position, Some(ahead.place));
        (current && slot.position == ahead.place.position).then(|| (ahead.clone(), bytes.clone()))
    }

    /// Takes in verified read-ahead: `object`, or `None` if it was damaged. It enters memory unless
    /// it was removed or superseded meanwhile. Returns false when a purge has made it dead.
    pub(crate) fn loaded_ahead(
        &mut self,
        ahead: &Ahead,
        object: Option<&Arc<Object>>,
        options: LookupOptions,
        now: Now,
    ) -> bool {
        let Some(object) = object else {
            self.reads.ahead_mut().forget(&ahead.digest);
            return false;
        };
        self.reads.ahead_mut().used(&ahead.digest);
        if !self.is_alive(&ahead.digest, object) {
            return false;
        }
        if !options.is_exclusive()
            && self.enters_memory(&ahead.digest, object.header.kind, ahead.range.len())
            && self.memory_takes(now)
        {
            self.keep_in_memory(ahead.digest, object, None, None);
            self.shrink_tier(now);
        }
        true
    }

    /// Marks the records `beside` a requested one that are alive and not in memory. For slots,
    /// `len` bytes of which were read, returns only the live records.
    pub(super) fn mark_wanted(&self, beside: NeighbourScan, len: usize) -> Vec<Neighbour> {
        let mut neighbours = match beside {
            NeighbourScan::Records(records) => records,
            NeighbourScan::Claims(claims) => self.live_claims(&claims, len),
        };
        for neighbour in &mut neighbours {
            let Some(slot) = self.index.get(&neighbour.digest) else { continue };
            let absent = slot.position == neighbour.place.position
                && self.memory.tier.peek(&neighbour.digest).is_none();
            neighbour.wanted = absent && neighbour.kind != RecordKind::Meta && !slot.refreshed;
            neighbour.refreshed = absent && neighbour.kind == RecordKind::Object && slot.refreshed;
        }
        neighbours
    }

    /// Returns the records of `claims` that are alive in the claimed place, lie in one run, are on
    /// the device, and were read to their end.
    fn live_claims(&self, claims: &[(Place, usize)], len: usize) -> Vec<Neighbour> {
        let Some(space) = self.placement.space.slots() else { return Vec::new() };
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
                refreshed: false,
            })
        };
        claims.iter().filter_map(neighbour).collect()
    }

    /// Takes `objects` into memory. If all live records of a cluster that was read whole are in
    /// memory then, the cluster becomes a virtual cluster.
    pub(crate) fn prefetch(
        &mut self,
        whole: Option<ClusterId>,
        neighbours: &[Neighbour],
        objects: Vec<(Digest, Arc<Object>, DistanceBand)>,
        now: Now,
    ) {
        if !self.memory_takes(now) {
            return;
        }
        for (digest, object, band) in objects {
            self.keep_in_memory(digest, &object, None, Some(band));
        }
        if let Some(cluster) = whole
            && let Some(members) = self.members(cluster, neighbours)
        {
            self.form_virtual(cluster, members);
        }
        self.shrink_tier(now);
    }

    /// Returns the live records of a cluster, if all of them are in memory.
    fn members(&self, cluster: ClusterId, records: &[Neighbour]) -> Option<Vec<Digest>> {
        let mut members = Vec::with_capacity(records.len());
        for record in records {
            let slot = self.index.get(&record.digest);
            let Some(slot) = slot.filter(|slot| slot.position == record.place.position) else {
                continue;
            };
            let resident = self.memory.tier.peek(&record.digest);
            let here = resident.is_some_and(|resident| resident.cluster == Some(cluster));
            if record.kind == RecordKind::Meta || slot.refreshed || !here {
                return None;
            }
            members.push(record.digest);
        }
        Some(members)
    }
}
