//! Offers of evicted objects: which of them are still valid when a subscriber takes them.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::base::digest::Digest;
use crate::core::evictions::SubscriptionId;
use crate::core::fetches::Overtaken;
use crate::core::state::Core;
use crate::memory::object::Object;

/// An object that has left memory.
pub(crate) struct EvictedObject {
    pub(crate) digest: Digest,
    pub(crate) object: Arc<Object>,
    /// True if the device does not have the object either.
    pub(crate) last_copy: bool,
    /// The flag that a later removal of the key sets, and the last sequence number before.
    pub(crate) fetch: (Overtaken, u64),
}

impl Core {
    /// Takes the oldest offer that is still valid; also returns how many offers were dropped so
    /// far.
    pub(crate) fn next_evicted(&mut self, id: SubscriptionId) -> (Option<EvictedObject>, u64) {
        // Removals are no longer recorded.
        if !self.online() {
            self.memory.evictions.unsubscribe(id);
        }
        while let Some((digest, object)) = self.memory.evictions.take(id) {
            if let Some(last_copy) = self.is_last_copy(&digest, &object) {
                let fetch = self.begin_fetch(digest);
                let evicted = EvictedObject { digest, object, last_copy, fetch };
                return (Some(evicted), self.memory.evictions.dropped(id));
            }
        }
        (None, self.memory.evictions.dropped(id))
    }

    /// Returns whether neither memory nor the device has `object` any more; `None` when it is not
    /// the current version, or a purge concerns it. Purges are checked as for a fetch: the purge
    /// table keeps no entries for offers, but remembers purges of labels that no object bears, and
    /// how far back it is complete.
    fn is_last_copy(&self, digest: &Digest, object: &Object) -> Option<bool> {
        let checked = object.checked.load(Ordering::Relaxed);
        let valid = self.memory.tier.peek(digest).is_none()
            && !self.overtaken(checked, &object.key, &object.meta);
        match self.index.get(digest).filter(|slot| self.placement.place_at(slot.position).is_some())
        {
            None => valid.then_some(true),
            Some(slot) => {
                (valid && self.placement.is_at(slot.position, object.place)).then_some(false)
            }
        }
    }
}
