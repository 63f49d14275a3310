//! Recovery: from what is on the device back to an index.
//!
//! The cluster table comes from the newest whole checkpoint and the journal behind it. The index
//! comes from the dump of an orderly stop, or else from the summaries of all clusters in use, the
//! newest cluster first, so that of several records of a key the newest is met first and the
//! others are dead. A cluster that was open when the process died has no summary: its records are
//! walked one by one.
//!
//! Recovery may go on while the cache serves. What happened since the start wins over anything
//! that is found.

use std::collections::BTreeMap;

use device::{Clock, Device, Extent, Nanos};

use crate::base::digest::Digest;
use crate::base::event::Event;
use crate::base::limits::ClusterId;
use crate::base::record::RecordKind;
use crate::base::size_class::SizeClass;
use crate::base::summary;
use crate::base::summary::{Borne, Entry};
use crate::core::Core;
use crate::format::device_layout::BLOCK;
use crate::index::Slot;
use crate::shell::cluster_contents::{Contents, walk};
use crate::shell::slot_recovery::SlotScan;
use crate::shell::volume::Volume;
use crate::space::cluster_table::State;

/// Clusters whose summaries are read side by side.
const BATCH: usize = 32;

/// A scan of either kind of space.
pub(crate) enum Scanning {
    Clusters(Scan),
    Slots(SlotScan),
}

/// What is left to be read.
pub(crate) struct Scan {
    done: u32,
    /// Metadata records met so far whose object has not been.
    metas: BTreeMap<Digest, FoundMeta>,
    told_at: Nanos,
}

/// A metadata record on its way to its object.
struct FoundMeta {
    slot: Slot,
    target: u32,
    target_sequence: u64,
    /// Where it was found.
    cluster: ClusterId,
    incarnation: u64,
}

impl Scan {
    /// A scan that has read nothing yet.
    pub(crate) fn new(now: Nanos) -> Scan {
        Scan { done: 0, metas: BTreeMap::new(), told_at: now }
    }

    /// What the cluster holds cannot be known.
    fn give_up(&mut self, core: &mut Core, cluster: ClusterId, incarnation: u64) {
        let unchanged = core.space.table().incarnation(cluster) == incarnation
            && core.space.table().state(cluster) == State::OnDisk;
        if unchanged {
            core.counters.evicted_clusters += 1;
            core.drop_cluster(cluster);
        }
    }

    /// Takes in what a cluster holds, the newest record first.
    fn apply(&mut self, core: &mut Core, cluster: ClusterId, incarnation: u64, entries: &[Entry]) {
        if !core.still(cluster, incarnation) {
            return;
        }
        core.space.learn_runs(&core.areas, cluster, entries);
        for entry in entries.iter().rev() {
            if entry.granule >= core.areas.granules_per_cluster()
                || entry.len > SizeClass::MAX_LEN
                || core.space.table().is_dead(cluster, entry.granule)
            {
                continue;
            }
            let position = core.areas.position(cluster, entry.granule);
            let slot = Slot { position, class: SizeClass::for_len(entry.len), refreshed: false };
            self.apply_record(core, entry, slot, incarnation);
        }
    }

    fn apply_record(&mut self, core: &mut Core, entry: &Entry, slot: Slot, opened: u64) {
        match entry.kind {
            RecordKind::Piece => {
                if let Ok(inserted) = core.index.insert_if_absent(&entry.digest, slot) {
                    core.bury(inserted);
                }
            }
            // Metadata are newer than their object: what has been found is not theirs.
            RecordKind::Meta if core.index.get(&entry.digest).is_some() => {}
            RecordKind::Meta => {
                let found = FoundMeta {
                    slot,
                    target: entry.target,
                    target_sequence: entry.target_sequence,
                    cluster: core.areas.locate(slot.position).0,
                    incarnation: opened,
                };
                self.metas.entry(entry.digest).or_insert(found);
            }
            RecordKind::Object => self.apply_object(core, entry, slot),
        }
    }

    fn apply_object(&mut self, core: &mut Core, entry: &Entry, slot: Slot) {
        let removed = core.recovering.as_ref().and_then(|r| r.removed.get(&entry.digest));
        if removed.is_some_and(|sequence| entry.sequence < *sequence) {
            core.kill(slot);
            return;
        }
        let meta = self
            .metas
            .remove(&entry.digest)
            .filter(|meta| meta.target == slot.position && meta.target_sequence == entry.sequence);
        // Evicted meanwhile: the object would fall back to metadata that are no longer true.
        if meta.as_ref().is_some_and(|meta| !core.still(meta.cluster, meta.incarnation)) {
            core.kill(slot);
            return;
        }
        let slot = Slot { refreshed: meta.is_some(), ..slot };
        match core.index.insert_if_absent(&entry.digest, slot) {
            // Known already, or a newer record of the key (or of an equal tag) was met before.
            Err(known) if known.position == slot.position => {}
            Err(_) => core.kill(slot),
            Ok(inserted) => {
                core.bury(inserted);
                if let Some(meta) = meta {
                    let inserted = core.index.insert(&entry.digest.derive_meta(), meta.slot);
                    core.bury(inserted);
                }
            }
        }
    }
}

impl<D: Device, C: Clock> Volume<D, C> {
    /// Reads what `scan` has left until everything is read, the volume goes offline or `deadline`
    /// passes; returns what is left then.
    pub(crate) async fn recover(
        &self,
        scan: Option<Scanning>,
        deadline: Option<Nanos>,
    ) -> Option<Scanning> {
        match scan? {
            Scanning::Clusters(scan) => {
                self.recover_clusters(scan, deadline).await.map(Scanning::Clusters)
            }
            Scanning::Slots(scan) => self.recover_slots(scan, deadline).await.map(Scanning::Slots),
        }
    }

    /// As [`Volume::recover`]; returns what is left when the deadline passed.
    async fn recover_clusters(&self, mut scan: Scan, deadline: Option<Nanos>) -> Option<Scan> {
        while !self.read_all() {
            let batch = self.next_batch(&mut scan)?;
            // Read side by side, taken in one after the other: the newest first.
            let reads = batch.iter().map(|(cluster, incarnation)| {
                let extent = self.shared.lock().areas.cluster(*cluster);
                self.cluster_entries(*cluster, *incarnation, extent)
            });
            let found = crate::base::join::values(reads.collect()).await;
            self.take_in(&mut scan, &batch, &found);
            self.tell_progress(&mut scan);
            let late = deadline.is_some_and(|deadline| self.clock.now() >= deadline);
            if late && !self.read_all() {
                return Some(scan);
            }
        }
        self.recovered();
        None
    }

    /// Whether no cluster is left to be read.
    fn read_all(&self) -> bool {
        self.shared.lock().recovering.as_ref().is_none_or(|recovering| recovering.left.is_empty())
    }

    /// The next clusters to read, pinned: they stay what they are meanwhile. `None` when the
    /// volume is offline.
    fn next_batch(&self, scan: &mut Scan) -> Option<Vec<(ClusterId, u64)>> {
        let mut core = self.shared.lock();
        if !core.online() {
            return None;
        }
        let left = &mut core.recovering.as_mut()?.left;
        let mut batch: Vec<(ClusterId, u64)> = left.drain(..left.len().min(BATCH)).collect();
        scan.done += batch.len() as u32;
        // Some may have been given up since the scan was planned.
        batch.retain(|(cluster, incarnation)| core.still(*cluster, *incarnation));
        batch.iter().for_each(|(cluster, _)| core.space.table_mut().pin(*cluster));
        core.recovering.as_mut()?.under_way.clone_from(&batch);
        Some(batch)
    }

    fn take_in(&self, scan: &mut Scan, batch: &[(ClusterId, u64)], found: &[Option<Contents>]) {
        for ((cluster, incarnation), contents) in batch.iter().zip(found) {
            let mut core = self.shared.lock();
            match contents {
                Some(Contents { entries, labels }) => {
                    scan.apply(&mut core, *cluster, *incarnation, entries);
                    if let Some(labels) = labels {
                        core.learn_labels(*cluster, *incarnation, labels);
                    }
                }
                None => scan.give_up(&mut core, *cluster, *incarnation),
            }
            if core.space.table_mut().unpin(*cluster) {
                core.wake();
            }
            if let Some(recovering) = &mut core.recovering {
                recovering.under_way.retain(|(other, _)| other != cluster);
                let of = recovering.of;
                core.scanned = (scan.done, of);
            }
        }
    }

    fn recovered(&self) {
        let records = {
            let mut core = self.shared.lock();
            core.recovering = None;
            core.recovered_labels();
            core.index.len()
        };
        self.shared.tell(Event::Recovered { device: self.shared.number, records });
    }

    fn tell_progress(&self, scan: &mut Scan) {
        let now = self.clock.now();
        if now.saturating_sub(scan.told_at) >= 2_000_000_000 {
            scan.told_at = now;
            let (done, of) = self.shared.lock().scanned;
            self.shared.tell(Event::Recovering { device: self.shared.number, done, of });
        }
    }

    /// What a cluster holds: its summary, or its records one by one when it has none. `None`
    /// when that cannot be settled for good: the cluster must be given up.
    async fn cluster_entries(
        &self,
        cluster: ClusterId,
        incarnation: u64,
        extent: Extent,
    ) -> Option<Contents> {
        if let Some(contents) = self.read_contents(cluster, incarnation, extent).await {
            return Some(contents);
        }
        let bytes = self.read_stubbornly(extent).await?;
        let areas = self.areas();
        let secret = &self.shared.secret;
        let entries = walk(secret, &areas, cluster, incarnation, &bytes);
        let place = |entry: &Entry| (areas.position(cluster, entry.granule), entry.granule);
        let labels = self.labels_in(incarnation, entries.iter().map(place), &bytes);
        let version = self.shared.options.labels.as_deref().map(|labels| labels.version());
        let borne = version.zip(labels.as_deref());
        let borne = borne.map(|(version, labels)| Borne { version, labels });
        let end =
            entries.last().map_or(0, |last| (last.granule * areas.granule + last.len) as usize);
        let room = bytes.len().saturating_sub(end + summary::summary_len(entries.len()));
        let borne = borne.filter(|borne| borne.labels.len() * summary::LABEL_LEN <= room);
        // From now on the cluster holds just these: a record that was overlooked today (a bad
        // read) must not be found tomorrow, when it may have been purged.
        let summary = summary::encode(secret, cluster, incarnation, &entries, borne);
        let start = (bytes.len() - summary.len()) / BLOCK as usize * BLOCK as usize;
        let mut tail = bytes[start..].to_vec();
        let at = tail.len() - summary.len();
        tail[at..].copy_from_slice(&summary);
        self.write(extent.offset + start as u64, &tail).await?;
        Some(Contents { entries, labels })
    }
}

#[cfg(test)]
mod tests;
