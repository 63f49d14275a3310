//! Runs work that may wait for a disk on threads apart from the workers'.
//!
//! A disk that hangs, or clients that request expensive work, must not take an unbounded number of
//! threads or all processors. Each root therefore has a limited number of places, and work without
//! a place waits without a thread. A second limit covers all roots together.

use std::io;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::origin::threads;

/// Concurrent lookups and reads per root; more than disks process at once.
const PLACES: usize = 64;

/// Concurrent lookups and reads of all roots.
const ALL_PLACES: usize = 6 * PLACES;

/// The places of all roots.
static ALL: LazyLock<Arc<Semaphore>> = LazyLock::new(|| Arc::new(Semaphore::new(ALL_PLACES)));

/// Concurrent long-running CPU-bound tasks per root.
const LONG_PLACES: usize = 2;

/// The longest wait for a place for such a task.
const LONG_PATIENCE: Duration = Duration::from_secs(10);

/// The places of a root.
#[derive(Clone, Debug)]
pub(crate) struct Pool {
    places: Arc<Semaphore>,
    long: Arc<Semaphore>,
}

impl Pool {
    /// Creates a pool with all places free.
    pub fn new() -> Pool {
        let semaphore = |places| Arc::new(Semaphore::new(places));
        Pool { places: semaphore(PLACES), long: semaphore(LONG_PLACES) }
    }

    /// Runs `work` on a pool thread.
    ///
    /// # Errors
    /// Fails if the program is ending or the work panicked.
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<T> {
        let own = self.places.clone().acquire_owned().await.map_err(io::Error::other)?;
        run_at(own, work).await
    }

    /// Runs work that occupies a processor for long, unless `ahead` has its result by the time a
    /// place is free. Returns `None` if no place becomes free within 10 s.
    ///
    /// # Errors
    /// Fails like [`Pool::run`].
    pub async fn run_long<T: Send + 'static>(
        &self,
        ahead: impl FnOnce() -> Option<T>,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<Option<T>> {
        let place = timeout(LONG_PATIENCE, self.long.clone().acquire_owned());
        let Ok(own) = place.await else { return Ok(None) };
        let own = own.map_err(io::Error::other)?;
        match ahead() {
            Some(result) => Ok(Some(result)),
            None => run_at(own, work).await.map(Some),
        }
    }

    /// Returns whether all places for long-running work are taken.
    pub fn is_long_full(&self) -> bool {
        self.long.available_permits() == 0
    }
}

/// Runs `work`, which keeps its places until it ends, even if the caller is gone by then.
async fn run_at<T: Send + 'static>(
    own: OwnedSemaphorePermit,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    let place = ALL.clone().acquire_owned().await.map_err(io::Error::other)?;
    let work = move || {
        let _places = (own, place);
        work()
    };
    threads::run(work).await
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use super::*;

    /// Runs a thousand tasks and returns the largest number that ran at once.
    async fn most_at_once(long: bool) -> usize {
        let (pool, running) = (Pool::new(), Arc::new(AtomicUsize::new(0)));
        let most = Arc::new(AtomicUsize::new(0));
        let tasks = (0..1000).map(|_| {
            let (pool, running, most) = (pool.clone(), running.clone(), most.clone());
            let work = move || {
                most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                std::thread::sleep(Duration::from_micros(100));
                running.fetch_sub(1, Ordering::SeqCst);
            };
            tokio::spawn(async move {
                match long {
                    true => pool.run_long(|| None, work).await.map(drop),
                    false => pool.run(work).await,
                }
            })
        });
        for task in tasks.collect::<Vec<_>>() {
            task.await.unwrap().unwrap();
        }
        most.load(Ordering::SeqCst)
    }

    #[tokio::test]
    async fn work_waits_for_a_place() {
        assert!(most_at_once(false).await <= PLACES);
        assert!(most_at_once(true).await <= LONG_PLACES);
    }

    #[tokio::test]
    async fn abandoned_work_keeps_its_place_until_it_ends() {
        let (pool, gate) = (Pool::new(), Arc::new(std::sync::Barrier::new(LONG_PLACES + 1)));
        for _ in 0..LONG_PLACES {
            let gate = gate.clone();
            let work = pool.run_long(|| None, move || gate.wait().is_leader());
            // The work begins, then its future is dropped.
            assert!(tokio::time::timeout(Duration::from_millis(20), work).await.is_err());
        }
        assert_eq!(pool.long.available_permits(), 0);
        gate.wait();
        assert_eq!(pool.run_long(|| None, || true).await.unwrap(), Some(true));
    }
}
