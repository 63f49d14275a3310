//! Request collapsing (RFC 9111, 4): decides whether a request that must reach the origin shares a
//! fetch with other requests for its key. Pure: depends only on the state of the key's fills.

use semantics::{MethodClass, RequestFacts};
use store::Key;

use crate::fill::registry::HitForMiss;
use crate::get::fit::{Fit, FitInput};
use crate::observe::outcome::Bypass;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Collapse {
    /// Join the running fill, or begin one that other requests may join.
    Share,
    /// Begin a fill that no other request may join.
    Alone,
    /// Send the request to the origin without a fill; store the response if it has become storable.
    PastFills,
    /// Read through another fleet node, which has the document or fetches it; keep nothing here.
    ReadThrough,
    Bypass(Bypass),
}

pub(crate) struct CollapseInput<'a> {
    pub facts: &'a RequestFacts,
    /// How the running fill fits the request; `None` if none runs.
    pub running: Option<Fit>,
    /// Why the response for the key recently could not be shared, or never can be.
    pub hit_for_miss: Option<HitForMiss>,
    /// True if the origin is asked for a range only.
    pub ranged: bool,
    /// True if each request that wants a younger response than the stored one fetches for itself.
    pub obeys_reloads: bool,
    /// True if a stored response is to be validated.
    pub validates: bool,
    /// True if the request has waited in vain and no longer waits.
    pub has_waited_in_vain: bool,
    /// True if another fleet node is asked for the document and this node keeps nothing of it.
    pub is_elsewhere: bool,
}

impl<'a> CollapseInput<'a> {
    /// Returns the inputs for a request that looks up `key` and has not waited in vain.
    /// `validates`: a stored response is to be validated.
    pub fn of(fit: &FitInput<'a>, key: &Key, validates: bool) -> CollapseInput<'a> {
        let (shared, facts) = (&fit.services.shared, fit.facts);
        let seen = || shared.fills.hit_for_miss(key.as_bytes(), fit.services.clock.instant());
        CollapseInput {
            facts,
            running: fit.running(key),
            hit_for_miss: match fit.settings.store {
                true => seen(),
                false => Some(HitForMiss::NotStorable),
            },
            ranged: is_ranged(facts),
            obeys_reloads: !fit.shares_reloads(),
            validates,
            has_waited_in_vain: false,
            is_elsewhere: false,
        }
    }

    /// Decides how the request obtains its response.
    pub fn decide(&self) -> Collapse {
        let directives = &self.facts.directives;
        if directives.no_store {
            // The request may use the stored response, but no part of this exchange may be kept.
            return Collapse::Bypass(Bypass::NoStore);
        }
        let hit_for_miss = self.hit_for_miss.filter(|why| why.concerns(self.facts));
        let is_unstored =
            matches!(hit_for_miss, Some(HitForMiss::NotStorable | HitForMiss::Personal));
        if is_unstored && !self.validates && !self.ranged && !self.facts.is_head {
            return Collapse::PastFills;
        }
        if self.is_elsewhere && !self.validates {
            return Collapse::ReadThrough;
        }
        let is_alone = self.has_waited_in_vain
            || hit_for_miss.is_some()
            || (directives.reloads() && self.obeys_reloads && self.running.is_some())
            || self.running == Some(Fit::Alone);
        if is_alone { Collapse::Alone } else { Collapse::Share }
    }
}

/// Returns whether to ask the origin for the client's range only. If the origin sends the whole
/// body instead, it is stored whole.
pub(crate) fn is_ranged(facts: &RequestFacts) -> bool {
    facts.class == MethodClass::Cacheable && !facts.is_head && facts.has_range
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use http::{HeaderMap, Method, header};

    use super::*;

    fn decide(
        fields: &[(header::HeaderName, &str)],
        change: impl Fn(&mut CollapseInput<'_>),
    ) -> Collapse {
        let fields: HeaderMap =
            fields.iter().map(|(name, value)| (name.clone(), value.parse().unwrap())).collect();
        let facts = RequestFacts::of(&Method::GET, &fields);
        let mut input = CollapseInput {
            facts: &facts,
            running: None,
            hit_for_miss: None,
            ranged: facts.has_range,
            obeys_reloads: true,
            validates: false,
            has_waited_in_vain: false,
            is_elsewhere: false,
        };
        change(&mut input);
        input.decide()
    }

    #[test]
    fn requests_share_a_fetch_unless_they_cannot() {
        let follow = Some(Fit::Follow(None));
        assert_eq!(decide(&[], |_| ()), Collapse::Share);
        assert_eq!(decide(&[], |input| input.running = follow), Collapse::Share);
        assert_eq!(decide(&[], |input| input.running = Some(Fit::Another)), Collapse::Share);
        assert_eq!(decide(&[], |input| input.running = Some(Fit::Alone)), Collapse::Alone);
        assert_eq!(decide(&[], |input| input.has_waited_in_vain = true), Collapse::Alone);
    }

    #[test]
    fn a_reload_joins_no_fetch_that_began_before_it() {
        let reload = [(header::CACHE_CONTROL, "no-cache")];
        assert_eq!(decide(&reload, |_| ()), Collapse::Share);
        let follow = Some(Fit::Follow(None));
        assert_eq!(decide(&reload, |input| input.running = follow), Collapse::Alone);
        // The reload waits for the running fetch and then shares the next one.
        let shared = |input: &mut CollapseInput<'_>| {
            (input.running, input.obeys_reloads) = (follow, false);
        };
        assert_eq!(decide(&reload, shared), Collapse::Share);
    }

    #[test]
    fn unstorable_responses_bypass_fills_unless_stored_or_ranged() {
        let miss = |why| move |input: &mut CollapseInput<'_>| input.hit_for_miss = Some(why);
        assert_eq!(decide(&[], miss(HitForMiss::NotStorable)), Collapse::PastFills);
        assert_eq!(decide(&[], miss(HitForMiss::NotFresh)), Collapse::Alone);
        let range = [(header::RANGE, "bytes=0-1")];
        assert_eq!(decide(&range, miss(HitForMiss::NotStorable)), Collapse::Alone);
        // A personal response to a request with credentials says nothing about other requests.
        assert_eq!(decide(&[], miss(HitForMiss::Personal)), Collapse::Share);
        let authorized = [(header::AUTHORIZATION, "Basic eDp5")];
        assert_eq!(decide(&authorized, miss(HitForMiss::Personal)), Collapse::PastFills);
        let validates = |input: &mut CollapseInput<'_>| {
            (input.validates, input.hit_for_miss) = (true, Some(HitForMiss::NotStorable));
        };
        assert_eq!(decide(&[], validates), Collapse::Alone);
    }

    #[test]
    fn documents_of_another_node_are_read_through_it_if_storable() {
        let elsewhere = |input: &mut CollapseInput<'_>| input.is_elsewhere = true;
        assert_eq!(decide(&[], elsewhere), Collapse::ReadThrough);
        let range = [(header::RANGE, "bytes=0-1")];
        assert_eq!(decide(&range, elsewhere), Collapse::ReadThrough);
        let unstored = |input: &mut CollapseInput<'_>| {
            (input.is_elsewhere, input.hit_for_miss) = (true, Some(HitForMiss::NotStorable));
        };
        assert_eq!(decide(&[], unstored), Collapse::PastFills);
        let stale = |input: &mut CollapseInput<'_>| {
            (input.is_elsewhere, input.validates) = (true, true);
        };
        assert_eq!(decide(&[], stale), Collapse::Share);
    }

    #[test]
    fn no_store_requests_leave_nothing_in_the_cache() {
        let no_store = [(header::CACHE_CONTROL, "no-store")];
        assert_eq!(decide(&no_store, |_| ()), Collapse::Bypass(Bypass::NoStore));
    }
}
