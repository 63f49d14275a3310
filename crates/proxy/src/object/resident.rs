//! Stored responses in memory, found by a lookup that neither waits nor allocates: their heads stay
//! encoded.

use std::cell::RefCell;

use semantics::cache_key::{variant_of_set, write_form};
use semantics::{EncodedHead, EncodedSet, Fields};
use store::TryLookup;

use crate::object::store::{Entry, Store};

/// Maximum key length in bytes for this lookup. Objects with longer keys are looked up another way.
pub(crate) const KEY_MAX: usize = 4096;

thread_local! {
    /// Key of the variant or the form that a request selects.
    static VARIANT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Stored response in memory, whole and with its body in one record.
pub(crate) struct Resident {
    pub entry: Entry,
    /// Marker that led to the response, if it is a variant.
    marker: Option<Entry>,
}

impl Resident {
    /// Returns the response that a request with these fields selects under `key`, an object of the
    /// group that `group` returns. The lookup counts as a use.
    pub fn find(
        store: &Store,
        (key, group): (&[u8], impl Fn() -> u64),
        fields: &impl Fields,
    ) -> Option<Resident> {
        let TryLookup::Hit(entry) = store.try_lookup(key, &group) else { return None };
        if entry.outdated_since().is_some() {
            return None;
        }
        let Some(set) = EncodedSet::read(entry.meta()) else {
            return Some(Resident { entry, marker: None });
        };
        let found = VARIANT.with_borrow_mut(|variant| {
            variant_of_set(variant, key, set, fields);
            match store.try_lookup(variant, &group) {
                TryLookup::Hit(found) if variant.len() <= KEY_MAX => Some(found),
                _ => None,
            }
        })?;
        let is_current = found.outdated_since().is_none();
        is_current.then_some(Resident { entry: found, marker: Some(entry) })
    }

    /// Returns the compressed form of this response, if it is in memory and made from the response
    /// as it is now. `primary` is the key of the object, `body` the number of the response's body.
    pub fn form(
        &self,
        store: &Store,
        (primary, group): (&[u8], impl FnOnce() -> u64),
        coding: &str,
        body: &[u8],
    ) -> Option<Entry> {
        let found = VARIANT.with_borrow_mut(|key| {
            write_form(key, primary, coding, body);
            match store.try_lookup(key, group) {
                TryLookup::Hit(found) => Some(found),
                _ => None,
            }
        })?;
        let facts = |entry: &Entry| Some(EncodedHead::read(entry.meta())?.facts);
        let is_current = found.outdated_since().is_none() && facts(&found) == facts(&self.entry);
        is_current.then_some(found)
    }

    /// Returns the response with the entry of its compressed form.
    pub fn with_form(self, form: Entry) -> Resident {
        Resident { entry: form, ..self }
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
