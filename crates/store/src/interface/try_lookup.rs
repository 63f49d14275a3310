//! A lookup that never waits: it finds whole objects in memory as [`Store::lookup`] does, takes a
//! borrowed key, and allocates nothing.

use std::rc::Rc;

use device::{Clock, Device};

use crate::config::lookup_options::LookupOptions;
use crate::core::{Expected, LookupRequest, MemoryFinding, Purpose};
use crate::interface::entry::Entry;
use crate::interface::store::Store;

/// The result of [`Store::try_lookup`].
pub enum TryLookup<D: Device, C: Clock> {
    /// The object, with its body in its record. It counts as looked up.
    Hit(Entry<D, C>),
    /// An object that [`Store::lookup`] may find, by a read or among pending writes. Nothing was
    /// counted.
    Elsewhere,
    /// No object, or one in pieces. Nothing was counted.
    Miss,
}

impl<D: Device, C: Clock> Store<D, C> {
    /// Looks up `key` in memory. `group` returns the key's [`Locality::group`](crate::Locality); it
    /// is called only if there are several devices. Touches no device.
    pub fn try_lookup(&self, key: &[u8], group: impl FnOnce() -> u64) -> TryLookup<D, C> {
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
                TryLookup::Hit(Entry::of_resident(Rc::clone(volume), digest, object))
            }
            MemoryFinding::Elsewhere => TryLookup::Elsewhere,
            MemoryFinding::Nothing => TryLookup::Miss,
        }
    }
}
