//! What the store can say of an object's neighbours: those that are in memory (systems C14), and
//! how to have them there.

use std::cmp::Reverse;
use std::rc::Rc;

use bytes::Bytes;
use device::{Clock, Device};

use crate::base::key::{Key, Locality};
use crate::interface::entry::Entry;
use crate::interface::store::Store;

/// An object of the same site that lies in the same cluster or the same directory as another, and
/// came to memory at about the same time.
#[derive(Clone, Debug)]
pub struct Neighbour {
    /// Its name.
    pub key: Key,
    /// Its metadata.
    pub meta: Bytes,
    /// Since when it is outdated by a soft purge, in unix seconds; `None`: it is not.
    pub outdated_since: Option<u64>,
}

impl<D: Device, C: Clock> Store<D, C> {
    /// Returns the neighbours of what is in memory under `key`, the nearest first, at most some
    /// hundred. None when it is not in memory. Objects in pieces are left out. Touches no device,
    /// and leaves no trace: nothing counts as asked for.
    pub fn neighbours(&self, key: &Key) -> Vec<Neighbour> {
        let (volume, digest) = self.place(key);
        let objects = volume.shared.lock().neighbours(&digest);
        objects
            .into_iter()
            .filter_map(|object| {
                let locality = Locality { site: object.header.site, group: object.header.group };
                Some(Neighbour {
                    key: self.key_on(volume, &object.key, locality)?,
                    meta: object.meta.clone(),
                    outdated_since: object.outdated_since().map(u64::from),
                })
            })
            .collect()
    }

    /// Takes into memory what lies around the object under `key` on the device, so that
    /// [`Store::neighbours`] knows it: with one read, and two more for each, but at most for
    /// `refreshed`, of the objects of its site there whose metadata were replaced since they were
    /// stored. Does nothing when it is on no device yet.
    pub async fn bring_neighbours(&self, key: &Key, refreshed: usize) {
        let (volume, digest) = self.place(key);
        volume.bring_beside(digest, key.locality().site, refreshed).await;
    }

    /// Returns the keys of the objects in memory that were asked for most often, those first; at
    /// most so many. Objects in pieces are left out. Touches no device, and leaves no trace, but
    /// looks at all that is in memory: for seldom use.
    pub fn most_used(&self, count: usize) -> Vec<Key> {
        let mut all = Vec::new();
        for volume in self.volumes() {
            let objects = volume.shared.lock().most_used(count);
            all.extend(objects.into_iter().filter_map(|(accesses, object)| {
                let locality = Locality { site: object.header.site, group: object.header.group };
                Some((accesses, self.key_on(volume, &object.key, locality)?))
            }));
        }
        all.sort_by_key(|(accesses, _)| Reverse(*accesses));
        all.truncate(count);
        all.into_iter().map(|(_, key)| key).collect()
    }

    /// Returns what is in memory under `key`, as [`Store::lookup`] would find it, but without a
    /// trace. `None` also for an object in pieces. Touches no device.
    pub fn resident(&self, key: &Key) -> Option<Entry<D, C>> {
        let (volume, digest) = self.place(key);
        let object = volume.shared.lock().resident_whole(&digest, key.as_bytes())?;
        Some(Entry::of_resident(Rc::clone(volume), digest, object))
    }
}
