//! Lookups of stored responses: how a request finds its variant.

use std::rc::Rc;

use http::Method;
use semantics::packed::Flag::HeadOnly;
use semantics::{Fields, Meta, StoredHead, Time, VaryMarker};
use store::{Key, LookupOptions};

use crate::object::key::variant_key;
use crate::object::metadata::{FoundHead, Metadata};
use crate::object::store::{Lookup, Store};
use crate::object::stored_response::StoredResponse;

pub(crate) enum LookupResult {
    /// Stored response. For a variant, the key is the variant's.
    Stored(Rc<StoredResponse>),
    /// Nothing stored. With a marker there are variants, but the request selects none of them.
    Nothing { key: Key, marker: Option<VaryMarker> },
}

/// Looks up an object, through its marker if it has one. The response to a HEAD is found by HEADs
/// only. `options` sets the tiers to search, and whether memory keeps the object. Returns `None` if
/// the variant's key is too long.
pub(crate) async fn find(
    store: &Store,
    primary: &Key,
    method: &Method,
    request: &impl Fields,
    options: LookupOptions,
) -> Option<LookupResult> {
    let is_for = |found: &FoundHead| *method == Method::HEAD || !found.head.packed().is(HeadOnly);
    let Lookup::Hit(entry) = store.lookup_with(primary, options).await else {
        return Some(LookupResult::Nothing { key: primary.clone(), marker: None });
    };
    let marker = match Metadata::of(&entry) {
        Some(Metadata::Head(found)) if is_for(&found) => {
            let key = primary.clone();
            return Some(LookupResult::Stored(StoredResponse::new(key, None, entry, found)));
        }
        Some(Metadata::Marker(marker)) => marker,
        Some(Metadata::Head(_)) | None => {
            return Some(LookupResult::Nothing { key: primary.clone(), marker: None });
        }
    };
    Box::pin(find_selected((store, options), primary, marker, request, is_for)).await
}

/// Returns whether a response is stored under `key` that was received since `asked` and is younger
/// than `head`: of the responses to requests at the same time the latest by `Date` stays (RFC 9111,
/// 4).
pub(crate) async fn has_younger(
    store: &Store,
    key: &Key,
    head: &StoredHead,
    (asked, now): (Time, Time),
) -> bool {
    let Lookup::Hit(entry) = store.lookup(key).await else { return false };
    let Some(Metadata::Head(found)) = Metadata::of(&entry) else { return false };
    let stored = found.head.packed();
    stored.received() >= asked && stored.age(now) < head.packed().age(now)
}

/// Looks up the variants that a request selects under any of a marker's sets of fields, and returns
/// the latest (RFC 9111, 4). If none is stored, returns the key by the latest set.
async fn find_selected(
    (store, options): (&Store, LookupOptions),
    primary: &Key,
    mut marker: VaryMarker,
    request: &impl Fields,
    is_for: impl Fn(&FoundHead) -> bool,
) -> Option<LookupResult> {
    let mut latest: Option<Rc<StoredResponse>> = None;
    for number in 0..marker.count() {
        marker.choose(number);
        let Some(key) = variant_key(primary, &marker, request) else { continue };
        if let Lookup::Hit(entry) = store.lookup_with(&key, options).await
            && let Some(Metadata::Head(found)) = Metadata::of(&entry)
            && is_for(&found)
        {
            let found = StoredResponse::new(key, Some(marker.clone()), entry, found);
            if latest.as_ref().is_none_or(|latest| found.is_later_than(latest)) {
                latest = Some(found);
            }
        }
    }
    if let Some(stored) = latest {
        return Some(LookupResult::Stored(stored));
    }
    marker.choose(0);
    let key = variant_key(primary, &marker, request)?;
    Some(LookupResult::Nothing { key, marker: Some(marker) })
}

/// Returns the response that is stored whole under a variant's key.
pub(crate) async fn find_variant(
    store: &Store,
    key: &Key,
    marker: &VaryMarker,
) -> Option<Rc<StoredResponse>> {
    let Lookup::Hit(entry) = store.lookup(key).await else { return None };
    let Metadata::Head(found) = Metadata::of(&entry)? else { return None };
    let is_whole = found.sparse.is_none() && !found.head.packed().is(HeadOnly);
    is_whole.then(|| StoredResponse::new(key.clone(), Some(marker.clone()), entry, found))
}

/// Returns the sparse object with this epoch, if it is still stored under `key`.
pub(crate) async fn find_sparse(
    store: &Store,
    key: &Key,
    marker: Option<VaryMarker>,
    epoch: u128,
) -> Option<Rc<StoredResponse>> {
    let Lookup::Hit(entry) = store.lookup(key).await else { return None };
    let Ok(Meta::Sparse(sparse)) = Meta::decode(entry.meta()) else { return None };
    let found = FoundHead { head: sparse.head.into(), sparse: Some(sparse.layout) };
    (sparse.layout.epoch == epoch).then(|| StoredResponse::new(key.clone(), marker, entry, found))
}

/// Returns the whole response in memory under `key`, reached through `marker`. Does not count as a
/// use and reads no device.
pub(crate) fn resident(
    store: &Store,
    key: &Key,
    marker: Option<VaryMarker>,
) -> Option<Rc<StoredResponse>> {
    let entry = store.resident(key)?;
    match Metadata::of(&entry)? {
        Metadata::Head(found) if found.sparse.is_none() => {
            Some(StoredResponse::new(key.clone(), marker, entry, found))
        }
        _ => None,
    }
}

/// Returns the marker in memory under `primary`. Like [`resident`], it does not count as a use.
pub(crate) fn resident_marker(store: &Store, primary: &Key) -> Option<VaryMarker> {
    Metadata::of(&store.resident(primary)?)?.into_marker()
}
