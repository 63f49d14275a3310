//! A lookup that never waits: it finds whole objects in memory as [`Store::lookup`] does, takes a
//! borrowed key, and allocates nothing.

use std::rc::Rc;

use device::{Clock, Device};

use crate::config::lookup_options::LookupOptions;
use crate::core::{Expected, LookupRequest, MemoryFinding, Purpose};
use crate::interface::entry::Entry;
use crate::interface::store::Store;

/// The result of a glance.
pub enum Glance<D: Device, C: Clock> {
    /// The object, with its body in its record. It counts as looked up.
    Found(Entry<D, C>),
    /// An object that [`Store::lookup`] may find, by a read or among pending writes. Nothing was
    /// counted.
    Elsewhere,
    /// Nothing, or an object in pieces. Nothing was counted.
    Nothing,
}

impl<D: Device, C: Clock> Store<D, C> {
    /// Looks up `key` in memory. `group` returns the key's [`Locality::group`](crate::Locality); it
    /// is called only if there are several devices. Touches no device.
    pub fn glance(&self, key: &[u8], group: impl FnOnce() -> u64) -> Glance<D, C> {
        let volume = match self.volumes() {
            [only] => only,
            _ => self.volume_of(group()),
        };
        let digest = volume.shared.digester.key(key);
        let (expected, purpose) = (Expected::Key(key), Purpose::Request);
        let options = LookupOptions::default();
        let request = LookupRequest { digest, expected, purpose, options };
        let now = volume.clock.unix_seconds() as u32;
        match volume.shared.lock().find_in_memory(&request, now) {
            MemoryFinding::Whole(object) => {
                Glance::Found(Entry::of_resident(Rc::clone(volume), digest, object))
            }
            MemoryFinding::Elsewhere => Glance::Elsewhere,
            MemoryFinding::Nothing => Glance::Nothing,
        }
    }
}
