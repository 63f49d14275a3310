//! What may be done with a stored response for a request (RFC 9111, 4; RFC 5861).
//!
//! The caller has found the stored response under the request's key and variant. [`decide`] then
//! weighs what the origin said when it was stored against what the client asks now. Serving stale
//! is the exception: only where origin, client or operator permit it and nothing forbids it
//! (4.2.4).

use http::StatusCode;

use crate::cache_control::{Delta, MaxStale};
use crate::packed::{Flag, Packed};
use crate::request::{MethodClass, RequestFacts};
use crate::settings::Settings;
use crate::time::{Seconds, Time};

/// What to do with a stored response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reuse {
    /// Serve it with this `Age`.
    Fresh {
        /// The `Age` to send.
        age: Seconds,
    },
    /// Serve it with this `Age` although it is stale.
    Stale {
        /// The `Age` to send.
        age: Seconds,
        /// Who permits it.
        permit: StalePermit,
    },
    /// Ask the origin first: with a condition when `conditional`, else for a new one.
    Validate {
        /// Its age.
        age: Seconds,
        /// Why it cannot be served as it is.
        cause: Cause,
        /// It has a validator to ask with.
        conditional: bool,
        /// What may still be done with it when the origin fails.
        fallback: Fallback,
    },
    /// The client wants a stored answer or none, and this one will not do: answer 504
    /// (RFC 9111, 5.2.1.7).
    GatewayTimeout {
        /// Why it cannot be served.
        cause: Cause,
    },
    /// It must not be used for this request in any way: fetch as if nothing were stored.
    Unusable,
}

/// Why a stored response needs validation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// `no-cache` in the stored response.
    NoCache,
    /// `no-cache` (or `Pragma: no-cache`) in the request.
    RequestNoCache,
    /// It is stale.
    Expired,
    /// Older than the request's `max-age`.
    RequestMaxAge,
    /// Not fresh for as long as the request's `min-fresh`.
    RequestMinFresh,
}

/// Who permits a stale answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StalePermit {
    /// The client's `max-stale`.
    MaxStale,
    /// `stale-while-revalidate`: serve at once, validate in the background.
    WhileRevalidate,
}

/// What may be done with a stale response when the origin fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fallback {
    /// It may be served instead of an answer for which [`is_error`] holds.
    pub on_error: bool,
    /// It may be served when the origin cannot be reached or does not answer.
    pub on_unreachable: bool,
}

/// The statuses that `stale-if-error` covers (RFC 5861, 4).
pub fn is_error(status: StatusCode) -> bool {
    matches!(status.as_u16(), 500 | 502 | 503 | 504)
}

/// Decides for a stored response that matches the request's key and variant.
pub fn decide(stored: &Packed, request: &RequestFacts, now: Time, settings: &Settings) -> Reuse {
    if request.class != MethodClass::Cacheable
        || (request.authorized && !settings.reuse_for_authorized && !stored.is(Flag::Shareable))
    {
        return Reuse::Unusable;
    }
    let case = Case { stored, request, age: stored.age(now), settings };
    let age = case.age;
    let Some(cause) = case.cause() else { return Reuse::Fresh { age } };
    if let Some(permit) = case.stale_permit(cause) {
        return Reuse::Stale { age, permit };
    }
    if request.directives.only_if_cached {
        return Reuse::GatewayTimeout { cause };
    }
    let conditional = stored.has_validator();
    Reuse::Validate { age, cause, conditional, fallback: case.fallback(cause) }
}

struct Case<'a> {
    stored: &'a Packed,
    request: &'a RequestFacts,
    age: Seconds,
    settings: &'a Settings,
}

impl Case<'_> {
    /// Why it cannot be served as it is; `None` when it can.
    fn cause(&self) -> Option<Cause> {
        if self.stored.is(Flag::NoCache) {
            Some(Cause::NoCache)
        } else if self.request.directives.no_cache {
            Some(Cause::RequestNoCache)
        } else if self.stored.lifetime() <= self.age {
            Some(Cause::Expired)
        } else if self.is_too_old_for_client() {
            Some(Cause::RequestMaxAge)
        } else if self.is_too_short_for_client() {
            Some(Cause::RequestMinFresh)
        } else {
            None
        }
    }

    fn is_too_old_for_client(&self) -> bool {
        let limit = self.request.directives.max_age.or_zero_when_invalid();
        limit.is_some_and(|limit| self.age > limit)
    }

    fn is_too_short_for_client(&self) -> bool {
        match self.request.directives.min_fresh {
            Delta::Absent => false,
            Delta::Invalid => true,
            Delta::Value(wanted) => self.stored.lifetime().minus(self.age) < wanted,
        }
    }

    /// How long past its lifetime.
    fn staleness(&self) -> Seconds {
        self.age.minus(self.stored.lifetime())
    }

    /// An explicit directive forbids stale use, also when the origin is down (RFC 9111, 4.2.4).
    fn forbids_stale(&self) -> bool {
        [Flag::NoCache, Flag::MustRevalidate, Flag::ProxyRevalidate, Flag::SMaxAge]
            .into_iter()
            .any(|flag| self.stored.is(flag))
    }

    /// As [`Case::forbids_stale`], for the windows that the origin itself granted (RFC 5861).
    fn forbids_stale_extensions(&self) -> bool {
        let by_s_maxage = self.stored.is(Flag::SMaxAge) && !self.settings.stale_despite_s_maxage;
        by_s_maxage
            || [Flag::NoCache, Flag::MustRevalidate, Flag::ProxyRevalidate]
                .into_iter()
                .any(|flag| self.stored.is(flag))
    }

    fn stale_permit(&self, cause: Cause) -> Option<StalePermit> {
        if cause != Cause::Expired || self.is_too_old_for_client() || self.is_too_short_for_client()
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

    /// A client that asked for `no-cache` gets the origin's answer or the error.
    fn fallback(&self, cause: Cause) -> Fallback {
        if matches!(cause, Cause::NoCache | Cause::RequestNoCache) {
            return Fallback::default();
        }
        let origin = self.stored.stale_if_error().unwrap_or(self.settings.stale_if_error);
        let client = self.request.directives.stale_if_error.or_zero_when_invalid();
        let by_origin = self.is_within(origin) && !self.forbids_stale_extensions();
        let by_client = self.is_within(client.unwrap_or_default()) && !self.forbids_stale();
        let on_error = by_origin || by_client;
        let disconnected = cause == Cause::Expired
            && !self.forbids_stale()
            && !self.is_too_old_for_client()
            && !self.is_too_short_for_client()
            && self.is_within(self.settings.stale_when_unreachable);
        Fallback { on_error, on_unreachable: on_error || disconnected }
    }

    fn is_within(&self, window: Seconds) -> bool {
        window > Seconds::ZERO && self.staleness() <= window
    }
}
