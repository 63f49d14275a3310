//! Freeing file descriptors when there is none left for a connection to an origin.

use std::pin::Pin;

/// A holder of descriptors that it can close.
pub trait FreeDescriptors {
    /// Closes what can be closed; returns false when that is nothing.
    fn free(&self) -> Freeing<'_>;
}

/// A closing under way.
pub type Freeing<'a> = Pin<Box<dyn Future<Output = bool> + 'a>>;
