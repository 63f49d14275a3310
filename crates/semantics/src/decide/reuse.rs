//! Reuse of a stored response for a request (RFC 9111, 4; RFC 5861).
//!
//! The caller has found the stored response under the key and variant of the request. [`decide`]
//! combines the directives of the origin with those of the client. A stale response is served only
//! if the origin, the client or the operator permits it and nothing forbids it (4.2.4).

use http::StatusCode;
use http::header::HeaderName;

use crate::fields::assumed_vary;
use crate::fields::cache_control::{Delta, MaxStale};
use crate::request::facts::{MethodClass, RequestFacts};
use crate::settings::stale_cases::StaleCases;
use crate::settings::{Settings, Sharing};
use crate::stored::packed::{Flag, Packed};
use crate::time::{Millis, Seconds, Time};

/// The decision about a stored response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reuse {
    /// Serve it; it is fresh.
    Fresh {
        /// The `Age` to send.
        age: Seconds,
    },
    /// Serve it although it is stale.
    Stale {
        /// The `Age` to send.
        age: Seconds,
        /// The source of the permission.
        permit: StalePermit,
    },
    /// Ask the origin first, with a condition if there is a validator.
    Validate {
        /// The current age of the response.
        age: Seconds,
        /// Why it cannot be served without validation.
        cause: Cause,
        /// The permitted uses if the origin fails.
        fallback: Fallback,
    },
    /// The client accepts only a stored response, and this one may not be served: respond with 504
    /// (RFC 9111, 5.2.1.7).
    GatewayTimeout {
        /// Why it cannot be served.
        cause: Cause,
    },
    /// It must not be used for this request in any way: the request bypasses the cache.
    Unusable,
    /// It must not be shared with identified requests such as this one: fetch another response.
    NotShared,
    /// Its staleness exceeds the operator's limit: treat it as absent.
    Outlived,
}

/// Why a stored response needs validation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// `no-cache` in the stored response.
    NoCache,
    /// `no-cache` (or `Pragma: no-cache`) in the request.
    RequestNoCache,
    /// The response is stale.
    Expired,
    /// The age exceeds the request's `max-age`.
    RequestMaxAge,
    /// The remaining freshness is less than the request's `min-fresh`.
    RequestMinFresh,
}

/// The source of the permission to serve a stale response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StalePermit {
    /// The client's `max-stale`.
    MaxStale,
    /// `stale-while-revalidate`: serve at once, validate in the background.
    WhileRevalidate,
}

/// The permitted uses of a stale response if the origin fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fallback {
    /// True if it may be served instead of a response with a status in `cases`.
    pub on_error: bool,
    /// True if it may be served if the origin is unreachable or does not respond.
    pub on_unreachable: bool,
    /// The errors that count.
    pub cases: StaleCases,
}

impl Fallback {
    /// Returns the fallback that permits use for all these errors.
    pub fn on(cases: StaleCases) -> Fallback {
        Fallback { on_error: true, on_unreachable: true, cases }
    }

    /// Returns whether the stored response may be served after a failure, which a client would get
    /// as `status`.
    pub fn covers_failure(self, status: StatusCode) -> bool {
        self.on_unreachable && self.cases.has_failure(status)
    }

    /// Returns whether the stored response may be served instead of one with `status`. A gateway
    /// error (502, 504) or an unavailable server (503) in response to a validation counts as no
    /// response (RFC 9111, 4.3.3). A 500 comes from the application itself and needs
    /// `stale-if-error`.
    pub fn covers(self, status: StatusCode) -> bool {
        (self.on_error || (self.on_unreachable && matches!(status.as_u16(), 502..=504)))
            && self.cases.has(status)
    }
}

/// Returns whether `stale-if-error` usually applies to a status (RFC 5861, 4).
pub fn is_error(status: StatusCode) -> bool {
    matches!(status.as_u16(), 500 | 502 | 503 | 504)
}

/// Decides how a stored response may be used for a request with its key and variant. `selects`
/// returns whether the response was selected by the request field with this name.
pub fn decide(
    stored: &Packed,
    selects: impl Fn(&str) -> bool,
    request: &RequestFacts,
    now: Time,
    settings: &Settings,
) -> Reuse {
    decide_limited(stored, selects, request, now, settings, None)
}

/// Age from which on a stored response needs validation, whatever its lifetime: it may have been
/// purged without the knowledge of this cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AgeLimit {
    /// The greatest age without validation.
    pub age: Seconds,
    /// True if an older one may be served when the origin fails.
    pub stale_if_error: bool,
}

/// Decides like [`decide`], for a response that may not be used without validation beyond a limit.
pub fn decide_limited(
    stored: &Packed,
    selects: impl Fn(&str) -> bool,
    request: &RequestFacts,
    now: Time,
    settings: &Settings,
    limit: Option<AgeLimit>,
) -> Reuse {
    if !is_usable(stored, request, settings) {
        return Reuse::Unusable;
    }
    if !is_shared(stored, selects, request) {
        return Reuse::NotShared;
    }
    let age = stored.age(now);
    let beyond = limit.filter(|limit| age >= limit.age);
    let case = Case { stored, request, age, settings, beyond };
    let Some(cause) = case.cause() else { return Reuse::Fresh { age } };
    if settings.keep.is_some_and(|keep| case.staleness() > keep) {
        return Reuse::Outlived;
    }
    if let Some(permit) = case.stale_permit(cause) {
        return Reuse::Stale { age, permit };
    }
    if request.directives.only_if_cached {
        return Reuse::GatewayTimeout { cause };
    }
    Reuse::Validate { age, cause, fallback: case.fallback(cause) }
}

/// Returns whether a fresh response expires so soon that it may be validated in advance, so that
/// later requests need not wait: within the final share of its lifetime that the settings define.
pub fn is_nearly_stale(stored: &Packed, age: Seconds, settings: &Settings) -> bool {
    let lifetime = u64::from(stored.lifetime().get());
    let left = lifetime.saturating_sub(u64::from(age.get()));
    left * 100 < lifetime * u64::from(settings.refresh_ahead_percent)
}

/// Returns whether a stored response is worth a background validation: it is stale, has a
/// validator, and would be fresh for a while once confirmed. `outdated` is the time of a soft
/// purge, which ends the lifetime early.
pub fn is_worth_validating(
    stored: &Packed,
    outdated: Option<Time>,
    now: Time,
    settings: &Settings,
) -> bool {
    let present = outdated.map_or(*stored, |at| stored.outdated(at));
    let (age, lifetime) = (present.age(now), present.lifetime());
    stored.status() == StatusCode::OK
        && stored.has_validator()
        && !stored.is(Flag::NoCache)
        && !stored.is(Flag::HeadOnly)
        && stored.lifetime() > Seconds::ZERO
        && lifetime <= age
        && settings.keep.is_none_or(|keep| age.minus(lifetime) <= keep)
}

/// Returns whether requests that waited for a response (collapsed requests) may use it without
/// asking the origin, apart from their own directives. `when_asked` is
/// [`age::when_asked`](crate::age::when_asked). A response that became stale only in transit may be
/// used by all waiting requests, just as by the one that fetched it, unless its lifetime is
/// heuristic.
pub fn is_for_waiters(stored: &Packed, when_asked: Millis, settings: &Settings) -> bool {
    let is_fresh = stored.is_fresh(stored.received());
    !stored.is(Flag::NoCache)
        && stored.lifetime().millis() > when_asked
        && (is_fresh || may_be_stale(stored, settings))
}

/// The start of a fetch relative to the arrival of a request that waited for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FetchTime {
    /// The fetch began before the request arrived, at this time.
    Before(Time),
    /// The fetch began after the request arrived.
    After,
}

/// Returns whether a request that arrived before the response and waited for it may use it. The
/// response must satisfy [`is_for_waiters`] and be selected by the request's fields `selected_by`.
/// The client's directives about age and freshness apply to the arrival of the request, since its
/// own fetch would have taken as long. A fetch that began later is as good as its own.
pub fn may_follow(
    stored: &Packed,
    selected_by: &[HeaderName],
    request: &RequestFacts,
    fetched: FetchTime,
    settings: &Settings,
) -> bool {
    let meets_directives = match fetched {
        FetchTime::After => true,
        FetchTime::Before(came) => {
            let age = stored.age_as_of(came);
            let case = Case { stored, request, age, settings, beyond: None };
            !request.directives.no_cache
                && !case.is_too_old_for_client()
                && !case.is_too_short_for_client()
        }
    };
    is_usable(stored, request, settings)
        && is_shared(stored, |name| selected_by.iter().any(|selects| selects == name), request)
        && meets_directives
}

/// Returns whether a stored response may be used for a request at all.
fn is_usable(stored: &Packed, request: &RequestFacts, settings: &Settings) -> bool {
    request.class == MethodClass::Cacheable
        && (!request.authorized || settings.reuse_for_authorized || stored.is(Flag::Shareable))
}

/// Returns whether a response may be used for the client of a request: a positive lifetime was
/// stated, or the fields that identify the client selected the response.
fn is_shared(stored: &Packed, selects: impl Fn(&str) -> bool, request: &RequestFacts) -> bool {
    stored.is_stated() || request.is_told_apart_by(selects)
}

/// Returns whether a response was selected by the fields that it is assumed to depend on
/// ([`assumed_vary`]), if there must be any. One without them was stored under other settings, or a
/// 304 has withdrawn its lifetime.
pub fn is_keyed_as_assumed(
    stored: &Packed,
    selects: impl Fn(&str) -> bool,
    settings: &Settings,
) -> bool {
    stored.is_stated() || !assumed_vary::is_added(settings) || selects(assumed_vary::OF_ALL)
}

/// Returns whether a response may be served stale at all. Careful sharing requires a stated
/// positive lifetime, and errors are excluded if the operator does not keep them.
fn may_be_stale(stored: &Packed, settings: &Settings) -> bool {
    (settings.sharing == Sharing::Rfc || stored.is_stated())
        && !settings.lifetimes.keep_no_error(stored.status())
}

struct Case<'a> {
    stored: &'a Packed,
    request: &'a RequestFacts,
    age: Seconds,
    settings: &'a Settings,
    /// The limit that its age exceeds.
    beyond: Option<AgeLimit>,
}

impl Case<'_> {
    /// Returns why the response needs validation; `None` if it does not.
    fn cause(&self) -> Option<Cause> {
        if self.stored.is(Flag::NoCache) {
            Some(Cause::NoCache)
        } else if self.request.directives.no_cache {
            Some(Cause::RequestNoCache)
        } else if self.stored.lifetime() <= self.age || self.beyond.is_some() {
            Some(Cause::Expired)
        } else if self.is_too_old_for_client() {
            Some(Cause::RequestMaxAge)
        } else if self.is_too_short_for_client() {
            Some(Cause::RequestMinFresh)
        } else {
            None
        }
    }

    /// Returns whether the client asks for a younger response. `max-age=0` is a reload: ages are
    /// rounded down, so every stored response counts as older. Only an `immutable` one needs no
    /// validation while it is fresh (RFC 8246, 2).
    fn is_too_old_for_client(&self) -> bool {
        match self.request.directives.max_age.or_zero_when_invalid() {
            None => false,
            Some(Seconds::ZERO) => {
                !(self.stored.is(Flag::Immutable) && self.stored.lifetime() > self.age)
            }
            Some(limit) => self.age > limit,
        }
    }

    fn is_too_short_for_client(&self) -> bool {
        match self.request.directives.min_fresh {
            Delta::Absent => false,
            Delta::Invalid => true,
            Delta::Value(wanted) => self.stored.lifetime().minus(self.age) < wanted,
        }
    }

    /// Returns for how long the response has been stale.
    fn staleness(&self) -> Seconds {
        self.age.minus(self.stored.lifetime())
    }

    /// Returns whether an explicit directive forbids stale use, even during an outage (RFC 9111,
    /// 4.2.4).
    fn forbids_stale(&self) -> bool {
        [Flag::NoCache, Flag::MustRevalidate, Flag::ProxyRevalidate, Flag::SMaxAge]
            .into_iter()
            .any(|flag| self.stored.is(flag))
    }

    /// Same as [`Case::forbids_stale`], for the windows that the origin granted (RFC 5861).
    fn forbids_stale_extensions(&self) -> bool {
        let by_s_maxage = self.stored.is(Flag::SMaxAge) && !self.settings.stale_despite_s_maxage;
        by_s_maxage
            || [Flag::NoCache, Flag::MustRevalidate, Flag::ProxyRevalidate]
                .into_iter()
                .any(|flag| self.stored.is(flag))
    }

    fn stale_permit(&self, cause: Cause) -> Option<StalePermit> {
        if cause != Cause::Expired
            || self.beyond.is_some()
            || self.is_too_old_for_client()
            || self.is_too_short_for_client()
            || !may_be_stale(self.stored, self.settings)
        {
            return None;
        }
        let by_client = match self.request.directives.max_stale {
            MaxStale::None => false,
            MaxStale::UpTo(limit) => self.staleness() <= limit,
            MaxStale::Any => true,
        };
        if by_client && !self.forbids_stale() {
            return Some(StalePermit::MaxStale);
        }
        let window =
            self.stored.stale_while_revalidate().unwrap_or(self.settings.stale_while_revalidate);
        let by_origin = window > Seconds::ZERO && self.staleness() <= window;
        (by_origin && !self.forbids_stale_extensions()).then_some(StalePermit::WhileRevalidate)
    }

    /// Returns the permitted uses if the origin fails. A client that sent `no-cache` gets the
    /// origin's response or the error.
    fn fallback(&self, cause: Cause) -> Fallback {
        if matches!(cause, Cause::NoCache | Cause::RequestNoCache)
            || self.beyond.is_some_and(|limit| !limit.stale_if_error)
            || !may_be_stale(self.stored, self.settings)
        {
            return Fallback::default();
        }
        let said = self.stored.stale_if_error();
        let origin = said.unwrap_or(self.settings.stale_if_error);
        let client = self.request.directives.stale_if_error.or_zero_when_invalid();
        let by_origin = self.is_within(origin) && !self.forbids_stale_extensions();
        let by_client = self.is_within(client.unwrap_or_default()) && !self.forbids_stale();
        let on_error = by_origin || by_client;
        let disconnected = cause == Cause::Expired
            && !self.forbids_stale()
            && !self.is_too_old_for_client()
            && !self.is_too_short_for_client()
            && said.is_none_or(|said| self.is_within(said))
            && self.is_within(self.settings.stale_when_unreachable);
        match on_error || disconnected {
            true => Fallback { on_error, on_unreachable: true, cases: self.settings.stale_if },
            false => Fallback::default(),
        }
    }

    fn is_within(&self, window: Seconds) -> bool {
        window > Seconds::ZERO && self.staleness() <= window
    }
}

#[cfg(test)]
mod tests {
    use http::header;

    use super::*;
    use crate::fixture::{AT_NOW, EARLIER_DATE, NOW, NOW_DATE, headers, later, packed};
    use crate::request::facts::{Identity, TargetFacts};
    use crate::response::age;
    use crate::settings::Lifetimes;
    use crate::time::ExchangeTimes;

    fn at(response: &str, request: &str, seconds: u64, settings: &Settings) -> Reuse {
        let stored = packed(&[&format!("Cache-Control: {response}"), "ETag: \"a\""]);
        let request = headers(&[&format!("Cache-Control: {request}")]);
        let facts = RequestFacts::of(&http::Method::GET, &request);
        decide(&stored, |_| false, &facts, later(seconds), settings)
    }

    /// Returns the decision as text: `fresh`, `stale MaxStale`, `504 Expired`, `validate Expired`.
    /// The last is followed by `+error` and `+unreachable` for the permitted fallbacks.
    fn words(response: &str, request: &str, seconds: u64) -> String {
        match at(response, request, seconds, &Settings::default()) {
            Reuse::Fresh { age } => {
                assert_eq!(u64::from(age.get()), seconds);
                "fresh".into()
            }
            Reuse::Stale { permit, .. } => format!("stale {permit:?}"),
            Reuse::GatewayTimeout { cause } => format!("504 {cause:?}"),
            Reuse::Unusable => "unusable".into(),
            Reuse::NotShared => "not shared".into(),
            Reuse::Outlived => "outlived".into(),
            Reuse::Validate { cause, fallback, .. } => {
                let error = if fallback.on_error { " +error" } else { "" };
                let unreachable = if fallback.on_unreachable { " +unreachable" } else { "" };
                format!("validate {cause:?}{error}{unreachable}")
            }
        }
    }

    #[test]
    fn only_what_a_304_makes_fresh_again_is_worth_a_validation_that_nobody_waits_for() {
        let worth = |lines: &[&str], seconds, keep| {
            let settings = Settings { keep, ..Settings::default() };
            is_worth_validating(&packed(lines), None, later(seconds), &settings)
        };
        let (minute, tag) = ("Cache-Control: max-age=60", "ETag: \"a\"");
        assert!(!worth(&[minute, tag], 59, None));
        assert!(worth(&[minute, tag], 60, None));
        assert!(worth(&[minute, "Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT"], 60, None));
        assert!(!worth(&[minute], 60, None));
        assert!(!worth(&["Cache-Control: max-age=0", tag], 60, None));
        assert!(!worth(&["Cache-Control: max-age=60, no-cache", tag], 60, None));
        let keep = Some(Seconds::new(10));
        assert!(worth(&[minute, tag], 70, keep) && !worth(&[minute, tag], 71, keep));
        let settings = Settings::default();
        let purged = |at| is_worth_validating(&packed(&[minute, tag]), at, later(0), &settings);
        assert!(purged(Some(later(0))) && !purged(None));
        assert!(purged(Some(later(1))), "a purge is past, whatever the clock says");
    }

    #[test]
    fn behind_a_clock_that_was_set_back_nothing_is_fresh() {
        let control = "Cache-Control: max-age=60, stale-while-revalidate=600, stale-if-error=600";
        let stored = packed(&[control, "ETag: \"a\""]);
        let facts = RequestFacts::of(&http::Method::GET, &headers(&[]));
        let before = |seconds| Time::from_unix(later(0).unix() - seconds);
        let at =
            |stored: &Packed, now| decide(stored, |_| false, &facts, now, &Settings::default());
        for seconds in [0, 1, 2] {
            assert!(matches!(at(&stored, before(seconds)), Reuse::Fresh { .. }), "{seconds}");
        }
        for seconds in [3, 3_600, later(0).unix()] {
            let Reuse::Validate { cause, fallback, .. } = at(&stored, before(seconds)) else {
                panic!("{seconds} s before it came")
            };
            assert_eq!((cause, fallback), (Cause::Expired, Fallback::default()));
            assert!(!stored.is_fresh(before(seconds)) && stored.ttl(before(seconds)) < 0);
        }
        // The same for an unlimited lifetime.
        let ever = packed(&["Cache-Control: max-age=99999999999"]);
        assert!(matches!(at(&ever, before(3_600)), Reuse::Validate { .. }));
        // The clock may be set back to before the soft purge, but not to before the response.
        let purged = stored.outdated(later(30));
        for seconds in [0, 10, 29, 30, 40] {
            let decided = at(&purged, later(seconds));
            assert!(matches!(decided, Reuse::Stale { .. }), "{decided:?} after {seconds} s");
        }
        assert!(matches!(at(&stored.outdated(before(30)), later(1)), Reuse::Stale { .. }));
    }

    #[test]
    fn nothing_permits_the_use_of_a_response_that_a_missed_purge_may_have_removed() {
        let control = "Cache-Control: max-age=60, stale-while-revalidate=600, stale-if-error=600";
        let doubted = packed(&[control, "ETag: \"a\""]).doubted();
        for request in ["x", "max-stale", "stale-if-error=600"] {
            let facts = format!("Cache-Control: {request}");
            let facts = RequestFacts::of(&http::Method::GET, &headers(&[&facts]));
            let decided = decide(&doubted, |_| false, &facts, later(1), &Settings::default());
            let Reuse::Validate { cause, fallback, .. } = decided else { panic!("{decided:?}") };
            assert_eq!((cause, fallback), (Cause::Expired, Fallback::default()), "{request}");
        }
    }

    #[test]
    fn beyond_an_age_limit_only_an_origin_that_fails_permits_the_use_of_a_response() {
        let control = "Cache-Control: max-age=60, stale-while-revalidate=600, stale-if-error=600";
        let stored = packed(&[control, "ETag: \"a\""]);
        for request in ["x", "max-stale", "stale-if-error=600"] {
            let facts = format!("Cache-Control: {request}");
            let facts = RequestFacts::of(&http::Method::GET, &headers(&[&facts]));
            let at = |seconds, stale_if_error| {
                let limit = Some(AgeLimit { age: Seconds::new(10), stale_if_error });
                let (now, settings) = (later(seconds), Settings::default());
                decide_limited(&stored, |_| false, &facts, now, &settings, limit)
            };
            assert!(matches!(at(9, false), Reuse::Fresh { .. }));
            for (seconds, stale_if_error) in [(10, false), (10, true), (70, false), (70, true)] {
                let decided = at(seconds, stale_if_error);
                let Reuse::Validate { cause, fallback, .. } = decided else {
                    panic!("{decided:?}")
                };
                let expected = match stale_if_error {
                    true => Fallback::on(StaleCases::USUAL),
                    false => Fallback::default(),
                };
                assert_eq!((cause, fallback), (Cause::Expired, expected), "{request} {seconds}");
            }
        }
    }

    #[test]
    fn a_response_past_the_keep_limit_counts_as_absent() {
        let settings = Settings { keep: Some(Seconds::new(100)), ..Settings::default() };
        let at = |seconds| at("max-age=60", "x", seconds, &settings);
        assert!(matches!(at(59), Reuse::Fresh { .. }));
        assert!(matches!(at(160), Reuse::Validate { .. }));
        assert_eq!(at(161), Reuse::Outlived);
    }

    #[test]
    fn the_end_of_a_lifetime_is_known() {
        let stored = packed(&["Cache-Control: max-age=100"]);
        let settings = Settings { refresh_ahead_percent: 10, ..Settings::default() };
        let nearly = |age, settings| is_nearly_stale(&stored, Seconds::new(age), settings);
        assert!(!nearly(90, &settings));
        assert!(nearly(91, &settings));
        assert!(!nearly(99, &Settings::default()));
    }

    #[test]
    fn age_and_directives_decide() {
        let cases = [
            // response, request, seconds later, decision
            ("max-age=60", "x", 0, "fresh"),
            ("max-age=60", "x", 59, "fresh"),
            ("max-age=60", "x", 60, "validate Expired +unreachable"),
            ("max-age=60", "x", 60 + 86_400, "validate Expired +unreachable"),
            ("max-age=60", "x", 61 + 86_400, "validate Expired"),
            ("max-age=60, no-cache", "x", 0, "validate NoCache"),
            ("max-age=60, no-cache=\"x-a\"", "x", 0, "fresh"),
            // Directives of the client.
            ("max-age=60", "no-cache", 0, "validate RequestNoCache"),
            ("max-age=60", "no-store", 0, "fresh"),
            ("max-age=60", "max-age=30", 30, "fresh"),
            ("max-age=60", "max-age=30", 31, "validate RequestMaxAge"),
            ("max-age=60", "max-age=0", 0, "validate RequestMaxAge"),
            ("max-age=60, immutable", "max-age=0", 30, "fresh"),
            ("max-age=60, immutable", "max-age=20", 30, "validate RequestMaxAge"),
            ("max-age=60, immutable", "no-cache", 30, "validate RequestNoCache"),
            ("max-age=60, immutable", "max-age=0", 60, "validate Expired"),
            ("max-age=60", "max-age=x", 1, "validate RequestMaxAge"),
            ("max-age=60", "min-fresh=10", 50, "fresh"),
            ("max-age=60", "min-fresh=10", 51, "validate RequestMinFresh"),
            ("max-age=60", "min-fresh=x", 1, "validate RequestMinFresh"),
            ("max-age=60", "max-stale", 1000, "stale MaxStale"),
            ("max-age=60", "max-stale=10", 70, "stale MaxStale"),
            ("max-age=60", "max-stale=10", 71, "validate Expired +unreachable"),
            ("max-age=60", "max-stale=10, max-age=60", 65, "validate Expired"),
            ("max-age=60", "max-stale=10, max-age=65", 65, "stale MaxStale"),
            ("max-age=60", "max-stale=10, min-fresh=1", 65, "validate Expired"),
            ("max-age=60", "max-stale, no-cache", 65, "validate RequestNoCache"),
            ("max-age=60, no-cache", "max-stale", 65, "validate NoCache"),
            ("max-age=60", "only-if-cached", 59, "fresh"),
            ("max-age=60", "only-if-cached", 60, "504 Expired"),
            ("max-age=60", "only-if-cached, max-stale", 60, "stale MaxStale"),
            ("max-age=60", "only-if-cached, no-cache", 0, "504 RequestNoCache"),
            // Directives that forbid stale use, for all clients and even if the origin is down.
            ("max-age=60, must-revalidate", "max-stale", 60, "validate Expired"),
            ("max-age=60, proxy-revalidate", "max-stale", 60, "validate Expired"),
            ("s-maxage=60", "max-stale", 60, "validate Expired"),
            ("max-age=60, must-revalidate", "stale-if-error=99", 60, "validate Expired"),
            ("s-maxage=60, stale-if-error=99", "x", 60, "validate Expired"),
            ("s-maxage=60, stale-while-revalidate=99", "x", 60, "validate Expired"),
            // RFC 5861.
            ("max-age=60, stale-while-revalidate=9", "x", 69, "stale WhileRevalidate"),
            ("max-age=60, stale-while-revalidate=9", "x", 70, "validate Expired +unreachable"),
            ("max-age=60, stale-while-revalidate=x", "x", 60, "validate Expired +unreachable"),
            ("max-age=60, stale-while-revalidate=9", "max-age=0", 69, "validate Expired"),
            ("max-age=60, stale-if-error=9", "x", 69, "validate Expired +error +unreachable"),
            ("max-age=60, stale-if-error=9", "x", 70, "validate Expired"),
            ("max-age=60", "stale-if-error=9", 69, "validate Expired +error +unreachable"),
            (
                "max-age=60, stale-if-error=9",
                "max-age=0",
                69,
                "validate Expired +error +unreachable",
            ),
            ("max-age=60, stale-if-error=9", "no-cache", 69, "validate RequestNoCache"),
        ];
        for (response, request, seconds, expected) in cases {
            let case = format!("{response} | {request} | {seconds}");
            assert_eq!(words(response, request, seconds), expected, "{case}");
        }
    }

    #[test]
    fn settings_fill_in_what_the_origin_left_open() {
        let settings = Settings {
            stale_while_revalidate: Seconds::new(10),
            stale_if_error: Seconds::new(20),
            stale_when_unreachable: Seconds::ZERO,
            ..Settings::default()
        };
        let is_stale = |response: &str, seconds: u64| {
            matches!(at(response, "x", seconds, &settings), Reuse::Stale { .. })
        };
        assert!(is_stale("max-age=60", 70));
        assert!(!is_stale("max-age=60", 71));
        assert!(!is_stale("max-age=60, stale-while-revalidate=0", 61));
        assert!(!is_stale("max-age=60, must-revalidate", 61));
        let fallback = |response: &str, seconds: u64| match at(response, "x", seconds, &settings) {
            Reuse::Validate { fallback, .. } => (fallback.on_error, fallback.on_unreachable),
            other => panic!("{other:?}"),
        };
        assert_eq!(fallback("max-age=60", 80), (true, true));
        assert_eq!(fallback("max-age=60", 81), (false, false));
    }

    #[test]
    fn a_gateways_error_counts_as_no_answer_and_a_500_only_by_permission() {
        let codes = |on_error: bool, on_unreachable: bool| -> Vec<u16> {
            let fallback = Fallback { on_error, on_unreachable, cases: StaleCases::USUAL };
            let all = (200..600).filter_map(|code| StatusCode::from_u16(code).ok());
            all.filter(|status| fallback.covers(*status)).map(|status| status.as_u16()).collect()
        };
        assert_eq!(codes(true, true), [500, 502, 503, 504]);
        assert_eq!(codes(false, true), [502, 503, 504]);
        assert_eq!(codes(false, false), [0; 0]);
        let named = Fallback::on(StaleCases::named(["404", "503"]).unwrap_or_default());
        let all = [404, 500, 502, 503].map(|code| StatusCode::from_u16(code).unwrap());
        assert_eq!(all.map(|status| named.covers(status)), [true, false, false, true]);
        assert!(!named.covers_failure(StatusCode::BAD_GATEWAY));
    }

    #[test]
    fn s_maxage_yields_to_the_origins_own_windows_only_when_set_so() {
        let lenient = Settings { stale_despite_s_maxage: true, ..Settings::default() };
        let response = "s-maxage=60, stale-while-revalidate=9";
        let decision = at(response, "x", 61, &lenient);
        assert!(matches!(decision, Reuse::Stale { permit: StalePermit::WhileRevalidate, .. }));
        assert!(matches!(at("s-maxage=60", "max-stale", 61, &lenient), Reuse::Validate { .. }));
    }

    #[test]
    fn other_methods_never_use_what_is_stored() {
        let stored = packed(&["Cache-Control: max-age=60"]);
        let decide = |method: http::Method| {
            let facts = RequestFacts::of(&method, &headers(&[]));
            super::decide(&stored, |_| false, &facts, later(1), &Settings::default())
        };
        assert!(matches!(decide(http::Method::GET), Reuse::Fresh { .. }));
        assert!(matches!(decide(http::Method::HEAD), Reuse::Fresh { .. }));
        assert_eq!(decide(http::Method::POST), Reuse::Unusable);
        assert_eq!(decide(http::Method::OPTIONS), Reuse::Unusable);
    }

    #[test]
    fn authorized_requests_share_by_choice() {
        let facts = RequestFacts::of(&http::Method::GET, &headers(&["Authorization: x"]));
        let decide = |response: &str, settings: &Settings| {
            super::decide(&packed(&[response]), |_| false, &facts, later(1), settings)
        };
        let plain = "Cache-Control: max-age=60";
        assert!(matches!(decide(plain, &Settings::of(Sharing::Rfc)), Reuse::Fresh { .. }));
        assert_eq!(decide(plain, &Settings::default()), Reuse::Unusable);
        let public = "Cache-Control: public, max-age=60";
        assert!(matches!(decide(public, &Settings::default()), Reuse::Fresh { .. }));
    }

    #[test]
    fn an_identified_client_gets_what_was_stated_to_be_shared_or_is_its_own() {
        let fields = [header::COOKIE].into_iter().collect();
        let identity = Identity { authorized: false, fields };
        let facts = RequestFacts::of(&http::Method::GET, &headers(&["Cookie: a=b"]));
        let facts = facts.with("/", identity);
        let modified = &*format!("Last-Modified: {EARLIER_DATE}");
        let decide = |lines: &[&str], selected_by: &[HeaderName]| {
            super::decide(
                &packed(lines),
                |name| selected_by.iter().any(|s| s == name),
                &facts,
                later(1),
                &Settings::default(),
            )
        };
        assert!(matches!(decide(&["Cache-Control: max-age=60"], &[]), Reuse::Fresh { .. }));
        assert_eq!(decide(&[modified], &[]), Reuse::NotShared);
        assert_eq!(decide(&[modified], &[header::ACCEPT]), Reuse::NotShared);
        assert!(matches!(decide(&[modified], &[header::COOKIE]), Reuse::Fresh { .. }));
        let over = ["Cache-Control: max-age=0", "ETag: \"a\""];
        assert_eq!(decide(&over, &[]), Reuse::NotShared);
        assert!(matches!(decide(&over, &[header::COOKIE]), Reuse::Validate { .. }));
        let stored = packed(&[modified]);
        let follows = |names: &[HeaderName]| {
            may_follow(&stored, names, &facts, FetchTime::Before(later(0)), &Settings::default())
        };
        assert!(!follows(&[]) && follows(&[header::COOKIE]));
    }

    #[test]
    fn no_error_is_served_stale_where_none_is_kept() {
        let lines = headers(&["Cache-Control: max-age=60, stale-while-revalidate=60"]);
        let is_stale = |status: u16, errors: Option<Seconds>| {
            let lifetimes = Lifetimes { errors, ..Lifetimes::default() };
            let settings = Settings { lifetimes, ..Settings::default() };
            let (target, status) = (TargetFacts::default(), StatusCode::from_u16(status).unwrap());
            let stored = Packed::of(target, status, &lines, AT_NOW, &settings);
            let facts = RequestFacts::of(&http::Method::GET, &headers(&[]));
            matches!(decide(&stored, |_| false, &facts, later(61), &settings), Reuse::Stale { .. })
        };
        assert!(is_stale(404, None) && is_stale(200, Some(Seconds::ZERO)));
        assert!(!is_stale(404, Some(Seconds::ZERO)));
    }

    #[test]
    fn a_response_without_a_positive_stated_lifetime_is_never_served_stale() {
        let modified = &*format!("Last-Modified: {EARLIER_DATE}");
        let window = Seconds::new(1_000_000);
        for sharing in [Sharing::Careful, Sharing::Rfc] {
            let settings = Settings {
                stale_while_revalidate: window,
                stale_if_error: window,
                stale_when_unreachable: window,
                ..Settings::of(sharing)
            };
            for lines in [&["Cache-Control: max-age=0"][..], &[modified]] {
                let at = |request: &[&str]| {
                    let facts = RequestFacts::of(&http::Method::GET, &headers(request));
                    decide(&packed(lines), |_| false, &facts, later(100_000), &settings)
                };
                let is_rfc = sharing == Sharing::Rfc;
                for request in [&[][..], &["Cache-Control: max-stale"]] {
                    let decided = at(request);
                    assert_eq!(matches!(decided, Reuse::Stale { .. }), is_rfc, "{decided:?}");
                }
                let only = at(&["Cache-Control: only-if-cached, max-stale"]);
                let refused = Reuse::GatewayTimeout { cause: Cause::Expired };
                assert_eq!(only == refused, !is_rfc, "{only:?}");
                if let Reuse::Validate { fallback, .. } = at(&["Cache-Control: stale-if-error=9"]) {
                    assert_eq!(fallback, Fallback::default());
                }
            }
        }
    }

    #[test]
    fn waiting_requests_may_use_a_response_that_was_fresh_when_requested() {
        let at = |millis| Time::from_unix_millis(NOW.unix_millis() + millis);
        // Requested at 0, received after 1.5 s; a second request arrived after 1.2 s.
        let times = ExchangeTimes { requested: at(0), received: at(1500) };
        let shared = |response: &[&str], request: &[&str]| {
            let (response, request) = (headers(response), headers(request));
            let settings = Settings { reuse_for_authorized: false, ..Settings::default() };
            let facts = RequestFacts::of(&http::Method::GET, &request);
            let stored =
                Packed::of(TargetFacts::default(), StatusCode::OK, &response, times, &settings);
            is_for_waiters(&stored, age::when_asked(&response, times), &settings)
                && may_follow(&stored, &[], &facts, FetchTime::Before(at(1200)), &settings)
        };
        let date = format!("Date: {NOW_DATE}");
        let second = "Cache-Control: max-age=1";
        type Case<'a> = (&'a [&'a str], &'a [&'a str], bool);
        let guess = &*format!("Last-Modified: {}", "Fri, 15 Jan 2027 07:59:50 GMT");
        let cases: [Case; 21] = [
            (&[second], &[], true),
            (&[second, &date], &[], true),
            (&[second, "Age: 1"], &[], true),
            (&[second, "Age: 3"], &[], false),
            (&[second, "Age: 99999999999999999999"], &[], false),
            (&[second, &format!("Date: {EARLIER_DATE}")], &[], false),
            (&["Cache-Control: max-age=1, must-revalidate"], &[], true),
            (&[guess, &date], &[], false),
            (&["Cache-Control: s-maxage=1"], &[], true),
            (&["Cache-Control: max-age=0", "ETag: \"a\""], &[], false),
            (&["Cache-Control: max-age=1, no-cache", "ETag: \"a\""], &[], false),
            (&["Cache-Control: max-age=1", "Vary: *", "ETag: \"a\""], &[], false),
            (&[second], &["Cache-Control: no-cache"], false),
            (&[second], &["Pragma: no-cache"], false),
            (&[second], &["Cache-Control: max-age=0"], false),
            (&[second], &["Cache-Control: max-age=1"], true),
            (&["Cache-Control: max-age=9", "Age: 1"], &["Cache-Control: max-age=1"], false),
            (&["Cache-Control: max-age=9"], &["Cache-Control: min-fresh=8"], true),
            (&["Cache-Control: max-age=9"], &["Cache-Control: min-fresh=9"], false),
            (&[second], &["Authorization: x"], false),
            (&["Cache-Control: public, max-age=1"], &["Authorization: x"], true),
        ];
        for (response, request, expected) in cases {
            assert_eq!(shared(response, request), expected, "{response:?} {request:?}");
        }
    }
}
