//! Whether a server is in use, as its answers and its checks tell.
//!
//! It goes out of use when so many requests in a row failed there (passive), and comes back when
//! a request that is sent to try it out succeeds; or when its checks fail (active), until they
//! succeed. The two are apart: a server must be well by both. All workers share it, without a lock.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::servers::status::ServerStatus;

/// What all workers know of a server.
#[derive(Debug, Default)]
pub(crate) struct Health {
    /// Failures since the last success.
    failures: AtomicU32,
    /// When it may be tried again, in milliseconds of the clock; 0: in use.
    out_until: AtomicU64,
    /// A request is under way that tries it out.
    trying: AtomicBool,
    /// Its checks say that it is not well.
    ill: AtomicBool,
    /// Requests under way.
    pub active: AtomicU32,
    pub figures: Figures,
}

/// What is counted of a server.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    pub requests: AtomicU64,
    pub failures: AtomicU64,
    /// Times that it went out of use.
    pub outages: AtomicU64,
    pub connects: AtomicU64,
    pub connect_us: AtomicU64,
}

/// Whether a server may get a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fit {
    Yes,
    /// One, to try it out.
    ToTry,
    No,
}

/// Why a server is out of use, for operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// It is not.
    Up,
    /// Requests failed.
    Failed,
    /// The next request tries it out.
    ToTry,
    /// Its checks fail.
    Ill,
}

impl Use {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Use::Up => "up",
            Use::Failed => "failed",
            Use::ToTry => "to-try",
            Use::Ill => "check-failed",
        }
    }
}

impl Health {
    /// Returns how it is, `now`.
    pub fn status(&self, now: u64) -> ServerStatus {
        let Figures { requests, failures, outages, connects, connect_us } = &self.figures;
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
        if self.ill.load(Relaxed) {
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
            _ if self.ill.load(Relaxed) => Use::Ill,
            0 => Use::Up,
            until if now < until => Use::Failed,
            _ => Use::ToTry,
        }
    }

    /// Takes the right to try it out; false when another request has it.
    pub fn begin_trial(&self) -> bool {
        self.trying.compare_exchange(false, true, Relaxed, Relaxed).is_ok()
    }

    /// The trial ended without a verdict.
    pub fn abandon_trial(&self) {
        self.trying.store(false, Relaxed);
    }

    /// A request succeeded; `trial`: the one that tries it out. True when it is back in use.
    pub fn succeeded(&self, trial: bool) -> bool {
        if self.out_until.load(Relaxed) != 0 && !trial {
            // Begun before it went out of use: it tells nothing new.
            return false;
        }
        self.failures.store(0, Relaxed);
        if trial {
            self.out_until.store(0, Relaxed);
            self.trying.store(false, Relaxed);
        }
        trial
    }

    /// A request failed. `limit`: how many in a row take it out of use, for `pause`. True when this
    /// one did.
    pub fn failed(&self, trial: bool, limit: u32, pause: Duration, now: u64) -> bool {
        self.figures.failures.fetch_add(1, Relaxed);
        let failures = self.failures.fetch_add(1, Relaxed) + 1;
        let until = now.saturating_add(u64::try_from(pause.as_millis()).unwrap_or(u64::MAX));
        if trial {
            self.out_until.store(until, Relaxed);
            self.trying.store(false, Relaxed);
            return false;
        }
        if limit == 0 || failures < limit {
            return false;
        }
        let fell = self.out_until.compare_exchange(0, until, Relaxed, Relaxed).is_ok();
        if fell {
            self.figures.outages.fetch_add(1, Relaxed);
        }
        fell
    }

    /// What its checks say. True when that is news.
    pub fn checked(&self, well: bool) -> bool {
        let news = self.ill.swap(!well, Relaxed) == well;
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

    #[test]
    fn failures_in_a_row_take_it_out_and_one_trial_brings_it_back() {
        let health = Health::default();
        assert!(!health.failed(false, 2, PAUSE, 1));
        health.succeeded(false);
        assert!(!health.failed(false, 2, PAUSE, 2));
        assert_eq!(health.fit(2), Fit::Yes);
        assert!(health.failed(false, 2, PAUSE, 3));
        // Told once.
        assert!(!health.failed(false, 2, PAUSE, 4));
        assert_eq!((health.fit(102), health.fit(103)), (Fit::No, Fit::ToTry));
        // What was begun before does not bring it back.
        assert!(!health.succeeded(false));
        assert_eq!(health.usage(50), Use::Failed);
        assert!(health.begin_trial() && !health.begin_trial());
        assert_eq!(health.fit(200), Fit::No);
        assert!(!health.failed(true, 2, PAUSE, 200));
        assert_eq!((health.fit(299), health.fit(300)), (Fit::No, Fit::ToTry));
        assert!(health.begin_trial());
        assert!(health.succeeded(true));
        assert_eq!((health.fit(301), health.usage(301)), (Fit::Yes, Use::Up));
        assert_eq!(health.figures.outages.load(Relaxed), 1);
    }

    #[test]
    fn an_abandoned_trial_leaves_the_next_one_free() {
        let health = Health::default();
        health.failed(false, 1, PAUSE, 1);
        assert!(health.begin_trial());
        assert_eq!(health.fit(500), Fit::No);
        health.abandon_trial();
        assert_eq!(health.fit(500), Fit::ToTry);
    }

    #[test]
    fn checks_decide_apart_from_requests() {
        let health = Health::default();
        assert!(!health.checked(true));
        assert!(health.checked(false) && !health.checked(false));
        health.succeeded(false);
        assert_eq!((health.fit(1), health.usage(1)), (Fit::No, Use::Ill));
        assert!(health.checked(true));
        assert_eq!(health.fit(1), Fit::Yes);
    }
}
