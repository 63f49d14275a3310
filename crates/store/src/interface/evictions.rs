//! Eviction offers as a subscriber sees them: a node that keeps objects that its peers evict, or
//! that tells them which objects it no longer has.

use std::rc::Rc;

use bytes::Bytes;
use device::{Clock, Device};

use crate::base::key::{Key, Locality};
use crate::core::{EvictedObject, SubscriptionId};
use crate::interface::entry::Entry;
use crate::interface::fetch_token::FetchToken;
use crate::interface::store::Store;
use crate::memory::eviction_queue::EvictionLimits;

/// A subscription to evictions from memory, see [`Store::evictions`]. It ends when it is dropped.
pub struct Evictions<D: Device, C: Clock> {
    store: Store<D, C>,
    /// For each volume: the subscription, and the number of offers dropped there.
    subscriptions: Vec<(SubscriptionId, u64)>,
}

/// An object that was evicted from memory.
pub struct Evicted<D: Device, C: Clock> {
    /// Its key.
    pub key: Key,
    /// Its metadata.
    pub meta: Bytes,
    /// Length of its body in bytes.
    pub len: u64,
    /// True if it was not on the device either when the offer was taken: this store no longer has
    /// it.
    pub last_copy: bool,
    /// The object, whose bytes it keeps in memory; `None` for an object in pieces, of which memory
    /// held only the head.
    pub entry: Option<Entry<D, C>>,
    /// A fetch begun when the offer was taken: it tells whether the object is removed or purged
    /// meanwhile.
    pub token: FetchToken,
}

impl<D: Device, C: Clock> Store<D, C> {
    /// Subscribes to evictions from memory from now on, replacing an earlier subscriber. `limits`
    /// bound the offers that wait on each device; beyond them the oldest are dropped and counted.
    ///
    /// Only objects that were requested and were in memory are offered, because no device is read
    /// for an offer. A record that is evicted with its cluster or slots while it is not in memory
    /// is not offered, because its key is on the device only; nor is an object that was removed,
    /// purged or superseded.
    pub fn evictions(&self, limits: EvictionLimits) -> Evictions<D, C> {
        let volumes = self.volumes().iter();
        let subscriptions = volumes
            .map(|volume| (volume.shared.lock().memory().evictions().subscribe(limits), 0))
            .collect();
        Evictions { store: self.clone(), subscriptions }
    }
}

impl<D: Device, C: Clock> Evictions<D, C> {
    /// Takes the oldest offer of a device that has one. Skips objects that were removed, purged,
    /// replaced or came back to memory since they were evicted. Touches no device.
    pub fn take(&mut self) -> Option<Evicted<D, C>> {
        for (volume, (id, dropped)) in self.store.volumes().iter().zip(&mut self.subscriptions) {
            let (evicted, all_dropped) = volume.shared.lock().next_evicted(*id);
            *dropped = all_dropped.max(*dropped);
            let Some(evicted) = evicted else { continue };
            let EvictedObject { digest, object, last_copy, fetch } = evicted;
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

    /// Returns how many offers were dropped because too many waited, as of the last
    /// [`Evictions::take`].
    pub fn dropped(&self) -> u64 {
        self.subscriptions.iter().map(|(_, dropped)| dropped).sum()
    }
}

impl<D: Device, C: Clock> Drop for Evictions<D, C> {
    fn drop(&mut self) {
        for (volume, (id, _)) in self.store.volumes().iter().zip(&self.subscriptions) {
            volume.shared.lock().memory().evictions().unsubscribe(*id);
        }
    }
}
