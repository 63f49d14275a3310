//! The lock of a core. Workers share a core, and each operation takes its lock briefly; the hold
//! time limits how many workers a volume can serve. The lock therefore counts how often it is taken
//! and how often a thread waited for it, and times every 61st holder. Times are real time, also in
//! simulations, and influence no decision.

#![allow(
    clippy::disallowed_methods,
    reason = "waiting for the lock takes real time, also in a simulation"
)]

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use crate::core::Core;

/// One holder in this many is timed. A prime, so that operations that take the lock in a regular
/// order are all sampled.
const TIMED_ONE_IN: u32 = 61;

/// Upper bounds of the histogram of hold times, in nanoseconds.
const BOUNDS: [u64; 16] = [
    250, 500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 64_000, 125_000, 250_000, 500_000,
    1_000_000, 4_000_000, 16_000_000, 64_000_000,
];

/// The lock of a core, with statistics. See the module documentation.
pub(crate) struct CoreLock {
    inner: Mutex<Locked>,
    waits: AtomicU64,
    waited_ns: AtomicU64,
}

struct Locked {
    core: Core,
    taken: u64,
    until_timed: u32,
    times: HoldTimes,
}

/// Histogram of the timed hold times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct HoldTimes {
    counts: [u64; BOUNDS.len() + 1],
    sum_ns: u64,
}

impl HoldTimes {
    fn add(&mut self, time: Duration) {
        let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.counts[BOUNDS.partition_point(|&bound| bound < ns)] += 1;
        self.sum_ns = self.sum_ns.saturating_add(ns);
    }
}

/// Statistics of a lock since its volume was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockFigures {
    /// Number of times that it was taken.
    pub taken: u64,
    /// Number of times that a thread had to wait for it.
    pub waits: u64,
    /// Total waiting time.
    pub waited: Duration,
    times: HoldTimes,
}

impl LockFigures {
    /// Returns the histogram of hold times, of the timed holders (one in 61). Each item is an upper
    /// bound in nanoseconds and the number of holders between the previous bound and this one. The
    /// second value is the number of holders above the last bound.
    pub fn held(&self) -> (impl Iterator<Item = (u64, u64)>, u64) {
        (BOUNDS.into_iter().zip(self.times.counts), self.times.counts[BOUNDS.len()])
    }

    /// Returns the total hold time of the timed holders.
    pub fn held_sum(&self) -> Duration {
        Duration::from_nanos(self.times.sum_ns)
    }
}

impl CoreLock {
    pub(crate) fn new(core: Core) -> CoreLock {
        let times = HoldTimes::default();
        let inner = Mutex::new(Locked { core, taken: 0, until_timed: TIMED_ONE_IN, times });
        CoreLock { inner, waits: AtomicU64::new(0), waited_ns: AtomicU64::new(0) }
    }

    /// Locks the core. Panics if a thread panicked while holding it, because the core may be
    /// inconsistent.
    pub(crate) fn lock(&self) -> CoreGuard<'_> {
        let mut held = match self.inner.try_lock() {
            Ok(held) => held,
            Err(_) => self.wait(),
        };
        held.taken += 1;
        held.until_timed -= 1;
        let since = (held.until_timed == 0).then(Instant::now);
        if since.is_some() {
            held.until_timed = TIMED_ONE_IN;
        }
        CoreGuard { held, since }
    }

    #[cold]
    fn wait(&self) -> MutexGuard<'_, Locked> {
        let since = Instant::now();
        let held = self.inner.lock().expect("no thread panicked while it held the core");
        let ns = u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.waits.fetch_add(1, Ordering::Relaxed);
        self.waited_ns.fetch_add(ns, Ordering::Relaxed);
        held
    }

    /// Returns the statistics. The lock taken for this is not counted.
    pub(crate) fn figures(&self) -> LockFigures {
        let held = self.inner.lock().expect("no thread panicked while it held the core");
        LockFigures {
            taken: held.taken,
            waits: self.waits.load(Ordering::Relaxed),
            waited: Duration::from_nanos(self.waited_ns.load(Ordering::Relaxed)),
            times: held.times,
        }
    }
}

pub(crate) struct CoreGuard<'a> {
    held: MutexGuard<'a, Locked>,
    since: Option<Instant>,
}

impl Deref for CoreGuard<'_> {
    type Target = Core;

    fn deref(&self) -> &Core {
        &self.held.core
    }
}

impl DerefMut for CoreGuard<'_> {
    fn deref_mut(&mut self) -> &mut Core {
        &mut self.held.core
    }
}

impl Drop for CoreGuard<'_> {
    fn drop(&mut self) {
        if let Some(since) = self.since {
            self.held.times.add(since.elapsed());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_fall_below_their_bounds() {
        let mut times = HoldTimes::default();
        for ns in [0, 250, 251, 64_000_000, 64_000_001] {
            times.add(Duration::from_nanos(ns));
        }
        let figures = LockFigures { taken: 5, waits: 0, waited: Duration::ZERO, times };
        let (held, above) = figures.held();
        let held: Vec<_> = held.filter(|&(_, count)| count > 0).collect();
        assert_eq!((held, above), (vec![(250, 2), (500, 1), (64_000_000, 1)], 1));
        assert_eq!(figures.held_sum(), Duration::from_nanos(128_000_502));
    }
}
