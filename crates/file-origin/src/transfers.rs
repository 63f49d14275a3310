//! Limits the files that are open while clients receive them: those sent in pieces.
//!
//! Many slow clients, or one that requests many files at a time over HTTP/2, must not use up all
//! descriptors. These files may use a quarter of them, across all roots. A request that finds no
//! free place waits without a descriptor, for at most [`PATIENCE`].

#[cfg(test)]
use std::cell::OnceCell;
use std::sync::Arc;
#[cfg(not(test))]
use std::sync::OnceLock;
use std::time::Duration;

use rustix::process::{Resource, getrlimit};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// The longest wait for a place.
const PATIENCE: Duration = Duration::from_secs(10);

/// Descriptors reserved for uses other than clients and files.
const OTHERS: u64 = 128;

/// Minimum number of places.
const LEAST: u64 = 16;

/// Returns the places of the process. In tests each thread has its own, as a test that takes all of
/// them would disturb those that run beside it.
fn all_places() -> Arc<Semaphore> {
    // No limit counts as the largest possible one.
    let descriptors = || getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let new = || Arc::new(Semaphore::new(places(descriptors())));
    #[cfg(test)]
    {
        thread_local! { static OF_TEST: OnceCell<Arc<Semaphore>> = const { OnceCell::new() } }
        OF_TEST.with(|places| places.get_or_init(new).clone())
    }
    #[cfg(not(test))]
    {
        static OF_PROCESS: OnceLock<Arc<Semaphore>> = OnceLock::new();
        OF_PROCESS.get_or_init(new).clone()
    }
}

/// A place for one open file, held until it is dropped.
pub(crate) type Place = OwnedSemaphorePermit;

/// Returns the number of places for a process that may have `descriptors` descriptors.
fn places(descriptors: u64) -> usize {
    let share = (descriptors.saturating_sub(OTHERS) / 4).max(LEAST);
    usize::try_from(share).map_or(Semaphore::MAX_PERMITS, |share| share.min(Semaphore::MAX_PERMITS))
}

/// Returns a place if one is free.
pub(crate) fn free_place() -> Option<Place> {
    all_places().try_acquire_owned().ok()
}

/// Waits for a place; returns `None` if none becomes free in time.
pub(crate) async fn place() -> Option<Place> {
    timeout(PATIENCE, all_places().acquire_owned()).await.ok()?.ok()
}

/// Takes all free places.
#[cfg(test)]
pub(crate) async fn every_place() -> Place {
    let all = u32::try_from(all_places().available_permits()).unwrap();
    all_places().acquire_many_owned(all).await.unwrap()
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
