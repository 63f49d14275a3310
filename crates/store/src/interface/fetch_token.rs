//! A fetch that is under way: what was removed or purged since it began may not come back by it.

use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use crate::base::digest::Digest;
use crate::base::key::Key;
use crate::core::{Fetched, Overtaken};
use crate::format::journal::JournalPosition;
use crate::shell::volume::Shared;

/// Proof that a fetch began at a certain time. `Send`, cheap. A clone is the same proof.
#[derive(Clone)]
pub struct FetchToken {
    pub(crate) shared: Arc<Shared>,
    pub(crate) digest: Digest,
    pub(crate) flag: Overtaken,
    /// The sequence number that was the last when it began.
    begun: u64,
    /// What the admission policy said of the token's key: one fetch, one question.
    admitted: OnceLock<bool>,
}

impl FetchToken {
    /// Begins a fetch of what `digest` names on `shared`.
    pub(super) fn begin(shared: &Arc<Shared>, digest: Digest) -> FetchToken {
        let fetch = shared.lock().begin_fetch(digest);
        FetchToken::begun(shared, digest, fetch)
    }

    /// Makes the token of a fetch that has begun, with this flag and sequence number.
    pub(super) fn begun(
        shared: &Arc<Shared>,
        digest: Digest,
        (flag, begun): (Overtaken, u64),
    ) -> FetchToken {
        let shared = Arc::clone(shared);
        FetchToken { shared, digest, flag, begun, admitted: OnceLock::new() }
    }

    /// Returns whether this is a fetch of what `digest` names on `shared`.
    pub(super) fn is_of(&self, shared: &Arc<Shared>, digest: &Digest) -> bool {
        Arc::ptr_eq(shared, &self.shared) && self.digest == *digest
    }

    /// Removes the token's key on behalf of its own fetch and renews the token, unless it was
    /// overtaken before. Both happen in one locked section, so every other removal comes either
    /// before it, and the token stays overtaken, or after it, and overtakes the renewed token.
    /// Purges since the fetch began count against the renewed token as well.
    pub(super) fn remove_own(&mut self) -> (bool, JournalPosition) {
        let (removed, up_to, flag) = self.shared.lock().remove_for_fetch(&self.digest, &self.flag);
        if let Some(flag) = flag {
            self.flag = flag;
        }
        (removed, up_to)
    }

    /// Returns true when the key was removed or purged since.
    pub fn overtaken(&self) -> bool {
        self.flag.load(Ordering::Acquire)
    }

    /// Returns true when a purge since concerns an object with this key and these metadata: it may
    /// not be stored, nor given to who asks from now on.
    pub fn purged(&self, key: &Key, meta: impl FnOnce() -> Bytes) -> bool {
        if self.shared.newest_purge() <= self.begun {
            return false;
        }
        self.shared.lock().overtaken(self.begun, key.as_bytes(), &meta())
    }

    /// Returns when the fetch began, for what is stored on `shared`.
    pub(crate) fn fetched(&self, shared: &Arc<Shared>) -> Fetched {
        // The sequence numbers of another device say nothing of when it began.
        let begun = if Arc::ptr_eq(shared, &self.shared) { self.begun } else { 0 };
        Fetched { overtaken: Arc::clone(&self.flag), begun }
    }

    /// Returns whether the admission policy lets in what is fetched for the key.
    pub(super) fn admitted(&self) -> bool {
        *self.admitted.get_or_init(|| self.shared.lock().admits(&self.digest))
    }
}

impl Drop for FetchToken {
    fn drop(&mut self) {
        self.shared.lock().end_fetch(&self.digest, &self.flag);
    }
}
