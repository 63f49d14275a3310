//! Limits the files that are open while clients receive them: those sent in pieces.
//!
//! Many slow clients, or one that requests many files at a time over HTTP/2, must not use up all
//! descriptors. These files may use a quarter of them, across all roots. A request that finds no
//! free place waits without a descriptor, for at most [`PATIENCE`].

use std::time::Duration;

use rustix::process::{Resource, getrlimit};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::origin::process_limit::ProcessLimit;

/// The longest wait for a place.
const PATIENCE: Duration = Duration::from_secs(10);

/// Descriptors reserved for uses other than clients and files.
const OTHERS: u64 = 128;

/// Minimum number of places.
const LEAST: u64 = 16;

static PLACES: ProcessLimit = ProcessLimit::new(|| {
    // No limit counts as the largest possible one.
    places(getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX))
});

/// A place for one open file, held until it is dropped.
pub(crate) type Place = OwnedSemaphorePermit;

/// Returns the number of places for a process that may have `descriptors` descriptors.
fn places(descriptors: u64) -> usize {
    let share = (descriptors.saturating_sub(OTHERS) / 4).max(LEAST);
    usize::try_from(share).map_or(Semaphore::MAX_PERMITS, |share| share.min(Semaphore::MAX_PERMITS))
}

/// Returns a place if one is free.
pub(crate) fn free_place() -> Option<Place> {
    PLACES.semaphore().try_acquire_owned().ok()
}

/// Waits for a place; returns `None` if none becomes free in time.
pub(crate) async fn place() -> Option<Place> {
    timeout(PATIENCE, PLACES.semaphore().acquire_owned()).await.ok()?.ok()
}

/// Takes all free places.
#[cfg(test)]
pub(crate) async fn every_place() -> Place {
    let all = u32::try_from(PLACES.semaphore().available_permits()).unwrap();
    PLACES.semaphore().acquire_many_owned(all).await.unwrap()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_have_a_quarter_of_the_descriptors() {
        assert_eq!([0, 128, 1_024, 1 << 20].map(places), [16, 16, 224, 262_112]);
        assert_eq!(places(u64::MAX), Semaphore::MAX_PERMITS);
    }
}
