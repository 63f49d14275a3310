//! Recovery of a space of slots: rebuilds the index and the record table. See
//! [`crate::shell::slot_recovery`] for what is read.

use std::collections::BTreeMap;

use crate::base::record::RecordKind;
use crate::core::state::Core;
use crate::space::slots::found::{FoundRecord, enter};
use crate::space::slots::image::SlotImage;
use crate::space::slots::record_table::Listed;

/// The records that a scan has found, and the image that they are checked against.
pub(crate) struct SlotFinds {
    image: SlotImage,
    /// Metadata whose objects may still be found.
    metas: Vec<FoundRecord>,
    /// Records with an incomplete body. They count until everything is read, so that no record that
    /// they superseded takes their place, and are then dropped.
    unfinished: Vec<Listed>,
}

impl SlotFinds {
    /// Begins a scan with nothing found; `image` says which records are alive.
    pub(crate) fn new(image: SlotImage) -> SlotFinds {
        SlotFinds { image, metas: Vec::new(), unfinished: Vec::new() }
    }

    /// Returns whether the record of this incarnation at `position` is alive.
    pub(crate) fn lives(&self, position: u32, incarnation: u64) -> bool {
        self.image.lives(position, incarnation)
    }

    /// Returns whether a record of this incarnation may not have been flushed when the checkpoint
    /// was made.
    pub(crate) fn is_young(&self, incarnation: u64) -> bool {
        incarnation > self.image.reached
    }

    fn take_in(&mut self, core: &mut Core, found: Vec<FoundRecord>) {
        // Removals are no longer remembered, so none of the removed records may be listed.
        if !core.recovery.is_running() || core.recovery.is_abandoned() {
            return;
        }
        for record in found {
            let digest = record.listed.digest;
            if core.recovery.was_removed(&digest, record.listed.sequence) {
                continue;
            }
            if record.unfinished {
                self.unfinished.push(record.listed);
            }
            core.labels.filters.scanned(&record.labels);
            let record = FoundRecord { labels: Vec::new(), ..record };
            match record.listed.kind {
                RecordKind::Meta => self.metas.push(record),
                RecordKind::Object | RecordKind::Piece => list(core, &record),
            }
        }
    }

    /// Ends the scan: assigns metadata to their objects, and drops objects whose metadata are
    /// missing.
    fn finish(mut self, core: &mut Core) {
        self.metas.sort_by_key(|meta| std::cmp::Reverse(meta.listed.sequence));
        let mut refreshed: BTreeMap<u32, u64> = BTreeMap::new();
        for meta in self.metas {
            let (position, sequence) = meta.target;
            let digest = meta.listed.digest;
            let slot = core.index.get(&digest).filter(|slot| slot.position == position);
            let object = core.placement.space.slots().and_then(|space| space.listed(position));
            let ours = object.is_some_and(|o| o.digest == digest && o.sequence == sequence);
            if slot.is_some() && ours && !refreshed.contains_key(&position) {
                refreshed.insert(position, meta.listed.sequence);
                let Some(space) = core.placement.space.slots_mut() else { return };
                enter(&mut core.index, space, &digest.derive_meta(), &meta);
                core.index.update_flag(&digest, position, true);
                space.refreshed(position, meta.listed.sequence);
            }
        }
        let objects = core.placement.space.slots().into_iter().flat_map(|space| space.objects());
        let lacking: Vec<Listed> = objects
            .filter(|object| {
                let position = object.run.first;
                let meta = refreshed.get(&position).copied();
                self.image.lacks_meta(position, object.sequence, meta)
            })
            .collect();
        for record in lacking.iter().chain(&self.unfinished) {
            let position = record.run.first;
            let listed = core.placement.space.slots().and_then(|space| space.listed(position));
            if listed.is_some_and(|listed| listed.sequence == record.sequence) {
                core.forget_record(record.kind, &record.digest, position);
                core.mark_dead_at(position);
            }
        }
    }
}

/// Lists a record, unless a younger one of its digest is listed.
fn list(core: &mut Core, record: &FoundRecord) {
    let listed = &record.listed;
    if let (Some(slot), Some(space)) =
        (core.index.get(&listed.digest), core.placement.space.slots())
    {
        let other = space.listed(slot.position);
        if other.is_some_and(|o| o.digest == listed.digest && o.sequence > listed.sequence) {
            return;
        }
    }
    if let Some(space) = core.placement.space.slots_mut() {
        enter(&mut core.index, space, &listed.digest, record);
    }
}

impl SlotFinds {
    /// Returns whether more was removed than can be remembered: records not found by now are lost.
    pub(crate) fn is_abandoned(core: &Core) -> bool {
        core.recovery.is_abandoned()
    }

    /// Applies a window that was read and the records found in it. `progress` is the number of
    /// windows read, and their total.
    pub(crate) fn window_read(
        &mut self,
        core: &mut Core,
        found: Vec<FoundRecord>,
        progress: (u32, u32),
    ) {
        self.take_in(core, found);
        core.recovery.set_progress(progress);
    }

    /// Makes the space ready for use once everything is found. A checkpoint must follow.
    pub(crate) fn assemble(self, core: &mut Core) -> Assembled {
        self.finish(core);
        core.assembled();
        core.labels.filters.all_scanned(core.sequence.last() + 1);
        Assembled { records: core.index.len() }
    }
}

/// A space of slots that is ready but not yet recorded by a checkpoint.
#[must_use]
pub(crate) struct Assembled {
    records: usize,
}

impl Assembled {
    /// Ends recovery, after a checkpoint was written; returns the number of records.
    pub(crate) fn recovered(self, core: &mut Core) -> usize {
        core.recovered();
        core.wake_waiters();
        core.wake_background();
        self.records
    }
}
