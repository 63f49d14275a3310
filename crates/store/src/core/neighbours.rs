//! Neighbours: objects in memory of the same site as an object, in its cluster or its directory
//! (systems C14). No device is read.

use std::sync::Arc;

use crate::base::digest::Digest;
use crate::base::record::RecordKind;
use crate::core::state::Core;
use crate::memory::object::Object;
use crate::purge::purges::Validity;

/// Number of steps that a walk goes each way from the object's position. A walk under the lock must
/// be short, some microseconds, and objects farther away entered memory at another time.
const STEPS: usize = 64;

impl Core {
    /// Returns the neighbours of an object in memory, the nearest first. Objects in pieces are left
    /// out.
    pub(crate) fn neighbours(&self, digest: &Digest) -> Vec<Arc<Object>> {
        let Some(resident) = self.memory.tier.peek(digest) else { return Vec::new() };
        let beside = self.memory.tier.beside(digest, STEPS).filter(|(_, other)| {
            let together = resident.cluster.is_some() && other.cluster == resident.cluster;
            (together || other.group == resident.group) && self.is_whole(&other.object)
        });
        beside.map(|(_, other)| Arc::clone(&other.object)).collect()
    }

    /// Returns the object in memory with this digest and key, without a trace. Returns `None` for
    /// an object in pieces.
    pub(crate) fn resident_whole(&self, digest: &Digest, key: &[u8]) -> Option<Arc<Object>> {
        let object = &self.memory.tier.peek(digest)?.object;
        (object.key == key && self.is_whole(object)).then(|| Arc::clone(object))
    }

    /// Returns whether it is an object with its body in its record, and not purged.
    fn is_whole(&self, object: &Object) -> bool {
        object.header.kind == RecordKind::Object
            && !object.in_pieces()
            && self.validity(object) != Validity::Purged
    }
}
