//! Eviction offers: objects that leave memory for room are offered to a subscriber, with their
//! bytes.
//!
//! Only objects that were in memory are offered, because no device is read for an offer. A record
//! that is evicted with its cluster or its slots while it is not in memory is not offered: its key
//! is on the device only. An object in memory stays there when its record is evicted, and is
//! offered as the last copy when it leaves. Pieces of large objects are not offered, nor is
//! read-ahead that was never requested.
//!
//! An offer is withdrawn when the object is removed, superseded, refreshed or in memory again, and
//! skipped when a purge concerns it. So a subscriber gets exactly the object that a lookup would
//! have found just before. Without a subscriber none of this costs anything.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::base::digest::Digest;
use crate::base::record::RecordKind;
use crate::core::fetches::Overtaken;
use crate::core::state::Core;
use crate::memory::eviction_queue::{EvictionLimits, EvictionQueue};
use crate::memory::memory_tier::{Resident, Weighed};
use crate::memory::object::Object;

/// The number of a subscription.
pub(crate) type SubscriptionId = u64;

/// The eviction offers, and the subscription to them.
#[derive(Default)]
pub(crate) struct Evictions {
    queue: Option<Box<EvictionQueue<Arc<Object>>>>,
    /// Number of the last subscription, which owns the queue.
    last: SubscriptionId,
}

impl Evictions {
    /// Withdraws the offer of `digest`, if there is one.
    pub(super) fn withdraw(&mut self, digest: &Digest) {
        if let Some(queue) = &mut self.queue {
            queue.withdraw(digest);
        }
    }

    /// Offers an object that has left memory.
    pub(super) fn offer(&mut self, digest: &Digest, resident: &Resident<Arc<Object>>) {
        if resident.prefetched.is_none() {
            self.offer_object(digest, &resident.object);
        }
    }

    /// Offers an object that was requested and has left memory.
    pub(super) fn offer_object(&mut self, digest: &Digest, object: &Arc<Object>) {
        if let Some(queue) = &mut self.queue
            && object.header.kind == RecordKind::Object
        {
            queue.offer(*digest, Arc::clone(object), object.weight());
        }
    }

    /// Returns whether there is a subscriber.
    pub(super) fn wanted(&self) -> bool {
        self.queue.is_some()
    }

    /// Subscribes to evictions from now on, replacing any earlier subscriber.
    pub(crate) fn subscribe(&mut self, limits: EvictionLimits) -> SubscriptionId {
        self.last += 1;
        self.queue = Some(Box::new(EvictionQueue::new(limits)));
        self.last
    }

    /// Ends a subscription, unless another one replaced it.
    pub(crate) fn unsubscribe(&mut self, id: SubscriptionId) {
        if self.last == id {
            self.queue = None;
        }
    }

    fn dropped(&mut self, id: SubscriptionId) -> u64 {
        self.of(id).map_or(0, |queue| queue.dropped())
    }

    fn of(&mut self, id: SubscriptionId) -> Option<&mut EvictionQueue<Arc<Object>>> {
        self.queue.as_deref_mut().filter(|_| self.last == id)
    }
}

/// An object that has left memory.
pub(crate) struct LeftMemory {
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
    pub(crate) fn next_evicted(&mut self, id: SubscriptionId) -> (Option<LeftMemory>, u64) {
        // Removals are no longer recorded.
        if !self.online() {
            self.memory.evictions.unsubscribe(id);
        }
        while let Some((digest, object)) =
            self.memory.evictions.of(id).and_then(EvictionQueue::take)
        {
            if let Some(last_copy) = self.is_last_copy(&digest, &object) {
                let fetch = self.begin_fetch(digest);
                let evicted = LeftMemory { digest, object, last_copy, fetch };
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
