//! Stored responses in memory, found by a lookup that neither waits nor allocates: their heads stay
//! encoded.

use std::cell::RefCell;

use semantics::cache_key::variant_of_set;
use semantics::{EncodedHead, EncodedSet, Fields};
use store::TryLookup;

use crate::object::store::{Entry, Store};

/// Maximum key length in bytes for this lookup. Objects with longer keys are looked up another way.
pub(crate) const KEY_MAX: usize = 4096;

thread_local! {
    /// Key of the variant that a request selects.
    static VARIANT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Stored response in memory, whole and with its body in one record.
pub(crate) struct Resident {
    pub entry: Entry,
    /// Marker that led to the response, if it is a variant.
    marker: Option<Entry>,
}

impl Resident {
    /// Returns the response that a request with these fields selects under `key`, an object of
    /// `group`. The lookup counts as a use.
    pub fn find(store: &Store, key: &[u8], group: u64, fields: &impl Fields) -> Option<Resident> {
        let TryLookup::Hit(entry) = store.try_lookup(key, || group) else { return None };
        if entry.outdated_since().is_some() {
            return None;
        }
        let Some(set) = EncodedSet::read(entry.meta()) else {
            return Some(Resident { entry, marker: None });
        };
        let found = VARIANT.with_borrow_mut(|variant| {
            variant_of_set(variant, key, set, fields);
            match store.try_lookup(variant, || group) {
                TryLookup::Hit(found) if variant.len() <= KEY_MAX => Some(found),
                _ => None,
            }
        })?;
        let is_current = found.outdated_since().is_none();
        is_current.then_some(Resident { entry: found, marker: Some(entry) })
    }

    /// Returns the head, if it can be sent in encoded form.
    pub fn head(&self) -> Option<EncodedHead<'_>> {
        EncodedHead::read(self.entry.meta())
    }

    /// Returns whether a request field of this name selected the response.
    pub fn is_selected_by(&self, name: &str) -> bool {
        let set = self.marker.as_ref().and_then(|marker| EncodedSet::read(marker.meta()));
        set.is_some_and(|set| set.names().any(|selects| selects == name))
    }
}
