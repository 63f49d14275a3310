//! Drives a space manager with the operations that a workload causes behind a two-level cache, and
//! measures their time.
//!
//! Only the manager's time counts: the clock is stopped while requests are generated, bodies made
//! and contents checked. A memory hit costs nothing. In virtual time this holds without a stopped
//! clock.

use std::cell::Cell;
use std::collections::HashSet;
use std::future::{Future, poll_fn};
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use device::{Clock, Nanos};
use futures_util::stream::{FuturesUnordered, StreamExt};

use crate::space::manager::{Calls, Read, SpaceError, SpaceManager, Stored};
use workload::contents;
use workload::request::{Object, Request};
use workload::two_level::{CacheCounts, Operation, TwoLevel};

/// Number of requests between two calls of the progress callback.
const PROGRESS_EVERY: u64 = 256;

/// Options of a replay.
#[derive(Clone, Copy, Debug)]
pub struct ReplayOptions {
    /// Maximum number of operations in flight, at least 1. The papers: 1.
    pub outstanding: usize,
    /// Number of operations after which the run ends; the current request is completed.
    pub operations: Option<u64>,
}

impl Default for ReplayOptions {
    fn default() -> ReplayOptions {
        ReplayOptions { outstanding: 1, operations: None }
    }
}

/// The progress of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Preparations before the first request.
    Preparing,
    /// This many requests are done.
    Requests(u64),
    /// Everything is being written to the disk.
    Finishing,
    /// The run's files are being removed.
    Removing,
}

/// The results of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Counts of the two caches.
    pub cache: CacheCounts,
    /// Number of objects stored and kept.
    pub stores: u64,
    /// Bytes stored.
    pub stored_bytes: u64,
    /// Number of objects that the manager refused.
    pub refused: u64,
    /// Number of objects read.
    pub reads: u64,
    /// Bytes read whose contents were verified.
    pub checked_bytes: u64,
    /// Number of objects deleted.
    pub deletes: u64,
    /// Number of reads of objects that the manager had evicted or refused.
    pub gone: u64,
    /// Calls of the manager to the file system or device, except for its preparations.
    pub calls: Calls,
    /// Time of all operations.
    pub operations_time: Duration,
    /// Time of writing everything to the disk at the end.
    pub finish_time: Duration,
}

impl Report {
    /// Returns the completion time: until everything is on the disk.
    pub fn time(&self) -> Duration {
        self.operations_time + self.finish_time
    }

    /// Returns the papers' measure: requests, memory hits included, divided by the completion time
    /// of the disk operations.
    pub fn gets_per_second(&self) -> f64 {
        self.cache.gets as f64 / self.time().as_secs_f64()
    }

    /// Returns the number of operations of the manager.
    pub fn operations(&self) -> u64 {
        self.stores + self.refused + self.reads + self.gone + self.deletes
    }
}

/// Replays `requests` through `cache` into `manager`, and finishes it. Calls `progress` from time
/// to time.
///
/// # Errors
/// The manager failed or returned wrong contents.
pub async fn replay<M: SpaceManager, C: Clock>(
    manager: &M,
    clock: &C,
    requests: impl Iterator<Item = Request>,
    cache: &mut TwoLevel,
    options: &ReplayOptions,
    mut progress: impl FnMut(Stage),
) -> Result<Report, SpaceError> {
    let before = manager.calls();
    let watch = Stopwatch::new(clock);
    let tally = Cell::new(Report::default());
    let mut in_flight = InFlight::new(options.outstanding);
    let mut operations = Vec::new();
    for (number, request) in requests.enumerate() {
        if (number as u64).is_multiple_of(PROGRESS_EVERY) {
            progress(Stage::Requests(number as u64));
        }
        cache.request(&request, &mut operations);
        for operation in operations.drain(..) {
            // Bodies are made while the clock is stopped.
            let body = match &operation {
                Operation::Store(object) => contents::body(object),
                _ => Bytes::new(),
            };
            let work = carry_out(manager, operation, body, &tally, &watch);
            watch.go_on();
            in_flight.begin(operation.object().id, work).await?;
            watch.pause();
        }
        if options.operations.is_some_and(|most| tally.get().operations() >= most) {
            break;
        }
    }
    watch.go_on();
    in_flight.drain().await?;
    watch.pause();
    let operations_time = watch.shown();
    progress(Stage::Finishing);
    watch.go_on();
    manager.finish().await?;
    watch.pause();
    let finish_time = watch.shown() - operations_time;
    let calls = manager.calls() - before;
    Ok(Report { cache: cache.counts(), calls, operations_time, finish_time, ..tally.get() })
}

async fn carry_out<M: SpaceManager, C: Clock>(
    manager: &M,
    operation: Operation,
    body: Bytes,
    tally: &Cell<Report>,
    watch: &Stopwatch<'_, C>,
) -> Result<u32, SpaceError> {
    let count = |add: &dyn Fn(&mut Report)| {
        let mut report = tally.get();
        add(&mut report);
        tally.set(report);
    };
    match operation {
        Operation::Store(object) => match manager.store(&object, body).await? {
            Stored::Kept => count(&|report| {
                report.stores += 1;
                report.stored_bytes += object.size;
            }),
            Stored::Refused(_) => count(&|report| report.refused += 1),
        },
        Operation::Read(object) => match manager.read(&object).await? {
            Read::Body(parts) => {
                watch.pause();
                let checked = check(&object, &parts);
                watch.go_on();
                checked?;
                count(&|report| {
                    report.reads += 1;
                    report.checked_bytes += object.size;
                });
            }
            Read::Unseen => count(&|report| report.reads += 1),
            Read::Gone => count(&|report| report.gone += 1),
        },
        Operation::Delete(object) => {
            manager.delete(&object).await?;
            count(&|report| report.deletes += 1);
        }
    }
    Ok(operation.object().id)
}

/// Compares a body that was read with the one stored.
///
/// # Errors
/// [`SpaceError::Wrong`] with the first position that differs.
pub fn check(object: &Object, parts: &[Bytes]) -> Result<(), SpaceError> {
    let mut at = 0;
    for part in parts {
        if let Some(position) = contents::first_wrong(object, at, part) {
            return Err(SpaceError::Wrong { object: *object, position });
        }
        at += part.len() as u64;
    }
    if at != object.size {
        return Err(SpaceError::Wrong { object: *object, position: at.min(object.size) });
    }
    Ok(())
}

/// Operations in flight: at most `most`, one per object; those of one object run in order.
struct InFlight<F> {
    most: usize,
    running: FuturesUnordered<F>,
    objects: HashSet<u32>,
}

impl<F: Future<Output = Result<u32, SpaceError>>> InFlight<F> {
    fn new(most: usize) -> Self {
        InFlight { most: most.max(1), running: FuturesUnordered::new(), objects: HashSet::new() }
    }

    /// Begins the operation on object `id`; returns when another one may begin.
    async fn begin(&mut self, id: u32, work: F) -> Result<(), SpaceError> {
        while self.objects.contains(&id) {
            self.end_one().await?;
        }
        self.objects.insert(id);
        self.running.push(work);
        while self.running.len() >= self.most {
            self.end_one().await?;
        }
        // Starts the operation: a future does nothing before it is polled.
        let ended = poll_fn(|context| Poll::Ready(self.running.poll_next_unpin(context))).await;
        match ended {
            Poll::Ready(Some(ended)) => self.ended(ended),
            _ => Ok(()),
        }
    }

    async fn drain(&mut self) -> Result<(), SpaceError> {
        while !self.running.is_empty() {
            self.end_one().await?;
        }
        Ok(())
    }

    async fn end_one(&mut self) -> Result<(), SpaceError> {
        match self.running.next().await {
            Some(ended) => self.ended(ended),
            None => Ok(()),
        }
    }

    fn ended(&mut self, ended: Result<u32, SpaceError>) -> Result<(), SpaceError> {
        self.objects.remove(&ended?);
        Ok(())
    }
}

/// A clock that can be stopped.
struct Stopwatch<'a, C: Clock> {
    clock: &'a C,
    /// When it was started; `None` while it is stopped.
    since: Cell<Option<Nanos>>,
    before: Cell<Nanos>,
}

impl<'a, C: Clock> Stopwatch<'a, C> {
    fn new(clock: &'a C) -> Self {
        Stopwatch { clock, since: Cell::new(None), before: Cell::new(0) }
    }

    fn go_on(&self) {
        self.since.set(Some(self.clock.now()));
    }

    fn pause(&self) {
        if let Some(since) = self.since.take() {
            self.before.set(self.before.get() + self.clock.now() - since);
        }
    }

    fn shown(&self) -> Duration {
        Duration::from_nanos(self.before.get())
    }
}
