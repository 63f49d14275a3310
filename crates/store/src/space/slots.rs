//! The space of the layouts that reuse bytes record by record: `stream`, `unified`, `buddy`.
//!
//! The device is numbered in slots. The layout chooses the slots of a record. They become free
//! again once the record is dead, the journal has made that durable, and no read or write uses
//! them. A record's checksum is bound to its position and its sequence number, so that earlier
//! contents of the slots are never mistaken for it.
//!
//! The eviction policy chooses the record to evict for space (LRU as in the papers, or any other of
//! [`crate::policy`]).

pub(crate) mod batches;
pub(crate) mod durable_sequence;
pub(crate) mod found;
pub(crate) mod image;
pub(crate) mod page_write;
mod quarantine;
pub(crate) mod record_table;
pub(crate) mod run_header;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use device::{Extent, Nanos};

use super::{Location, Split};
use crate::base::digest::Digest;
use crate::base::record::{Place, Record, RecordKind};
use crate::config::options::SlotOptions;
use crate::format::device_layout::Areas;
use crate::format::journal::JournalPosition;
use crate::index::Index;
use crate::layout::{AnyLayout, Layout, Run};
use crate::policy::{AnyPolicy, Parameters, Policy};
use crate::space::slot_stats::SlotStats;
use crate::space::space_audit::{Account, AccountError};
use batches::{Batches, Unwritten};
use durable_sequence::Frontier;
use image::SlotImage;
use page_write::{Edge, PageDone, PageJob, PageWrite};
use quarantine::Quarantine;
use record_table::{Listed, RecordId, RecordTable};
use run_header::RUN_HEADER_LEN;

/// Upper bound of a record's memory in all tables together, in bytes: the record table, the
/// policy's columns and its share of the layout's tables.
pub(crate) const RECORD_MEMORY: usize = 80;

/// Number of deaths recorded before they are first swept.
const RECENT_DEATHS: usize = 1 << 16;

/// Counters since the space was opened.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SlotCounters {
    /// Records that lie in several runs, and the total number of their runs.
    pub(crate) split_records: u64,
    pub(crate) split_runs: u64,
    /// Pages read because only a part of them was to be written.
    pub(crate) page_reads: u64,
}

/// A place reserved for a record that has not arrived yet.
struct Reserved {
    bytes: usize,
    runs: Vec<Run>,
}

/// A space of slots. See the module documentation.
pub(crate) struct SlotSpace {
    layout: AnyLayout,
    policy: AnyPolicy,
    records: RecordTable,
    batches: Batches,
    quarantine: Quarantine,
    frontier: Frontier,
    /// Deaths of records that the next checkpoint must list: position and sequence number. A flush
    /// may have covered some of them since.
    recent_deaths: Vec<(u32, u64)>,
    /// Number of deaths at which they are swept for those.
    recent_deaths_max: usize,
    /// Metadata records that die when a later one is durable on the device: the sequence number of
    /// that one, and their position.
    superseded_metas: Vec<(u64, u32)>,
    /// Positions of objects with replaced metadata, and the sequence number of the newest.
    refreshed: BTreeMap<u32, u64>,
    reserved: Option<Reserved>,
    /// The last page written, if it was not full: its offset from slot 0, and its content.
    last_page: Option<(u64, Vec<u8>)>,
    slots: u32,
    slot_bytes: u32,
    /// Size of a page, the unit of writes, in bytes.
    page: u64,
    /// Slots of live records and of bad ones.
    live: u64,
    bad: u64,
    fill_max: u64,
    evict_max: u32,
    /// Records evicted for the insertion that waits.
    evicted_for_room: u32,
    /// The known state while the live records are being found. Until then no record is placed or
    /// found.
    assembling: Option<Box<SlotImage>>,
    pub(crate) counters: SlotCounters,
}

impl SlotSpace {
    /// Returns an empty space of `slots` slots. With `assembling`, that image determines which
    /// records are live until [`SlotSpace::assembled`].
    pub(crate) fn new(
        slots: u32,
        slot_bytes: u32,
        options: &SlotOptions,
        assembling: Option<SlotImage>,
    ) -> SlotSpace {
        let space = crate::layout::Space { slots, slot_bytes, run_header: RUN_HEADER_LEN as u32 };
        let fill_max = u64::from(slots) * u64::from(options.fill_percent) / 100;
        SlotSpace {
            layout: AnyLayout::new(options.layout, space),
            policy: AnyPolicy::new(options.policy, &Parameters::new(fill_max)),
            records: RecordTable::default(),
            batches: Batches::new(slot_bytes, options.packet, options.page),
            quarantine: Quarantine::default(),
            frontier: Frontier::default(),
            recent_deaths: Vec::new(),
            recent_deaths_max: RECENT_DEATHS,
            superseded_metas: Vec::new(),
            refreshed: BTreeMap::new(),
            reserved: None,
            last_page: None,
            slots,
            slot_bytes,
            page: u64::from(options.page),
            live: 0,
            bad: 0,
            fill_max,
            evict_max: options.evict_max,
            evicted_for_room: 0,
            assembling: assembling.map(Box::new),
            counters: SlotCounters::default(),
        }
    }

    /// Returns whether the live records are still being found.
    pub(crate) fn assembling(&self) -> bool {
        self.assembling.is_some()
    }

    // ---- Places

    /// Reserves a place for a record of `bytes` bytes. Returns false if there is none now.
    pub(crate) fn reserve(&mut self, bytes: usize) -> bool {
        if self.reserved.as_ref().is_some_and(|reserved| reserved.bytes == bytes) {
            return true;
        }
        self.give_back_reserved();
        let mut runs = Vec::with_capacity(1);
        if !self.layout.place(bytes as u64, &mut runs) {
            return false;
        }
        self.evicted_for_room = 0;
        self.reserved = Some(Reserved { bytes, runs });
        true
    }

    /// Asks for the next records, which have these lengths in bytes, to lie side by side.
    pub(crate) fn seek(&mut self, lens: &[usize]) {
        let slots: u64 =
            lens.iter().map(|len| (*len as u64).div_ceil(self.slot_bytes.into())).sum();
        self.give_back_reserved();
        self.layout.seek(u32::try_from(slots).unwrap_or(u32::MAX));
    }

    fn give_back_reserved(&mut self) {
        if let Some(reserved) = self.reserved.take() {
            self.free(reserved.runs);
        }
    }

    /// Puts a record into its reserved place; its header has its sequence number. Returns its
    /// position.
    pub(crate) fn add(&mut self, record: &Arc<Record>, now: Nanos) -> u32 {
        let reserved = self.reserved.take().expect("room was made for the record");
        assert_eq!(reserved.bytes, record.len(), "the room that was made is for this record");
        let runs: Arc<[Run]> = reserved.runs.into();
        let header = &record.header;
        if runs.len() > 1 {
            self.counters.split_records += 1;
            self.counters.split_runs += runs.len() as u64;
        }
        let listed = Listed {
            digest: header.digest,
            sequence: header.sequence,
            run: runs[0],
            len: record.len() as u32,
            kind: header.kind,
        };
        self.list(listed, &runs[1..]);
        let place = Place { position: runs[0].first, incarnation: header.sequence };
        self.frontier.placed(header.sequence);
        self.quarantine.pin(place.position);
        self.batches.add(Unwritten { record: Arc::clone(record), place, runs }, now);
        place.position
    }

    fn list(&mut self, record: Listed, further: &[Run]) {
        let runs = std::iter::once(&record.run).chain(further);
        let slots: u64 = runs.map(|run| u64::from(run.len)).sum();
        let id = self.records.add(record, further);
        self.live += slots;
        // While the live records are being found, their order is not known.
        if !self.assembling() {
            self.enter_policy(id);
        }
    }

    /// Makes the record a candidate for eviction. Metadata are evicted with their object.
    fn enter_policy(&mut self, id: RecordId) {
        let record = self.records.get(id);
        if record.kind != RecordKind::Meta {
            let slots = self.records.runs(id).iter().map(|run| u64::from(run.len)).sum();
            let entry = crate::policy::Entry { hash: record.digest.hash(), size: slots };
            self.policy.insert(id, entry);
        }
    }

    /// Returns the place of the record at `position`; `None` if no live record is there.
    pub(crate) fn place_at(&self, position: u32) -> Option<Place> {
        let record = self.records.at(position)?;
        Some(Place { position, incarnation: record.sequence })
    }

    /// Returns the live record at exactly this place, if it lies in one run and is on the device.
    pub(crate) fn alone_at(&self, place: Place) -> Option<&Listed> {
        let id = self.records.id(place.position)?;
        let record = self.records.get(id);
        let written = self.batches.get(place.position).is_none();
        let here = record.sequence == place.incarnation && written && self.records.is_one_run(id);
        here.then_some(record)
    }

    /// Returns the record at `position`, if it is not completely on the device yet.
    pub(crate) fn unwritten(&self, position: u32) -> Option<&Arc<Record>> {
        self.batches.get(position).filter(|record| {
            self.records.at(position).is_some_and(|at| at.sequence == record.header.sequence)
        })
    }

    /// Implements [`super::Space::locate`].
    pub(crate) fn locate(&self, areas: &Areas, position: u32) -> Location {
        let id = self.records.id(position).expect("what is read lives");
        let runs = self.records.runs(id);
        let (first, further) = runs.split_first().expect("a record has a run");
        let extent = self.extent(areas, *first);
        let further: Vec<Extent> = further.iter().map(|run| self.extent(areas, *run)).collect();
        let split = (!further.is_empty()).then(|| Box::new(Split { runs, further }));
        Location { extent, split }
    }

    /// Returns the bounds within which a read of the record at `position` may include others: those
    /// of the cluster that would contain it if there were clusters. A read has the same reach in
    /// all layouts.
    pub(crate) fn surroundings(&self, areas: &Areas, position: u32) -> Extent {
        let per_cluster = areas.cluster_size / self.slot_bytes;
        let first = position / per_cluster * per_cluster;
        self.extent(areas, Run { first, len: per_cluster.min(self.slots - first) })
    }

    fn extent(&self, areas: &Areas, run: Run) -> Extent {
        let len = u64::from(run.len) * u64::from(self.slot_bytes);
        Extent { offset: areas.offset(run.first), len }
    }

    /// Records a request for the record at `position`.
    pub(crate) fn touch(&mut self, position: u32) {
        if let Some(id) = self.records.id(position) {
            self.policy.touch(id);
        }
    }

    /// Records a request like [`SlotSpace::touch`], if that record is still there.
    pub(crate) fn touch_place(&mut self, place: Place) {
        if self.place_at(place.position) == Some(place) {
            self.touch(place.position);
        }
    }

    pub(crate) fn pin(&mut self, position: u32) {
        self.quarantine.pin(position);
    }

    /// Releases a pin. Returns whether that freed slots.
    pub(crate) fn unpin(&mut self, position: u32) -> bool {
        let runs = self.quarantine.unpin(position);
        let freed = !runs.is_empty();
        self.free(runs);
        freed
    }

    fn free(&mut self, runs: Vec<Run>) {
        runs.into_iter().for_each(|run| self.layout.release(run));
    }

    // ---- Deletion

    /// Removes the record at `position`, whose death the journal contains up to `up_to`. Its slots
    /// become free when that is durable and they are no longer in use.
    pub(crate) fn release(&mut self, position: u32, up_to: JournalPosition) {
        let Some(id) = self.records.id(position) else { return };
        let record = *self.records.get(id);
        if self.policy.contains(id) {
            self.policy.remove(id);
        }
        let runs = self.records.remove(id);
        self.live -= runs.iter().map(|run| u64::from(run.len)).sum::<u64>();
        // While the live records are being found, slots not listed become free at the end.
        match &mut self.assembling {
            None => self.quarantine.add(up_to, runs),
            Some(image) => image.apply_death(position, record.sequence),
        }
        self.recent_deaths.push((position, record.sequence));
        self.refreshed.remove(&position);
    }

    /// Records that the metadata record at `old` dies once the one with the sequence number `new`
    /// is durable on the device. If it died earlier, a crash could bring back even older metadata.
    pub(crate) fn supersede_meta(&mut self, new: u64, old: u32) {
        self.superseded_metas.push((new, old));
    }

    /// Records that the object at `position` has new metadata, in the record with this sequence
    /// number.
    pub(crate) fn refreshed(&mut self, position: u32, sequence: u64) {
        self.refreshed.insert(position, sequence);
    }

    /// Returns the metadata records that may die now.
    pub(crate) fn dead_metas(&mut self) -> Vec<u32> {
        let frontier = &self.frontier;
        let done = self.superseded_metas.extract_if(.., |(new, _)| frontier.is_flushed(*new));
        done.map(|(_, old)| old).collect()
    }

    /// Returns the record to evict for space, and removes it from the policy. Use it for evictions
    /// only. Returns `None` if all records are in use.
    pub(crate) fn victim(&mut self) -> Option<Listed> {
        let (records, quarantine) = (&self.records, &self.quarantine);
        let pinned = |id| quarantine.pinned(records.get(id).run.first);
        let id = self.policy.victim(pinned)?;
        self.policy.evict(id);
        Some(*self.records.get(id))
    }

    /// Returns whether slots must be given up, because more are in use than the maximum.
    pub(crate) fn overfull(&self) -> bool {
        !self.assembling() && self.live > self.fill_max
    }

    /// Returns whether there is more space than evictions keep free for the next records.
    pub(crate) fn has_unused_space(&self) -> bool {
        !self.assembling() && self.live < self.fill_max - self.fill_max / 64
    }

    /// Counts an eviction for the insertion that waits. Returns whether it is still allowed.
    pub(crate) fn may_evict_for_space(&mut self) -> bool {
        self.evicted_for_room += 1;
        if self.evicted_for_room > self.evict_max {
            self.evicted_for_room = 0;
            return false;
        }
        true
    }

    /// Returns whether so few slots are free that those waiting for the journal are needed.
    pub(crate) fn is_short(&self) -> bool {
        let spare = u64::from(self.slots) - self.fill_max;
        u64::from(self.layout.free_slots()) < spare / 2
    }

    /// Returns whether slots wait for the journal.
    pub(crate) fn waits_for_journal(&self) -> bool {
        self.quarantine.waits()
    }

    /// Records that the journal is durable up to `up_to`.
    pub(crate) fn journal_durable(&mut self, up_to: JournalPosition) {
        let runs = self.quarantine.journal_durable(up_to);
        self.free(runs);
    }

    // ---- Writing

    pub(crate) fn batches(&self) -> &Batches {
        &self.batches
    }

    pub(crate) fn batches_mut(&mut self) -> &mut Batches {
        &mut self.batches
    }

    /// Returns the next job to write, if any.
    pub(crate) fn begin_write(&mut self) -> Option<PageJob> {
        let batches = self.batches.begin_write();
        let page = self.page;
        let writes = batches.into_iter().map(|batch| {
            let slot_bytes = u64::from(self.slot_bytes);
            let first = u64::from(batch.slots.first) * slot_bytes;
            let end = u64::from(batch.slots.end()) * slot_bytes;
            let (from, to) = (first / page * page, end.next_multiple_of(page));
            let one_page = to - from == page;
            let other = |at: u64| self.others_in(at, batch.slots);
            let head = from < first || one_page && end < to;
            let head = if head && other(from) { self.edge(from) } else { Edge::Free };
            let tail = end < to && !one_page && other(to - page);
            let tail = if tail { self.edge(to - page) } else { Edge::Free };
            PageWrite { batch, from, to, page, head, tail, slot_bytes }
        });
        let writes: Vec<PageWrite> = writes.collect();
        (!writes.is_empty()).then_some(PageJob { writes })
    }

    /// Returns whether the page at `offset` holds data on the device outside `ours`.
    fn others_in(&self, offset: u64, ours: Run) -> bool {
        let slot_bytes = u64::from(self.slot_bytes);
        let first = (offset / slot_bytes) as u32;
        let end = ((offset + self.page).div_ceil(slot_bytes) as u32).min(self.slots);
        (first..end).any(|slot| {
            let is_ours = ours.first <= slot && slot < ours.end();
            !is_ours && self.layout.is_used(slot) && !self.batches.covers(slot)
        })
    }

    fn edge(&self, page: u64) -> Edge {
        match &self.last_page {
            Some((at, bytes)) if *at == page => Edge::Known(bytes.clone()),
            _ => Edge::Read,
        }
    }

    /// Records the result of the job. Returns the positions of the records that were lost.
    pub(crate) fn end_write(&mut self, job: PageJob, done: Vec<PageDone>) -> Vec<u32> {
        self.batches.end_write();
        let mut lost = Vec::new();
        for (write, done) in job.writes.into_iter().zip(done) {
            self.counters.page_reads += done.reads;
            let covers = |at: u64| write.from <= at && at < write.to;
            if self.last_page.as_ref().is_some_and(|(at, _)| covers(*at)) {
                self.last_page = None;
            }
            let end = u64::from(write.batch.slots.end()) * write.slot_bytes;
            if done.whole && end < write.to {
                self.last_page = Some((write.to - write.page, done.last_page));
            }
            for part in &write.batch.parts {
                if !done.whole {
                    lost.push(part.of.place.position);
                    self.frontier.lost(part.of.place.incarnation);
                }
                if self.batches.settle(part) {
                    self.frontier.written(part.of.place.incarnation);
                    self.unpin(part.of.place.position);
                }
            }
        }
        lost
    }

    /// Removes the record at `position`, whose slots could not be written. They are not reused.
    pub(crate) fn condemn(&mut self, position: u32) {
        let Some(id) = self.records.id(position) else { return };
        if self.policy.contains(id) {
            self.policy.remove(id);
        }
        let record = *self.records.get(id);
        let slots: u64 = self.records.remove(id).iter().map(|run| u64::from(run.len)).sum();
        self.live -= slots;
        self.bad += slots;
        self.recent_deaths.push((position, record.sequence));
        self.refreshed.remove(&position);
    }

    /// Records the start of a device flush.
    pub(crate) fn begin_flush(&mut self) {
        self.frontier.begin_flush();
    }

    pub(crate) fn end_flush(&mut self) {
        self.frontier.end_flush();
        if self.recent_deaths.len() >= self.recent_deaths_max {
            // Records placed later are younger than all of these deaths, or not flushed.
            self.forget_deaths(self.frontier.reached(u64::MAX));
            self.recent_deaths_max = RECENT_DEATHS.max(2 * self.recent_deaths.len());
        }
    }

    /// Drops the deaths up to `reached`: a checkpoint that lists the live records up to there
    /// implies them.
    fn forget_deaths(&mut self, reached: u64) {
        self.recent_deaths.retain(|(_, sequence)| *sequence > reached);
    }

    // ---- Checkpoints and recovery

    /// Returns the content of a checkpoint. `sequence` is the last sequence number assigned.
    pub(crate) fn image(&mut self, sequence: u64) -> SlotImage {
        if let Some(image) = &self.assembling {
            return (**image).clone();
        }
        let reached = self.frontier.reached(sequence);
        self.forget_deaths(reached);
        let mut image = SlotImage::new(self.slots, reached, self.recent_deaths.clone());
        self.refreshed.iter().for_each(|(at, sequence)| image.apply_refresh(*at, *sequence));
        let old = self.records.iter().filter(|(_, record)| record.sequence <= reached);
        old.for_each(|(_, record)| image.starts.set(record.run.first));
        image
    }

    /// Ends the scan early: of the records up to `sequence`, only those listed so far live.
    pub(crate) fn abandon(&mut self, sequence: u64) {
        let starts = self.records.iter().map(|(_, record)| record.run.first);
        if let Some(image) = &mut self.assembling {
            image.restrict(sequence, starts);
        }
    }

    /// Lists a record that recovery found, in place of an older one at its position.
    pub(crate) fn found(&mut self, record: Listed, further: &[Run]) {
        assert!(self.assembling(), "recovery has ended");
        self.list(record, further);
    }

    /// Returns all records with their runs after the first: metadata that have not been superseded,
    /// then the others in the order in which the policy would evict them. Empties the policy.
    pub(crate) fn in_order(&mut self) -> Vec<(Listed, Vec<Run>)> {
        let superseded: BTreeSet<u32> = self.superseded_metas.iter().map(|(_, old)| *old).collect();
        let is_meta = |record: &Listed| {
            record.kind == RecordKind::Meta && !superseded.contains(&record.run.first)
        };
        let metas = self.records.iter().filter(|(_, record)| is_meta(record));
        let mut order: Vec<RecordId> = metas.map(|(id, _)| id).collect();
        while let Some(id) = self.policy.victim(|_| false) {
            self.policy.evict(id);
            order.push(id);
        }
        let record = |id: RecordId| (*self.records.get(id), self.records.runs(id).split_off(1));
        order.into_iter().map(record).collect()
    }

    pub(crate) fn objects(&self) -> impl Iterator<Item = Listed> {
        let listed = self.records.iter().map(|(_, record)| *record);
        listed.filter(|record| record.kind == RecordKind::Object)
    }

    /// Returns the sequence numbers of all records that may bear labels.
    pub(crate) fn sequences(&self) -> impl Iterator<Item = u64> {
        let bear = self.records.iter().filter(|(_, record)| record.kind != RecordKind::Piece);
        bear.map(|(_, record)| record.sequence)
    }

    /// Returns all records, each with all its runs.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&Listed, Vec<Run>)> {
        self.records.iter().map(|(id, listed)| (listed, self.records.runs(id)))
    }

    /// Returns the record listed at `position`; used by recovery.
    pub(crate) fn listed(&self, position: u32) -> Option<&Listed> {
        self.records.at(position)
    }

    /// Removes a record that recovery found but that is not live.
    pub(crate) fn unlist(&mut self, position: u32) {
        let Some(id) = self.records.id(position) else { return };
        if self.policy.contains(id) {
            self.policy.remove(id);
        }
        let runs = self.records.remove(id);
        self.live -= runs.iter().map(|run| u64::from(run.len)).sum::<u64>();
    }

    /// Ends the search for live records: all are listed, in eviction order or, with `by_age`, in
    /// any order; then the oldest is evicted first. All other slots are free from now on. Returns
    /// the records whose slots conflict with others; they are no longer listed.
    pub(crate) fn assembled(&mut self, by_age: bool) -> Vec<Listed> {
        let mut wrong = Vec::new();
        let mut newest = (0, 0);
        let mut ids: Vec<(u64, RecordId)> =
            self.records.iter().map(|(id, record)| (record.sequence, id)).collect();
        if by_age {
            ids.sort_unstable();
        }
        for (sequence, id) in ids {
            let runs = self.records.runs(id);
            let taken = runs.iter().take_while(|run| self.layout.occupy(**run)).count();
            if taken < runs.len() {
                runs[..taken].iter().for_each(|run| self.layout.release(*run));
                wrong.push(*self.records.get(id));
            } else {
                newest = newest.max((sequence, runs[runs.len() - 1].end()));
                self.enter_policy(id);
            }
        }
        wrong.iter().for_each(|record| self.unlist(record.run.first));
        self.layout.resume_at(newest.1.min(self.slots - 1));
        self.assembling = None;
        wrong
    }

    // ---- Statistics

    pub(crate) fn stats(&self) -> SlotStats {
        let reserved = self.reserved.iter().flat_map(|reserved| &reserved.runs);
        let reserved: u64 = reserved.map(|run| u64::from(run.len)).sum();
        SlotStats {
            slots: u64::from(self.slots),
            slot_bytes: self.slot_bytes,
            free: u64::from(self.layout.free_slots()),
            live: self.live,
            waiting: self.quarantine.slots(),
            bad: self.bad,
            lost: u64::from(self.layout.lost_slots()) + reserved,
            free_pieces: self.layout.free_pieces(),
            records: self.records.len(),
            split_records: self.counters.split_records,
            split_runs: self.counters.split_runs,
            page_reads: self.counters.page_reads,
        }
    }

    /// Implements [`super::Space::account`].
    pub(crate) fn account(&self, index: &Index) -> Result<Account, AccountError> {
        for slot in index.slots() {
            if self.records.id(slot.position).is_none() && !self.assembling() {
                return Err(AccountError::Slot { position: slot.position });
            }
        }
        let listed: u64 = self
            .records
            .iter()
            .flat_map(|(id, _)| self.records.runs(id))
            .map(|run| u64::from(run.len))
            .sum();
        let stats = self.stats();
        if listed != stats.live {
            return Err(AccountError::Live { listed, live: stats.live });
        }
        let bytes = |slots: u64| slots * u64::from(self.slot_bytes);
        // Until the live records are known, every slot that is not listed may be in use.
        let used = if self.assembling() { stats.slots } else { stats.live + stats.lost };
        let free = if self.assembling() { 0 } else { stats.free };
        let pinned = self.quarantine.draining();
        Ok(Account {
            all: bytes(stats.slots),
            used: bytes(used),
            free: bytes(free),
            quarantined: bytes(stats.waiting - pinned),
            pinned: bytes(pinned),
            bad: bytes(stats.bad),
        })
    }

    pub(crate) fn slots(&self) -> u32 {
        self.slots
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.layout.memory_bytes() + self.policy.memory_bytes() + self.records.memory_bytes()
    }
}

impl Digest {
    /// Returns a number as uniform as the digest.
    fn hash(&self) -> u64 {
        u64::from_le_bytes(self.0[..8].try_into().expect("a digest is longer"))
    }
}
