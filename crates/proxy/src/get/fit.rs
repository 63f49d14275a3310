//! Decides whether a running fill fits a request that did not begin it.
//!
//! Guarantees: no follower gets a byte of a response that must not be shared, belongs to another
//! variant, or is not permitted by the follower's own request. A request that arrived before the
//! head may use a response that was fresh when it was requested, even if it became stale on its
//! way: asking again would bring nothing younger (RFC 9111, 4). A request that arrived later gets
//! only a response that is fresh now. A request for a younger response (a reload) gets that of a
//! fetch that began after its arrival.

use fleet::lookup::{Asked, may_wait};
use http::header::ACCEPT;
use http::{HeaderName, HeaderValue};
use semantics::reuse::{Cause, FetchTime, Reuse, StalePermit};
use semantics::{ClientReload, Fields, Packed, RequestFacts, Seconds, Settings, Time, reuse};
use store::Key;

use crate::fill::registry::{BegunCount, HitForMiss};
use crate::fill::state::{Fill, FillHead, FillStage};
use crate::options::Options;
use crate::request::context::RequestContext;
use crate::services::Services;

/// Body bytes per second below which a fetch that has run for a long time is no longer joined.
const CRAWL: u64 = 16 * 1024;

/// How a fill fits a request that did not begin it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fit {
    /// The request may follow the fill, as far as is known. `Some` if there is a head: the age of
    /// the response, and the permit if it is stale.
    Follow(Option<(Seconds, Option<StalePermit>)>),
    /// This fill does not fit the request; another one may, and may be shared.
    Another,
    /// No shared fill fits this request.
    Alone,
}

/// How a request may use the fetch that it waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waited {
    /// The request may have the response.
    MayHave,
    /// The request wants a response that was requested after its arrival: that of the next fetch,
    /// like other requests that waited.
    WaitsForNext,
    /// No shared fetch has a response for the request.
    AsksAlone,
}

/// Facts of a request that decide which fills fit it.
pub(crate) struct FitInput<'a> {
    pub services: &'a Services,
    pub options: &'a Options,
    pub facts: &'a RequestFacts,
    pub settings: &'a Settings,
    pub arrived: Time,
    /// Number of fills that had begun when the request arrived.
    pub begun_before: BegunCount,
    pub now: Time,
    /// Client or node that sent the request.
    pub asked: Asked,
    /// Mark of the request's rule, if the rule is part of the key.
    pub rule_mark: Option<&'a HeaderValue>,
    /// True if the request is for a stream of events, whose head may come with the first of them.
    pub wants_events: bool,
}

/// Returns whether a request is for a stream of events, as browsers ask for it.
pub(crate) fn wants_events(fields: &impl Fields) -> bool {
    let mut lines = fields.lines_named(ACCEPT.as_str());
    lines.any(|line| line.trim_ascii().eq_ignore_ascii_case(b"text/event-stream"))
}

impl<'a> FitInput<'a> {
    /// Returns the facts of a request as of now.
    pub fn by(context: &'a RequestContext) -> FitInput<'a> {
        FitInput {
            services: &context.services,
            options: &context.options,
            facts: &context.facts,
            settings: context.settings(),
            arrived: context.arrived,
            begun_before: context.begun_before,
            now: context.now(),
            asked: context.asked(),
            rule_mark: context.rule_mark(),
            wants_events: wants_events(&context.head.fields),
        }
    }

    /// Returns how the running fill of `key` fits the request; `None` if no fill is running.
    pub fn running(&self, key: &Key) -> Option<Fit> {
        let running = self.services.shared.fills.running(key.as_bytes())?;
        Some(self.of(key, &running))
    }

    /// Returns how the running fill of `key` fits the request, which has not joined it.
    pub fn of(&self, key: &Key, fill: &Fill) -> Fit {
        // Prevents a deadlock: nodes must not wait for each other in a circle.
        if !may_wait(&self.asked, fill.waits_with()) {
            return Fit::Another;
        }
        if fill.rule_mark() != self.rule_mark {
            return Fit::Another;
        }
        match fill.stage() {
            // The head decides whether a response to credentials may be shared.
            FillStage::Waiting if self.facts.has_credentials() || self.wants_events => Fit::Alone,
            FillStage::Waiting if fill.waits_alone() => Fit::Another,
            // The origin may have lost the request but still respond to others.
            FillStage::Waiting
                if self.services.clock.since(fill.begun()) >= self.options.fill.wait =>
            {
                Fit::Another
            }
            FillStage::Streaming(head) if fill.has_begin() && !self.is_too_slow(fill) => {
                self.of_head(key, &head, fill, false)
            }
            FillStage::Streaming(_) => Fit::Another,
            _ => Fit::Follow(None),
        }
    }

    /// Returns how a response of `fill` with this head fits the request, which looked up `key`.
    /// `waited`: the request joined before the head arrived.
    pub fn of_head(&self, key: &Key, head: &FillHead, fill: &Fill, waited: bool) -> Fit {
        if self.is_concerned(head.hit_for_miss) {
            return Fit::Alone;
        }
        let Some(shared) = head.shared.as_ref().filter(|_| head.key == *key) else {
            return Fit::Another;
        };
        let (packed, vary) = (shared.packed(), shared.vary());
        let names = vary.names();
        if waited || fill.began_after(self.begun_before) {
            return match self.after_waiting(packed, names, fill) {
                Waited::MayHave => Fit::Follow(Some((packed.age(self.now), None))),
                Waited::WaitsForNext => Fit::Another,
                Waited::AsksAlone => Fit::Alone,
            };
        }
        let selects = |name: &str| names.iter().any(|selects| selects == name);
        let limit = self.services.age_limit();
        match reuse::decide_limited(packed, selects, self.facts, self.now, self.settings, limit) {
            Reuse::Fresh { age } => Fit::Follow(Some((age, None))),
            Reuse::Stale { age, permit } => Fit::Follow(Some((age, Some(permit)))),
            Reuse::Validate { cause: Cause::Expired, .. }
            | Reuse::GatewayTimeout { .. }
            | Reuse::Outlived => Fit::Another,
            Reuse::Validate { cause: Cause::NoCache, .. } => Fit::Alone,
            Reuse::Validate { .. } if self.shares_reloads() => Fit::Another,
            Reuse::Validate { .. } | Reuse::Unusable | Reuse::NotShared => Fit::Alone,
        }
    }

    /// Returns whether the request may have the response of a fill that it waited for. `names` are
    /// the request fields that select the response.
    pub fn after_waiting(&self, packed: &Packed, names: &[HeaderName], fill: &Fill) -> Waited {
        let fetched = match fill.began_after(self.begun_before) {
            true => FetchTime::After,
            false => FetchTime::Before(self.arrived),
        };
        let may_have =
            |fetched| reuse::may_follow(packed, names, self.facts, fetched, self.settings);
        if may_have(fetched) {
            Waited::MayHave
        } else if self.shares_reloads() && may_have(FetchTime::After) {
            Waited::WaitsForNext
        } else {
            Waited::AsksAlone
        }
    }

    /// Returns whether the body arrives so slowly that a new request should fetch again. The fetch
    /// may hang although the origin would respond now.
    fn is_too_slow(&self, fill: &Fill) -> bool {
        let running = self.services.clock.since(fill.begun());
        running >= self.options.fill.wait && fill.produced() < running.as_secs() * CRAWL
    }

    /// Returns whether requests that want a younger response than the stored one share the next
    /// fetch.
    pub fn shares_reloads(&self) -> bool {
        self.settings.client_reload != ClientReload::Obey
    }

    /// Returns whether the request should not wait for others, given this reason.
    pub fn is_concerned(&self, why: Option<HitForMiss>) -> bool {
        why.is_some_and(|why| why.concerns(self.facts))
    }
}
