//! Whole caches under a stream of requests on one simulated drive, in virtual time: the product's
//! engine and other systems alike.
//!
//! A request is looked up; a missing or changed object is stored. Requests are served one after
//! another, as in the papers' simulators; the engine's background runs concurrently. The cost of a
//! request is measured in two ways. *Disk time* is the time that the drive was busy from its
//! arrival to the arrival of the next request (reads, writes, and background writes); its sum is
//! the total disk latency. The second measure is the time that its client *waited*.
//!
//! Guarantees: equal systems, drives and requests give equal figures, on every machine.

mod accelerated;
mod clients;
mod engine;
mod figures;
mod files;
mod machine;

use device::{Clock, Nanos};

pub use accelerated::Accelerated;
pub use clients::Clients;
pub use engine::{EngineCache, EngineOptions, Shape};
pub use figures::{Figures, Histogram, Outcomes};
pub use files::FilesCache;
pub use machine::{DriveTime, Machine, Region, Usage};
use workload::request::{Method, Request};

const MILLISECOND: Nanos = 1_000_000;

/// The outcome of a request (C12).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Not found, now stored.
    Miss,
    /// Found in memory and current.
    MemoryHit,
    /// Found in memory but out of date; the new version is stored.
    MemoryStale,
    /// Found on the disk and current.
    DiskHit,
    /// Found on the disk but out of date; the new version is stored.
    DiskStale,
    /// Not found and not stored: too large, or no space.
    Refused,
}

impl Outcome {
    /// All outcomes, in the order in which they are counted.
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
    /// Serves a request for an object that may be stored.
    ///
    /// # Errors
    /// The cache failed.
    fn answer(&self, request: &Request) -> impl Future<Output = Result<Outcome, CacheError>>;

    /// Returns the number of objects so far that entered memory along with a requested one, and the
    /// number of those that were requested later.
    fn prefetched(&self) -> (u64, u64) {
        (0, 0)
    }
}

/// The cache failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct CacheError(pub String);

/// When requests come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// At the requests' own times, but not before the previous response.
    Stated,
    /// At intervals of this many nanoseconds, but not before the previous response.
    Every(Nanos),
    /// Immediately after the previous response.
    AtOnce,
}

/// How requests are sent, and which are counted.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Number of initial requests that warm up the cache and are not counted.
    pub warm_up: u64,
    /// When requests come.
    pub pace: Pace,
}

/// Sends `requests` to `cache`; uncacheable ones are skipped.
///
/// # Errors
/// The cache failed or hangs.
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
    // For the current request: the drive's busy time at its arrival, and how long it waited.
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

/// Computes when requests come.
struct Pacing {
    pace: Pace,
    next: Nanos,
    /// The first request's time, and the corresponding time of the run.
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
