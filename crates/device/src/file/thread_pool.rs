//! A pool of threads that perform the operations on one file where io_uring is refused.
//!
//! Guarantees: a job that the pool has begun runs to its end, even if its future is dropped.
//! Dropping the pool waits for its jobs, but only for 2 s, so that a hanging device cannot block
//! the exit.

use std::collections::VecDeque;
use std::fs::File;
use std::future::poll_fn;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::transfer::counters::Counters;
use crate::transfer::payload::Payload;

/// Threads per file: enough to keep a drive busy, few enough to cost nothing when idle.
const THREADS: usize = 8;
/// Threads that may read at a time. Hanging reads leave the others for writes.
const READERS: usize = 6;

/// Number of steps for which dropping a pool waits for its jobs.
const DRAIN_STEPS: u32 = 1_000;
const DRAIN_STEP: Duration = Duration::from_millis(2);

/// The threads that serve one file.
pub(crate) struct Pool {
    queue: Arc<Queue>,
    threads: Vec<JoinHandle<()>>,
}

/// The operations that wait for a thread.
#[derive(Default)]
pub(crate) struct Queue {
    jobs: Mutex<Jobs>,
    changed: Condvar,
}

#[derive(Default)]
struct Jobs {
    reads: VecDeque<Job>,
    /// Writes and flushes.
    writes: VecDeque<Job>,
    /// Number of threads that are reading.
    reading: usize,
    closing: bool,
}

impl Jobs {
    fn push(&mut self, job: Job) {
        if !job.is_read() {
            return self.writes.push_back(job);
        }
        // Abandoned reads would otherwise pile up behind reads that hang.
        while let Some(job) = self.reads.pop_front_if(|job| job.is_abandoned()) {
            job.counters.abandon();
        }
        self.reads.push_back(job);
    }

    /// Takes the next job that a thread may begin.
    fn pop(&mut self) -> Option<Job> {
        if let Some(job) = self.writes.pop_front() {
            return Some(job);
        }
        let job = if self.reading < READERS { self.reads.pop_front() } else { None };
        self.reading += usize::from(job.is_some());
        job
    }
}

struct Job {
    file: Arc<File>,
    counters: Arc<Counters>,
    offset: u64,
    payload: Payload,
    answer: Arc<Mutex<Answer>>,
}

enum Answer {
    Pending(Option<Waker>),
    Ready(Payload, io::Result<()>),
    Taken,
}

impl Pool {
    /// Starts the threads. Fails if the system does not allow a single one.
    pub fn start() -> io::Result<Pool> {
        let mut pool = Pool { queue: Arc::default(), threads: Vec::new() };
        for index in 0..THREADS {
            let queue = pool.queue.clone();
            let thread = std::thread::Builder::new().name(format!("device-{index}"));
            match thread.spawn(move || queue.serve()) {
                Ok(thread) => pool.threads.push(thread),
                Err(_) if index > 0 => break, // fewer threads also work, only slower
                Err(error) => return Err(error),
            }
        }
        Ok(pool)
    }

    /// Returns the queue that the threads serve.
    pub fn queue(&self) -> &Arc<Queue> {
        &self.queue
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        lock(&self.queue.jobs).closing = true;
        self.queue.changed.notify_all();
        let ended = |threads: &[JoinHandle<()>]| threads.iter().all(JoinHandle::is_finished);
        for _ in 0..DRAIN_STEPS {
            if ended(&self.threads) {
                break;
            }
            std::thread::sleep(DRAIN_STEP);
        }
        // A job owns its buffer and its file, so remaining jobs can continue on their own.
    }
}

impl Queue {
    /// Performs an operation on one of the threads.
    pub async fn perform(
        &self,
        file: Arc<File>,
        counters: Arc<Counters>,
        offset: u64,
        payload: Payload,
    ) -> (Payload, io::Result<()>) {
        let answer = Arc::new(Mutex::new(Answer::Pending(None)));
        let job = Job { file, counters, offset, payload, answer: answer.clone() };
        lock(&self.jobs).push(job);
        self.changed.notify_one();
        poll_fn(|context| {
            let mut answer = lock(&answer);
            if let Answer::Pending(waker) = &mut *answer {
                *waker = Some(context.waker().clone());
                return Poll::Pending;
            }
            match std::mem::replace(&mut *answer, Answer::Taken) {
                Answer::Ready(payload, result) => Poll::Ready((payload, result)),
                _ => unreachable!("polled after its end"),
            }
        })
        .await
    }

    fn serve(&self) {
        while let Some(job) = self.next() {
            let is_read = job.is_read();
            job.run();
            if is_read {
                lock(&self.jobs).reading -= 1;
                self.changed.notify_one();
            }
        }
    }

    fn next(&self) -> Option<Job> {
        let mut jobs = lock(&self.jobs);
        loop {
            if let Some(job) = jobs.pop() {
                return Some(job);
            }
            if jobs.closing {
                return None;
            }
            jobs = self.changed.wait(jobs).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Job {
    fn is_read(&self) -> bool {
        matches!(self.payload, Payload::Read(_))
    }

    /// Returns whether the caller's future was dropped.
    fn is_abandoned(&self) -> bool {
        Arc::strong_count(&self.answer) == 1
    }

    fn run(mut self) {
        let result = match &mut self.payload {
            Payload::Read(buf) => self.file.read_exact_at(buf, self.offset),
            Payload::Write(buf) => self.file.write_all_at(buf, self.offset),
            Payload::Flush => self.file.sync_data(),
        };
        self.counters.end(self.payload.operation(), self.payload.len() as u64, &result);
        // Drop the file first: once the result is set, the caller may close and reopen it.
        drop(self.file);
        let mut answer = lock(&self.answer);
        let before = std::mem::replace(&mut *answer, Answer::Ready(self.payload, result));
        drop(answer);
        if let Answer::Pending(Some(waker)) = before {
            waker.wake();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No code under these locks can panic halfway.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::IoBuf;

    fn job(payload: Payload, answer: &Arc<Mutex<Answer>>) -> Job {
        let file = Arc::new(File::open("/dev/null").expect("there is one"));
        Job { file, counters: Arc::default(), offset: 0, payload, answer: answer.clone() }
    }

    #[test]
    fn reads_that_hang_leave_threads_to_writes_and_those_given_up_do_not_pile_up() {
        let (mut jobs, answer) = (Jobs::default(), Arc::new(Mutex::new(Answer::Pending(None))));
        let read = || Payload::Read(IoBuf::zeroed(512));
        for _ in 0..=READERS {
            jobs.push(job(read(), &answer));
        }
        jobs.push(job(Payload::Flush, &answer));
        assert!(jobs.pop().is_some_and(|job| !job.is_read()), "writes first");
        let begun: Vec<_> = std::iter::from_fn(|| jobs.pop()).collect();
        assert_eq!((begun.len(), jobs.reads.len()), (READERS, 1));
        drop((begun, answer));
        let answer = Arc::new(Mutex::new(Answer::Pending(None)));
        jobs.push(job(read(), &answer));
        assert_eq!(jobs.reads.len(), 1, "the caller of the other one is gone");
        jobs.push(job(Payload::Flush, &answer));
        assert!(jobs.pop().is_some() && jobs.pop().is_none());
    }
}
