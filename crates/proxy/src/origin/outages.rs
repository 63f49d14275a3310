//! Failures of origins that were met a moment ago, so that requests for which a stale answer may be
//! used do not each wait until the origin fails once more.
//!
//! A failure to connect concerns all of an origin: a site, and of a forward proxy a host and port.
//! So does a time-out during which the origin answered nothing else. Any other failure concerns the
//! one key. While a failure is known, stale answers
//! are given at once where the rules permit them (`semantics::reuse::Fallback`), and one request at
//! a time tries the origin again. Its success, or any other answer, ends that.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::StatusCode;
use semantics::reuse::Fallback;

use crate::observe::outcome::Error;
use crate::origin::failure::Failure;
use crate::origin::target::Target;

/// Failures that are known at most; further ones are not noted.
const KNOWN_MAX: usize = 16_384;

/// Time in milliseconds between a failure and the next try.
const PAUSE: u64 = 1000;

/// Time in milliseconds after which a try without a result counts as lost.
const TRY_MAX: u64 = 180_000;

/// Slots for the last answers of origins.
const SLOTS: usize = 64;

/// The failures that are known, of all workers.
pub(crate) struct Outages {
    known: Mutex<HashMap<u64, Outage>>,
    is_empty: AtomicBool,
    /// When an origin last answered, by its hash. Origins that share a slot count as one.
    answered: [AtomicU64; SLOTS],
    hasher: RandomState,
}

/// The extents that a failure may have: an origin, and a key of it, by their hashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Concerned {
    origin: u64,
    key: u64,
}

/// One failure. Times are in milliseconds of the clock.
struct Outage {
    until: u64,
    try_from: u64,
    /// Since when a request tries the origin.
    trying: Option<u64>,
    /// The error that the origin answered with; `None`: it did not answer.
    status: Option<StatusCode>,
}

/// A failure that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    pub status: Option<StatusCode>,
    /// The caller is to try the origin again.
    pub tries: bool,
}

/// The extent of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extent {
    Origin,
    /// The origin, if it has answered nothing meanwhile.
    Silence,
    Key,
}

impl Extent {
    /// Returns the extent of a failure; `None`: the origin has no part in it.
    fn of(failure: &Failure) -> Option<Extent> {
        let Failure::Failed(reason, _) = failure else { return None };
        match reason {
            Error::Dns
            | Error::DnsTimeout
            | Error::Connect
            | Error::ConnectRefused
            | Error::ConnectTimeout
            | Error::Tls
            | Error::TlsAlert
            | Error::Certificate
            | Error::NoUpstream
            | Error::UpstreamBusy => Some(Extent::Origin),
            Error::UpstreamTimeout => Some(Extent::Silence),
            Error::Upstream | Error::BadAnswer => Some(Extent::Key),
            _ => None,
        }
    }
}

impl Outages {
    pub fn new() -> Outages {
        Outages {
            known: Mutex::default(),
            is_empty: AtomicBool::new(true),
            answered: [const { AtomicU64::new(0) }; SLOTS],
            hasher: RandomState::new(),
        }
    }

    /// Returns the hash of the origin of `target`. Servers and other origins of a configuration
    /// belong to one site; two sites may share a host.
    pub fn origin(&self, target: &Target<'_>) -> u64 {
        match target.site.name() {
            Some(site) => self.hasher.hash_one((0, site)),
            None => self.hasher.hash_one((1, target.host.to_ascii_lowercase(), target.port)),
        }
    }

    /// Returns what a failure of a request for `key` of this origin may concern.
    pub fn concerned(&self, origin: u64, key: &[u8]) -> Concerned {
        Concerned { origin, key: self.hasher.hash_one((2, key)) }
    }

    /// Returns the failure in place of which a stale answer may be given that `fallback` permits.
    pub fn look(&self, concerned: Concerned, fallback: Fallback, now: u64) -> Option<Known> {
        if self.is_empty.load(Relaxed) {
            return None;
        }
        let mut known = self.lock();
        let found = [concerned.origin, concerned.key].into_iter().find_map(|hash| {
            let outage = known.get_mut(&hash)?;
            let is_permitted = match outage.status {
                None => fallback.on_unreachable,
                Some(status) => fallback.covers(status),
            };
            if is_permitted { outage.look(now) } else { None }
        });
        known.retain(|_, outage| outage.is_current(now));
        self.is_empty.store(known.is_empty(), Relaxed);
        found
    }

    /// Notes a failure of a request that was sent at `sent`. It is known for as long as `hold`.
    pub fn failed(
        &self,
        concerned: Concerned,
        failure: &Failure,
        (sent, now): (u64, u64),
        hold: Duration,
    ) {
        let slot = &self.answered[concerned.origin as usize % SLOTS];
        let hash = match Extent::of(failure) {
            None => return,
            Some(Extent::Origin) => concerned.origin,
            Some(Extent::Silence) if slot.load(Relaxed) < sent => concerned.origin,
            Some(Extent::Silence | Extent::Key) => concerned.key,
        };
        self.note(hash, None, now, hold);
    }

    /// Notes that the origin answered, with `error` if that is one in place of which a stale answer
    /// may be given.
    pub fn answered(
        &self,
        concerned: Concerned,
        error: Option<StatusCode>,
        now: u64,
        hold: Duration,
    ) {
        self.answered[concerned.origin as usize % SLOTS].store(now, Relaxed);
        if !self.is_empty.load(Relaxed) {
            let mut known = self.lock();
            known.remove(&concerned.origin);
            known.remove(&concerned.key);
        }
        if error.is_some() {
            self.note(concerned.key, error, now, hold);
        }
    }

    fn note(&self, hash: u64, status: Option<StatusCode>, now: u64, hold: Duration) {
        if hold.is_zero() {
            return;
        }
        let mut known = self.lock();
        if known.len() >= KNOWN_MAX && !known.contains_key(&hash) {
            return;
        }
        let hold = u64::try_from(hold.as_millis()).unwrap_or(u64::MAX);
        let (until, try_from) = (now.saturating_add(hold), now + PAUSE.min(hold));
        known.insert(hash, Outage { until, try_from, trying: None, status });
        self.is_empty.store(false, Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Outage>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Outage {
    fn is_current(&self, now: u64) -> bool {
        now < self.until || self.is_tried(now)
    }

    fn is_tried(&self, now: u64) -> bool {
        self.trying.is_some_and(|since| now < since + TRY_MAX)
    }

    fn look(&mut self, now: u64) -> Option<Known> {
        if !self.is_current(now) {
            return None;
        }
        let tries = now >= self.try_from && !self.is_tried(now);
        if tries {
            self.trying = Some(now);
        }
        Some(Known { status: self.status, tries })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use message::scheme::Scheme;
    use upstream::servers::group::{Group, GroupOptions};

    use super::*;
    use crate::origin::site::{Front, Site};

    const HOLD: Duration = Duration::from_secs(10);
    const ALL: Fallback = Fallback { on_error: true, on_unreachable: true };

    fn failure(reason: Error) -> Failure {
        Failure::Failed(reason, String::new())
    }

    #[test]
    fn sites_of_one_host_are_different_origins() {
        let outages = Outages::new();
        let origin = |name: Option<&str>, host: &str, port: u16| {
            let group = |name| Group::new(name, Vec::new(), GroupOptions::default());
            let front = match name {
                Some(name) => Front::reverse(vec![Site::new(name, group(name))]),
                None => Front::forward(),
            };
            let (site, scheme, aliases, path) = (&front.sites()[0], Scheme::Http, None, "/");
            outages.origin(&Target { site, scheme, host, port, aliases, path })
        };
        assert_ne!(origin(Some("pages"), "a", 80), origin(Some("api"), "a", 80));
        assert_eq!(origin(Some("pages"), "a", 80), origin(Some("pages"), "b", 81));
        assert_eq!(origin(None, "A", 80), origin(None, "a", 80));
        assert_ne!(origin(None, "a", 80), origin(None, "a", 81));
        assert_ne!(origin(None, "a", 80), origin(None, "b", 80));
    }

    #[test]
    fn one_request_tries_again_and_its_answer_ends_the_outage() {
        let outages = Outages::new();
        let page = outages.concerned(1, b"1");
        assert_eq!(outages.look(page, ALL, 0), None);
        outages.failed(page, &failure(Error::ConnectTimeout), (0, 1000), HOLD);
        let at = |now| outages.look(page, ALL, now).map(|known| known.tries);
        assert_eq!([1500, 2000, 2001, 15_000].map(at), [false, true, false, false].map(Some));
        // It failed too.
        outages.failed(page, &failure(Error::ConnectTimeout), (2000, 20_000), HOLD);
        assert_eq!([20_500, 21_000].map(at), [Some(false), Some(true)]);
        outages.answered(page, None, 21_100, HOLD);
        assert_eq!(at(21_200), None);
        // Nobody asked while it was known.
        outages.failed(page, &failure(Error::ConnectTimeout), (0, 30_000), HOLD);
        assert_eq!(at(40_000), None);
        assert!(outages.lock().is_empty());
    }

    #[test]
    fn a_failure_concerns_no_more_than_it_shows() {
        let extent = |reason: Error, answers: bool| {
            let outages = Outages::new();
            let [page, other] = [&b"1"[..], b"2"].map(|key| outages.concerned(1, key));
            if answers {
                outages.answered(other, None, 20, HOLD);
            }
            outages.failed(page, &failure(reason), (10, 30), HOLD);
            [page, other].map(|page| outages.look(page, ALL, 40).is_some())
        };
        assert_eq!(extent(Error::ConnectRefused, true), [true, true]);
        assert_eq!(extent(Error::UpstreamTimeout, true), [true, false]);
        assert_eq!(extent(Error::UpstreamTimeout, false), [true, true]);
        assert_eq!(extent(Error::BadAnswer, false), [true, false]);
        assert_eq!(extent(Error::Draining, false), [false, false]);
    }

    #[test]
    fn what_may_not_be_stale_is_fetched() {
        let outages = Outages::new();
        let page = outages.concerned(1, b"1");
        let unreachable = Fallback { on_error: false, on_unreachable: true };
        outages.answered(page, Some(StatusCode::INTERNAL_SERVER_ERROR), 10, HOLD);
        assert_eq!(outages.look(page, unreachable, 20), None);
        assert!(outages.look(page, ALL, 20).is_some());
        outages.failed(page, &failure(Error::Connect), (0, 30), HOLD);
        assert_eq!(outages.look(page, Fallback::default(), 40), None);
        assert_eq!(outages.look(page, unreachable, 40).unwrap().status, None);
    }
}
