//! Insertion: makes an object visible and gives its record a place.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use device::Nanos;

use crate::base::digest::Digest;
use crate::base::home::Home;
use crate::base::now::Now;
use crate::base::record::{Header, Place, Record, RecordKind};
use crate::base::refusal::Refusal;
use crate::base::size_class::SizeClass;
use crate::base::summary::Entry;
use crate::core::fetches::Overtaken;
use crate::core::new_object::{Fetched, NewObject, Reservation, TryInsert};
use crate::core::residents::resident_of;
use crate::core::state::Core;
use crate::format::journal::{Fact, JournalPosition};
use crate::index::{Inserted, Slot};
use crate::memory::grouping::Group;
use crate::memory::memory_tier::{Eviction, Weighed};
use crate::memory::object::{Object, weight_of};
use crate::purge::purges::Validity;
use crate::space::Space;
use crate::space::cluster_table::State;

/// Maximum number of staged objects that are skipped in search of others that may leave memory.
/// There may be no others, if memory is smaller than the staged objects.
const KEPT_AT_ONCE: u32 = 64;

impl Core {
    /// Begins a fetch of `digest`. Returns the flag that is set when the fetch is overtaken, and
    /// the last sequence number before it.
    pub(crate) fn begin_fetch(&mut self, digest: Digest) -> (Overtaken, u64) {
        (self.fetches.begin(digest), self.sequence.last())
    }

    /// Ends a fetch, or the insertion of its result.
    pub(crate) fn end_fetch(&mut self, digest: &Digest, flag: &Overtaken) {
        self.fetches.end(digest, flag);
    }

    /// Begins to write a fetched object for `digest`; returns the id of the new version.
    pub(crate) fn begin_writing(
        &mut self,
        digest: Digest,
        fetched: &Fetched,
        (key, meta): (&[u8], &[u8]),
    ) -> Result<u64, Refusal> {
        if !self.online() {
            return Err(Refusal::Offline);
        }
        if fetched.overtaken.load(Ordering::Acquire) || self.overtaken(fetched.begun, key, meta) {
            return Err(Refusal::Overtaken);
        }
        self.writers.begin(digest);
        Ok(self.sequence.assign())
    }

    /// Ends writing an object for `digest`, whether or not it was inserted.
    pub(crate) fn end_writing(&mut self, digest: &Digest) {
        self.writers.end(digest);
    }

    /// Returns whether an object was stored for `digest` that began to be written after this one.
    pub(crate) fn is_superseded(&self, digest: &Digest, object_id: u64) -> bool {
        self.writers.is_superseded(digest, object_id)
    }

    /// Returns whether the object fetched for the key of `digest` should be stored (called once per
    /// fetch). An object that replaces a stored one is always admitted; otherwise the old version
    /// would stay.
    pub(crate) fn admits(&mut self, digest: &Digest) -> bool {
        if self.admission.admits_all() {
            return true;
        }
        let unused = self.has_unused_space();
        let seen = self.admission.admits(digest.halves().0, unused);
        let stored = self.index.get(digest).is_some() || self.memory.tier.peek(digest).is_some();
        self.counters.not_admitted += u64::from(!seen && !stored);
        seen || stored
    }

    /// Makes `new` visible, replacing any object of the same digest.
    pub(crate) fn try_insert(&mut self, new: NewObject, now: Now) -> TryInsert {
        if !self.online() {
            return TryInsert::Refused(Refusal::Offline);
        }
        if let Some(fetched) = &new.fetched
            && (fetched.overtaken.load(Ordering::Acquire)
                || self.overtaken(fetched.begun, &new.record.key, &new.record.meta))
        {
            return TryInsert::Refused(Refusal::Overtaken);
        }
        let Header { kind, digest, object_id, .. } = new.record.header;
        if kind == RecordKind::Object && self.is_superseded(&digest, object_id) {
            return TryInsert::Refused(Refusal::Overtaken);
        }
        if new.record.len() > self.placement.record_max() {
            return TryInsert::Refused(Refusal::TooLarge);
        }
        if new.home == Home::Memory {
            return self.insert_in_memory(new, now);
        }
        let is_staged = self.memory.stages(&new.record.header);
        let enters_memory =
            new.home != Home::Disk && self.memory.fits(&new.record.header, weight_of(&new.record));
        if enters_memory && (is_staged || self.memory.delays_write(&new.record.header)) {
            return self.insert_unplaced(new, is_staged, now);
        }
        match self.reserve(new.record.len(), now) {
            Reservation::Ready => {}
            Reservation::Wait => return TryInsert::Wait(new),
            Reservation::Refused(refusal) => return TryInsert::Refused(refusal),
        }
        let is_object = new.record.header.kind == RecordKind::Object;
        self.supersede(&new.record);
        let due = self.schedule.write_by(now.monotonic, false);
        let (record, place) = self.place(new.record, None, due);
        // Pieces have new digests: nothing older can reappear in their place.
        let done = self.unwritten_deletion(&digest).filter(|_| is_object);
        if enters_memory && self.memory_takes(now) {
            let object = Arc::new(Object::from_record(&record, place));
            let cluster = self.placement.cluster_at(place);
            self.insert_resident(digest, resident_of(&object, false, None, cluster, 1));
            self.shrink_tier(now);
        }
        self.wake_background();
        TryInsert::Done(done)
    }

    /// Makes `new` visible in memory. It gets its place later: with the other staged objects, or
    /// when it is evicted.
    fn insert_unplaced(&mut self, new: NewObject, is_staged: bool, now: Now) -> TryInsert {
        if !self.memory_takes(now) {
            self.wake_background();
            return TryInsert::Wait(new);
        }
        // Memory evicts no faster than the device writes.
        if self.placement.is_half_unwritten() || self.memory.staging_is_stuck() {
            self.placement.space.expedite();
            self.wake_background();
            return TryInsert::Wait(new);
        }
        let before = self.seen_by_background();
        let (digest, len) = (new.record.header.digest, new.record.len());
        let (object, done) = self.enter_unplaced(new.record, true, is_staged);
        self.shrink_tier(now);
        if is_staged {
            self.stage(digest, &object.header, len, now);
            // The background knows the deadline from the first staged object.
            let expected = !self.schedule.is_draining() && self.memory.staging_is_expected();
            if self.seen_by_background() != before || !expected {
                self.wake_background();
            }
        }
        TryInsert::Done(done)
    }

    /// Makes `new` visible in memory only.
    fn insert_in_memory(&mut self, new: NewObject, now: Now) -> TryInsert {
        if !self.memory.fits(&new.record.header, weight_of(&new.record)) {
            return TryInsert::Refused(Refusal::TooLarge);
        }
        if !self.memory_takes(now) {
            self.wake_background();
            return TryInsert::Wait(new);
        }
        let (_, done) = self.enter_unplaced(new.record, false, false);
        self.shrink_tier(now);
        self.wake_background();
        TryInsert::Done(done)
    }

    /// Puts the object of `record` into memory, replacing any of the same digest. Also returns the
    /// position up to which the journal must be written, as [`TryInsert::Done`] has it.
    fn enter_unplaced(
        &mut self,
        record: Record,
        dirty: bool,
        is_staged: bool,
    ) -> (Arc<Object>, Option<JournalPosition>) {
        let digest = record.header.digest;
        self.supersede(&record);
        if is_staged {
            self.keep(&record);
        }
        let labels = self.labels.note_unplaced(&record, is_staged);
        let object = Arc::new(Object::unplaced(record, labels, self.sequence.last()));
        let done = self.unwritten_deletion(&digest);
        self.insert_noted(digest, resident_of(&object, dirty, None, None, 1));
        (object, done)
    }

    /// Returns the figures whose change by an insertion the background must learn of at once:
    /// journal facts noted, and bytes to write.
    fn seen_by_background(&self) -> (JournalPosition, usize) {
        (self.journal.now(), self.placement.space.unwritten_bytes())
    }

    /// Removes the version that `record` replaces.
    fn supersede(&mut self, record: &Record) {
        if record.header.kind == RecordKind::Object {
            self.counters.insertions += 1;
            self.writers.stored(&record.header.digest, record.header.object_id);
            self.forget_version(&record.header.digest);
        }
        let bytes = record.key.len() + record.meta.len() + record.body.len();
        self.counters.inserted_bytes += bytes as u64;
    }

    /// Makes sure that a record of `len` bytes has a place.
    pub(super) fn reserve(&mut self, len: usize, now: Now) -> Reservation {
        if self.placement.exceeds_unwritten(len) {
            self.placement.space.expedite();
            self.wake_background();
            return Reservation::Wait;
        }
        match &mut self.placement.space {
            Space::Clusters(_) => self.reserve_in_cluster(len, now),
            Space::Slots(_) => self.reserve_slots(len),
        }
    }

    /// Makes sure of a place in the open cluster; opens another cluster if needed.
    fn reserve_in_cluster(&mut self, len: usize, now: Now) -> Reservation {
        if self.placement.space.appender().has_space(&self.placement.areas, len) {
            return Reservation::Ready;
        }
        self.placement.seal();
        let Some(run) = self.placement.space.table_mut().take_free_run(1, now.unix) else {
            self.wake_background();
            return Reservation::Wait;
        };
        let (cluster, incarnation) =
            (run.start, self.placement.space.table().incarnation(run.start));
        self.journal.note(Fact::Opened { cluster, incarnation });
        self.placement.space.opened(cluster);
        self.rotate_label_eras(self.sequence.last());
        self.labels.filters.opened(cluster);
        self.placement.space.appender_mut().open(cluster, incarnation, self.journal.now());
        self.wake_background();
        Reservation::Ready
    }

    /// Gives `record` the next sequence number and a place, and inserts it into the index; it must
    /// be written by `due`. `resident` is its object, if that is in memory and has had no place.
    fn place(
        &mut self,
        mut record: Record,
        resident: Option<&Object>,
        due: Nanos,
    ) -> (Arc<Record>, Option<Place>) {
        record.header.sequence = self.sequence.assign();
        let record = Arc::new(record);
        let digest = record.header.digest;
        let position = self.append(&record, (0, 0), resident, due);
        let slot =
            Slot { position, class: SizeClass::for_len(record.len() as u32), refreshed: false };
        let inserted = self.index.insert(&digest, slot);
        self.retire(inserted);
        self.index.set_stamp(&digest, record.header.stamp);
        let place = self.placement.place_at(position);
        (record, place)
    }

    /// Appends `record` to the open cluster, or adds it to the slots; returns its position.
    /// Metadata records name the position and the sequence number of their `target`.
    fn append(
        &mut self,
        record: &Arc<Record>,
        (target, target_sequence): (u32, u64),
        resident: Option<&Object>,
        due: Nanos,
    ) -> u32 {
        let header = &record.header;
        let entry = Entry {
            kind: header.kind,
            digest: header.digest,
            sequence: header.sequence,
            granule: 0,
            len: 0,
            target,
            target_sequence,
            joins: false,
        };
        let entry_kind = header.kind;
        let sequence = header.sequence;
        let mut buffer = self.labels.take_buffer();
        let labels = match resident.and_then(|resident| resident.labels.as_deref()) {
            Some(kept) => kept,
            None => {
                self.labels.read(entry_kind, &record.key, &record.meta, &mut buffer);
                &buffer
            }
        };
        let (position, cluster) = match &mut self.placement.space {
            Space::Clusters(space) => {
                let record = Arc::clone(record);
                let position =
                    space.appender.append(&self.placement.areas, record, entry, labels, due);
                let (cluster, _) = self.placement.areas.locate(position);
                space.table.add_record(cluster);
                if entry_kind == RecordKind::Meta {
                    space.metas.insert(cluster);
                }
                (position, Some(cluster))
            }
            Space::Slots(space) => (space.add(record, due), None),
        };
        self.note_record_labels(cluster, sequence, labels, resident.is_some());
        self.labels.return_buffer(buffer);
        position
    }

    /// Declares dead the records that an insertion into the index displaced, because no entry leads
    /// to them any more.
    pub(super) fn retire(&mut self, inserted: Inserted) {
        for slot in inserted.old.into_iter().chain(inserted.displaced) {
            self.mark_dead(slot);
        }
        if let Some(digest) = &inserted.expelled {
            self.resident_displaced(digest);
        }
        let lost = inserted.displaced.is_some() || inserted.expelled.is_some();
        self.counters.index_displaced += u64::from(lost);
    }

    /// Replaces the metadata of version `of`; in memory only, of exactly that object.
    pub(crate) fn try_replace_meta(
        &mut self,
        of: &Arc<Object>,
        meta: Bytes,
        fetched: &Fetched,
        now: Now,
    ) -> Result<bool, Refusal> {
        let digest = of.header.digest;
        if !self.online() {
            return Err(Refusal::Offline);
        }
        if fetched.overtaken.load(Ordering::Acquire)
            || !self.is_alive(&digest, of)
            || self.overtaken(fetched.begun, &of.key, &of.meta)
            || self.overtaken(fetched.begun, &of.key, &meta)
        {
            return Err(Refusal::Overtaken);
        }
        let slot = self.index.get(&digest);
        let resident = self.memory.tier.peek(&digest);
        // The object may have been placed since the caller found it.
        let placed = resident.filter(|resident| {
            of.place.is_none() && resident.object.header.object_id == of.header.object_id
        });
        let placed = placed.map(|resident| Arc::clone(&resident.object));
        let of = placed.as_ref().unwrap_or(of);
        let slot = slot.filter(|slot| self.placement.is_at(slot.position, of.place));
        let in_memory = resident.is_some_and(|resident| {
            // Versions that have no place yet have no sequence number either.
            resident.object.header.object_id == of.header.object_id
                && resident.object.place == of.place
        });
        if slot.is_none() && !in_memory {
            return Err(Refusal::Overtaken);
        }
        let (dirty, accesses) = resident.map_or((false, 1), |r| (r.dirty, r.accesses));
        let stays = slot.filter(|slot| !(in_memory && self.drop_device_copy(&digest, *slot)));
        let dirty = dirty || stays != slot;
        let slot = stays;
        if let Some(slot) = slot
            && !self.place_meta(of, slot, &meta, now)?
        {
            return Ok(false);
        }
        self.memory.evictions.withdraw(&digest);
        let object = Arc::new(of.with_meta(meta, self.sequence.last()));
        self.keep_refreshed(&object, now);
        if in_memory || self.memory.fits(&object.header, object.weight()) {
            let cluster = slot.and_then(|slot| self.placement.cluster_of(slot.position));
            self.insert_resident(digest, resident_of(&object, dirty, None, cluster, accesses));
            self.shrink_tier(now);
        }
        self.counters.refreshes += 1;
        Ok(true)
    }

    /// Appends a metadata record for the object record of `slot`. Returns `Ok(false)` when there is
    /// no space now.
    fn place_meta(
        &mut self,
        of: &Arc<Object>,
        slot: Slot,
        meta: &Bytes,
        now: Now,
    ) -> Result<bool, Refusal> {
        let digest = of.header.digest;
        let mut header = of.header.clone();
        header.kind = RecordKind::Meta;
        header.object_id = of.header.sequence;
        header.piece_size = slot.position;
        let mut record =
            Record::new(&self.secret, header, of.key.clone(), meta.clone(), Bytes::new());
        if record.len() > self.placement.record_max() {
            return Err(Refusal::TooLarge);
        }
        match self.reserve(record.len(), now) {
            Reservation::Ready => {}
            Reservation::Wait => return Ok(false),
            Reservation::Refused(refusal) => return Err(refusal),
        }
        record.header.sequence = self.sequence.assign();
        let class = SizeClass::for_len(record.len() as u32);
        let record = Arc::new(record);
        let target = (slot.position, of.header.sequence);
        let due = self.schedule.write_by(now.monotonic, false);
        let position = self.append(&record, target, None, due);
        let meta_slot = Slot { position, class, refreshed: false };
        let inserted = self.index.insert(&digest.derive_meta(), meta_slot);
        // An older metadata record is superseded only by its sequence number. If it were declared
        // dead and this one were then lost in a crash, the object would go back to even older
        // metadata.
        self.retire(Inserted { old: None, ..inserted });
        self.note_refresh(slot.position, inserted.old);
        self.note_labels(of, meta, position);
        self.index.update_flag(&digest, slot.position, true);
        self.wake_background();
        Ok(true)
    }

    /// Evicts the excess of the memory tier; dirty objects are grouped and placed (C11). They stay
    /// for a while when there is no room for them, see [`Core::write_group`].
    pub(super) fn shrink_tier(&mut self, now: Now) {
        let groups = self.counters.groups;
        let mut kept = 0;
        while kept < KEPT_AT_ONCE {
            match self.memory.tier.next_eviction() {
                None => break,
                Some(Eviction::Dropped(digest, resident)) => {
                    let asked_for = resident.prefetched.is_none();
                    self.index.leave_memory(&digest);
                    self.memory.evictions.offer(&digest, &resident);
                    if asked_for {
                        self.memory.expect(&digest);
                    }
                    let object = &resident.object;
                    if object.in_pieces() && object.place.is_none() {
                        // It lived in memory only, and no lookup finds its pieces any more.
                        self.forget_pieces(object.header.object_id, 0..object.pieces());
                    }
                }
                Some(Eviction::Write(digest, _)) if self.memory.staging.is_some() => {
                    kept += u32::from(!self.evict_staged(&digest, now));
                }
                Some(Eviction::Write(digest, _)) => {
                    if !self.evict_dirty(digest, now) {
                        break;
                    }
                }
            }
        }
        if self.counters.groups > groups {
            self.write_more_groups(groups + u64::from(self.options.group_batch), now);
        }
    }

    /// Writes more groups of cold objects into clusters that are written side by side (section
    /// 2.5.1 of the UCFS paper): until `until` groups were written in total, as long as the groups
    /// are full.
    fn write_more_groups(&mut self, until: u64, now: Now) {
        while self.counters.groups < until {
            let slack = u64::from(self.options.group_slack);
            let Some(group) = self.choose_group().filter(|group| group.free <= slack) else {
                return;
            };
            if !self.write_members(&group, now) {
                return;
            }
        }
    }

    /// Writes a group from the old end of memory into clusters of its own. If there is no place for
    /// it now, `victim`, the least recently used object, stays; insertions then wait, and reads
    /// leave nothing in memory. If there will never be one, `victim` is dropped. Returns false when
    /// it stays.
    pub(super) fn write_group(&mut self, victim: Digest, now: Now) -> bool {
        let full = match &self.placement.space {
            Space::Clusters(space) => space.table.count(State::Free) == 0,
            Space::Slots(_) => false,
        };
        if full {
            self.wake_background();
        } else {
            if self.placement.space.has_clusters() {
                self.placement.space.table_mut().seek_run(u32::from(self.options.group_batch));
            }
            if let Some(group) = self.choose_group()
                && self.write_members(&group, now)
            {
                return true;
            }
        }
        let len = self.memory.tier.peek(&victim).map_or(0, |resident| resident.object.record_len());
        if full || !matches!(self.reserve(len, now), Reservation::Refused(_)) {
            return false;
        }
        if self.evict_resident(&victim) {
            self.release_kept(&victim);
            self.counters.dropped_unwritten += 1;
        }
        true
    }

    /// Writes the objects of `group` to the device as far as there is space. They begin a cluster
    /// and seal it (section 2.4.2 of the UCFS paper), unless batches are wanted and it would stay
    /// half empty. Returns false when nothing was written.
    fn write_members(&mut self, group: &Group, now: Now) -> bool {
        let room = u64::from(group.clusters) * u64::from(self.placement.areas.cluster_size);
        let alone = self.options.batch == 0 || group.free <= room / 2;
        if alone {
            self.placement.begin_cluster();
        }
        let members = group.members.iter();
        let written = members.take_while(|digest| self.write_out(digest, now)).count();
        if written > 0 {
            if alone {
                self.placement.begin_cluster();
            }
            self.counters.groups += 1;
        }
        written > 0
    }

    fn choose_group(&self) -> Option<Group> {
        let areas = &self.placement.areas;
        self.memory.choose_group(&self.options, areas.cluster_size, areas.granule)
    }

    /// Moves a dirty object from memory into the open cluster. Returns false when there is no place
    /// for it, and it stays.
    pub(super) fn write_out(&mut self, digest: &Digest, now: Now) -> bool {
        let Some(resident) = self.memory.tier.peek(digest) else { return true };
        // A placed record counts as younger than all purges before it.
        let object = Arc::clone(&resident.object);
        if self.validity(&object) != Validity::Valid {
            self.remove_resident(digest);
            self.release_kept(digest);
            return true;
        }
        if self.reserve(object.record_len(), now) != Reservation::Ready {
            return false;
        }
        let Some(resident) = self.remove_resident(digest) else { return true };
        let object = resident.object;
        let header = Header { references: resident.accesses, ..object.header.clone() };
        let due = self.schedule.write_by(now.monotonic, false);
        let (record, place) = self.place(object.to_record(&self.secret, header), None, due);
        if self.memory.evictions.wanted() {
            let mut placed = Object::clone(&object);
            placed.set_placed(&record.header, place);
            self.memory.evictions.offer_object(digest, &Arc::new(placed));
        }
        true
    }

    /// Gives a dirty object a place and keeps it in memory as a clean copy; it must be written by
    /// `due`. Returns false when there is no place for it, and it stays dirty.
    pub(super) fn place_resident(&mut self, digest: &Digest, due: Nanos, now: Now) -> bool {
        let Some(resident) = self.memory.tier.peek(digest) else { return true };
        let (object, references) = (Arc::clone(&resident.object), resident.accesses);
        // A placed record counts as younger than all purges before it.
        if self.validity(&object) != Validity::Valid {
            self.remove_resident(digest);
            self.release_kept(digest);
            return true;
        }
        if self.reserve(object.record_len(), now) != Reservation::Ready {
            return false;
        }
        let header = Header { references, ..object.header.clone() };
        let record = object.to_record(&self.secret, header);
        let (record, place) = self.place(record, Some(&object), due);
        drop(object);
        let cluster = self.placement.cluster_at(place);
        self.memory.tier.mark_placed(digest, cluster, |object| {
            Arc::make_mut(object).set_placed(&record.header, place);
        });
        true
    }

    /// Writes every dirty object to the device (orderly stop, C13), in order of group. Returns
    /// false when space is missing: try again.
    pub(super) fn write_out_dirty(&mut self, now: Now) -> bool {
        self.memory.dirty_by_group().iter().all(|digest| self.write_out(digest, now))
    }
}
