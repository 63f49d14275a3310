//! Neighbours of an object: those in memory (systems C14), and how to bring them there.

use std::cmp::Reverse;
use std::rc::Rc;

use bytes::Bytes;
use device::{Clock, Device};

use crate::base::key::{Key, Locality};
use crate::interface::entry::Entry;
use crate::interface::store::Store;

/// An object of the same site as another that lies in the same cluster or directory, and entered
/// memory at about the same time.
#[derive(Clone, Debug)]
pub struct Neighbour {
    /// Its key.
    pub key: Key,
    /// Its metadata.
    pub meta: Bytes,
    /// The time since when it is outdated by a soft purge, in unix seconds; `None` when it is not.
    pub outdated_since: Option<u64>,
}

impl<D: Device, C: Clock> Store<D, C> {
    /// Returns the neighbours of the object in memory under `key`, nearest first, at most about a
    /// hundred. Returns none when the object is not in memory. Objects in pieces are left out.
    /// Touches no device and leaves no trace: nothing counts as requested.
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

    /// Brings the surroundings of the object under `key` on the device into memory, so that
    /// [`Store::neighbours`] returns them. This takes one read, and two more for each object of its
    /// site there whose metadata were replaced since it was stored, but for at most `refreshed` of
    /// these. Does nothing when the object is on no device yet.
    pub async fn bring_neighbours(&self, key: &Key, refreshed: usize) {
        let (volume, digest) = self.place(key);
        volume.bring_beside(digest, key.locality().site, refreshed).await;
    }

    /// Returns the keys of the most requested objects in memory, most requested first, at most
    /// `count`. Objects in pieces are left out. Touches no device and leaves no trace, but scans
    /// everything in memory: call it rarely.
    pub fn most_used(&self, count: usize) -> Vec<Key> {
        let mut all = Vec::new();
        for volume in self.volumes() {
            let objects = volume.shared.lock().memory().most_used(count);
            all.extend(objects.into_iter().filter_map(|(accesses, object)| {
                let locality = Locality { site: object.header.site, group: object.header.group };
                Some((accesses, self.key_on(volume, &object.key, locality)?))
            }));
        }
        all.sort_by_key(|(accesses, _)| Reverse(*accesses));
        all.truncate(count);
        all.into_iter().map(|(_, key)| key).collect()
    }

    /// Returns the object in memory under `key` as [`Store::lookup`] would, but without a trace.
    /// Also returns `None` for an object in pieces. Touches no device.
    pub fn resident(&self, key: &Key) -> Option<Entry<D, C>> {
        let (volume, digest) = self.place(key);
        let object = volume.shared.lock().resident_whole(&digest, key.as_bytes())?;
        Some(Entry::of_resident(Rc::clone(volume), digest, object))
    }
}
