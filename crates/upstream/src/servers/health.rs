//! Health of a server, by its responses and its checks.
//!
//! A server goes out of use when a number of consecutive requests failed (passive), and comes back
//! when a trial request succeeds; or when its checks fail (active), until they succeed again. The
//! two are separate, and a server must be healthy by both. All workers share this state; only
//! failures take a lock.
//!
//! A single bad page must not take a server out of use. Failures of one URL therefore count once,
//! and a server that has answered another request within the last second stays in use, unless
//! connecting to it failed.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::servers::status::ServerStatus;

/// Time in milliseconds for which a response proves that the server works, even if other requests
/// fail.
const ANSWERED_LATELY: u64 = 1000;

/// Maximum number of failed URLs that are remembered.
const URLS_MAX: usize = 64;

/// Cause to which a failure is attributed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blame {
    /// The request, by the hash of its URL: a connection was made, but the request failed on it.
    Request(u64),
    /// The server: connecting to it failed.
    Server,
    /// The server: connecting to it timed out.
    Silence,
}

/// Health of a server, shared by all workers.
#[derive(Debug, Default)]
pub(crate) struct Health {
    /// Counted failures since the last success.
    failures: AtomicU32,
    /// Hashes of the URLs that failed since then.
    failed_urls: Mutex<Vec<u64>>,
    /// When the server last responded, in milliseconds of the clock; 0: never.
    answered: AtomicU64,
    /// True if it went out of use because of connect timeouts.
    silent: AtomicBool,
    /// When it may be tried again, in milliseconds of the clock; 0: in use.
    out_until: AtomicU64,
    /// Set while a trial request is in progress.
    trying: AtomicBool,
    /// Set while its checks fail.
    unhealthy: AtomicBool,
    pub active: AtomicU32,
    pub figures: ServerCounters,
}

#[derive(Debug, Default)]
pub(crate) struct ServerCounters {
    pub requests: AtomicU64,
    pub failures: AtomicU64,
    /// Number of times that it went out of use.
    pub outages: AtomicU64,
    pub connects: AtomicU64,
    pub connect_us: AtomicU64,
}

/// Eligibility of a server for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fit {
    Yes,
    /// One request, as a trial.
    ToTry,
    No,
}

/// Availability of a server, for operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// In use.
    Up,
    /// Out of use after failed requests.
    Failed,
    /// The next request is a trial.
    ToTry,
    /// Out of use because its checks fail.
    Unhealthy,
}

impl Use {
    /// Returns the name shown to operators.
    pub fn name(self) -> &'static str {
        match self {
            Use::Up => "up",
            Use::Failed => "failed",
            Use::ToTry => "to-try",
            Use::Unhealthy => "check-failed",
        }
    }
}

impl Health {
    /// Returns the server's state at `now`.
    pub fn status(&self, now: u64) -> ServerStatus {
        let ServerCounters { requests, failures, outages, connects, connect_us } = &self.figures;
        ServerStatus {
            usage: self.usage(now),
            active: self.active.load(Relaxed),
            requests: requests.load(Relaxed),
            failures: failures.load(Relaxed),
            outages: outages.load(Relaxed),
            connects: connects.load(Relaxed),
            connect_us: connect_us.load(Relaxed),
        }
    }

    pub fn fit(&self, now: u64) -> Fit {
        if self.unhealthy.load(Relaxed) {
            return Fit::No;
        }
        match self.out_until.load(Relaxed) {
            0 => Fit::Yes,
            until if now < until || self.trying.load(Relaxed) => Fit::No,
            _ => Fit::ToTry,
        }
    }

    pub fn usage(&self, now: u64) -> Use {
        match self.out_until.load(Relaxed) {
            _ if self.unhealthy.load(Relaxed) => Use::Unhealthy,
            0 => Use::Up,
            until if now < until => Use::Failed,
            _ => Use::ToTry,
        }
    }

    /// Acquires the trial; returns false if another request has it.
    pub fn begin_trial(&self) -> bool {
        self.trying.compare_exchange(false, true, Relaxed, Relaxed).is_ok()
    }

    /// Records that the trial ended without a result.
    pub fn abandon_trial(&self) {
        self.trying.store(false, Relaxed);
    }

    /// Returns whether the server may get requests while all servers are out of use, because it
    /// fails fast.
    pub fn is_last_resort(&self) -> bool {
        !self.unhealthy.load(Relaxed) && !self.silent.load(Relaxed)
    }

    /// Records that a request succeeded. `trial` says that it was the trial request. Returns
    /// whether the server is back in use.
    pub fn succeeded(&self, trial: bool, now: u64) -> bool {
        if self.out_until.load(Relaxed) != 0 && !trial {
            // The request began before the server went out of use, and proves nothing.
            return false;
        }
        self.answered.store(now, Relaxed);
        if self.failures.load(Relaxed) != 0 {
            self.forget_failures();
        }
        if trial {
            self.silent.store(false, Relaxed);
            self.trying.store(false, Relaxed);
        }
        trial && self.out_until.swap(0, Relaxed) != 0
    }

    /// Records that a request failed. `limit` failures in a row take the server out of use for
    /// `pause`. Returns whether this failure did.
    pub fn failed(
        &self,
        blame: Blame,
        trial: bool,
        (limit, pause): (u32, Duration),
        now: u64,
    ) -> bool {
        self.figures.failures.fetch_add(1, Relaxed);
        let ends_it = match blame {
            Blame::Request(_) => self.count(blame, limit, now),
            Blame::Server | Blame::Silence => trial || self.count(blame, limit, now),
        };
        if !ends_it {
            if trial {
                self.abandon_trial();
            }
            return false;
        }
        let until = now.saturating_add(u64::try_from(pause.as_millis()).unwrap_or(u64::MAX));
        self.forget_failures();
        if trial {
            self.silent.store(blame == Blame::Silence, Relaxed);
            self.out_until.store(until, Relaxed);
            self.trying.store(false, Relaxed);
            return false;
        }
        let fell = self.out_until.compare_exchange(0, until, Relaxed, Relaxed).is_ok();
        if fell {
            self.silent.store(blame == Blame::Silence, Relaxed);
            self.figures.outages.fetch_add(1, Relaxed);
        }
        fell
    }

    /// Counts a failure, and returns whether it takes the server out of use.
    fn count(&self, blame: Blame, limit: u32, now: u64) -> bool {
        if limit == 0 {
            return false;
        }
        if let Blame::Request(url) = blame {
            let mut urls = self.failed_urls.lock().unwrap_or_else(PoisonError::into_inner);
            if urls.contains(&url) {
                return false;
            }
            if urls.len() == URLS_MAX {
                urls.remove(0);
            }
            urls.push(url);
        }
        let failures = self.failures.fetch_add(1, Relaxed) + 1;
        let answered = self.answered.load(Relaxed);
        let answers = answered != 0 && now.saturating_sub(answered) < ANSWERED_LATELY;
        failures >= limit && !(answers && matches!(blame, Blame::Request(_)))
    }

    fn forget_failures(&self) {
        self.failures.store(0, Relaxed);
        self.failed_urls.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Records the result of its checks. Returns whether it changed.
    pub fn checked(&self, well: bool) -> bool {
        let news = self.unhealthy.swap(!well, Relaxed) == well;
        if news && !well {
            self.figures.outages.fetch_add(1, Relaxed);
        }
        news
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAUSE: Duration = Duration::from_millis(100);

    /// Records a failure that the server caused; two take it out of use.
    fn fails(health: &Health, trial: bool, now: u64) -> bool {
        health.failed(Blame::Server, trial, (2, PAUSE), now)
    }

    /// Records a failure of the request for a URL; two URLs take the server out of use.
    fn fails_at(health: &Health, url: u64, trial: bool, now: u64) -> bool {
        health.failed(Blame::Request(url), trial, (2, PAUSE), now)
    }

    #[test]
    fn consecutive_failures_end_use_and_one_trial_restores_it() {
        let health = Health::default();
        assert!(!fails(&health, false, 1));
        health.succeeded(false, 1);
        assert!(!fails(&health, false, 2));
        assert_eq!(health.fit(2), Fit::Yes);
        assert!(fails(&health, false, 3));
        // Reported once.
        assert!(!fails(&health, false, 4) && !fails(&health, false, 4));
        assert_eq!((health.fit(102), health.fit(103)), (Fit::No, Fit::ToTry));
        // A request that began before does not bring it back.
        assert!(!health.succeeded(false, 50));
        assert_eq!(health.usage(50), Use::Failed);
        assert!(health.begin_trial() && !health.begin_trial());
        assert_eq!(health.fit(200), Fit::No);
        assert!(!fails(&health, true, 200));
        assert_eq!((health.fit(299), health.fit(300)), (Fit::No, Fit::ToTry));
        assert!(health.begin_trial());
        assert!(health.succeeded(true, 300));
        assert_eq!((health.fit(301), health.usage(301)), (Fit::Yes, Use::Up));
        assert_eq!(health.figures.outages.load(Relaxed), 1);
    }

    #[test]
    fn one_bad_page_neither_ends_nor_prevents_use() {
        let health = Health::default();
        assert!(!(0..100).any(|now| fails_at(&health, 7, false, now)));
        assert!(fails_at(&health, 8, false, 100));
        // In a trial, too, a page counts once.
        for now in 200..300 {
            assert_eq!(health.fit(now), Fit::ToTry);
            assert!(health.begin_trial() && !fails_at(&health, 7, true, now));
        }
        assert!(health.begin_trial() && !fails_at(&health, 8, true, 300));
        assert_eq!(health.fit(399), Fit::No);
    }

    #[test]
    fn a_server_stays_in_use_while_it_answers_others() {
        let health = Health::default();
        health.succeeded(false, 5);
        assert!(!(0..100).any(|url| fails_at(&health, url, false, 6)));
        // After a failed connect, its earlier responses prove nothing.
        assert!(fails(&health, false, 7));
        let health = Health::default();
        health.succeeded(false, 5);
        assert!(!fails_at(&health, 1, false, 6) && fails_at(&health, 2, false, 5000));
    }

    #[test]
    fn a_silent_server_is_not_a_last_resort() {
        let health = Health::default();
        assert!(health.failed(Blame::Silence, false, (1, PAUSE), 1));
        assert!(!health.is_last_resort());
        assert!(health.begin_trial() && health.succeeded(true, 200));
        assert!(fails_at(&health, 1, false, 5000) || fails_at(&health, 2, false, 5000));
        assert!(health.is_last_resort());
    }

    #[test]
    fn an_abandoned_trial_leaves_the_next_one_free() {
        let health = Health::default();
        health.failed(Blame::Server, false, (1, PAUSE), 1);
        assert!(health.begin_trial());
        assert_eq!(health.fit(500), Fit::No);
        health.abandon_trial();
        assert_eq!(health.fit(500), Fit::ToTry);
    }

    #[test]
    fn checks_and_requests_decide_separately() {
        let health = Health::default();
        assert!(!health.checked(true));
        assert!(health.checked(false) && !health.checked(false));
        health.succeeded(false, 1);
        assert_eq!((health.fit(1), health.usage(1)), (Fit::No, Use::Unhealthy));
        assert!(health.checked(true));
        assert_eq!(health.fit(1), Fit::Yes);
    }
}
