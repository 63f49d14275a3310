//! A GET or HEAD through the cache: what is stored, what is being fetched, what has to be asked of
//! the origin. The rules themselves are in the crate `semantics`; here is their order.
//!
//! A request that waited for another one's fetch and cannot use its answer goes round once more.
//! Of several one asks then, and the others wait for that ([`Step::Retry`]), unless it is known by
//! then that waiting would bring them nothing either ([`Step::FetchAlone`]).

use std::rc::Rc;
use std::sync::Arc;

use http::{Method, Response, StatusCode};
use message::request_body::RequestBody;
use net::random::random;
use semantics::cache_control::Delta;
use semantics::reuse::{Cause, Fallback, StalePermit};
use semantics::{Exchange, Seconds, VaryMarker, partial, reuse};
use store::{FetchToken, Key, Source as From};
use tokio::task::spawn_local;
use upstream::connection::origin_body::OriginBody;

use crate::fetch::fetch_task::{FetchTask, Purpose};
use crate::fill::registry::HitForMiss;
use crate::fill::services::Services;
use crate::fill::state::{Fill, Reader};
use crate::get::follower;
use crate::get::follower::{Fit, Follower, Role};
use crate::get::partial_response::{PartialResponder, Served};
use crate::get::plan::{Asked, Plan};
use crate::object::stored_response::{LookupResult, Store, StoredResponse, find};
use crate::observe::cache_status::{CacheStatus, Fwd};
use crate::observe::event::Event;
use crate::observe::outcome::{Bypass, Error, Outcome, Stale};
use crate::request::context::RequestContext;
use crate::response::response_body::ResponseBody;
use crate::response::transaction::Transaction;
use crate::response::{builder, error_response, pass_through};

/// Rounds after which a request is sent on by itself.
const ROUNDS_MAX: u32 = 6;

/// Of so many hits on what expires soon one has it validated.
const REFRESH_ONE_IN: u64 = 8;

/// What a round came to.
#[expect(clippy::large_enum_variant, reason = "the large one is the usual one")]
pub(crate) enum Step {
    /// An answer.
    Respond(Response<ResponseBody>),
    /// Look again: the fetch that was waited for is not for this request.
    Retry(Transaction),
    /// As [`Step::Retry`], and wait for nobody any more.
    FetchAlone(Transaction),
    /// Past the cache.
    Bypass(Transaction, CacheStatus),
}

/// What is stored for a request but must be validated.
pub(crate) struct StaleHit {
    pub answer: Rc<StoredResponse>,
    pub age: Seconds,
    pub fallback: Fallback,
    /// Whether it is the stored answer's age or the request that wants the origin asked.
    pub why: Fwd,
}

/// Answers a GET or HEAD.
pub(crate) async fn answer(
    visit: &RequestContext<'_>,
    store: &Store,
    primary: &Key,
    mut account: Transaction,
    body: RequestBody,
) -> Response<ResponseBody> {
    let mut past = CacheStatus::new(Outcome::Bypass(Bypass::NotShareable));
    let mut alone = false;
    for number in 0..ROUNDS_MAX {
        let (method, fields) = (&visit.parts.method, &visit.parts.headers);
        let Some(found) = find(store, primary, method, fields).await else {
            past = CacheStatus::new(Outcome::Bypass(Bypass::LongUrl));
            break;
        };
        visit.look_at_clock();
        let is_first = number == 0;
        let round = CacheRequest { visit, store, primary, is_first, alone };
        let (plan, event) = Asked::by(visit).plan(&found);
        // A further round is for the same request.
        let count = |event| visit.services.observer.count(event, u64::from(is_first));
        event.into_iter().for_each(count);
        if let LookupResult::Stored(answer) = &found
            && visit.services.shared.neighbours.asked_for(answer.key.as_bytes())
            && matches!(plan, Plan::Serve { stale: None, .. })
        {
            count(Event::NeighbourUsed);
        }
        let turn = round.carry_out(plan, found, account).await;
        match turn {
            Step::Respond(response) => return counted(visit, response),
            Step::Retry(returned) => account = returned,
            Step::FetchAlone(returned) => (account, alone) = (returned, true),
            Step::Bypass(returned, status) => {
                (account, past) = (returned, status);
                break;
            }
        }
    }
    counted(visit, Box::pin(pass_through::pass(visit, account, body, past)).await)
}

/// Counts how a conditional request was answered (systems C12: If-Modified-Since hit and miss).
fn counted(visit: &RequestContext<'_>, response: Response<ResponseBody>) -> Response<ResponseBody> {
    if visit.facts.conditional {
        let hit = response.status() == StatusCode::NOT_MODIFIED;
        let event = if hit { Event::ConditionalHit } else { Event::ConditionalMiss };
        visit.services.observer.count(event, 1);
    }
    response
}

/// An answer of the origin that has come before there was a fill for it.
pub(crate) struct FetchedResponse {
    pub response: Response<OriginBody>,
    pub exchange: Exchange,
    /// From before the origin was asked.
    pub token: FetchToken,
}

/// One look at what is there for a request, and what follows from it.
pub(crate) struct CacheRequest<'a> {
    pub visit: &'a RequestContext<'a>,
    pub store: &'a Store,
    pub primary: &'a Key,
    /// The request has waited for no other one's fetch yet.
    pub is_first: bool,
    /// It waits for none.
    pub alone: bool,
}

impl CacheRequest<'_> {
    /// Does what was planned with what was found.
    async fn carry_out(&self, plan: Plan, found: LookupResult, account: Transaction) -> Step {
        let (answer, key, marker) = match found {
            LookupResult::Nothing { key, marker } => (None, key, marker),
            LookupResult::Stored(answer) => {
                let (key, marker) = (answer.key.clone(), answer.marker.clone());
                (Some(answer), key, marker)
            }
        };
        match (plan, answer) {
            (Plan::Serve { age, stale }, Some(answer)) => {
                self.serve(answer, age, stale, account).await
            }
            (Plan::Validate { age, cause, fallback, .. }, Some(answer)) => {
                let why = match cause {
                    Cause::NoCache | Cause::Expired => Fwd::Stale,
                    Cause::RequestNoCache | Cause::RequestMaxAge | Cause::RequestMinFresh => {
                        Fwd::Request
                    }
                };
                let outdated = StaleHit { answer, age, fallback, why };
                if self.visit.parts.method == Method::HEAD && !self.may_follow(&key) {
                    return Box::pin(self.head(outdated, account)).await;
                }
                Box::pin(self.fetch(key, marker, Some(outdated), account)).await
            }
            (Plan::Pass(why), _) => Step::Bypass(account, CacheStatus::new(Outcome::Bypass(why))),
            (Plan::Refuse(_), _) => Step::Respond(only_if_cached(account)),
            (Plan::Fetch(_) | Plan::Serve { .. } | Plan::Validate { .. }, _) => {
                Box::pin(self.missing(key, marker, account)).await
            }
        }
    }

    /// Serves what is stored, and has it validated behind the answer where that is due.
    async fn serve(
        &self,
        answer: Rc<StoredResponse>,
        age: Seconds,
        stale: Option<StalePermit>,
        account: Transaction,
    ) -> Step {
        let outcome = match (stale, answer.entry.source()) {
            (Some(StalePermit::MaxStale), _) => Outcome::Stale(Stale::MaxStale),
            (Some(StalePermit::WhileRevalidate), _) => {
                if !self.visit.facts.directives.no_store {
                    self.refresh_behind(&answer);
                }
                Outcome::Stale(Stale::WhileRevalidate)
            }
            (None, From::Ram) => Outcome::HitRam,
            (None, From::Disk) => Outcome::HitDisk,
        };
        if stale.is_none() {
            self.refresh_ahead(&answer, age);
        }
        self.hit(answer, age, outcome, account).await
    }

    /// Serves what is stored, if it is there still.
    async fn hit(
        &self,
        answer: Rc<StoredResponse>,
        age: Seconds,
        outcome: Outcome,
        account: Transaction,
    ) -> Step {
        if answer.sparse.is_some() {
            return self.hit_parts(answer, age, outcome, account).await;
        }
        let reads = self.visit.parts.method == Method::GET && !self.visit.facts.has_range;
        if reads && !answer.open().await {
            log::debug!("the first piece of a stored object is gone");
            self.store.remove(&answer.key).await;
            return Box::pin(self.missing(answer.key.clone(), answer.marker.clone(), account))
                .await;
        }
        let status = CacheStatus::new(outcome);
        Step::Respond(builder::from_entry(self.visit, account, status, age, &answer, None))
    }

    /// Serves what is there in parts, and fetches those that are missing.
    async fn hit_parts(
        &self,
        answer: Rc<StoredResponse>,
        age: Seconds,
        outcome: Outcome,
        account: Transaction,
    ) -> Step {
        let (visit, store, primary) = (self.visit, self.store, self.primary);
        // A fresh one is named by where its parts come from.
        let status = matches!(outcome, Outcome::Stale(_)).then(|| CacheStatus::new(outcome));
        let answer = &answer;
        let serving = PartialResponder { visit, store, primary, answer, head: None, age, status };
        match serving.answer(account).await {
            Served::Step(turn) => turn,
            Served::Lacking(account) => {
                Box::pin(self.missing(answer.key.clone(), answer.marker.clone(), account)).await
            }
        }
    }

    /// Nothing is stored.
    async fn missing(&self, key: Key, marker: Option<VaryMarker>, account: Transaction) -> Step {
        let visit = self.visit;
        if visit.facts.directives.only_if_cached {
            // What was found has gone meanwhile.
            return Step::Respond(only_if_cached(account));
        }
        if visit.parts.method == Method::HEAD && !self.may_follow(&key) {
            return Box::pin(self.fetch_head(key, marker, account)).await;
        }
        self.fetch(key, marker, None, account).await
    }

    /// Whether the origin is to be asked for the range that the request wants. What it answers with
    /// a whole is kept as such, whatever was asked.
    fn is_ranged(&self) -> bool {
        self.visit.parts.method == Method::GET && self.visit.facts.has_range
    }

    /// What the running fill of `key` is to this request; `None` when there is none.
    pub fn fit(&self, key: &Key) -> Option<Fit> {
        let running = self.visit.services.shared.fills.running(key.as_bytes())?;
        Some(follower::fit(self.visit, key, &running))
    }

    /// Whether there is something to wait for.
    fn may_follow(&self, key: &Key) -> bool {
        !self.alone && matches!(self.fit(key), Some(Fit::Follow(_)))
    }

    /// Joins the running fill of `key`, or begins it.
    async fn fetch(
        &self,
        key: Key,
        marker: Option<VaryMarker>,
        outdated: Option<StaleHit>,
        account: Transaction,
    ) -> Step {
        let visit = self.visit;
        if visit.facts.directives.no_store {
            // What is stored may be used, but nothing of this exchange may be kept.
            return Step::Bypass(account, CacheStatus::new(Outcome::Bypass(Bypass::NoStore)));
        }
        let fills = &visit.services.shared.fills;
        let status = miss_status(&marker);
        // Who wants it validated for himself, or whose like could not be shared, does not wait.
        let unshareable = fills.unshareable(key.as_bytes(), visit.services.clock.instant());
        let directives = &visit.facts.directives;
        let reloads = directives.no_cache || directives.max_age == Delta::Value(Seconds::ZERO);
        // Several ranges in one answer are for nobody else.
        let several = self.is_ranged() && !partial::asks_for_one(&visit.parts.headers);
        let running = self.fit(&key);
        let unshareable = unshareable.filter(|why| why.concerns(&visit.facts));
        let alone = several
            || self.alone
            || unshareable.is_some()
            || (reloads && running.is_some())
            || running == Some(Fit::Alone);
        let is_plain = outdated.is_none() && visit.parts.method == Method::GET && !self.is_ranged();
        if let (Some(HitForMiss::NotStorable | HitForMiss::Credentials), true) =
            (unshareable, is_plain)
        {
            return self.fetch_unshared(key, marker, account).await;
        }
        if visit.services.shared.windows.full() && !matches!(running, Some(Fit::Follow(_))) {
            return Step::Bypass(account, CacheStatus::new(Outcome::Bypass(Bypass::Memory)));
        }
        let (fill, began) = match alone {
            true => (Arc::new(self.new_fill()), true),
            false => self.join_or_begin(&key),
        };
        let Some(reader) = fill.join() else { return Step::Retry(account) };
        let (store, primary, is_first) = (self.store, self.primary, self.is_first);
        let role = Role::Follower;
        let follow = Follower { visit, store, primary, key, role, outdated, status, is_first };
        if began {
            return self.lead(follow, marker, reader, !alone, account).await;
        }
        visit.services.observer.count(Event::FollowerJoined, 1);
        self.wait(follow, marker, reader, account).await
    }

    /// Begins the fill of `reader`, and answers. `known`: others may join.
    async fn lead(
        &self,
        mut follow: Follower<'_>,
        marker: Option<VaryMarker>,
        reader: Reader,
        known: bool,
        mut account: Transaction,
    ) -> Step {
        let (fill, key) = (reader.fill().clone(), follow.key.clone());
        let filler = self.filler(fill, key, marker, follow.outdated.as_ref(), known);
        account.asked(&filler.errand.to, filler.errand.trail.clone());
        let (interim, ranged) = (filler.errand.interim.clone(), filler.ranged);
        spawn_local(filler.run());
        follow.role = Role::Leader { interim, ranged };
        follow.answer(reader, account).await
    }

    /// The running fill of `key`, if it may be one for this request; else a new one in its place
    /// (then `true`).
    pub fn join_or_begin(&self, key: &Key) -> (Arc<Fill>, bool) {
        let suits = |fill: &Fill| matches!(follower::fit(self.visit, key, fill), Fit::Follow(_));
        let fills = &self.visit.services.shared.fills;
        fills.join_if(key.as_bytes(), suits, || self.new_fill())
    }

    fn new_fill(&self) -> Fill {
        let Services { shared, clock, .. } = &**self.visit.services;
        let token = self.store.begin_fetch(self.primary);
        Fill::new(token, clock.instant(), shared.windows.clone())
    }

    /// Validates what expires soon while it still answers, so that those who ask next need not
    /// wait. One hit in a few does it: what is asked for often is met in time, what nobody asks for
    /// is left alone.
    fn refresh_ahead(&self, answer: &Rc<StoredResponse>, age: Seconds) {
        let (visit, packed) = (self.visit, answer.head.packed());
        if answer.sparse.is_none()
            && !answer.is_of_head()
            && reuse::is_nearly_stale(packed, age, visit.settings())
            && !visit.facts.directives.no_store
            && random().is_multiple_of(REFRESH_ONE_IN)
        {
            self.refresh_behind(answer);
        }
    }

    /// Validates behind an answer that may be stale, unless that is under way.
    fn refresh_behind(&self, answer: &Rc<StoredResponse>) {
        let fills = &self.visit.services.shared.fills;
        let new = || self.new_fill();
        let (fill, began) = fills.join_or_begin(answer.key.as_bytes(), new);
        if !began {
            return;
        }
        let outdated = StaleHit {
            answer: answer.clone(),
            age: Seconds::ZERO,
            fallback: Fallback { on_error: true, on_unreachable: true },
            why: Fwd::Stale,
        };
        let (key, marker) = (answer.key.clone(), answer.marker.clone());
        let mut filler = self.filler(fill, key, marker, Some(&outdated), true);
        filler.errand.interim = None;
        filler.purpose = Purpose::Behind;
        filler.asks_for_client = false;
        spawn_local(filler.run());
    }

    /// The task of a fill that this request begins.
    pub fn filler(
        &self,
        fill: Arc<Fill>,
        key: Key,
        marker: Option<VaryMarker>,
        outdated: Option<&StaleHit>,
        known: bool,
    ) -> FetchTask {
        let visit = self.visit;
        let mut errand = visit.errand();
        // What is stored answers both; a HEAD would bring no body.
        errand.method = Method::GET;
        // What is stored whole is validated, and fetched anew, as a whole.
        let ranged =
            self.is_ranged() && outdated.is_none_or(|outdated| outdated.answer.sparse.is_some());
        FetchTask {
            services: visit.services.clone(),
            options: visit.options.clone(),
            store: self.store.clone(),
            fill,
            key,
            primary: self.primary.clone(),
            marker,
            errand,
            facts: visit.facts.of_get(),
            request: visit.parts.headers.clone(),
            stale: outdated.map(|outdated| outdated.answer.clone()).filter(|a| !a.is_of_head()),
            fallback: outdated.map_or(Fallback::default(), |outdated| outdated.fallback),
            ranged,
            // Nor is it for the others a second time.
            asks_for_client: self.is_first,
            known,
            purpose: Purpose::Client,
        }
    }

    /// Hands on an answer that has come already, and stores it if it may be stored, under this key
    /// unless it varies in a new way.
    pub async fn keep(
        &self,
        (key, marker): (Key, Option<VaryMarker>),
        status: CacheStatus,
        account: Transaction,
        fetched: FetchedResponse,
    ) -> Step {
        let (visit, store, primary) = (self.visit, self.store, self.primary);
        let FetchedResponse { response, exchange, token } = fetched;
        let Services { shared, clock, .. } = &**visit.services;
        let fill = Arc::new(Fill::new(token, clock.instant(), shared.windows.clone()));
        let Some(reader) = fill.join() else {
            return Step::Respond(pass_through::relay_response(visit, account, response, status));
        };
        let filler = self.filler(fill, key.clone(), marker, None, false);
        let role = Role::Leader { interim: None, ranged: filler.ranged };
        spawn_local(filler.run_answered(response, exchange));
        let (outdated, is_first) = (None, self.is_first);
        let follow = Follower { visit, store, primary, key, role, outdated, status, is_first };
        Box::pin(follow.answer(reader, account)).await
    }
}

/// The status of a miss: with a marker there are other variants.
pub(crate) fn miss_status(marker: &Option<VaryMarker>) -> CacheStatus {
    let status = CacheStatus::new(Outcome::Miss);
    if marker.is_some() { status.fwd(Fwd::VaryMiss) } else { status }
}

/// Stores the answer to a POST that names itself and says how long it is fresh, for later GETs of
/// its URL (RFC 9110, 9.3.3), and hands it on.
pub(crate) async fn keep_post(
    visit: &RequestContext<'_>,
    store: &Store,
    primary: &Key,
    account: Transaction,
    fetched: FetchedResponse,
) -> Response<ResponseBody> {
    let round = CacheRequest { visit, store, primary, is_first: true, alone: true };
    let status = CacheStatus::new(Outcome::Bypass(Bypass::Method));
    match round.keep((primary.clone(), None), status, account, fetched).await {
        Step::Respond(response) => response,
        // Its own fill has an answer for whoever began it.
        Step::Retry(account) | Step::FetchAlone(account) | Step::Bypass(account, _) => {
            let text = "The answer to a POST was lost inside the proxy.\n";
            let outcome = Outcome::Error(Error::Internal);
            error_response::plain(account, StatusCode::INTERNAL_SERVER_ERROR, outcome, text)
        }
    }
}

/// The answer to `only-if-cached` when it is not (RFC 9111, 5.2.1.7).
pub(crate) fn only_if_cached(account: Transaction) -> Response<ResponseBody> {
    let outcome = Outcome::Error(Error::OnlyIfCached);
    let text = "Not in the cache, and the request allows nothing else (only-if-cached).\n";
    error_response::plain(account, StatusCode::GATEWAY_TIMEOUT, outcome, text)
}
