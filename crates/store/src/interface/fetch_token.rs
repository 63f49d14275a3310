//! Fetches under way: a fetch must not bring back an object that was removed or purged since it
//! began.

use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use crate::base::digest::Digest;
use crate::base::key::Key;
use crate::core::{Fetched, Overtaken};
use crate::format::journal::JournalPosition;
use crate::shell::volume::Shared;

/// Proof of when a fetch began. `Send`, cheap. A clone is the same proof.
#[derive(Clone)]
pub struct FetchToken {
    pub(crate) shared: Arc<Shared>,
    pub(crate) digest: Digest,
    pub(crate) flag: Overtaken,
    /// The last sequence number before it began.
    begun: u64,
    /// The decision of the admission policy on the token's key, which is asked once for each fetch.
    admitted: OnceLock<bool>,
}

impl FetchToken {
    /// Begins a fetch of the object of `digest` on `shared`.
    pub(super) fn begin(shared: &Arc<Shared>, digest: Digest) -> FetchToken {
        let fetch = shared.lock().begin_fetch(digest);
        FetchToken::begun(shared, digest, fetch)
    }

    /// Creates the token of a fetch that has begun, with this flag and sequence number.
    pub(super) fn begun(
        shared: &Arc<Shared>,
        digest: Digest,
        (flag, begun): (Overtaken, u64),
    ) -> FetchToken {
        let shared = Arc::clone(shared);
        FetchToken { shared, digest, flag, begun, admitted: OnceLock::new() }
    }

    /// Returns whether this is a fetch of the object of `digest` on `shared`.
    pub(super) fn is_of(&self, shared: &Arc<Shared>, digest: &Digest) -> bool {
        Arc::ptr_eq(shared, &self.shared) && self.digest == *digest
    }

    /// Removes the token's key on behalf of its own fetch and renews the token, unless it was
    /// overtaken before. Both happen in one locked section. So every other removal comes either
    /// before, and the token stays overtaken, or after, and overtakes the renewed token. Purges
    /// since the fetch began count against the renewed token as well.
    pub(super) fn remove_own(&mut self) -> (bool, JournalPosition) {
        let (removed, up_to, flag) = self.shared.lock().remove_for_fetch(&self.digest, &self.flag);
        if let Some(flag) = flag {
            self.flag = flag;
        }
        (removed, up_to)
    }

    /// Returns whether the key was removed or purged since the fetch began.
    pub fn overtaken(&self) -> bool {
        self.flag.load(Ordering::Acquire)
    }

    /// Returns whether a purge since the fetch began concerns an object with this key and metadata.
    /// Such an object must not be stored, nor served to new requests.
    pub fn purged(&self, key: &Key, meta: impl FnOnce() -> Bytes) -> bool {
        if self.shared.newest_purge() <= self.begun {
            return false;
        }
        self.shared.lock().overtaken(self.begun, key.as_bytes(), &meta())
    }

    /// Returns the flag and start of the fetch, for an object to be stored on `shared`.
    pub(crate) fn fetched(&self, shared: &Arc<Shared>) -> Fetched {
        // Sequence numbers of another device do not tell when it began.
        let begun = if Arc::ptr_eq(shared, &self.shared) { self.begun } else { 0 };
        Fetched { overtaken: Arc::clone(&self.flag), begun }
    }

    /// Returns whether the admission policy admits the object fetched for the key.
    pub(super) fn admitted(&self) -> bool {
        *self.admitted.get_or_init(|| self.shared.lock().admits(&self.digest))
    }
}

impl Drop for FetchToken {
    fn drop(&mut self) {
        self.shared.lock().end_fetch(&self.digest, &self.flag);
    }
}
