//! Route of a request, before any lookup: through the cache, past it, or refused. Pure; the request
//! follows it and `explain` prints it.

use http1::Fields;
use semantics::{MethodClass, RequestFacts, validators};
use store::Key;

use crate::observe::outcome::Bypass;
use crate::rules::request_rules::Rule;

/// Route of a request, decided before any lookup.
pub(crate) enum Route {
    /// The cache may answer it from objects stored under this key.
    Cache(Key),
    /// Past the cache.
    Pass(Bypass),
    /// Past the cache; objects that the response invalidates are removed (RFC 9111, 4.4).
    Write(Bypass),
    /// The request would bypass the cache but accepts only stored responses: 504 (RFC 9111,
    /// 5.2.1.7).
    Refuse,
    /// The host or path of the request makes no valid URL.
    BadUrl,
}

pub(crate) struct RouteInput<'a> {
    pub facts: &'a RequestFacts,
    pub fields: &'a Fields,
    pub rule: Option<&'a Rule>,
    /// True if the request asks for another protocol.
    pub upgrades: bool,
    pub has_body: bool,
    pub has_store: bool,
}

impl RouteInput<'_> {
    /// Returns the route. `key` makes the key of the request's URL: `None` if the URL is not valid,
    /// `Some(None)` if the key is too long.
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

    /// Returns the route of a request that the cache must not answer, whatever its key; `None` for
    /// any other request.
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

    /// Returns the route past the cache, or a refusal if the request accepts only stored responses.
    fn pass(&self, why: Bypass) -> Route {
        let only_cached = self.facts.directives.only_if_cached;
        match self.facts.class == MethodClass::Cacheable && only_cached {
            true => Route::Refuse,
            false => Route::Pass(why),
        }
    }
}
