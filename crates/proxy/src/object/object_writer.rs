//! Writes the stored responses of one object for a fetch. All heads are stored and updated here.
//!
//! Guarantees: responses removed or purged since the fetch began do not come back, and no request
//! finds a response whose `Vary` excludes it (RFC 9111, 4.1).

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use semantics::vary::Vary;
use semantics::{
    ExchangeTimes, NotStorable, RequestFacts, Settings, StoredHead, VaryMarker, storability,
};
use store::{FetchToken, Hint, Key, Lookup, Refusal};

use crate::object::epoch::new_epoch;
use crate::object::key::variant_key;
use crate::object::metadata::Metadata;
use crate::object::store::{Store, Writer};
use crate::object::stored_response::StoredResponse;

pub(crate) struct ObjectWriter<'a> {
    pub store: &'a Store,
    /// Token taken at the start of the fetch.
    pub token: &'a FetchToken,
    /// Key of the object. Its marker leads to its variants.
    pub primary: &'a Key,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct StorageKey {
    pub key: Key,
    /// Marker that leads to the key, if it differs from the stored one.
    pub new_marker: Option<VaryMarker>,
}

impl StorageKey {
    /// Returns where to store a response with this `Vary` to a request that looked under `key` by
    /// way of `marker`; `None` if the key is too long.
    pub fn of(
        vary: &Vary,
        primary: &Key,
        (key, marker): (&Key, Option<&VaryMarker>),
        request: &HeaderMap,
    ) -> Option<StorageKey> {
        let new_marker = match marker {
            None if vary.names().is_empty() => None,
            Some(marker) if marker.is_for(vary) => None,
            Some(marker) => Some(marker.with(vary, new_epoch())),
            None => Some(VaryMarker::new(new_epoch(), vary.names())),
        };
        let key = match &new_marker {
            None => key.clone(),
            Some(marker) => variant_key(primary, marker, request)?,
        };
        Some(StorageKey { key, new_marker })
    }
}

/// Facts that decide whether a response is stored, and whether a refreshed one is kept.
pub(crate) struct Judge<'a> {
    pub facts: &'a RequestFacts,
    pub times: ExchangeTimes,
    pub settings: &'a Settings,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RefreshResult {
    /// The response stays under its key, with the new head.
    InPlace,
    /// The response varies by fields that did not select it; it belongs under another key.
    Elsewhere,
    /// The new head was for this client only and says nothing about other clients' responses.
    ForClient,
    /// The response must not be kept.
    Forbidden,
}

impl Judge<'_> {
    /// Returns whether a response with this head may be stored.
    pub fn permits(&self, status: StatusCode, headers: &HeaderMap) -> Result<(), NotStorable> {
        let Judge { facts, times, settings } = self;
        storability::judge(facts, status, headers, *times, settings)
    }

    /// Decides what to do with a response stored under `marker` that gets this head.
    pub fn refreshed(&self, head: &StoredHead, marker: Option<&VaryMarker>) -> RefreshResult {
        match self.permits(head.status(), head.headers()) {
            Err(NotStorable::Authorization | NotStorable::Cookie | NotStorable::Identified) => {
                RefreshResult::ForClient
            }
            Err(_) => RefreshResult::Forbidden,
            Ok(()) if head.vary().is_covered(marker) => RefreshResult::InPlace,
            Ok(()) => RefreshResult::Elsewhere,
        }
    }
}

impl ObjectWriter<'_> {
    /// Opens a writer for a response with this metadata. Stores its new marker first, if any.
    ///
    /// # Errors
    ///
    /// See [`store::Store::insert`]; `Overtaken` also if the marker was removed meanwhile.
    pub async fn insert(
        &self,
        key: &Key,
        new_marker: Option<&VaryMarker>,
        meta: Bytes,
        hint: Hint,
    ) -> Result<Writer, Refusal> {
        if let Some(marker) = new_marker {
            Box::pin(self.insert_marker(marker, hint.group)).await?;
        }
        self.store.insert(self.token, key, meta, hint).await
    }

    /// Stores a marker, an object without a body. The marker that it extends must still be stored:
    /// it was read before the fetch began, and objects removed since then must not come back. A
    /// later removal overtakes the fetch.
    pub async fn insert_marker(
        &self,
        marker: &VaryMarker,
        group: Option<u64>,
    ) -> Result<(), Refusal> {
        let stored = match self.store.lookup(self.primary).await {
            Lookup::Hit(entry) => Metadata::of(&entry).and_then(Metadata::into_marker),
            _ => None,
        };
        if !marker.carries_on(stored.as_ref()) {
            return Err(Refusal::Overtaken);
        }
        let hint = Hint { size: Some(0), group, ..Hint::default() };
        self.store.insert(self.token, self.primary, marker.encode(), hint).await?.commit().await
    }

    /// Replaces the head of a stored response. The old head stays if the store refuses the new one.
    pub async fn replace(&self, stored: &StoredResponse, head: &StoredHead) {
        let (key, entry, meta) = (&stored.key, &stored.entry, stored.encode(head));
        if let Err(refusal) = self.store.replace_meta(self.token, key, entry, meta).await {
            log::debug!("the refreshed head was not stored: {refusal}");
        }
    }

    /// Updates a stored response with a head that the origin has freshened (RFC 9111, 3.2 and
    /// 4.3.4): replaces the head if that is permitted, and removes the response if it must not be
    /// kept.
    pub async fn refresh(
        &self,
        stored: &StoredResponse,
        head: &StoredHead,
        judge: &Judge<'_>,
    ) -> RefreshResult {
        let refreshed = judge.refreshed(head, stored.marker.as_ref());
        match refreshed {
            RefreshResult::InPlace => self.replace(stored, head).await,
            RefreshResult::ForClient | RefreshResult::Elsewhere => {}
            RefreshResult::Forbidden => {
                log::debug!("the origin forbids keeping the response that it validates");
                self.store.remove(&stored.key).await;
            }
        }
        refreshed
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::rc::Rc;

    use device::{AnyDevice, MemoryDevice};
    use net::clock::TokioClock;
    use semantics::Url;

    use super::*;
    use crate::object::key::primary_key;
    use crate::object::lookup::resident_marker;

    #[tokio::test(flavor = "local")]
    async fn a_marker_does_not_restore_removed_variants() {
        let url = Url::parse("http://a.example/x").unwrap();
        let (store, primary) = (&empty_store().await, &primary_key("forward", &url).unwrap());
        let names = |name: &str| vec![name.parse().unwrap()];
        let old = VaryMarker::new(1, &names("accept"));
        ObjectWriter { store, token: &store.begin_fetch(primary), primary }
            .insert_marker(&old, None)
            .await
            .unwrap();
        let wider = old.with(&Vary::Names(names("accept-language")), 2);
        store.remove(primary).await;
        // The fetch begins after the removal, so nothing overtakes it.
        let token = &store.begin_fetch(primary);
        let later = ObjectWriter { store, token, primary };
        let stored = later.insert_marker(&wider, None).await;
        assert_eq!(stored, Err(Refusal::Overtaken));
        assert_eq!(resident_marker(store, primary), None);
        later.insert_marker(&old, None).await.unwrap();
        later.insert_marker(&wider, None).await.unwrap();
        assert_eq!(resident_marker(store, primary), Some(wider));
    }

    async fn empty_store() -> Store {
        let device = AnyDevice::Memory(MemoryDevice::new(64 << 20, 4096));
        let format = store::FormatOptions::default();
        Box::pin(store::format_with_seed(&device, &format, [7; 48], 0)).await.unwrap();
        let options = store::Options::default();
        let opened =
            Box::pin(Store::open(vec![Rc::new(device)], TokioClock::system(), options)).await;
        let store = opened.unwrap();
        let background = store.clone();
        tokio::task::spawn_local(async move { background.run_background().await });
        store
    }
}
