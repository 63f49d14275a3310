//! Threads for work that may wait for a disk.
//!
//! Work is handed directly to the thread that became idle last, which is woken while no lock is
//! held. tokio wakes its threads while holding the lock that they take first. With one processor,
//! each woken thread found the lock taken and was switched away again, which took a fifth of the
//! time of a file's first response.
//!
//! Guarantees: work begins at once, on a thread of its own; the caller bounds the number of
//! threads. A thread that stays idle for long ends.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

/// The longest time that a thread stays idle.
const IDLE_MAX: Duration = Duration::from_secs(10);

/// The idle threads, most recent last.
static IDLE_THREADS: Mutex<Vec<Arc<PooledThread>>> = Mutex::new(Vec::new());

type Work = Box<dyn FnOnce() + Send>;

/// A thread, and its next work.
struct PooledThread {
    thread: Thread,
    work: Mutex<Option<Work>>,
}

/// Runs work on one of the threads.
///
/// # Errors
/// Fails if the system cannot start a thread or the work panicked.
pub(crate) async fn run<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    let (sender, receiver) = oneshot::channel();
    // The receiver may be gone.
    start(Box::new(move || drop(sender.send(work()))))?;
    receiver.await.map_err(io::Error::other)
}

fn start(work: Work) -> io::Result<()> {
    let idle = lock(&IDLE_THREADS).pop();
    let Some(pooled) = idle else {
        let thread = thread::Builder::new().name("file-reads".to_owned());
        return thread.spawn(move || serve(work)).map(drop);
    };
    *lock(&pooled.work) = Some(work);
    pooled.thread.unpark();
    Ok(())
}

/// Runs one piece of work after another.
fn serve(first: Work) {
    first();
    let pooled = Arc::new(PooledThread { thread: thread::current(), work: Mutex::new(None) });
    while let Some(work) = next(&pooled) {
        work();
    }
}

/// Waits for work; returns `None` after a long idle time.
fn next(pooled: &Arc<PooledThread>) -> Option<Work> {
    lock(&IDLE_THREADS).push(pooled.clone());
    let end = Instant::now() + IDLE_MAX;
    loop {
        thread::park_timeout(end.saturating_duration_since(Instant::now()));
        if let Some(work) = lock(&pooled.work).take() {
            return Some(work);
        }
        if Instant::now() >= end && is_forgotten(pooled) {
            return None;
        }
    }
}

/// Removes a thread from the idle ones. Returns false if it was already removed: work is on its
/// way.
fn is_forgotten(pooled: &Arc<PooledThread>) -> bool {
    let mut idle = lock(&IDLE_THREADS);
    let place = idle.iter().position(|other| Arc::ptr_eq(other, pooled));
    place.map(|place| idle.remove(place)).is_some()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No code panics while it holds this lock.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[tokio::test]
    async fn work_is_done_by_threads_that_rested_and_a_panic_is_an_error() {
        let mut threads = HashSet::new();
        for number in 0..200 {
            let (thread, twice) = run(move || (thread::current().id(), 2 * number)).await.unwrap();
            threads.insert(thread);
            assert_eq!(twice, 2 * number);
        }
        // A thread may not be idle yet when the next work comes.
        assert!(threads.len() < 100, "{}", threads.len());
        let error = run(|| -> u8 { panic!("as it is to") }).await;
        assert!(error.is_err());
        assert_eq!(run(|| 7).await.unwrap(), 7);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn many_pieces_of_work_run_at_once() {
        let gate = Arc::new(std::sync::Barrier::new(50));
        let tasks: Vec<_> = (0..50)
            .map(|number| {
                let gate = gate.clone();
                tokio::spawn(run(move || {
                    gate.wait();
                    number
                }))
            })
            .collect();
        for (number, task) in tasks.into_iter().enumerate() {
            assert_eq!(task.await.unwrap().unwrap(), number);
        }
    }
}
