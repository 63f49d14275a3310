//! A lookup that waits for nothing: what it finds in memory is found as [`Store::lookup`] finds it,
//! with a key that was not made for it, and nothing is allocated.

use std::rc::Rc;

use device::{Clock, Device};

use crate::config::lookup_options::LookupOptions;
use crate::core::{Expected, Glanced, LookupRequest, Purpose};
use crate::interface::entry::Entry;
use crate::interface::store::Store;

/// What a glance shows.
pub enum Glance<D: Device, C: Clock> {
    /// The object, whose body is in its record. It counts as looked up.
    Found(Entry<D, C>),
    /// Something that [`Store::lookup`] may find, by a read or among what waits to be written.
    /// Nothing was counted.
    Elsewhere,
    /// Nothing, or what is in pieces. Nothing was counted.
    Nothing,
}

impl<D: Device, C: Clock> Store<D, C> {
    /// Looks whether what is stored under `key` is in memory. `group` says where it belongs
    /// ([`Locality::group`](crate::Locality)); it is asked where there are several devices. Touches
    /// no device.
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
        match volume.shared.lock().glance(&request, now) {
            Glanced::Whole(object) => {
                Glance::Found(Entry::of_resident(Rc::clone(volume), digest, object))
            }
            Glanced::Elsewhere => Glance::Elsewhere,
            Glanced::Nothing => Glance::Nothing,
        }
    }
}
