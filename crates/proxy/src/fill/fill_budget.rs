//! Memory budget for the windows of all running fills: body bytes on their way to clients.
//!
//! The budget bounds the memory of fetches with slow clients or stalled origins, and divides it
//! among sites. When half of the memory is used, the windows of sites that use more than their
//! share shrink to the bytes that the store cannot return. At the limit fills end: first those
//! without progress, from the site with the most bytes, the largest first. A fetch may always
//! begin, so memory pressure does not decide whether requests share fetches.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::Waker;
use std::time::{Duration, Instant};

use net::clock::TokioClock;

use crate::observe::metrics::{Samples, Source};

/// Number of per-site counters. Sites with colliding hashes share one.
const SITES: usize = 256;
/// Window size in bytes up to which a fill is never ended for memory.
const SMALL: u64 = 16 * 1024;
/// Window size in bytes up to which a fill with progress is never ended for memory.
const MODERATE: u64 = 64 * 1024;
/// Minimum time between two searches for fills without progress.
const SEARCH_INTERVAL: Duration = Duration::from_secs(1);

pub(crate) struct FillBudget {
    limit: u64,
    clock: TokioClock,
    bytes: AtomicU64,
    sites: [AtomicU64; SITES],
    /// Number of counters that are not zero.
    active: AtomicUsize,
    hasher: RandomState,
    large: Mutex<LargeWindows>,
    ended: AtomicU64,
}

/// Windows that have been larger than [`SMALL`].
#[derive(Default)]
struct LargeWindows {
    shares: Vec<Weak<WindowShare>>,
    searched: Option<Instant>,
}

impl FillBudget {
    /// Creates a budget of about `limit` bytes.
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

    /// Returns an empty share for a fill of `site`, which is any hash of the site's name.
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

    /// Returns whether the limit is reached. Work without a waiting client should then not begin.
    pub fn is_full(&self) -> bool {
        self.bytes.load(Ordering::Relaxed) >= self.limit
    }

    fn site_bytes(&self, site: usize) -> u64 {
        self.sites[site].load(Ordering::Relaxed)
    }

    /// Returns whether windows of `site` should shrink: the limit is reached, or half of the memory
    /// is used and the site uses more than its share of that half.
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

    /// Ends fills at the limit, until about three quarters of it are used. Searches for fills
    /// without progress at most once per [`SEARCH_INTERVAL`]. At twice the limit it searches at
    /// once, and also ends fills with progress if they are larger than [`MODERATE`].
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

pub(crate) struct WindowShare {
    budget: Arc<FillBudget>,
    site: usize,
    counted: AtomicU64,
    /// Bytes received, plus bytes taken by readers.
    progress: AtomicU64,
    /// `progress` at the last search for fills without any.
    seen: AtomicU64,
    is_listed: AtomicBool,
    is_ended: AtomicBool,
    /// Waker of the fill's task while that waits.
    task: Mutex<Option<Waker>>,
}

impl WindowShare {
    /// Sets the bytes that the window occupies. Returns whether they are more than before.
    pub fn set(self: &Arc<Self>, bytes: u64) -> bool {
        let before = self.counted.swap(bytes, Ordering::Relaxed);
        self.budget.count(self.site, before, bytes);
        if bytes > SMALL && !self.is_listed.swap(true, Ordering::Relaxed) {
            self.budget.list(self);
        }
        bytes > before
    }

    /// Records bytes that were received or taken by a reader.
    pub fn advance(&self, bytes: u64) {
        self.progress.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Ends fills, possibly this one, if the memory limit is reached.
    pub fn relieve(&self) {
        if self.budget.is_full() {
            self.budget.relieve(self.budget.clock.instant());
        }
    }

    /// Returns how many bytes the window may keep: `most`, or `least` when memory is scarce and the
    /// site uses its share.
    pub fn keep(&self, least: u64, most: u64) -> u64 {
        if self.budget.is_crowded(self.site) { least } else { most.max(least) }
    }

    /// Returns whether the fill must end to free memory.
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

    pub fn wake_task(&self) {
        let task = self.task.lock().unwrap_or_else(PoisonError::into_inner).take();
        task.into_iter().for_each(Waker::wake);
    }

    fn counted(&self) -> u64 {
        self.counted.load(Ordering::Relaxed)
    }

    /// Returns whether the window is larger than [`SMALL`] and made no progress since the last
    /// call.
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

    /// Returns a share of a site that is counted apart from that of `share`: hashes may collide.
    fn share_of_another_site(budget: &Arc<FillBudget>, share: &WindowShare) -> Arc<WindowShare> {
        let mut shares = (100..).map(|site| budget.share(site));
        shares.find(|other| other.site != share.site).expect("another slot")
    }

    #[test]
    fn the_windows_of_the_site_that_uses_most_shrink() {
        let budget = Arc::new(FillBudget::new(1000 * K, TokioClock::system()));
        let a = budget.share(1);
        let b = share_of_another_site(&budget, &a);
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
        let other = share_of_another_site(&budget, &windows[0]);
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
