//! Lookups: find objects in memory, and plan the reads of those on the device.

use std::sync::Arc;

use bytes::Bytes;
use device::Extent;

use crate::base::digest::Digest;
use crate::base::now::Now;
use crate::base::record::RecordKind;
use crate::base::source::Source;
use crate::config::options::{ReadUnit, WritePolicy};
use crate::core::neighbour_records::{Neighbour, NeighbourScan};
use crate::core::placement::Placement;
use crate::core::read_plan::{
    Expected, Finding, LookupRequest, MemoryFinding, MetaPlan, Purpose, ReadFailure, ReadPlan,
    Scope, Surroundings, WaitPolicy,
};
use crate::core::residents::resident_of;
use crate::core::state::Core;
use crate::index::Slot;
use crate::memory::memory_tier::Weighed;
use crate::memory::object::Object;
use crate::read::reads::WindowId;
use crate::read::window::DistanceBand;
use crate::space::Location;
use crate::space::slots::SlotSpace;

/// Returns a part of `bounds` around `record`, of at most `most` bytes, in whole granules from the
/// start of `bounds`. The record is never cut.
fn within(bounds: Extent, record: Extent, most: u64, granule: u64) -> Extent {
    let before = record.offset - bounds.offset;
    let room = most.saturating_sub(record.len);
    let first = before.saturating_sub(room / 2).next_multiple_of(granule).min(before);
    let len = most.max(before - first + record.len).min(bounds.len - first);
    Extent { offset: bounds.offset + first, len }
}

impl Core {
    /// Looks up the record of `request`; `now` is in unix seconds. Counts a client request at once
    /// if its result is settled: a miss, or an object in memory that is not in pieces. The returned
    /// flag is true when nothing is left to count; other requests are counted after their reads
    /// ([`Counted::Lookup`]).
    ///
    /// [`Counted::Lookup`]: crate::core::Counted::Lookup
    pub(crate) fn find(
        &mut self,
        request: &LookupRequest<'_>,
        wait_policy: WaitPolicy,
        now: u32,
    ) -> (Finding, bool) {
        if request.purpose == Purpose::Neighbour && wait_policy == WaitPolicy::Join {
            self.memory.expect(&request.digest);
        }
        let finding = self.find_uncounted(request, wait_policy, now);
        if request.purpose != Purpose::Request {
            return (finding, false);
        }
        let settled = match &finding {
            // The caller goes on to another tier.
            Finding::Nothing if request.options.memory_only() => return (finding, true),
            Finding::Nothing => Some(None),
            Finding::Object(object, source) => {
                (wait_policy == WaitPolicy::Join && !object.in_pieces()).then_some(Some(*source))
            }
            Finding::Ahead(..) | Finding::Read(_) | Finding::InFlight(_) => None,
        };
        if let Some(answer) = settled {
            self.count_lookup(&request.digest, answer);
        }
        (finding, settled.is_some())
    }

    /// Looks up the object of `request` in the memory tier only, and returns it like [`Core::find`]
    /// if its body is in its record. Otherwise it leaves no trace, and returns whether the object
    /// may be elsewhere.
    pub(crate) fn find_in_memory(
        &mut self,
        request: &LookupRequest<'_>,
        now: u32,
    ) -> MemoryFinding {
        let LookupRequest { digest, expected, .. } = *request;
        if !self.online() {
            return MemoryFinding::Nothing;
        }
        let Some(resident) = self.memory.tier.peek(&digest) else {
            return match self.index.get(&digest) {
                Some(_) => MemoryFinding::Elsewhere,
                None => MemoryFinding::Nothing,
            };
        };
        if resident.object.in_pieces() {
            return MemoryFinding::Nothing;
        }
        let object = Arc::clone(&resident.object);
        if !expected.is(&object) || !self.is_alive(&digest, &object) {
            return MemoryFinding::Nothing;
        }
        self.memory.tier.get(&digest);
        self.placement.touch_resident(object.place, object.record_len(), now);
        self.count_lookup(&digest, Some(Source::Ram));
        MemoryFinding::Whole(object)
    }

    fn find_uncounted(
        &mut self,
        request: &LookupRequest<'_>,
        wait_policy: WaitPolicy,
        now: u32,
    ) -> Finding {
        let LookupRequest { digest, expected, options, .. } = *request;
        if !self.online() {
            return Finding::Nothing;
        }
        if let Some(finding) = self.find_resident(request, now) {
            return finding;
        }
        // Records found by recovery so far may be superseded by others that it has not found.
        if self.placement.space.slots().is_some_and(SlotSpace::assembling) {
            return Finding::Nothing;
        }
        let Some(slot) = self.index.get(&digest) else { return Finding::Nothing };
        match self.unwritten(&digest, slot) {
            Some(object) if expected.is(&object) => {
                self.placement.touch(slot, now);
                match self.is_alive(&digest, &object) {
                    true => Finding::Object(object, Source::Ram),
                    false => Finding::Nothing,
                }
            }
            Some(_) => Finding::Nothing,
            None => {
                if let Some(piece) = self.piece_in_transit(&digest, expected) {
                    self.placement.touch(slot, now);
                    return Finding::Object(piece, Source::Ram);
                }
                if let Some((ahead, bytes)) = self.read_ahead_of(&digest, slot) {
                    self.placement.touch(slot, now);
                    return Finding::Ahead(ahead, bytes);
                }
                if options.memory_only() {
                    return Finding::Nothing;
                }
                let in_flight = match wait_policy {
                    WaitPolicy::Join => self.covering_window(slot),
                    WaitPolicy::ReadAlone => None,
                };
                if let Some(window) = in_flight {
                    self.reads.count_joined();
                    return Finding::InFlight(window);
                }
                let plan = self.plan_read(request, slot, now);
                plan.map_or(Finding::Nothing, Finding::Read)
            }
        }
    }

    /// Returns the memory tier's result for the request; `None` when the tier does not have the
    /// digest.
    fn find_resident(&mut self, request: &LookupRequest<'_>, now: u32) -> Option<Finding> {
        let LookupRequest { digest, expected, options, .. } = *request;
        let exclusive = options.is_exclusive();
        let tier = &mut self.memory.tier;
        let resident = if exclusive { tier.peek(&digest) } else { tier.get(&digest) }?;
        let object = Arc::clone(&resident.object);
        self.placement.touch_resident(object.place, object.record_len(), now);
        if !expected.is(&object) || !self.is_alive(&digest, &object) {
            return Some(Finding::Nothing);
        }
        if exclusive
            && self.memory.tier.peek(&digest).is_some_and(|r| !self.lives_in_memory(&digest, r))
        {
            self.remove_resident(&digest);
        }
        Some(Finding::Object(object, Source::Ram))
    }

    /// Returns the expected piece if it is being sent to another reader.
    fn piece_in_transit(&self, digest: &Digest, expected: Expected<'_>) -> Option<Arc<Object>> {
        match expected {
            Expected::Piece => {
                self.memory.in_transit.get(digest).filter(|piece| expected.is(piece))
            }
            Expected::Key(_) => None,
        }
    }

    /// Returns the object of `slot` if its record still waits to be written. Its replaced metadata,
    /// if any, are newer and wait as well.
    fn unwritten(&self, digest: &Digest, slot: Slot) -> Option<Arc<Object>> {
        let record = self.placement.space.unwritten(slot.position)?;
        let object = Object::from_record(record, self.placement.place_at(slot.position));
        if !slot.refreshed {
            return Some(Arc::new(object));
        }
        let meta = self.index.get(&digest.derive_meta())?;
        let meta = self.placement.space.unwritten(meta.position)?;
        (meta.header.object_id == object.header.sequence)
            .then(|| Arc::new(object.with_meta(meta.meta.clone(), meta.header.sequence)))
    }

    fn plan_read(&mut self, request: &LookupRequest<'_>, slot: Slot, now: u32) -> Option<ReadPlan> {
        let LookupRequest { digest, expected, options, .. } = *request;
        let place = self.placement.place_at(slot.position)?;
        let meta = if slot.refreshed { Some(self.plan_meta(&digest)?) } else { None };
        if let Some(MetaPlan::Read { position, .. }) = &meta {
            self.placement.pin(*position);
        }
        self.placement.touch(slot, now);
        self.placement.pin(slot.position);
        let Location { extent: record, split } = self.placement.locate(slot);
        let (run, extent, surroundings) = match split {
            // Read-ahead would enter memory.
            None if options.is_exclusive() => self.exact(record),
            None => self.choose_extent(slot, record, expected),
            Some(_) => self.exact(record),
        };
        let window = match (surroundings, expected) {
            (Some(_), _) => Some(self.reads.begin_window(record, run, extent)),
            // Other readers of the same piece wait for this read.
            (None, Expected::Piece) if split.is_none() => Some(self.reads.begin_read(extent)),
            (None, _) => None,
        };
        let position = slot.position;
        let kind = match expected {
            Expected::Piece => RecordKind::Piece,
            Expected::Key(_) => RecordKind::Object,
        };
        let keep =
            !options.is_exclusive() && self.enters_memory(&digest, kind, record.len as usize);
        let plan = ReadPlan {
            digest,
            position,
            place,
            record,
            run,
            extent,
            surroundings,
            window,
            timing: None,
            split,
            meta,
            keep,
        };
        Some(plan)
    }

    /// Returns whether an object with a record of this kind and `len` bytes enters memory when it
    /// is read for a request.
    pub(super) fn enters_memory(&mut self, digest: &Digest, kind: RecordKind, len: usize) -> bool {
        let keep = self.memory.admits_read(digest, kind, len, &self.reads);
        self.counters.not_kept += u64::from(!keep);
        keep
    }

    /// Plans a read of the surroundings of the record of `digest`, of at most `most` bytes. Returns
    /// `None` when the record is not on the device, or lies in several runs.
    pub(crate) fn plan_around(&mut self, digest: Digest, most: u64) -> Option<ReadPlan> {
        if !self.online() || self.placement.space.slots().is_some_and(SlotSpace::assembling) {
            return None;
        }
        let slot = self.index.get(&digest)?;
        let position = slot.position;
        if self.placement.space.unwritten(position).is_some() {
            return None;
        }
        let place = self.placement.place_at(position)?;
        let Location { extent: record, split: None } = self.placement.locate(slot) else {
            return None;
        };
        let bounds = self.placement.space.surroundings(
            &self.placement.areas,
            position,
            self.memory.writes_runs(),
        )?;
        let extent = within(bounds, record, most, u64::from(self.placement.areas.granule));
        let scope = self.placement.scope_of(position, extent);
        self.placement.pin(position);
        self.reads.count_window();
        let window = Some(self.reads.begin_window(record, bounds, extent));
        let surroundings = Some(Surroundings::new(&self.placement.areas, extent.offset, scope));
        let (timing, split, meta, keep) = (None, None, None, true);
        Some(ReadPlan {
            digest,
            position,
            place,
            record,
            run: bounds,
            extent,
            surroundings,
            window,
            timing,
            split,
            meta,
            keep,
        })
    }

    /// Returns the read under way for another record that brings the record of `slot` along. There
    /// is none for a record in several runs.
    fn covering_window(&self, slot: Slot) -> Option<WindowId> {
        self.placement.place_at(slot.position)?;
        let Location { extent, split } = self.placement.locate(slot);
        if split.is_some() { None } else { self.reads.covering(extent) }
    }

    /// Reads a record alone: its run, the extent to read, and no surroundings.
    fn exact(&mut self, record: Extent) -> (Extent, Extent, Option<Surroundings>) {
        self.reads.count_exact();
        (record, record, None)
    }

    /// Returns the run of a record and the bounds within which the read unit `auto` may read along
    /// with it; `None` if nothing may be.
    fn run_and_bounds(&mut self, position: u32, record: Extent) -> Option<(Extent, Extent)> {
        let Placement { space, areas, .. } = &self.placement;
        let bounds = space.surroundings(areas, position, false)?;
        if !self.memory.writes_runs() {
            return Some((bounds, bounds));
        }
        let run = space.surroundings(areas, position, true).unwrap_or(record);
        if let Some(cluster) = space.unlearnt(areas, position) {
            self.want_runs(cluster);
        }
        Some((run, bounds))
    }

    /// Chooses the extent to read for a record, by the read unit. Also returns the record's run.
    fn choose_extent(
        &mut self,
        slot: Slot,
        record: Extent,
        expected: Expected<'_>,
    ) -> (Extent, Extent, Option<Surroundings>) {
        let bounds = match (self.options.read_unit, expected) {
            // Pieces of a large object are not used at about the same time, as neighbours are.
            (ReadUnit::Object, _) | (ReadUnit::Auto, Expected::Piece) => None,
            (ReadUnit::Auto, _) => self.run_and_bounds(slot.position, record),
            (ReadUnit::Cluster, _) => {
                // Where objects are written as they come, the disk position is that of the last
                // write.
                let seeks = self.options.write_policy == WritePolicy::OnEvict;
                let whole = self.placement.read_whole_cluster(slot.position, seeks);
                whole.map(|whole| (whole, whole))
            }
        };
        let Some((run, bounds)) = bounds else { return self.exact(record) };
        let extent = match self.options.read_unit {
            ReadUnit::Auto => {
                let memory = self.memory.read_ahead_price(self.reads.ahead());
                self.reads.choose(record, run, bounds, memory)
            }
            ReadUnit::Object | ReadUnit::Cluster => bounds,
        };
        // An exact index does not hold the length of a record: `record` is then its whole cluster.
        if extent == record && extent != bounds {
            return self.exact(record);
        }
        let scope = self.placement.scope_of(slot.position, extent);
        match scope {
            Scope::Cluster(_) => self.reads.count_cluster(),
            Scope::Part | Scope::Slots => self.reads.count_window(),
        }
        let surroundings = Surroundings::new(&self.placement.areas, extent.offset, scope);
        (run, extent, Some(surroundings))
    }

    fn plan_meta(&self, digest: &Digest) -> Option<MetaPlan> {
        let slot = self.index.get(&digest.derive_meta())?;
        if let Some(record) = self.placement.space.unwritten(slot.position) {
            return Some(MetaPlan::Ready {
                position: slot.position,
                meta: record.meta.clone(),
                target: record.header.object_id,
                sequence: record.header.sequence,
            });
        }
        let place = self.placement.place_at(slot.position)?;
        let location = self.placement.locate(slot);
        Some(MetaPlan::Read { position: slot.position, place, location })
    }

    /// Completes a plan whose record was read and is the expected one; `scan` lists its neighbours
    /// in `bytes`. The object enters memory if the plan says so, unless it was removed or
    /// superseded meanwhile. Returns false when a purge has made it dead. Also returns the
    /// neighbours to verify and pass to [`Core::prefetch`]: none when they are kept as they were
    /// read.
    pub(crate) fn loaded(
        &mut self,
        plan: &ReadPlan,
        object: &Arc<Object>,
        scan: NeighbourScan,
        bytes: &Bytes,
        now: Now,
    ) -> (bool, Vec<Neighbour>) {
        let lives = self.record_loaded(plan, object, now);
        self.share_memory(now);
        let neighbours = match self.keep_read_ahead(plan, &scan, bytes) {
            true => Vec::new(),
            false => self.mark_wanted(scan, bytes.len()),
        };
        (lives, neighbours)
    }

    /// Moves memory between the tier and read-ahead that is kept apart, by the cost of a read.
    fn share_memory(&mut self, now: Now) {
        if let Some(tier) = self.reads.share_memory() {
            self.memory.tier.set_capacity(tier);
            self.shrink_tier(now);
        }
    }

    /// Completes a plan that read the surroundings of a record for its neighbours; the record
    /// itself is ignored. Returns the neighbours, like [`Core::loaded`].
    pub(crate) fn neighbours_read(
        &mut self,
        plan: &ReadPlan,
        scan: NeighbourScan,
        len: usize,
    ) -> Vec<Neighbour> {
        self.unpin(plan);
        self.mark_wanted(scan, len)
    }

    fn record_loaded(&mut self, plan: &ReadPlan, object: &Arc<Object>, now: Now) -> bool {
        self.unpin(plan);
        if !self.is_alive(&plan.digest, object) {
            return false;
        }
        if plan.keep && self.memory_takes(now) {
            let meta = plan.meta.as_ref().map(MetaPlan::position);
            self.keep_in_memory(plan.digest, object, meta, None);
            self.shrink_tier(now);
        }
        if object.header.kind == RecordKind::Piece && self.memory.tier.peek(&plan.digest).is_none()
        {
            self.memory.in_transit.put(plan.digest, object);
        }
        true
    }

    /// Returns whether memory accepts objects: not while it exceeds its share, because it waits for
    /// space on the device.
    pub(super) fn memory_takes(&mut self, now: Now) -> bool {
        self.shrink_tier(now);
        self.memory.tier.excess() == 0
    }

    /// Keeps `object`, read from the device, in memory if it is still the current version with the
    /// metadata at `meta`, or with its own when `meta` is `None`. The caller shrinks the tier
    /// afterwards.
    pub(super) fn keep_in_memory(
        &mut self,
        digest: Digest,
        object: &Arc<Object>,
        meta: Option<u32>,
        prefetched: Option<DistanceBand>,
    ) {
        let Some(slot) = self.index.get(&digest) else { return };
        let refreshed = slot.refreshed.then(|| self.index.get(&digest.derive_meta()));
        let current = self.placement.is_at(slot.position, object.place)
            && refreshed.flatten().map(|slot| slot.position) == meta;
        let known = self.memory.tier.peek(&digest).is_some();
        if !current || known || !self.memory.fits(&object.header, object.weight()) {
            return;
        }
        let cluster = self.placement.cluster_at(object.place);
        let accesses = object.header.references.saturating_add(u32::from(prefetched.is_none()));
        self.insert_resident(digest, resident_of(object, false, prefetched, cluster, accesses));
    }

    /// Completes a plan whose reads ended without the expected record, for the reason `why`.
    pub(crate) fn read_failed(&mut self, plan: &ReadPlan, why: ReadFailure) {
        if let Some(window) = plan.window {
            self.reads.end_window(window);
        }
        self.unpin(plan);
        match why {
            ReadFailure::NotRead => {}
            ReadFailure::OtherKey => self.counters.tag_collisions += 1,
            ReadFailure::Damaged => _ = self.damaged(&plan.digest, plan.position),
        }
    }

    /// Unpins the records that the plan pinned: its reads have ended.
    fn unpin(&mut self, plan: &ReadPlan) {
        if let Some(timing) = plan.timing {
            self.reads.measured(timing);
        }
        let mut freed = self.placement.unpin(plan.position);
        if let Some(MetaPlan::Read { position, .. }) = &plan.meta {
            freed |= self.placement.unpin(*position);
        }
        if freed {
            self.wake_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn surroundings_are_bounded_and_contain_the_record() {
        let bounds = Extent { offset: 10_000, len: 100_000 };
        for (offset, len) in [(0, 512), (512, 9_000), (40_960, 512), (99_328, 672), (0, 100_000)] {
            let record = Extent { offset: bounds.offset + offset, len };
            for most in [0, 600, 8_192, 50_000, 99_999, 1 << 20] {
                let Extent { offset: start, len } = within(bounds, record, most, 512);
                let (first, end) = (start - bounds.offset, start - bounds.offset + len);
                assert!(first.is_multiple_of(512) && first <= offset && end <= bounds.len);
                assert!(end >= offset + record.len, "{offset} {most}");
                assert!(len <= most.max(record.len), "{offset} {most}");
            }
            assert_eq!(within(bounds, record, 1 << 20, 512), bounds);
        }
    }
}
