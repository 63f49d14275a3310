//! The directory that is currently served. It is replaced when its path leads to another directory.

use std::sync::{Arc, PoisonError, RwLock};

use crate::origin::voucher::Known;

/// An open root that can be replaced, with all that is known about it.
pub(crate) struct Current(RwLock<Arc<Known>>);

impl Current {
    /// Starts with this root.
    pub fn new(known: Known) -> Current {
        Current(RwLock::new(Arc::new(known)))
    }

    /// Returns the current root.
    pub fn known(&self) -> Arc<Known> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the root. Nothing is known yet about its responses.
    pub fn replace(&self, known: Known) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(known);
    }
}
