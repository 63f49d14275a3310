//! Threads for work that may wait for a disk.
//!
//! Work goes from hand to hand: the thread that rested last gets it and is woken when no lock is
//! held. tokio's threads are woken under the lock that they take first: with one processor, each
//! was switched to, found the lock taken, and was switched away again, which took a fifth of the
//! time of a file's first answer.
//!
//! It promises: work begins at once, on a thread of its own; whoever calls bounds how many there
//! are. A thread that rests for long ends.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

/// The longest rest of a thread.
const REST: Duration = Duration::from_secs(10);

/// The threads that rest, the last one last.
static RESTING: Mutex<Vec<Arc<Seat>>> = Mutex::new(Vec::new());

type Work = Box<dyn FnOnce() + Send>;

/// A thread, and what it is to do next.
struct Seat {
    thread: Thread,
    work: Mutex<Option<Work>>,
}

/// Runs work on one of the threads.
///
/// # Errors
/// The system has no thread left, or the work panicked.
pub(crate) async fn run<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    let (sender, receiver) = oneshot::channel();
    // Nobody may wait for it any more.
    start(Box::new(move || drop(sender.send(work()))))?;
    receiver.await.map_err(io::Error::other)
}

fn start(work: Work) -> io::Result<()> {
    let rested = lock(&RESTING).pop();
    let Some(seat) = rested else {
        let thread = thread::Builder::new().name("file-reads".to_owned());
        return thread.spawn(move || serve(work)).map(drop);
    };
    *lock(&seat.work) = Some(work);
    seat.thread.unpark();
    Ok(())
}

/// Does one piece of work after another.
fn serve(first: Work) {
    first();
    let seat = Arc::new(Seat { thread: thread::current(), work: Mutex::new(None) });
    while let Some(work) = next(&seat) {
        work();
    }
}

/// Rests until there is work; `None` after a long rest.
fn next(seat: &Arc<Seat>) -> Option<Work> {
    lock(&RESTING).push(seat.clone());
    let end = Instant::now() + REST;
    loop {
        thread::park_timeout(end.saturating_duration_since(Instant::now()));
        if let Some(work) = lock(&seat.work).take() {
            return Some(work);
        }
        if Instant::now() >= end && is_forgotten(seat) {
            return None;
        }
    }
}

/// Takes a thread out of those that rest. Returns false when it is out already: work is on its way.
fn is_forgotten(seat: &Arc<Seat>) -> bool {
    let mut resting = lock(&RESTING);
    let place = resting.iter().position(|other| Arc::ptr_eq(other, seat));
    place.map(|place| resting.remove(place)).is_some()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing panics under it.
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
        // One may still be on its way to its rest when the next piece of work comes.
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
