//! Staged objects in memory that outlives the process. See [`crate::format::staging_memory`].

use std::sync::Arc;

use device::Nanos;

use crate::base::digest::Digest;
use crate::base::now::Now;
use crate::base::record::{Header, Record};
use crate::core::residents::resident_of;
use crate::core::state::Core;
use crate::format::staging_memory::StagingMemory;
use crate::memory::locality_staging::LocalityStaging;
use crate::memory::object::Object;
use crate::purge::purges::Validity;
use crate::space::Space;
use crate::space::appender::WriteJob;

impl Core {
    /// Uses `memory` for copies of staged objects from now on, and stages the objects that were
    /// `found` in it. Returns how many were alive.
    pub(crate) fn restore_kept(
        &mut self,
        memory: StagingMemory,
        found: Vec<Record>,
        now: Now,
    ) -> usize {
        self.kept = Some(memory);
        self.schedule.keep_staged();
        found.into_iter().filter(|record| self.restore(record, now)).count()
    }

    /// Records that the device names this opening: the memory belongs to it from now on.
    pub(crate) fn confirm_kept(&mut self) {
        if let Some(kept) = &mut self.kept {
            kept.confirm();
        }
    }

    /// Takes the memory for copies of staged objects, to remove it.
    pub(crate) fn take_kept(&mut self) -> Option<StagingMemory> {
        self.kept.take()
    }

    /// Stages an object that the process before had staged, unless it was purged meanwhile. It is
    /// newer than everything that recovery will find under its key.
    fn restore(&mut self, record: &Record, now: Now) -> bool {
        let digest = record.header.digest;
        let object = |labels| Object::unplaced(record.clone(), labels, record.header.sequence);
        let is_purged = self.validity(&object(None)) == Validity::Purged;
        if is_purged || !self.memory.stages(&record.header) {
            self.release_kept(&digest);
            return false;
        }
        self.recovery.note_restaged(digest, self.sequence.last() + 1);
        self.forget_place(&digest);
        let object = Arc::new(object(self.labels.note_unplaced(record, true)));
        self.insert_noted(digest, resident_of(&object, true, None, None, 1));
        self.shrink_tier(now);
        self.stage(digest, &record.header, record.len(), now);
        true
    }

    /// Keeps a copy of an object that is being staged, if there is space for it.
    pub(super) fn keep(&mut self, record: &Record) {
        if let Some(kept) = &mut self.kept {
            kept.keep(&self.secret, record, self.sequence.last());
        }
    }

    /// Replaces the copy of an object whose metadata were replaced: as long as it has no place, by
    /// one with the new metadata.
    pub(super) fn keep_refreshed(&mut self, object: &Object, now: Now) {
        let header = &object.header;
        let Some(kept) = &mut self.kept else { return };
        if !kept.holds(&header.digest, header.object_id) {
            return;
        }
        kept.release(&header.digest);
        if object.place.is_some() {
            return;
        }
        let record = object.to_record(&self.secret, header.clone());
        self.keep(&record);
        self.write_staged_by(self.due_of(header, now));
    }

    /// Returns when the record of a staged object must be written.
    pub(super) fn due_of(&self, header: &Header, now: Now) -> Nanos {
        let kept = self.kept.as_ref();
        let kept = kept.is_some_and(|kept| kept.holds(&header.digest, header.object_id));
        self.schedule.write_by(now.monotonic, kept)
    }

    /// Makes the staged objects be written by `due` at the latest.
    pub(super) fn write_staged_by(&mut self, due: Nanos) {
        if let Some(staging) = &mut self.memory.staging
            && staging.lower_due(due)
        {
            self.wake_background();
        }
    }

    /// Returns the bytes of stored objects that a kill would lose now.
    pub(super) fn exposed_bytes(&self) -> usize {
        let (Some(kept), Space::Clusters(space)) = (&self.kept, &self.placement.space) else {
            return self.memory.tier.dirty_bytes() + self.placement.space.unwritten_bytes();
        };
        let staged = self.memory.staging.iter().flat_map(LocalityStaging::batched);
        let staged = staged.filter(|(digest, _)| {
            self.memory.tier.peek(digest).is_some_and(|resident| {
                resident.dirty && !kept.holds(digest, resident.object.header.object_id)
            })
        });
        let placed = space.appender.unwritten().filter(|record| {
            let header = &record.header;
            !kept.holds(&header.digest, header.object_id)
        });
        staged.map(|(_, len)| len as usize).sum::<usize>() + placed.map(Record::len).sum::<usize>()
    }

    /// Releases the copy of an object that is no longer stored.
    pub(super) fn release_kept(&mut self, digest: &Digest) {
        if let Some(kept) = &mut self.kept {
            kept.release(digest);
        }
    }

    /// Releases the copies of the records that `job` has written.
    pub(super) fn release_written(&mut self, job: &WriteJob) {
        let Some(kept) = &mut self.kept else { return };
        for record in job.records() {
            kept.release_version(&record.header.digest, record.header.object_id);
        }
    }
}
