//! Recent origin failures. While one is known, requests that may use a stale response need not each
//! wait for the origin to fail again.
//!
//! A failure to connect concerns the whole origin: a site, or in a forward proxy a host and port. A
//! timeout does too, if the origin answered nothing else meanwhile. Any other failure concerns only
//! its key. While a failure is known, stale responses are served at once where the rules permit
//! them (`semantics::reuse::Fallback`), and one request at a time retries the origin. Any response
//! ends an outage of the whole origin; only a response without an error ends one of its key.
//!
//! Guarantees: a failure that a request itself causes does not keep other requests from fresh
//! responses. A failure met by another request never delays a retry that is due or under way. A
//! failure that may result from a client's directives or credentials is not recorded for a key.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::StatusCode;
use semantics::reuse::Fallback;
use semantics::{RequestDirectives, RequestFacts};

use crate::observe::outcome::Error;
use crate::origin::failure::Failure;
use crate::origin::target::Target;

/// Maximum number of known failures; further ones are not recorded.
const KNOWN_MAX: usize = 16_384;

/// Time in milliseconds between a failure and the next trial.
const PAUSE: u64 = 1000;

/// Time in milliseconds after which a trial without a result counts as lost.
const TRY_MAX: u64 = 180_000;

/// Number of slots for the times of origins' last responses.
const SLOTS: usize = 64;

pub(crate) struct Outages {
    known: Mutex<HashMap<u64, Outage>>,
    is_empty: AtomicBool,
    /// Time of each origin's last response, by its hash. Origins in the same slot count as one.
    answered: [AtomicU64; SLOTS],
    hasher: RandomState,
}

/// Possible extents of a failure, as hashes: an origin, and a key of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FailureScope {
    origin: u64,
    key: u64,
}

/// A request sent to an origin.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attempt {
    pub scope: FailureScope,
    /// When the request was sent, in milliseconds of the clock.
    pub sent: u64,
    /// True if the origin treats it like other clients' requests ([`is_representative`]).
    pub is_representative: bool,
    /// The known failure that this request retries.
    pub trial: Option<Trial>,
}

/// Retry of a known failure, identified by the hash of its extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Trial(u64);

/// One failure. Times are in milliseconds of the clock.
struct Outage {
    until: u64,
    try_from: u64,
    trying: Option<u64>,
    /// The error status that the origin answered with; `None` if it did not answer.
    status: Option<StatusCode>,
}

/// A known failure, as seen by a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KnownFailure {
    pub status: Option<StatusCode>,
    /// Set if the caller must retry the origin: send an [`Attempt`] with it, or return it.
    pub trial: Option<Trial>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extent {
    Origin,
    /// The origin, if it has answered nothing since.
    Silence,
    Key,
}

impl Extent {
    /// Returns the extent of a failure; `None` if the origin did not cause it.
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

    /// Returns the hash of the origin of `target`. Configured origins are distinguished by site,
    /// because two sites may share a host.
    pub fn origin(&self, target: &Target<'_>) -> u64 {
        match target.site.name().filter(|_| !target.site.is_named_by_requests()) {
            Some(site) => self.hasher.hash_one((0, site)),
            None => {
                let mut hasher = self.hasher.build_hasher();
                (1, target.port).hash(&mut hasher);
                let bytes = target.host.bytes().map(|byte| byte.to_ascii_lowercase());
                bytes.for_each(|byte| hasher.write_u8(byte));
                hasher.finish()
            }
        }
    }

    /// Returns the possible extents of a failure of a request for `key` at this origin.
    pub fn failure_scope(&self, origin: u64, key: &[u8]) -> FailureScope {
        FailureScope { origin, key: self.hasher.hash_one((2, key)) }
    }

    /// Returns the known failure that lets a stale response be served under `fallback`. `may_try`
    /// says whether the request may retry the origin.
    pub fn known_failure(
        &self,
        scope: FailureScope,
        fallback: Fallback,
        may_try: bool,
        now: u64,
    ) -> Option<KnownFailure> {
        if self.is_empty.load(Relaxed) {
            return None;
        }
        let mut known = self.lock();
        let found = [scope.origin, scope.key].into_iter().find_map(|hash| {
            let outage = known.get_mut(&hash)?;
            let is_permitted = match outage.status {
                None => fallback.covers_failure(StatusCode::BAD_GATEWAY),
                Some(status) => fallback.covers(status),
            };
            if !is_permitted || !outage.is_current(now) {
                return None;
            }
            let trial = (may_try && outage.begin_trial(now)).then_some(Trial(hash));
            Some(KnownFailure { status: outage.status, trial })
        });
        known.retain(|_, outage| outage.is_current(now));
        self.is_empty.store(known.is_empty(), Relaxed);
        found
    }

    /// Returns a trial that could not begin; the next request may begin one.
    pub fn return_trial(&self, trial: Trial) {
        if let Some(outage) = self.lock().get_mut(&trial.0) {
            outage.trying = None;
        }
    }

    /// Records a failure, which stays known for `hold`.
    pub fn failed(&self, attempt: &Attempt, failure: &Failure, now: u64, hold: Duration) {
        self.end_trial(attempt, now);
        let Attempt { scope, sent, is_representative, .. } = *attempt;
        let slot = &self.answered[scope.origin as usize % SLOTS];
        let hash = match Extent::of(failure) {
            None => return,
            Some(Extent::Origin) => scope.origin,
            Some(Extent::Silence | Extent::Key) if !is_representative => return,
            Some(Extent::Silence) if slot.load(Relaxed) < sent => scope.origin,
            Some(Extent::Silence | Extent::Key) => scope.key,
        };
        self.note(hash, None, now, hold);
    }

    /// Records that the origin answered, with `error` if its status is an error that a stale
    /// response may replace.
    pub fn answered(&self, attempt: &Attempt, error: Option<StatusCode>, now: u64, hold: Duration) {
        let scope = attempt.scope;
        self.answered[scope.origin as usize % SLOTS].store(now, Relaxed);
        if !self.is_empty.load(Relaxed) {
            let mut known = self.lock();
            known.remove(&scope.origin);
            if error.is_none() {
                known.remove(&scope.key);
            }
        }
        self.end_trial(attempt, now);
        if error.is_some() && attempt.is_representative {
            self.note(scope.key, error, now, hold);
        }
    }

    /// Records that the trial of `attempt` has ended without success.
    fn end_trial(&self, attempt: &Attempt, now: u64) {
        if let Some(Trial(hash)) = attempt.trial
            && let Some(outage) = self.lock().get_mut(&hash)
        {
            (outage.trying, outage.try_from) = (None, now + PAUSE);
        }
    }

    fn note(&self, hash: u64, status: Option<StatusCode>, now: u64, hold: Duration) {
        if hold.is_zero() {
            return;
        }
        let mut known = self.lock();
        let hold = u64::try_from(hold.as_millis()).unwrap_or(u64::MAX);
        let (until, try_from) = (now.saturating_add(hold), now + PAUSE);
        if let Some(outage) = known.get_mut(&hash).filter(|outage| outage.is_current(now)) {
            (outage.until, outage.status) = (outage.until.max(until), status);
            return;
        }
        if known.len() >= KNOWN_MAX && !known.contains_key(&hash) {
            return;
        }
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

    /// Begins a trial if one is due.
    fn begin_trial(&mut self, now: u64) -> bool {
        let is_due = now >= self.try_from && !self.is_tried(now);
        if is_due {
            self.trying = Some(now);
        }
        is_due
    }
}

/// Returns whether an origin treats a request like those of other clients, as far as its fields
/// show: they carry neither cache directives nor credentials.
pub(crate) fn is_representative(facts: &RequestFacts) -> bool {
    let has_wishes = facts.directives != RequestDirectives::default();
    !(has_wishes || facts.has_credentials() || facts.is_logged_in)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use crate::message::scheme::Scheme;
    use upstream::servers::group::{Group, GroupOptions};

    use semantics::scanned_path::ScannedPath;
    use semantics::settings::stale_cases::StaleCases;

    use super::*;
    use crate::origin::site::{Front, Site};

    const HOLD: Duration = Duration::from_secs(10);
    const ALL: Fallback =
        Fallback { on_error: true, on_unreachable: true, cases: StaleCases::USUAL };

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
            let (site, scheme, aliases, path) =
                (&front.sites()[0], Scheme::Http, None, ScannedPath::new("/"));
            outages.origin(&Target { site, scheme, host, port, aliases, path })
        };
        assert_ne!(origin(Some("pages"), "a", 80), origin(Some("api"), "a", 80));
        assert_eq!(origin(Some("pages"), "a", 80), origin(Some("pages"), "b", 81));
        assert_eq!(origin(None, "A", 80), origin(None, "a", 80));
        assert_ne!(origin(None, "a", 80), origin(None, "a", 81));
        assert_ne!(origin(None, "a", 80), origin(None, "b", 80));
    }

    /// Returns a representative request that was sent at `sent`.
    fn attempt(scope: FailureScope, sent: u64) -> Attempt {
        Attempt { scope, sent, is_representative: true, trial: None }
    }

    #[test]
    fn one_request_retries_and_its_response_ends_the_outage() {
        let outages = Outages::new();
        let page = outages.failure_scope(1, b"1");
        let look = |now| outages.known_failure(page, ALL, true, now);
        let at = |now| look(now).map(|known| known.trial.is_some());
        assert_eq!(look(0), None);
        let timeout = failure(Error::ConnectTimeout);
        outages.failed(&attempt(page, 0), &timeout, 1000, HOLD);
        assert_eq!(at(1500), Some(false));
        let trial = look(2000).unwrap().trial;
        assert_eq!([2001, 15_000].map(at), [Some(false); 2]);
        // The trial failed too.
        outages.failed(&Attempt { trial, ..attempt(page, 2000) }, &timeout, 20_000, HOLD);
        assert_eq!([20_500, 21_000].map(at), [Some(false), Some(true)]);
        outages.answered(&attempt(page, 21_000), None, 21_100, HOLD);
        assert_eq!(at(21_200), None);
        // The outage expires without further requests.
        outages.failed(&attempt(page, 0), &timeout, 30_000, HOLD);
        assert_eq!(at(40_000), None);
        assert!(outages.lock().is_empty());
    }

    #[test]
    fn failures_of_others_do_not_delay_a_trial() {
        let outages = Outages::new();
        let page = outages.failure_scope(1, b"1");
        let look =
            |may_try, now| outages.known_failure(page, ALL, may_try, now).map(|known| known.trial);
        let closed = failure(Error::Upstream);
        let error = Some(StatusCode::BAD_GATEWAY);
        outages.failed(&attempt(page, 0), &closed, 0, HOLD);
        outages.failed(&attempt(page, 0), &closed, 900, HOLD);
        outages.answered(&attempt(page, 0), error, 950, HOLD);
        assert_eq!(look(false, 1000), Some(None));
        let trial = look(true, 1000).unwrap();
        assert!(trial.is_some());
        outages.failed(&attempt(page, 0), &closed, 1100, HOLD);
        assert_eq!(look(true, 5000), Some(None));
        // The trial could not begin, so another request may begin one.
        outages.return_trial(trial.unwrap());
        assert_eq!(look(true, 5000), Some(trial));
        outages.failed(&Attempt { trial, ..attempt(page, 5000) }, &closed, 6000, HOLD);
        assert_eq!([6500, 7000].map(|now| look(true, now)), [Some(None), Some(trial)]);
        // A failure that the origin did not cause ends a trial too.
        let ended = Attempt { trial, ..attempt(page, 7000) };
        outages.failed(&ended, &failure(Error::Draining), 8000, HOLD);
        assert_eq!(look(true, 9000), Some(trial));
    }

    #[test]
    fn a_failure_the_client_may_have_caused_concerns_no_other_client() {
        let (outages, error) = (Outages::new(), Some(StatusCode::BAD_GATEWAY));
        let page = outages.failure_scope(1, b"1");
        let known = || outages.known_failure(page, ALL, true, 10).map(|known| known.status);
        let odd = Attempt { is_representative: false, ..attempt(page, 5) };
        for reason in [Error::Upstream, Error::BadAnswer, Error::UpstreamTimeout] {
            outages.failed(&odd, &failure(reason), 10, HOLD);
        }
        outages.answered(&odd, error, 10, HOLD);
        assert_eq!(known(), None);
        // Nor does it end a known failure.
        outages.failed(&attempt(page, 5), &failure(Error::Upstream), 10, HOLD);
        outages.answered(&odd, error, 10, HOLD);
        assert_eq!(known(), Some(None));
        outages.failed(&odd, &failure(Error::Connect), 10, HOLD);
        assert!(outages.known_failure(outages.failure_scope(1, b"2"), ALL, true, 10).is_some());

        let facts = |name: &'static str, value: &'static str| {
            let mut fields = http::HeaderMap::new();
            fields.insert(name, http::HeaderValue::from_static(value));
            RequestFacts::of(&http::Method::GET, &fields)
        };
        let plain = [("cookie", "a=b"), ("range", "bytes=0-1"), ("user-agent", "x")];
        assert!(plain.iter().all(|(name, value)| is_representative(&facts(name, value))));
        let odd = [("cache-control", "no-cache"), ("pragma", "no-cache"), ("authorization", "x")];
        assert!(!odd.iter().any(|(name, value)| is_representative(&facts(name, value))));
    }

    #[test]
    fn a_failure_concerns_only_its_own_extent() {
        let extent = |reason: Error, answers: bool| {
            let outages = Outages::new();
            let [page, other] = [&b"1"[..], b"2"].map(|key| outages.failure_scope(1, key));
            if answers {
                outages.answered(&attempt(other, 0), None, 20, HOLD);
            }
            outages.failed(&attempt(page, 10), &failure(reason), 30, HOLD);
            [page, other].map(|page| outages.known_failure(page, ALL, true, 40).is_some())
        };
        assert_eq!(extent(Error::ConnectRefused, true), [true, true]);
        assert_eq!(extent(Error::UpstreamTimeout, true), [true, false]);
        assert_eq!(extent(Error::UpstreamTimeout, false), [true, true]);
        assert_eq!(extent(Error::BadAnswer, false), [true, false]);
        assert_eq!(extent(Error::Draining, false), [false, false]);
    }

    #[test]
    fn responses_that_must_not_be_stale_are_fetched() {
        let outages = Outages::new();
        let page = outages.failure_scope(1, b"1");
        let unreachable = Fallback { on_error: false, ..ALL };
        let look = |fallback, now| outages.known_failure(page, fallback, true, now);
        outages.answered(&attempt(page, 0), Some(StatusCode::INTERNAL_SERVER_ERROR), 10, HOLD);
        assert_eq!(look(unreachable, 20), None);
        assert!(look(ALL, 20).is_some());
        outages.failed(&attempt(page, 0), &failure(Error::Connect), 30, HOLD);
        assert_eq!(look(Fallback::default(), 40), None);
        assert_eq!(look(unreachable, 40).unwrap().status, None);
    }
}
