//! The way of a request, before anything is looked up: through the cache, past it, or nowhere. A
//! pure decision, which the request follows and `explain` prints.

use http1::Fields;
use semantics::{MethodClass, RequestFacts, validators};
use store::Key;

use crate::observe::outcome::Bypass;
use crate::rules::request_rules::Rule;

/// The way of a request.
pub(crate) enum Route {
    /// The cache may answer it: what is stored under this key.
    Cache(Key),
    /// Past the cache.
    Pass(Bypass),
    /// Past the cache; what its answer makes invalid is removed (RFC 9111, 4.4).
    Write(Bypass),
    /// It would pass the cache but wants only what is stored: a 504 (RFC 9111, 5.2.1.7).
    Refuse,
    /// Its URL has a host or path that no key can be made of.
    BadUrl,
}

/// The facts that a route is chosen by.
pub(crate) struct RouteInput<'a> {
    pub facts: &'a RequestFacts,
    pub fields: &'a Fields,
    pub rule: Option<&'a Rule>,
    /// It asks for another protocol.
    pub upgrades: bool,
    pub has_body: bool,
    pub has_store: bool,
}

impl RouteInput<'_> {
    /// Returns the way. `key` makes the key of the request's URL: `None` when there is none,
    /// `Some(None)` when it is too long.
    pub fn route(&self, key: impl FnOnce() -> Option<Option<Key>>) -> Route {
        if let Some(route) = self.past_cache() {
            return route;
        }
        match key() {
            None => Route::BadUrl,
            Some(Some(key)) => Route::Cache(key),
            Some(None) => self.pass(Bypass::LongUrl),
        }
    }

    /// Returns the way of a request that the cache must not answer, whatever its key; `None` for
    /// any other.
    pub fn past_cache(&self) -> Option<Route> {
        let why = match self.facts.class {
            MethodClass::Unsafe if self.upgrades => return Some(Route::Write(Bypass::Upgrade)),
            MethodClass::Unsafe => return Some(Route::Write(Bypass::Method)),
            _ if self.upgrades => Bypass::Upgrade,
            MethodClass::Safe => Bypass::Method,
            MethodClass::Cacheable if self.rule.is_some_and(|rule| rule.bypass) => Bypass::Rule,
            MethodClass::Cacheable if self.has_body => Bypass::Method,
            MethodClass::Cacheable if validators::is_for_origin(self.fields) => {
                Bypass::Precondition
            }
            MethodClass::Cacheable if !self.has_store => Bypass::Offline,
            MethodClass::Cacheable => return None,
        };
        Some(self.pass(why))
    }

    /// Returns the way past the cache, if the request permits it.
    fn pass(&self, why: Bypass) -> Route {
        let only_cached = self.facts.directives.only_if_cached;
        match self.facts.class == MethodClass::Cacheable && only_cached {
            true => Route::Refuse,
            false => Route::Pass(why),
        }
    }
}
