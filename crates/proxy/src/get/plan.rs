//! The plan for a request that the cache may answer, by what is stored for it: a pure decision,
//! which `explain` prints. Other events may change it (`get::cache_request`): a fetch to join or
//! not to wait for, an object that was removed meanwhile.

use semantics::packed::Flag::HeadOnly;
use semantics::packed::Packed;
use semantics::reuse::{Cause, Fallback, Reuse, StalePermit};
use semantics::{RequestFacts, Seconds, Settings, Time, reuse};
use store::Source;

use crate::object::lookup::LookupResult;
use crate::observe::event::Event;
use crate::observe::outcome::Bypass;
use crate::request::context::RequestContext;
use crate::request::key_check::is_told_apart;
use crate::rules::request_rules::Rule;

/// The plan for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plan {
    /// What is stored answers it: fresh, or stale by this permit.
    Serve { age: Seconds, stale: Option<StalePermit> },
    /// The origin is asked whether what is stored still answers it.
    Validate { age: Seconds, cause: Cause, fallback: Fallback },
    /// The origin is asked for an answer.
    Fetch(FetchReason),
    /// The request passes the cache.
    Pass(Bypass),
    /// The answer is a 504: the request wants only what is stored (RFC 9111, 5.2.1.7). With a cause
    /// something is stored that must be validated.
    Refuse(Option<Cause>),
}

/// The reason why no stored answer is used for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FetchReason {
    /// Nothing is stored for it.
    Nothing,
    /// What is stored was not keyed by all fields that the rule keys by now.
    OlderKey,
    /// What is stored is staler than the operator keeps answers.
    Outlived,
    /// The request identifies its client, and what is stored is not for clients that do.
    Identified,
}

/// The facts of what is stored that a plan is made by.
pub(crate) struct StoredFacts<'a, F> {
    pub packed: &'a Packed,
    pub source: Source,
    /// Only parts of it may be there.
    pub in_parts: bool,
    /// Returns whether a request field of this name has selected it.
    pub selects: F,
}

/// The input of a plan, besides what is stored.
pub(crate) struct PlanInput<'a> {
    pub facts: &'a RequestFacts,
    pub rule: Option<&'a Rule>,
    pub settings: &'a Settings,
    pub now: Time,
    /// Whether the origin vouches for what is stored ([`crate::get::vouching`]); `None`: lifetimes
    /// decide.
    pub vouched: Option<bool>,
}

impl<'a> PlanInput<'a> {
    /// Returns the input for a request, as of now.
    pub fn by(context: &'a RequestContext, vouched: Option<bool>) -> PlanInput<'a> {
        let (rule, settings) = (context.rule.as_deref(), context.settings());
        PlanInput { facts: &context.facts, rule, settings, now: context.now(), vouched }
    }

    /// Returns what is done, and the event to count (systems C12). There is none yet for an object
    /// that is there in parts, which may lack those that are wanted.
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

    /// Does as [`PlanInput::plan`] for what is stored.
    pub fn plan_stored(
        &self,
        stored: &StoredFacts<'_, impl Fn(&str) -> bool>,
    ) -> (Plan, Option<Event>) {
        if !is_told_apart(self.rule, &stored.selects) {
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
                reuse::decide(packed, selects, self.facts, self.now, self.settings)
            }
        }
    }

    fn of_stored(&self, packed: &Packed, reuse: Reuse) -> Plan {
        match reuse {
            Reuse::Fresh { age } => Plan::Serve { age, stale: None },
            // No background fetch would replace it: a GET would bring a body.
            Reuse::Stale { age, permit: StalePermit::WhileRevalidate } if packed.is(HeadOnly) => {
                let fallback = Fallback { on_error: true, on_unreachable: true };
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

    /// Plans a validation, unless the request says `no-store`: what is stored may be used then, but
    /// nothing of the exchange may be kept.
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
