//! Frees scarce resources for a request to an origin: file descriptors, and request capacity of its
//! servers.

use std::pin::Pin;

/// Owner of descriptors that it can close and of requests that it can end.
pub trait FreeDescriptors {
    /// Closes as many descriptors as possible. Returns false if there are none to close.
    fn free(&self) -> Freeing<'_>;

    /// Ends at most `most` requests for these servers ([`crate::servers::group::Group::number`])
    /// whose clients may be gone. Returns false if there is none.
    fn free_places(&self, servers: usize, most: u32) -> Freeing<'_>;
}

/// A call of [`FreeDescriptors`] in progress. Resolves to whether it freed anything.
pub type Freeing<'a> = Pin<Box<dyn Future<Output = bool> + 'a>>;
