//! Evictions are offered to a subscriber: what leaves memory for room, with its bytes.
//!
//! What is known without reading the device is offered, which is what was in memory. A record that
//! goes with its cluster or its slots while nothing of it is in memory is not: its key stands on
//! the device alone. What is in memory stays there when its record goes, and is offered when it
//! leaves, as the last copy. Left out besides are pieces of large objects, and what a read brought
//! along and nobody asked for.
//!
//! An offer is withdrawn when the object is removed, superseded, refreshed or in memory again, and
//! passed over when a purge concerns it: what a subscriber gets is what a lookup would have found
//! just before. Without a subscriber none of this is paid for.

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

/// What was evicted, and who wants to know.
#[derive(Default)]
pub(crate) struct Evictions {
    queue: Option<Box<EvictionQueue<Arc<Object>>>>,
    /// The last subscription; the queue is its own.
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

    /// Does the same of an object that was asked for.
    pub(super) fn offer_object(&mut self, digest: &Digest, object: &Arc<Object>) {
        if let Some(queue) = &mut self.queue
            && object.header.kind == RecordKind::Object
        {
            queue.offer(*digest, Arc::clone(object), object.weight());
        }
    }

    /// Returns whether anybody wants to know.
    pub(super) fn wanted(&self) -> bool {
        self.queue.is_some()
    }

    /// Subscribes to evictions from now on, in place of who did before.
    pub(crate) fn subscribe(&mut self, limits: EvictionLimits) -> SubscriptionId {
        self.last += 1;
        self.queue = Some(Box::new(EvictionQueue::new(limits)));
        self.last
    }

    /// Ends a subscription, unless another took its place.
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
    /// It is not on the device either.
    pub(crate) last_copy: bool,
    /// Set when its key is removed from now on, and the last sequence number before.
    pub(crate) fetch: (Overtaken, u64),
}

impl Core {
    /// Who subscribes to evictions, and what waits for them.
    pub(crate) fn evictions(&mut self) -> &mut Evictions {
        &mut self.evictions
    }

    /// Takes the oldest offer that still holds; and how many were dropped so far.
    pub(crate) fn next_evicted(&mut self, id: SubscriptionId) -> (Option<LeftMemory>, u64) {
        // Nobody notes down any more what is removed.
        if !self.online() {
            self.evictions.unsubscribe(id);
        }
        while let Some((digest, object)) = self.evictions.of(id).and_then(EvictionQueue::take) {
            if let Some(last_copy) = self.is_last_copy(&digest, &object) {
                let fetch = self.begin_fetch(digest);
                let evicted = LeftMemory { digest, object, last_copy, fetch };
                return (Some(evicted), self.evictions.dropped(id));
            }
        }
        (None, self.evictions.dropped(id))
    }

    /// Returns whether `object` is in no place any more; `None` when it is not the present version,
    /// or a purge concerns it. It is held against purges as a fetch is: the table keeps none for
    /// its sake, but knows those of what nothing bears, and how far back it is complete.
    fn is_last_copy(&self, digest: &Digest, object: &Object) -> Option<bool> {
        let checked = object.checked.load(Ordering::Relaxed);
        let valid = self.memory.tier.peek(digest).is_none()
            && !self.overtaken(checked, &object.key, &object.meta);
        match self.index.get(digest).filter(|slot| self.place_at(slot.position).is_some()) {
            None => valid.then_some(true),
            Some(slot) => (valid && self.is_at(slot.position, object.place)).then_some(false),
        }
    }
}
