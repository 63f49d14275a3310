//! The windows of all running fills together: bodies in memory on their way to clients.
//!
//! It bounds the memory that fetches with slow clients or stalled origins take, and shares it out
//! by site. A window shrinks to what the store cannot give back when half of the memory is used and
//! its site uses more than its share. Beyond the limit fills end: of the site with the most bytes
//! those that make no progress, the largest first. A fetch may always begin, so whether requests
//! share fetches does not depend on the memory.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::Waker;
use std::time::{Duration, Instant};

use net::clock::TokioClock;

use crate::observe::metrics::{Samples, Source};

/// Counters of sites. Sites whose hashes meet in one share it.
const SITES: usize = 256;
/// Fills with windows of at most so many bytes never end for the memory that they take.
const SMALL: u64 = 16 * 1024;
/// Nor do those with windows of at most so many bytes that make progress.
const MODERATE: u64 = 64 * 1024;
/// Time between two searches for fills without progress.
const SEARCH_INTERVAL: Duration = Duration::from_secs(1);

/// Bytes in windows, shared by all workers.
pub(crate) struct FillBudget {
    limit: u64,
    clock: TokioClock,
    bytes: AtomicU64,
    sites: [AtomicU64; SITES],
    /// Counters that are not zero.
    active: AtomicUsize,
    hasher: RandomState,
    large: Mutex<LargeWindows>,
    ended: AtomicU64,
}

/// The windows that have been larger than [`SMALL`].
#[derive(Default)]
struct LargeWindows {
    shares: Vec<Weak<WindowShare>>,
    searched: Option<Instant>,
}

impl FillBudget {
    /// Makes a budget of about `limit` bytes.
    pub fn new(limit: u64, clock: TokioClock) -> FillBudget {
        FillBudget {
            limit,
            clock,
            bytes: AtomicU64::new(0),
            sites: [const { AtomicU64::new(0) }; SITES],
            active: AtomicUsize::new(0),
            hasher: RandomState::new(),
            large: Mutex::default(),
            ended: AtomicU64::new(0),
        }
    }

    /// Returns an empty share for a fill of `site`, which is any hash of its name.
    pub fn share(self: &Arc<Self>, site: u64) -> Arc<WindowShare> {
        Arc::new(WindowShare {
            budget: self.clone(),
            site: self.hasher.hash_one(site) as usize % SITES,
            counted: AtomicU64::new(0),
            progress: AtomicU64::new(0),
            seen: AtomicU64::new(u64::MAX),
            is_listed: AtomicBool::new(false),
            is_ended: AtomicBool::new(false),
            task: Mutex::default(),
        })
    }

    /// Returns whether the limit is reached: work that no client waits for should not begin.
    pub fn is_full(&self) -> bool {
        self.bytes.load(Ordering::Relaxed) >= self.limit
    }

    fn site_bytes(&self, site: usize) -> u64 {
        self.sites[site].load(Ordering::Relaxed)
    }

    /// Returns whether windows of `site` should shrink: half of the memory is used, and the site
    /// uses more than its share of that half.
    fn is_crowded(&self, site: usize) -> bool {
        let (bytes, half) = (self.bytes.load(Ordering::Relaxed), self.limit / 2);
        let active = self.active.load(Ordering::Relaxed).max(1) as u64;
        bytes >= self.limit || (bytes >= half && self.site_bytes(site) >= half / active)
    }

    fn count(&self, site: usize, before: u64, after: u64) {
        if before == after {
            return;
        }
        self.bytes.fetch_add(after, Ordering::Relaxed);
        self.bytes.fetch_sub(before, Ordering::Relaxed);
        let old = self.sites[site].fetch_add(after.wrapping_sub(before), Ordering::Relaxed);
        let new = old.wrapping_add(after).wrapping_sub(before);
        if old == 0 {
            self.active.fetch_add(1, Ordering::Relaxed);
        } else if new == 0 {
            self.active.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Ends fills until the windows of those that go on fit, when the limit is reached. At most one
    /// search per [`SEARCH_INTERVAL`] looks for fills without progress, unless twice the limit is
    /// reached: then progress does not count.
    fn relieve(&self, now: Instant) {
        let bytes = self.bytes.load(Ordering::Relaxed);
        if bytes < self.limit {
            return;
        }
        let is_urgent = bytes >= self.limit.saturating_mul(2);
        let mut large = self.large.lock().unwrap_or_else(PoisonError::into_inner);
        let is_recent = large.searched.is_some_and(|at| now.duration_since(at) < SEARCH_INTERVAL);
        if is_recent && !is_urgent {
            return;
        }
        large.searched = Some(now);
        large.shares.retain(|share| share.strong_count() > 0);
        let shares: Vec<_> = large.shares.iter().filter_map(Weak::upgrade).collect();
        drop(large);
        let is_in_the_way = |share: &&Arc<WindowShare>| {
            share.is_stalled() || (is_urgent && share.counted() > MODERATE)
        };
        let stalled = shares.iter().filter(is_in_the_way);
        let mut windows: Vec<_> = stalled.filter(|share| !share.is_ended()).collect();
        windows.sort_by_cached_key(|share| {
            std::cmp::Reverse((self.site_bytes(share.site), share.site, share.counted()))
        });
        let mut excess = bytes.saturating_sub(self.limit / 4 * 3);
        for share in windows {
            if excess == 0 {
                break;
            }
            excess = excess.saturating_sub(share.counted());
            share.end();
            self.ended.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn list(&self, share: &Arc<WindowShare>) {
        let mut large = self.large.lock().unwrap_or_else(PoisonError::into_inner);
        if large.shares.len() == large.shares.capacity() {
            large.shares.retain(|share| share.strong_count() > 0);
        }
        large.shares.push(Arc::downgrade(share));
    }
}

/// The bytes that one window has of the budget.
pub(crate) struct WindowShare {
    budget: Arc<FillBudget>,
    site: usize,
    counted: AtomicU64,
    /// Bytes that came or were taken by a reader.
    progress: AtomicU64,
    /// The progress at the last search for fills without any.
    seen: AtomicU64,
    is_listed: AtomicBool,
    is_ended: AtomicBool,
    /// The fill's task, where it waits.
    task: Mutex<Option<Waker>>,
}

impl WindowShare {
    /// Counts the bytes that the window occupies now. Returns whether that is more than before.
    pub fn set(self: &Arc<Self>, bytes: u64) -> bool {
        let before = self.counted.swap(bytes, Ordering::Relaxed);
        self.budget.count(self.site, before, bytes);
        if bytes > SMALL && !self.is_listed.swap(true, Ordering::Relaxed) {
            self.budget.list(self);
        }
        bytes > before
    }

    /// Notes bytes that came or were taken by a reader.
    pub fn advance(&self, bytes: u64) {
        self.progress.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Ends fills that make no progress, this one perhaps, when there is no memory left.
    pub fn relieve(&self) {
        if self.budget.is_full() {
            self.budget.relieve(self.budget.clock.instant());
        }
    }

    /// Returns how many bytes the window may keep: `most`, or `least` when memory is scarce and its
    /// site has its share.
    pub fn keep(&self, least: u64, most: u64) -> u64 {
        if self.budget.is_crowded(self.site) { least } else { most.max(least) }
    }

    /// Returns whether the fill is to end for the memory that it takes.
    pub fn is_ended(&self) -> bool {
        self.is_ended.load(Ordering::Relaxed)
    }

    /// Sets the waker of the fill's task.
    pub fn set_task(&self, waker: &Waker) {
        let mut task = self.task.lock().unwrap_or_else(PoisonError::into_inner);
        if !task.as_ref().is_some_and(|task| task.will_wake(waker)) {
            *task = Some(waker.clone());
        }
    }

    /// Wakes the fill's task.
    pub fn wake_task(&self) {
        let task = self.task.lock().unwrap_or_else(PoisonError::into_inner).take();
        task.into_iter().for_each(Waker::wake);
    }

    fn counted(&self) -> u64 {
        self.counted.load(Ordering::Relaxed)
    }

    /// Returns whether it is large and has made no progress since the last call.
    fn is_stalled(&self) -> bool {
        let progress = self.progress.load(Ordering::Relaxed);
        self.seen.swap(progress, Ordering::Relaxed) == progress && self.counted() > SMALL
    }

    fn end(&self) {
        self.is_ended.store(true, Ordering::Relaxed);
        self.wake_task();
    }
}

impl Drop for WindowShare {
    fn drop(&mut self) {
        self.budget.count(self.site, self.counted(), 0);
    }
}

/// The metrics of the windows.
pub(crate) struct WindowFigures(pub Arc<FillBudget>);

impl Source for WindowFigures {
    fn samples(&self, out: &mut Samples) {
        let bytes = self.0.bytes.load(Ordering::Relaxed);
        let help = "Bytes of bodies in the windows of running fetches, part of `memory`.";
        out.gauge("larder_fill_window_bytes", help, &[], bytes);
        let ended = self.0.ended.load(Ordering::Relaxed);
        let help = "Fetches without progress that ended because the windows had no memory left.";
        out.counter("larder_fills_ended_for_memory", help, &[], ended);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const K: u64 = 1024;

    #[test]
    fn the_windows_of_the_site_that_uses_most_shrink() {
        let budget = Arc::new(FillBudget::new(1000 * K, TokioClock::system()));
        let (a, b) = (budget.share(1), budget.share(2));
        assert_eq!(a.keep(10, 100), 100);
        a.set(460 * K);
        b.set(30 * K);
        assert_eq!((a.keep(10, 100), b.keep(10, 100)), (100, 100));
        b.set(40 * K);
        assert_eq!((a.keep(10, 100), b.keep(10, 100)), (10, 100));
        a.set(960 * K);
        assert_eq!((a.keep(10, 100), b.keep(10, 100)), (10, 10));
        drop(a);
        assert_eq!((budget.active.load(Ordering::Relaxed), b.keep(10, 100)), (1, 100));
        assert_eq!(budget.bytes.load(Ordering::Relaxed), 40 * K);
    }

    #[test]
    fn at_the_limit_the_largest_fills_without_progress_end() {
        let budget = Arc::new(FillBudget::new(1000 * K, TokioClock::system()));
        let now = TokioClock::system().instant();
        let later = |seconds| now + Duration::from_secs(seconds);
        let windows: Vec<_> = (1..=4).map(|_| budget.share(7)).collect();
        let other = budget.share(8);
        other.set(90 * K);
        for (window, size) in windows.iter().zip([100, 200, 300, 400]) {
            window.set(size * K);
        }
        let ended = || windows.iter().map(|window| window.is_ended()).collect::<Vec<_>>();
        budget.relieve(now);
        assert_eq!(ended(), [false; 4], "there was no search before");
        windows[3].advance(1);
        budget.relieve(later(0));
        assert_eq!(ended(), [false; 4], "searches are rare");
        budget.relieve(later(1));
        assert_eq!(ended(), [false, true, true, false], "the largest without progress");
        assert!(!other.is_ended(), "another site has fewer bytes");
        windows[0].set(2000 * K);
        windows.iter().for_each(|window| window.advance(1));
        budget.relieve(later(1));
        assert_eq!(ended(), [true; 4], "beyond twice the limit progress is no help");
    }
}
