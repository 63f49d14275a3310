//! Eviction offers: objects that leave memory for space are offered to a subscriber, with their
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

use crate::base::digest::Digest;
use crate::base::record::RecordKind;
use crate::memory::eviction_queue::{EvictionLimits, EvictionQueue};
use crate::memory::memory_tier::{Resident, Weighed};
use crate::memory::object::Object;

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

    /// Returns how many offers of the subscription were dropped so far.
    pub(super) fn dropped(&mut self, id: SubscriptionId) -> u64 {
        self.of(id).map_or(0, |queue| queue.dropped())
    }

    /// Takes the oldest offer of the subscription.
    pub(super) fn take(&mut self, id: SubscriptionId) -> Option<(Digest, Arc<Object>)> {
        self.of(id)?.take()
    }

    fn of(&mut self, id: SubscriptionId) -> Option<&mut EvictionQueue<Arc<Object>>> {
        self.queue.as_deref_mut().filter(|_| self.last == id)
    }
}
