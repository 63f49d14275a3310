//! Recovery of a space of slots: what was found becomes index and record table again. See
//! [`crate::shell::slot_recovery`] for what is read.

use std::collections::BTreeMap;

use crate::base::record::RecordKind;
use crate::core::state::Core;
use crate::space::slots::found::{FoundRecord, enter};
use crate::space::slots::image::SlotImage;
use crate::space::slots::record_table::Listed;

/// What a scan has found, and what it is held against.
pub(crate) struct SlotFinds {
    image: SlotImage,
    /// Metadata, whose objects may still turn up.
    metas: Vec<FoundRecord>,
    /// Records whose body never came. They count until all is read, so that nothing that they
    /// superseded takes their place, and then go.
    unfinished: Vec<Listed>,
}

impl SlotFinds {
    /// Begins with nothing found; what lives is what `image` says.
    pub(crate) fn new(image: SlotImage) -> SlotFinds {
        SlotFinds { image, metas: Vec::new(), unfinished: Vec::new() }
    }

    /// Returns whether the record of this incarnation at `position` lives.
    pub(crate) fn lives(&self, position: u32, incarnation: u64) -> bool {
        self.image.lives(position, incarnation)
    }

    /// Returns whether a record of this incarnation may not have been flushed when the checkpoint
    /// was made.
    pub(crate) fn is_young(&self, incarnation: u64) -> bool {
        incarnation > self.image.reached
    }

    /// Lists what was found.
    fn take_in(&mut self, core: &mut Core, found: Vec<FoundRecord>) {
        // What was removed meanwhile is not remembered any more: none of it may be among these.
        if core.recovering.as_ref().is_none_or(|recovering| recovering.abandoned) {
            return;
        }
        for record in found {
            let digest = record.listed.digest;
            let removed = core.recovering.as_ref().and_then(|r| r.removed.get(&digest));
            if removed.is_some_and(|sequence| record.listed.sequence < *sequence) {
                continue;
            }
            if record.unfinished {
                self.unfinished.push(record.listed);
            }
            core.learn_scanned(&record.labels);
            let record = FoundRecord { labels: Vec::new(), ..record };
            match record.listed.kind {
                RecordKind::Meta => self.metas.push(record),
                RecordKind::Object | RecordKind::Piece => list(core, &record),
            }
        }
    }

    /// Ends the scan: metadata go to their objects, and an object whose own are missing goes.
    fn finish(mut self, core: &mut Core) {
        self.metas.sort_by_key(|meta| std::cmp::Reverse(meta.listed.sequence));
        let mut refreshed: BTreeMap<u32, u64> = BTreeMap::new();
        for meta in self.metas {
            let (position, sequence) = meta.target;
            let digest = meta.listed.digest;
            let slot = core.index.get(&digest).filter(|slot| slot.position == position);
            let object = core.space.slots().and_then(|space| space.listed(position));
            let ours = object.is_some_and(|o| o.digest == digest && o.sequence == sequence);
            if slot.is_some() && ours && !refreshed.contains_key(&position) {
                refreshed.insert(position, meta.listed.sequence);
                let Some(space) = core.space.slots_mut() else { return };
                enter(&mut core.index, space, &digest.derive_meta(), &meta);
                core.index.update_flag(&digest, position, true);
                space.refreshed(position, meta.listed.sequence);
            }
        }
        let objects = core.space.slots().into_iter().flat_map(|space| space.objects());
        let lacking: Vec<Listed> = objects
            .filter(|object| {
                let position = object.run.first;
                let meta = refreshed.get(&position).copied();
                self.image.lacks_meta(position, object.sequence, meta)
            })
            .collect();
        for record in lacking.iter().chain(&self.unfinished) {
            let position = record.run.first;
            let listed = core.space.slots().and_then(|space| space.listed(position));
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
    if let (Some(slot), Some(space)) = (core.index.get(&listed.digest), core.space.slots()) {
        let other = space.listed(slot.position);
        if other.is_some_and(|o| o.digest == listed.digest && o.sequence > listed.sequence) {
            return;
        }
    }
    if let Some(space) = core.space.slots_mut() {
        enter(&mut core.index, space, &listed.digest, record);
    }
}

impl SlotFinds {
    /// Returns whether more was removed than can be remembered: what has not been found by now is
    /// lost.
    pub(crate) fn is_abandoned(core: &Core) -> bool {
        core.recovering.as_ref().is_some_and(|recovering| recovering.abandoned)
    }

    /// Takes in a window that was read, in which these records were found; so many windows of all
    /// are read.
    pub(crate) fn window_read(
        &mut self,
        core: &mut Core,
        found: Vec<FoundRecord>,
        progress: (u32, u32),
    ) {
        self.take_in(core, found);
        core.scanned = progress;
    }

    /// Makes the space ready for use: everything is found. A checkpoint is to say so.
    pub(crate) fn assemble(self, core: &mut Core) -> Assembled {
        self.finish(core);
        core.assembled();
        core.scanned_all();
        Assembled { records: core.index.len() }
    }
}

/// A space of slots that is ready, and of which no checkpoint says so yet.
#[must_use]
pub(crate) struct Assembled {
    records: usize,
}

impl Assembled {
    /// Ends recovery: a checkpoint says what lives. Returns how many records there are.
    pub(crate) fn recovered(self, core: &mut Core) -> usize {
        core.recovered();
        core.wake_waiters();
        core.wake_background();
        self.records
    }
}
