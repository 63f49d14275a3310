//! Freeing what is short for a request to an origin: file descriptors, and places at its servers.

use std::pin::Pin;

/// A holder of descriptors that it can close, and of requests that it can end.
pub trait FreeDescriptors {
    /// Closes what can be closed; returns false when that is nothing.
    fn free(&self) -> Freeing<'_>;

    /// Ends at most `most` requests for these servers ([`crate::servers::group::Group::number`])
    /// whose clients may be gone; returns false when there is none.
    fn free_places(&self, servers: usize, most: u32) -> Freeing<'_>;
}

/// A closing under way.
pub type Freeing<'a> = Pin<Box<dyn Future<Output = bool> + 'a>>;
