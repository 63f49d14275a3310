//! Writes the stored responses of one object on behalf of a fetch: all heads are stored and updated
//! here.
//!
//! It promises: what was removed or purged since the fetch began does not come back, and no request
//! finds a response that its `Vary` tells apart from it (RFC 9111, 4.1).

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use semantics::vary::Vary;
use semantics::{
    Exchange, NotStorable, RequestFacts, Settings, StoredHead, VaryMarker, storability,
};
use store::{FetchToken, Hint, Key, Refusal};

use crate::object::epoch::new_epoch;
use crate::object::stored_response::{Store, StoredResponse, Writer, insert_marker, variant_key};

/// The means of one fetch to write the responses of one object.
pub(crate) struct ObjectWriter<'a> {
    pub store: &'a Store,
    /// Taken when the fetch began.
    pub token: &'a FetchToken,
    /// The key of the object, whose marker leads to its variants.
    pub primary: &'a Key,
}

/// The place of a stored response.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct StorageKey {
    pub key: Key,
    /// The marker that leads there, when it is not the stored one.
    pub new_marker: Option<VaryMarker>,
}

impl StorageKey {
    /// Returns the place of a response with this `Vary`, to a request that looked under `key` by
    /// way of `marker`. `None`: its key is too long.
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

/// The facts that decide on storing a response, and on keeping a refreshed one.
pub(crate) struct Judge<'a> {
    pub facts: &'a RequestFacts,
    pub exchange: Exchange,
    pub settings: &'a Settings,
}

/// The result of refreshing a stored response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refreshed {
    /// It stays under its key, with the new head.
    InPlace,
    /// It varies by fields that it was not found by: it belongs under another key.
    Elsewhere,
    /// The new head was for this client alone, and says nothing of what others have.
    ForClient,
    /// It must not be kept.
    Forbidden,
}

impl Judge<'_> {
    /// Returns whether a response with this head may be stored.
    pub fn permits(&self, status: StatusCode, headers: &HeaderMap) -> Result<(), NotStorable> {
        let Judge { facts, exchange, settings } = self;
        storability::judge(facts, status, headers, *exchange, settings)
    }

    /// Decides what becomes of a response stored under `marker`, with this head.
    pub fn refreshed(&self, head: &StoredHead, marker: Option<&VaryMarker>) -> Refreshed {
        match self.permits(head.status(), head.headers()) {
            Err(NotStorable::Authorization) => Refreshed::ForClient,
            Err(_) => Refreshed::Forbidden,
            Ok(()) if head.vary().is_covered(marker) => Refreshed::InPlace,
            Ok(()) => Refreshed::Elsewhere,
        }
    }
}

impl ObjectWriter<'_> {
    /// Opens a writer for a response with this metadata, after storing its new marker, if any.
    ///
    /// # Errors
    /// As [`store::Store::insert`]; `Overtaken` also when the marker was removed meanwhile.
    pub async fn insert(
        &self,
        key: &Key,
        new_marker: Option<&VaryMarker>,
        meta: Bytes,
        hint: Hint,
    ) -> Result<Writer, Refusal> {
        if let Some(marker) = new_marker {
            insert_marker(self.store, self.token, self.primary, marker).await?;
        }
        self.store.insert(self.token, key, meta, hint).await
    }

    /// Replaces the head of a stored response. It stays as it was when the store refuses.
    pub async fn replace(&self, stored: &StoredResponse, head: &StoredHead) {
        let (key, entry, meta) = (&stored.key, &stored.entry, stored.encode(head));
        if let Err(refusal) = self.store.replace_meta(self.token, key, entry, meta).await {
            log::debug!("the refreshed head was not stored: {refusal}");
        }
    }

    /// Updates a stored response with a head that the origin has freshened (RFC 9111, 3.2 and
    /// 4.3.4): replaces the head where that may be, removes what must not be kept.
    pub async fn refresh(
        &self,
        stored: &StoredResponse,
        head: &StoredHead,
        judge: &Judge<'_>,
    ) -> Refreshed {
        let refreshed = judge.refreshed(head, stored.marker.as_ref());
        match refreshed {
            Refreshed::InPlace => self.replace(stored, head).await,
            Refreshed::ForClient | Refreshed::Elsewhere => {}
            Refreshed::Forbidden => {
                log::debug!("the origin forbids to keep what it validates");
                self.store.remove(&stored.key).await;
            }
        }
        refreshed
    }
}
