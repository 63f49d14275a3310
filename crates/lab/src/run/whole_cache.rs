//! Whole caches under a stream of requests on one simulated drive, in virtual time: the product's
//! engine, and other people's systems, alike.
//!
//! A request is looked up; what is missing is stored, and so is what has changed since it was
//! stored. Requests are answered one after another, as in the papers' simulators; the engine's
//! background runs beside them. What a request costs is told in two ways: the *disk time* that the
//! drive worked from its arrival to the arrival of the next one (reads, writes, and what was
//! written in the background for it), whose sum is the total disk latency; and the time that its
//! client *waited*.
//!
//! It promises: equal systems, drives and requests give equal figures, on every machine.

mod accelerated;
mod engine;
mod figures;
mod files;
mod machine;

use std::fmt;

use device::{Clock, Nanos};

pub use accelerated::Accelerated;
pub use engine::{EngineCache, EngineOptions, Shape};
pub use figures::{Figures, Histogram, Outcomes};
pub use files::FilesCache;
pub use machine::{DriveTime, Machine, Region, Usage};
use workload::request::{Method, Request};

const MILLISECOND: Nanos = 1_000_000;

/// What came of a request (C12).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Not found; stored.
    Miss,
    /// Found in memory, and current.
    MemoryHit,
    /// Found in memory, out of date; the new version stored.
    MemoryStale,
    /// Found on the disk, and current.
    DiskHit,
    /// Found on the disk, out of date; the new version stored.
    DiskStale,
    /// Not found, and not stored: too large, or no room.
    Refused,
}

impl Outcome {
    /// All, in the order in which they are counted.
    pub const ALL: [Outcome; 6] = [
        Outcome::Miss,
        Outcome::MemoryHit,
        Outcome::MemoryStale,
        Outcome::DiskHit,
        Outcome::DiskStale,
        Outcome::Refused,
    ];
}

/// A whole cache.
pub trait WebCache {
    /// Answers a request for an object that may be stored.
    ///
    /// # Errors
    /// The cache is broken.
    fn answer(&self, request: &Request) -> impl Future<Output = Result<Outcome, CacheError>>;

    /// Objects that came into memory beside one that was asked for, and those of them that were
    /// asked for later, so far.
    fn prefetched(&self) -> (u64, u64) {
        (0, 0)
    }
}

/// A cache came to an end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheError(pub String);

impl fmt::Display for CacheError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for CacheError {}

/// When requests come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// When they say, but not before the one before them has its answer.
    Stated,
    /// So many nanoseconds after one another, but not before the one before has its answer.
    Every(Nanos),
    /// As soon as the one before them has its answer.
    AtOnce,
}

/// How requests are sent, and which are counted.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The first requests, which warm the cache up and are not counted.
    pub warm_up: u64,
    /// When they come.
    pub pace: Pace,
}

/// Sends `requests` to `cache`. Those that no cache may answer are left out.
///
/// # Errors
/// The cache is broken, or hangs.
pub fn run<S: WebCache>(
    machine: &Machine,
    cache: &S,
    requests: impl Iterator<Item = Request>,
    plan: &Plan,
) -> Result<Figures, CacheError> {
    let kept = requests.filter(|request| request.method == Method::Get && !request.uncacheable);
    machine.run(send(machine, cache, kept, plan))?
}

async fn send<S: WebCache>(
    machine: &Machine,
    cache: &S,
    requests: impl Iterator<Item = Request>,
    plan: &Plan,
) -> Result<Figures, CacheError> {
    let clock = machine.clock();
    let mut figures = Figures::default();
    let mut before = (machine.usage(), cache.prefetched(), clock.now());
    let mut pace = Pacing::new(plan.pace, clock.now());
    // Of the request that is under way: the drive's time when it came, and how long it waited.
    let mut last: Option<(Nanos, Nanos)> = None;
    for (number, request) in (0_u64..).zip(requests) {
        let arrival = pace.arrival(&request);
        if arrival > clock.now() {
            clock.sleep_until(arrival).await;
        }
        let busy = machine.usage().busy();
        if let Some((began, waited)) = last.take() {
            figures.time(busy - began, waited);
        }
        let counted = number >= plan.warm_up;
        if number == plan.warm_up {
            before = (machine.usage(), cache.prefetched(), clock.now());
        }
        let began = clock.now();
        let outcome = cache.answer(&request).await?;
        if counted {
            figures.outcome(outcome, request.size);
            last = Some((busy, clock.now() - began));
        }
    }
    if let Some((began, waited)) = last {
        figures.time(machine.usage().busy() - began, waited);
    }
    let (prefetched, hits) = cache.prefetched();
    figures.usage = machine.usage().since(&before.0);
    figures.prefetched = prefetched - before.1.0;
    figures.prefetch_hits = hits - before.1.1;
    figures.elapsed = clock.now() - before.2;
    Ok(figures)
}

/// Says when requests come.
struct Pacing {
    pace: Pace,
    next: Nanos,
    /// What the first request's time is in the time of the run.
    zero: Option<(u64, Nanos)>,
}

impl Pacing {
    fn new(pace: Pace, now: Nanos) -> Pacing {
        Pacing { pace, next: now, zero: None }
    }

    fn arrival(&mut self, request: &Request) -> Nanos {
        match self.pace {
            Pace::AtOnce => {}
            Pace::Every(interval) => self.next += interval,
            Pace::Stated => {
                let (first, start) = *self.zero.get_or_insert((request.time_ms, self.next));
                let since = request.time_ms.saturating_sub(first);
                self.next = self.next.max(start + since * MILLISECOND);
            }
        }
        self.next
    }
}

#[cfg(test)]
mod tests;
