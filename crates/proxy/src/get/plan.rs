//! Plan for a request that the cache may serve, given the stored response. Pure; `explain` prints
//! it. `get::cache_request` may deviate from it when there is a fetch to join or not to wait for,
//! or when an object was removed in the meantime.

use semantics::packed::Flag::HeadOnly;
use semantics::packed::Packed;
use semantics::reuse::{AgeLimit, Cause, Fallback, Reuse, StalePermit};
use semantics::{RequestFacts, Seconds, Settings, Time, reuse};
use store::Source;

use crate::object::lookup::LookupResult;
use crate::observe::event::Event;
use crate::observe::outcome::Bypass;
use crate::request::context::RequestContext;
use crate::request::key_check::is_keyed_by_rule;
use crate::rules::request_rules::Rule;

/// The plan for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plan {
    /// Serve the stored response: fresh, or stale by this permit.
    Serve { age: Seconds, stale: Option<StalePermit> },
    /// Ask the origin whether the stored response is still valid.
    Validate { age: Seconds, cause: Cause, fallback: Fallback },
    /// Fetch a response from the origin.
    Fetch(FetchReason),
    /// Bypass the cache.
    Pass(Bypass),
    /// Respond with 504: the request accepts only a stored response (RFC 9111, 5.2.1.7). A cause is
    /// given if a stored response must be validated.
    Refuse(Option<Cause>),
}

/// Why no stored response is used for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FetchReason {
    /// Nothing is stored for the request.
    Nothing,
    /// The stored response was not keyed by all fields that the rule now adds to the key, or that a
    /// response without a stated lifetime is assumed to depend on.
    OlderKey,
    /// The stored response has been stale for longer than the operator permits.
    Outlived,
    /// The request identifies its client, and the stored response is not for such clients.
    Identified,
}

/// The facts of a stored response that decide the plan.
pub(crate) struct StoredFacts<'a, F> {
    pub packed: &'a Packed,
    pub source: Source,
    /// True if the object is stored in parts; some may be missing.
    pub in_parts: bool,
    /// Returns whether a request field of this name selects the stored response.
    pub selects: F,
}

/// The input of a plan, besides the stored response.
pub(crate) struct PlanInput<'a> {
    pub facts: &'a RequestFacts,
    pub rule: Option<&'a Rule>,
    pub settings: &'a Settings,
    pub now: Time,
    /// Up to which age a stored response may be used at all, in a fleet.
    pub age_limit: Option<AgeLimit>,
    /// The origin's verdict on the stored response ([`crate::get::vouching`]). `None`: freshness
    /// lifetimes decide.
    pub vouched: Option<bool>,
}

impl<'a> PlanInput<'a> {
    /// Returns the input for a request as of now.
    pub fn by(context: &'a RequestContext, vouched: Option<bool>) -> PlanInput<'a> {
        let (rule, settings) = (context.rule.as_deref(), context.settings());
        let (facts, now) = (&context.facts, context.now());
        let age_limit = context.services.age_limit();
        PlanInput { facts, rule, settings, now, age_limit, vouched }
    }

    /// Returns the plan, and the event to count (systems C12). The event is `None` for an object in
    /// parts, because requested parts may be missing.
    pub fn plan(&self, found: &LookupResult) -> (Plan, Option<Event>) {
        match found {
            LookupResult::Nothing { .. } => (self.fetch(FetchReason::Nothing), MISS),
            LookupResult::Stored(stored) => self.plan_stored(&StoredFacts {
                packed: stored.head.packed(),
                source: stored.entry.source(),
                in_parts: stored.sparse.is_some(),
                selects: |name: &str| stored.is_selected_by(name),
            }),
        }
    }

    /// Like [`PlanInput::plan`], for a stored response.
    pub fn plan_stored(
        &self,
        stored: &StoredFacts<'_, impl Fn(&str) -> bool>,
    ) -> (Plan, Option<Event>) {
        if !is_keyed_by_rule(self.rule, &stored.selects)
            || !reuse::is_keyed_as_assumed(stored.packed, &stored.selects, self.settings)
        {
            return (self.fetch(FetchReason::OlderKey), MISS);
        }
        let reuse = self.reuse(stored);
        let is_stale = matches!(reuse, Reuse::Validate { .. } | Reuse::GatewayTimeout { .. });
        let event = match reuse {
            Reuse::Outlived | Reuse::NotShared => MISS,
            Reuse::Validate { .. } => Some(hit_event(stored.source, is_stale)),
            _ if stored.in_parts => None,
            _ => Some(hit_event(stored.source, is_stale)),
        };
        (self.of_stored(stored.packed, reuse), event)
    }

    fn reuse(&self, stored: &StoredFacts<'_, impl Fn(&str) -> bool>) -> Reuse {
        let (age, fallback) = (Seconds::ZERO, Fallback::default());
        match self.vouched {
            Some(true) => Reuse::Fresh { age },
            Some(false) => Reuse::Validate { age, cause: Cause::Expired, fallback },
            None => {
                let StoredFacts { packed, selects, .. } = stored;
                reuse::decide_limited(
                    packed,
                    selects,
                    self.facts,
                    self.now,
                    self.settings,
                    self.age_limit,
                )
            }
        }
    }

    fn of_stored(&self, packed: &Packed, reuse: Reuse) -> Plan {
        match reuse {
            Reuse::Fresh { age } => Plan::Serve { age, stale: None },
            // A background fetch would not replace it, because a GET would bring a body.
            Reuse::Stale { age, permit: StalePermit::WhileRevalidate } if packed.is(HeadOnly) => {
                let fallback = Fallback::on(self.settings.stale_if);
                self.validate(age, Cause::Expired, fallback)
            }
            Reuse::Stale { age, permit } => Plan::Serve { age, stale: Some(permit) },
            Reuse::Validate { age, cause, fallback } => self.validate(age, cause, fallback),
            Reuse::GatewayTimeout { cause } => Plan::Refuse(Some(cause)),
            Reuse::Unusable => Plan::Pass(Bypass::Authorization),
            Reuse::Outlived => self.fetch(FetchReason::Outlived),
            Reuse::NotShared => self.fetch(FetchReason::Identified),
        }
    }

    /// Plans a validation, unless the request has `no-store`: it forbids storing any part of the
    /// exchange, so the request bypasses the cache.
    fn validate(&self, age: Seconds, cause: Cause, fallback: Fallback) -> Plan {
        match self.facts.directives.no_store {
            true => Plan::Pass(Bypass::NoStore),
            false => Plan::Validate { age, cause, fallback },
        }
    }

    fn fetch(&self, why: FetchReason) -> Plan {
        let directives = &self.facts.directives;
        match (directives.only_if_cached, directives.no_store) {
            (true, _) => Plan::Refuse(None),
            (false, true) => Plan::Pass(Bypass::NoStore),
            (false, false) => Plan::Fetch(why),
        }
    }
}

const MISS: Option<Event> = Some(Event::CacheMiss);

fn hit_event(source: Source, is_stale: bool) -> Event {
    match (source, is_stale) {
        (Source::Ram, false) => Event::MemoryHit,
        (Source::Ram, true) => Event::MemoryStaleHit,
        (Source::Disk, false) => Event::DiskHit,
        (Source::Disk, true) => Event::DiskStaleHit,
    }
}
