//! The health of a server, by its answers and its checks.
//!
//! It goes out of use when so many requests in a row failed there (passive), and comes back when a
//! request that is sent to try it out succeeds; or when its checks fail (active), until they
//! succeed. The two are separate: a server must be well by both. All workers share it, without a
//! lock.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::servers::status::ServerStatus;

/// The health of a server, shared by all workers.
#[derive(Debug, Default)]
pub(crate) struct Health {
    /// Failures since the last success.
    failures: AtomicU32,
    /// When it may be tried again, in milliseconds of the clock; 0: in use.
    out_until: AtomicU64,
    /// A request that tries it out is under way.
    trying: AtomicBool,
    /// Its checks say that it is not well.
    ill: AtomicBool,
    /// Requests under way.
    pub active: AtomicU32,
    pub figures: Figures,
}

/// The counters of a server.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    pub requests: AtomicU64,
    pub failures: AtomicU64,
    /// Times that it went out of use.
    pub outages: AtomicU64,
    pub connects: AtomicU64,
    pub connect_us: AtomicU64,
}

/// The answer to whether a server may get a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fit {
    Yes,
    /// One request, to try it out.
    ToTry,
    No,
}

/// The use of a server, and why it is out of use, for operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// It is in use.
    Up,
    /// Requests failed.
    Failed,
    /// The next request tries it out.
    ToTry,
    /// Its checks fail.
    Ill,
}

impl Use {
    /// Returns the word for it.
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
    /// Returns its state, `now`.
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

    /// Takes the right to try it out; returns false when another request has it.
    pub fn begin_trial(&self) -> bool {
        self.trying.compare_exchange(false, true, Relaxed, Relaxed).is_ok()
    }

    /// Notes that the trial ended without a result.
    pub fn abandon_trial(&self) {
        self.trying.store(false, Relaxed);
    }

    /// Notes that a request succeeded; `trial`: the one that tries it out. Returns whether it is
    /// back in use.
    pub fn succeeded(&self, trial: bool) -> bool {
        if self.out_until.load(Relaxed) != 0 && !trial {
            // It began before the server went out of use, and proves nothing.
            return false;
        }
        self.failures.store(0, Relaxed);
        if trial {
            self.out_until.store(0, Relaxed);
            self.trying.store(false, Relaxed);
        }
        trial
    }

    /// Notes that a request failed. `limit`: how many in a row take it out of use, for `pause`.
    /// Returns whether this one did.
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

    /// Notes the result of its checks. Returns whether it changed.
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
