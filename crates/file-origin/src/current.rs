//! The directory that is served at the moment: another one when its path leads elsewhere.

use std::sync::{Arc, PoisonError, RwLock};

use crate::voucher::Known;

/// An open root that can be replaced, with all that is known of it.
pub(crate) struct Current(RwLock<Arc<Known>>);

impl Current {
    /// Begins with a root.
    pub fn new(known: Known) -> Current {
        Current(RwLock::new(Arc::new(known)))
    }

    /// Returns the root.
    pub fn known(&self) -> Arc<Known> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Serves another root from now on. Of its answers nothing is known yet.
    pub fn replace(&self, known: Known) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(known);
    }
}
