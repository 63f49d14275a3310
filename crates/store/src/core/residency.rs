//! Keeps the memory tier and the index in step: in an exact index every object in memory has an
//! entry that says so (C1).

use std::sync::Arc;

use crate::base::digest::Digest;
use crate::base::record::RecordKind;
use crate::core::state::Core;
use crate::memory::memory_tier::Resident;
use crate::memory::object::Object;

impl Core {
    /// Puts an object into memory, replacing any object of the same digest.
    pub(super) fn insert_resident(&mut self, digest: Digest, resident: Resident<Arc<Object>>) {
        let named = resident.object.header.kind != RecordKind::Piece;
        if named && self.lives_in_memory(&digest, &resident) {
            self.labels.note_resident(&resident.object);
        }
        self.insert_noted(digest, resident);
    }

    /// Puts an object into memory like [`Core::insert_resident`]. If it lives there only, its
    /// labels must have been recorded.
    pub(super) fn insert_noted(&mut self, digest: Digest, resident: Resident<Arc<Object>>) {
        let stamp = resident.object.header.stamp;
        self.memory.evictions.withdraw(&digest);
        self.memory.tier.insert(digest, resident);
        let inserted = self.index.enter_memory(&digest, stamp);
        self.retire(inserted);
    }

    pub(super) fn remove_resident(&mut self, digest: &Digest) -> Option<Resident<Arc<Object>>> {
        let resident = self.memory.tier.remove(digest)?;
        self.index.leave_memory(digest);
        Some(resident)
    }

    /// Evicts an object from memory; returns whether it was there.
    pub(super) fn evict_resident(&mut self, digest: &Digest) -> bool {
        let Some(resident) = self.remove_resident(digest) else { return false };
        self.memory.evictions.offer(digest, &resident);
        true
    }

    /// Removes from memory an object whose entry was displaced from a full index.
    pub(super) fn resident_displaced(&mut self, digest: &Digest) {
        if let Some(resident) = self.memory.tier.remove(digest) {
            let only_here = resident.dirty && resident.cluster.is_none();
            self.counters.dropped_unwritten += u64::from(only_here);
            if only_here && let Some(kept) = &mut self.kept {
                kept.release(digest);
            }
            self.memory.evictions.offer(digest, &resident);
        }
    }
}
