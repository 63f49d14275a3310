//! Evictions as a subscriber sees them: a node that keeps what its peers evict, or that tells them
//! where an object is no more.

use std::rc::Rc;

use bytes::Bytes;
use device::{Clock, Device};

use crate::base::key::{Key, Locality};
use crate::core::{LeftMemory, SubscriptionId};
use crate::interface::entry::Entry;
use crate::interface::fetch_token::FetchToken;
use crate::interface::store::Store;
use crate::memory::eviction_queue::EvictionLimits;

/// A subscription to what is evicted from memory; see [`Store::evictions`]. It ends when it is
/// dropped.
pub struct Evictions<D: Device, C: Clock> {
    store: Store<D, C>,
    /// Of each volume: the subscription, and offers that were dropped there.
    subscriptions: Vec<(SubscriptionId, u64)>,
}

/// An object that has left memory for room.
pub struct Evicted<D: Device, C: Clock> {
    /// Its name.
    pub key: Key,
    /// Its metadata.
    pub meta: Bytes,
    /// Bytes of its body.
    pub len: u64,
    /// It was not on the device either when the offer was taken: here it is found no more.
    pub last_copy: bool,
    /// The object, whose bytes it keeps in memory; `None` for an object in pieces, of which memory
    /// had the head.
    pub entry: Option<Entry<D, C>>,
    /// Begun when the offer was taken: it says when the object is removed or purged meanwhile.
    pub token: FetchToken,
}

impl<D: Device, C: Clock> Store<D, C> {
    /// Subscribes to what leaves memory for room from now on, in place of an earlier subscriber.
    /// At most what `limits` say waits on each device to be taken; beyond that the oldest offers
    /// are dropped and counted.
    ///
    /// Offered is what is known without reading a device: objects that were asked for and were in
    /// memory. Records that go with their cluster or slots while memory has nothing of them are
    /// not, for their keys are on the device alone; nor is what was removed, purged or superseded.
    pub fn evictions(&self, limits: EvictionLimits) -> Evictions<D, C> {
        let volumes = self.volumes().iter();
        let subscriptions =
            volumes.map(|volume| (volume.shared.lock().evictions().subscribe(limits), 0)).collect();
        Evictions { store: self.clone(), subscriptions }
    }
}

impl<D: Device, C: Clock> Evictions<D, C> {
    /// Takes the oldest offer of a device that has one. What was removed, purged, replaced or came
    /// back to memory since it was evicted is passed over. Touches no device.
    pub fn take(&mut self) -> Option<Evicted<D, C>> {
        for (volume, (id, dropped)) in self.store.volumes().iter().zip(&mut self.subscriptions) {
            let (evicted, all_dropped) = volume.shared.lock().next_evicted(*id);
            *dropped = all_dropped.max(*dropped);
            let Some(evicted) = evicted else { continue };
            let LeftMemory { digest, object, last_copy, fetch } = evicted;
            let token = FetchToken::begun(&volume.shared, digest, fetch);
            let locality = Locality { site: object.header.site, group: object.header.group };
            let key = self.store.key_on(volume, &object.key, locality);
            let Some(key) = key else { continue };
            let (meta, len) = (object.meta.clone(), object.header.object_len);
            let whole = !object.in_pieces();
            let entry = whole.then(|| Entry::of_resident(Rc::clone(volume), digest, object));
            return Some(Evicted { key, meta, len, last_copy, entry, token });
        }
        None
    }

    /// Offers that were dropped because too much waited, as of the last [`Evictions::take`].
    pub fn dropped(&self) -> u64 {
        self.subscriptions.iter().map(|(_, dropped)| dropped).sum()
    }
}

impl<D: Device, C: Clock> Drop for Evictions<D, C> {
    fn drop(&mut self) {
        for (volume, (id, _)) in self.store.volumes().iter().zip(&self.subscriptions) {
            volume.shared.lock().evictions().unsubscribe(*id);
        }
    }
}
