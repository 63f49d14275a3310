//! A GET or HEAD through the cache: looks up the stored response and the running fill, and asks the
//! origin for the rest. The caching rules are in the crate `semantics`; this module defines their
//! order.
//!
//! A request that waited for another request's fetch and cannot use its response looks up again. Of
//! several such requests, one asks the origin and the others wait for it ([`NextAction::Retry`]),
//! unless it is already known that waiting cannot help them ([`NextAction::FetchAlone`]).

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use http::{Method, Response, StatusCode};
use message::request_body::RequestBody;
use net::random::random;
use semantics::reuse::{Cause, Fallback, StalePermit};
use semantics::{ExchangeTimes, Seconds, VaryMarker, reuse};
use store::{FetchToken, Home, Key, Source};
use tokio::task::spawn_local;
use tokio::time::sleep;
use upstream::connection::origin_body::OriginBody;

use crate::fetch::fetch_task::{FetchPurpose, FetchTask};
use crate::fill::registry::{Joining, name_of_head};
use crate::fill::state::{Fill, Reader};
use crate::get::collapse::{Collapse, CollapseInput, is_ranged};
use crate::get::fill_response::{FillResponder, Role};
use crate::get::fit::{Fit, FitInput};
use crate::get::other_memories;
use crate::get::partial_response::{PartialResponder, Served};
use crate::get::plan::{Plan, PlanInput};
use crate::get::vouching;
use crate::object::lookup::{LookupResult, find};
use crate::object::store::Store;
use crate::object::stored_response::StoredResponse;
use crate::observe::cache_status::{CacheStatus, Fwd};
use crate::observe::event::Event;
use crate::observe::outcome::{Bypass, Error, Outcome, Stale};
use crate::origin::outages::{Trial, is_representative};
use crate::peers::asking::Asking;
use crate::request::context::RequestContext;
use crate::response::response_body::ResponseBody;
use crate::response::transaction::Transaction;
use crate::response::{builder, error_response, pass_through};
use crate::services::{LookupStart, Services};

/// Maximum number of lookups; after that the request bypasses the cache.
const LOOKUPS_MAX: u32 = 6;

/// Minimum time between two fetches of one key for reloads while the first body is still arriving.
const RELOAD_INTERVAL: Duration = Duration::from_secs(2);

/// One in this many hits on a response that expires soon starts a validation.
const REFRESH_ONE_IN: u64 = 8;

/// The next step of a request after one lookup.
#[expect(clippy::large_enum_variant, reason = "the large one is the usual one")]
pub(crate) enum NextAction {
    /// Send this response.
    Respond(Response<ResponseBody>),
    /// Look up again: the awaited fetch does not fit this request.
    Retry(Transaction),
    /// Like [`NextAction::Retry`], but no longer wait for other fetches.
    FetchAlone(Transaction),
    /// Bypass the cache.
    Bypass(Transaction, CacheStatus),
}

/// A stored response that must be validated.
pub(crate) struct ToValidate {
    pub stored: Rc<StoredResponse>,
    pub age: Seconds,
    pub fallback: Fallback,
    /// The reason for the validation: the age of the stored response, or the request.
    pub why: Fwd,
}

/// A HEAD to send to the origin.
pub(crate) struct HeadRequest {
    pub key: Key,
    pub marker: Option<VaryMarker>,
    /// The stored response to validate, if there is one.
    pub to_validate: Option<ToValidate>,
}

/// Responds to a GET or HEAD.
pub(crate) async fn answer(
    context: &RequestContext,
    store: &Store,
    primary: &Key,
    mut transaction: Transaction,
    body: RequestBody,
) -> Response<ResponseBody> {
    if let Some(asking) = other_memories::asking(context, store, primary) {
        match Box::pin(other_memories::read(context, asking, transaction)).await {
            Ok(response) => return response,
            Err(returned) => transaction = returned,
        }
    }
    let mut past = CacheStatus::new(Outcome::Bypass(Bypass::NotShareable));
    let mut alone = false;
    for number in 0..LOOKUPS_MAX {
        let (method, fields) = (&context.head.method, &context.head.fields);
        let options = context.lookup_options();
        let since = context.services.lookup_start();
        let Some(found) = find(store, primary, method, fields, options).await else {
            past = CacheStatus::new(Outcome::Bypass(Bypass::LongUrl));
            break;
        };
        context.look_at_clock();
        let is_first = number == 0;
        let cache_request = CacheRequest { context, store, primary, is_first, since, alone };
        let vouched = vouching::vouched(context.site(), &context.head, &found).await;
        let (plan, event) = PlanInput::by(context, vouched).plan(&found);
        let plan = if is_first { plan } else { cache_request.plan_again(plan, &found) };
        // Further lookups belong to the same request and are not counted.
        let count = |event| context.services.observer.count(event, u64::from(is_first));
        event.into_iter().for_each(count);
        if let LookupResult::Stored(stored) = &found
            && context.services.shared.neighbours.asked_for(stored.key.as_bytes())
            && matches!(plan, Plan::Serve { stale: None, .. })
        {
            count(Event::NeighbourUsed);
        }
        match cache_request.carry_out(plan, found, transaction).await {
            NextAction::Respond(response) => return counted(context, response),
            NextAction::Retry(returned) => transaction = returned,
            NextAction::FetchAlone(returned) => (transaction, alone) = (returned, true),
            NextAction::Bypass(returned, status) => {
                (transaction, past) = (returned, status);
                break;
            }
        }
    }
    counted(context, Box::pin(pass_through::pass(context, transaction, body, past)).await)
}

/// Counts the response to a conditional request (systems C12: If-Modified-Since hit and miss).
pub(crate) fn counted(
    context: &RequestContext,
    response: Response<ResponseBody>,
) -> Response<ResponseBody> {
    if context.facts.conditional {
        let hit = response.status() == StatusCode::NOT_MODIFIED;
        let event = if hit { Event::ConditionalHit } else { Event::ConditionalMiss };
        context.services.observer.count(event, 1);
    }
    response
}

/// A response of the origin that arrived before a fill existed for it.
pub(crate) struct FetchedResponse {
    pub response: Response<OriginBody>,
    pub times: ExchangeTimes,
    /// Taken before the request was sent to the origin.
    pub token: FetchToken,
}

/// One lookup for a request, and the actions that can follow it.
pub(crate) struct CacheRequest<'a> {
    pub context: &'a RequestContext,
    pub store: &'a Store,
    pub primary: &'a Key,
    /// False once the request has waited for another request's fetch.
    pub is_first: bool,
    /// When the lookup began.
    pub since: LookupStart,
    /// The request does not wait for other requests' fetches.
    pub alone: bool,
}

impl CacheRequest<'_> {
    /// Carries out the plan for what was found.
    async fn carry_out(
        &self,
        plan: Plan,
        found: LookupResult,
        transaction: Transaction,
    ) -> NextAction {
        let (stored, key, marker) = match found {
            LookupResult::Nothing { key, marker } => (None, key, marker),
            LookupResult::Stored(stored) => {
                let (key, marker) = (stored.key.clone(), stored.marker.clone());
                (Some(stored), key, marker)
            }
        };
        match (plan, stored) {
            (Plan::Serve { age, stale }, Some(stored)) => {
                self.serve(stored, age, stale, transaction).await
            }
            (Plan::Validate { age, cause, fallback }, Some(stored)) => {
                let why = match cause {
                    Cause::NoCache | Cause::Expired => Fwd::Stale,
                    Cause::RequestNoCache | Cause::RequestMaxAge | Cause::RequestMinFresh => {
                        Fwd::Request
                    }
                };
                if let Some(outcome) = self.known_failure(&stored, fallback) {
                    return self.hit(stored, age, outcome, transaction).await;
                }
                let to_validate = ToValidate { stored, age, fallback, why };
                if self.context.head.method == Method::HEAD && !self.may_follow(&key) {
                    let ask = HeadRequest { key, marker, to_validate: Some(to_validate) };
                    return Box::pin(self.head(ask, transaction)).await;
                }
                Box::pin(self.fetch(key, marker, Some(to_validate), transaction)).await
            }
            (Plan::Pass(Bypass::NoStore), _) => {
                Box::pin(self.fetch_unkept(key, marker, transaction)).await
            }
            (Plan::Pass(why), _) => {
                NextAction::Bypass(transaction, CacheStatus::new(Outcome::Bypass(why)))
            }
            (Plan::Refuse(_), _) => NextAction::Respond(only_if_cached(transaction)),
            (Plan::Fetch(_) | Plan::Serve { .. } | Plan::Validate { .. }, _) => {
                Box::pin(self.missing(key, marker, transaction)).await
            }
        }
    }

    /// Returns the plan for a request that has waited. If reloads share fetches, a response fetched
    /// since the request arrived is young enough to serve.
    fn plan_again(&self, plan: Plan, found: &LookupResult) -> Plan {
        let (Plan::Validate { age, cause, .. }, LookupResult::Stored(stored)) = (plan, found)
        else {
            return plan;
        };
        let (context, fills) = (self.context, &self.context.services.shared.fills);
        let is_wish = !matches!(cause, Cause::NoCache | Cause::Expired);
        let (packed, since) = (stored.head.packed(), context.begun_before);
        let by_head = || {
            packed.received() >= context.came
                && fills.is_renewed_after(&name_of_head(&stored.key), since)
        };
        let is_renewed = is_wish
            && FitInput::by(context).shares_reloads()
            && packed.is_fresh(context.now())
            && (fills.is_renewed_after(stored.key.as_bytes(), since) || by_head());
        if is_renewed { Plan::Serve { age, stale: None } } else { plan }
    }

    /// Returns the outcome if the request gets a stale response because the origin failed recently.
    /// Retries the origin in the background if a trial is due.
    fn known_failure(&self, stored: &Rc<StoredResponse>, fallback: Fallback) -> Option<Outcome> {
        // Missing parts would have to be fetched, and no background fetch replaces a response to
        // HEAD.
        if stored.sparse.is_some() || stored.is_of_head() {
            return None;
        }
        let Services { shared, clock, .. } = &*self.context.services;
        let origin = shared.outages.origin(&self.context.target());
        let concerned = shared.outages.concerned(origin, stored.key.as_bytes());
        let may_try = is_representative(&self.context.facts);
        let known = shared.outages.look(concerned, fallback, may_try, clock.millis())?;
        if let Some(trial) = known.trial
            && !self.revalidate_in_background(stored, Some(trial))
        {
            shared.outages.give_back(trial);
        }
        Some(Outcome::Stale(match known.status {
            None => Stale::Unreachable,
            Some(_) => Stale::IfError,
        }))
    }

    /// Serves the stored response, and starts a background validation if one is due.
    async fn serve(
        &self,
        stored: Rc<StoredResponse>,
        age: Seconds,
        stale: Option<StalePermit>,
        transaction: Transaction,
    ) -> NextAction {
        let outcome = match (stale, stored.entry.source()) {
            (Some(StalePermit::MaxStale), _) => Outcome::Stale(Stale::MaxStale),
            (Some(StalePermit::WhileRevalidate), _) => {
                if !self.context.facts.directives.no_store {
                    self.revalidate_in_background(&stored, None);
                }
                Outcome::Stale(Stale::WhileRevalidate)
            }
            (None, Source::Ram) => Outcome::HitRam,
            (None, Source::Disk) => Outcome::HitDisk,
        };
        if stale.is_none() {
            self.revalidate_early(&stored, age);
        }
        self.hit(stored, age, outcome, transaction).await
    }

    /// Serves the stored response.
    async fn hit(
        &self,
        stored: Rc<StoredResponse>,
        age: Seconds,
        outcome: Outcome,
        transaction: Transaction,
    ) -> NextAction {
        if stored.sparse.is_some() {
            return Box::pin(self.hit_parts(stored, age, outcome, transaction)).await;
        }
        let status = CacheStatus::new(outcome);
        NextAction::Respond(builder::from_entry(
            self.context,
            transaction,
            status,
            age,
            &stored,
            None,
        ))
    }

    /// Serves an object stored in parts, and fetches missing parts.
    async fn hit_parts(
        &self,
        stored: Rc<StoredResponse>,
        age: Seconds,
        outcome: Outcome,
        transaction: Transaction,
    ) -> NextAction {
        let (context, store, primary) = (self.context, self.store, self.primary);
        // The status of a fresh response depends on where its parts come from.
        let status = matches!(outcome, Outcome::Stale(_)).then(|| CacheStatus::new(outcome));
        let stored = &stored;
        let serving = PartialResponder { context, store, primary, stored, head: None, age, status };
        match serving.answer(transaction).await {
            Served::Action(action) => action,
            Served::Incomplete(transaction) => {
                Box::pin(self.missing(stored.key.clone(), stored.marker.clone(), transaction)).await
            }
        }
    }

    /// Responds when nothing usable is stored.
    async fn missing(
        &self,
        key: Key,
        marker: Option<VaryMarker>,
        transaction: Transaction,
    ) -> NextAction {
        let context = self.context;
        if context.facts.directives.only_if_cached {
            // The stored response has disappeared since the plan was made.
            return NextAction::Respond(only_if_cached(transaction));
        }
        if context.head.method == Method::HEAD && !self.may_follow(&key) {
            let ask = HeadRequest { key, marker, to_validate: None };
            return Box::pin(self.head(ask, transaction)).await;
        }
        self.fetch(key, marker, None, transaction).await
    }

    /// Returns whether the request may wait for a running fill of `key`.
    fn may_follow(&self, key: &Key) -> bool {
        !self.alone && matches!(FitInput::by(self.context).running(key), Some(Fit::Follow(_)))
    }

    /// Joins the running fill of `key` or begins one, and responds from it.
    async fn fetch(
        &self,
        key: Key,
        marker: Option<VaryMarker>,
        to_validate: Option<ToValidate>,
        transaction: Transaction,
    ) -> NextAction {
        let context = self.context;
        if let Some(pause) = self.reload_pause(key.as_bytes()) {
            sleep(pause).await;
            return NextAction::Retry(transaction);
        }
        let asking = self.asking();
        let elsewhere =
            asking.as_ref().is_some_and(|asking| asking.asks_owner() && asking.keeps_nothing());
        let (fill, began, joinable) = match self.collapse(&key, to_validate.is_some(), elsewhere) {
            Collapse::ReadThrough => {
                return Box::pin(self.read_through(key, marker, asking, transaction)).await;
            }
            Collapse::Bypass(why) => {
                return NextAction::Bypass(transaction, CacheStatus::new(Outcome::Bypass(why)));
            }
            Collapse::PastFills => {
                return Box::pin(self.fetch_past_fills(key, marker, transaction)).await;
            }
            Collapse::Alone => (Arc::new(self.new_fill(asking.as_deref())), true, false),
            Collapse::Share => match self.join_or_begin(&key, asking.as_deref()) {
                Joining::Running(fill) => (fill, false, true),
                Joining::Begun(fill) => (fill, true, true),
                Joining::Ended => return NextAction::Retry(transaction),
            },
        };
        let status = miss_status(&marker);
        let Some(reader) = fill.join() else { return NextAction::Retry(transaction) };
        let (store, primary, is_first) = (self.store, self.primary, self.is_first);
        let role = Role::Follower;
        let responder =
            FillResponder { context, store, primary, key, role, to_validate, status, is_first };
        if began {
            return self.lead(responder, marker, asking, (reader, joinable), transaction).await;
        }
        context.services.observer.count(Event::FollowerJoined, 1);
        Box::pin(self.wait(responder, marker, reader, transaction)).await
    }

    /// Returns how long a request that wants a response of its own pauses behind a running fetch
    /// whose body is still arriving. Reloads that arrive during the pause share the next fetch.
    pub(super) fn reload_pause(&self, name: &Bytes) -> Option<Duration> {
        let (context, fit) = (self.context, FitInput::by(self.context));
        let directives = &context.facts.directives;
        let wants_own = directives.reloads() || directives.no_store;
        if self.alone || !wants_own || !fit.shares_reloads() || context.facts.has_credentials() {
            return None;
        }
        let running = context.services.shared.fills.running(name)?;
        if running.is_waiting() || running.began_after(context.begun_before) {
            return None;
        }
        let since = context.services.clock.since(running.begun());
        RELOAD_INTERVAL.checked_sub(since).filter(|pause| !pause.is_zero())
    }

    /// Decides whether the request shares a fill of `key`. `validates`: a stored response is to be
    /// validated. `is_elsewhere`: another node provides the document, and this node does not keep
    /// it.
    fn collapse(&self, key: &Key, validates: bool, is_elsewhere: bool) -> Collapse {
        let input = CollapseInput::of(&FitInput::by(self.context), key, validates);
        CollapseInput { waits_no_more: self.alone, is_elsewhere, ..input }.decide()
    }

    /// Begins the fill of `reader` and responds from it. `joinable`: other requests may join.
    pub(super) async fn lead(
        &self,
        mut responder: FillResponder<'_>,
        marker: Option<VaryMarker>,
        asking: Option<Arc<Asking>>,
        (reader, joinable): (Reader, bool),
        mut transaction: Transaction,
    ) -> NextAction {
        let (fill, key) = (reader.fill().clone(), responder.key.clone());
        let mut fetch_task =
            self.fetch_task(fill, key, marker, responder.to_validate.as_ref(), joinable);
        fetch_task.ask_fleet(asking);
        if self.context.facts.directives.no_store {
            fetch_task.keep_nothing();
        }
        transaction.note_upstream(
            &fetch_task.upstream_request.to,
            fetch_task.upstream_request.trail.clone(),
        );
        let (interim, ranged) = (fetch_task.upstream_request.interim.clone(), fetch_task.ranged);
        responder.role = Role::Leader { interim, ranged };
        fetch_task.is_driven = self.context.head.method == Method::GET;
        responder.lead(Box::pin(fetch_task.run()), reader, transaction).await
    }

    /// Returns the running fill of `key` if it may fit this request, else a new fill in its place,
    /// unless a fill has ended since the lookup.
    pub fn join_or_begin(&self, key: &Key, asking: Option<&Asking>) -> Joining {
        let fit = FitInput::by(self.context);
        let suits = |fill: &Fill| matches!(fit.of(key, fill), Fit::Follow(_));
        let fills = &self.context.services.shared.fills;
        fills.join_if(key.as_bytes(), self.since, suits, || self.new_fill(asking))
    }

    /// Returns the plan for asking other nodes of the fleet, if any are to be asked.
    pub fn asking(&self) -> Option<Arc<Asking>> {
        self.context.asking(self.primary, false)
    }

    pub(super) fn new_fill(&self, asking: Option<&Asking>) -> Fill {
        let Services { shared, clock, .. } = &*self.context.services;
        let token = self.store.begin_fetch(self.primary);
        let share = shared.fill_budget.share(self.primary.locality().site);
        let fill = Fill::new(token, clock.instant(), share);
        let has_credentials = self.context.facts.has_credentials();
        fill.waiting_with(asking.and_then(Asking::waits_with))
            .with_credentials(has_credentials)
            .with_rule_mark(self.context.rule_mark().cloned())
    }

    /// Validates a response that expires soon while it is still fresh, so that later requests need
    /// not wait. Only one hit in [`REFRESH_ONE_IN`] does so: popular responses are validated in
    /// time, others are left alone.
    fn revalidate_early(&self, stored: &Rc<StoredResponse>, age: Seconds) {
        let (context, packed) = (self.context, stored.head.packed());
        if stored.sparse.is_none()
            && !stored.is_of_head()
            && reuse::is_nearly_stale(packed, age, context.settings())
            && !context.facts.directives.no_store
            && random().is_multiple_of(REFRESH_ONE_IN)
        {
            self.revalidate_in_background(stored, None);
        }
    }

    /// Validates in the background, possibly as a trial of an origin that failed. Returns false and
    /// does nothing if a fetch of the key is running.
    fn revalidate_in_background(&self, stored: &Rc<StoredResponse>, trial: Option<Trial>) -> bool {
        let fills = &self.context.services.shared.fills;
        let asking = self.asking();
        let new = || self.new_fill(asking.as_deref());
        let (fill, began) = fills.join_or_begin(stored.key.as_bytes(), new);
        if !began {
            return false;
        }
        let to_validate = ToValidate {
            stored: stored.clone(),
            age: Seconds::ZERO,
            fallback: Fallback { on_error: true, on_unreachable: true },
            why: Fwd::Stale,
        };
        let (key, marker) = (stored.key.clone(), stored.marker.clone());
        let mut fetch_task = self.fetch_task(fill, key, marker, Some(&to_validate), true);
        fetch_task.ask_fleet(asking);
        fetch_task.upstream_request.interim = None;
        // The client's next request needs its pinned connection.
        fetch_task.upstream_request.pinned = None;
        fetch_task.purpose = FetchPurpose::Behind(trial);
        fetch_task.asks_for_client = false;
        spawn_local(fetch_task.run());
        true
    }

    /// Returns the fetch task for a fill that this request begins.
    pub fn fetch_task(
        &self,
        fill: Arc<Fill>,
        key: Key,
        marker: Option<VaryMarker>,
        to_validate: Option<&ToValidate>,
        joinable: bool,
    ) -> Box<FetchTask> {
        let context = self.context;
        let mut upstream_request = context.upstream_request();
        // A stored GET response serves GET and HEAD; a HEAD would bring no body.
        upstream_request.method = Method::GET;
        // An object stored whole is validated and refetched as a whole.
        let ranged = is_ranged(&self.context.facts)
            && to_validate.is_none_or(|to_validate| to_validate.stored.sparse.is_some());
        Box::new(FetchTask {
            services: context.services.clone(),
            options: context.options.clone(),
            store: self.store.clone(),
            fill,
            key,
            primary: self.primary.clone(),
            marker,
            upstream_request,
            facts: context.facts.of_get(),
            request: context.head.fields.to_map(0),
            stale: to_validate
                .map(|to_validate| to_validate.stored.clone())
                .filter(|a| !a.is_of_head()),
            fallback: to_validate.map_or(Fallback::default(), |to_validate| to_validate.fallback),
            ranged,
            // On a retry do not forward the client's own conditions again.
            asks_for_client: self.is_first,
            joinable,
            purpose: FetchPurpose::Client,
            group: None,
            asking: None,
            home: Home::default(),
            is_driven: false,
            handed_over: None,
            is_kept: true,
        })
    }

    /// Sends a response that the origin has already begun to send, and stores it if permitted,
    /// under this key unless it varies in a new way.
    pub async fn keep(
        &self,
        (key, marker): (Key, Option<VaryMarker>),
        status: CacheStatus,
        transaction: Transaction,
        fetched: FetchedResponse,
    ) -> NextAction {
        let (context, store, primary) = (self.context, self.store, self.primary);
        let FetchedResponse { response, times, token } = fetched;
        let Services { shared, clock, .. } = &*context.services;
        let share = shared.fill_budget.share(primary.locality().site);
        let fill = Arc::new(Fill::new(token, clock.instant(), share));
        let Some(reader) = fill.join() else {
            return NextAction::Respond(pass_through::relay_response(
                context,
                transaction,
                response,
                status,
            ));
        };
        let mut fetch_task = self.fetch_task(fill, key.clone(), marker, None, false);
        fetch_task.is_driven = context.is_for_all();
        let role = Role::Leader { interim: None, ranged: fetch_task.ranged };
        let fetch = Box::pin(fetch_task.run_answered(response, times));
        let (to_validate, is_first) = (None, self.is_first);
        let responder =
            FillResponder { context, store, primary, key, role, to_validate, status, is_first };
        Box::pin(responder.lead(fetch, reader, transaction)).await
    }
}

/// Returns the status of a miss. If a marker exists, other variants are stored.
pub(crate) fn miss_status(marker: &Option<VaryMarker>) -> CacheStatus {
    let status = CacheStatus::new(Outcome::Miss);
    if marker.is_some() { status.fwd(Fwd::VaryMiss) } else { status }
}

/// Sends the response to a POST that names its own URL and states a freshness lifetime, and stores
/// it for later GETs of the URL (RFC 9110, 9.3.3).
pub(crate) async fn keep_post(
    context: &RequestContext,
    store: &Store,
    primary: &Key,
    transaction: Transaction,
    fetched: FetchedResponse,
) -> Response<ResponseBody> {
    let since = context.services.lookup_start();
    let cache_request =
        CacheRequest { context, store, primary, is_first: true, since, alone: true };
    let status = CacheStatus::new(Outcome::Bypass(Bypass::Method));
    match cache_request.keep((primary.clone(), None), status, transaction, fetched).await {
        NextAction::Respond(response) => response,
        // A fill always has a response for the request that began it.
        NextAction::Retry(transaction)
        | NextAction::FetchAlone(transaction)
        | NextAction::Bypass(transaction, _) => {
            let text = "The answer to a POST was lost inside the proxy.\n";
            let outcome = Outcome::Error(Error::Internal);
            error_response::plain(transaction, StatusCode::INTERNAL_SERVER_ERROR, outcome, text)
        }
    }
}

/// Returns the 504 for `only-if-cached` when nothing usable is stored (RFC 9111, 5.2.1.7).
pub(crate) fn only_if_cached(transaction: Transaction) -> Response<ResponseBody> {
    let outcome = Outcome::Error(Error::OnlyIfCached);
    let text = "Not in the cache, and the request allows nothing else (only-if-cached).\n";
    error_response::plain(transaction, StatusCode::GATEWAY_TIMEOUT, outcome, text)
}
