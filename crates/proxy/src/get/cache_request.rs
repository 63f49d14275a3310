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
use fleet::lookup::Reach;
use http::{Method, Response, StatusCode};
use net::random::random;
use semantics::reuse::{Cause, Fallback, StalePermit};
use semantics::{Seconds, VaryMarker, reuse};
use store::{Home, Key, Source};
use tokio::task::spawn_local;
use tokio::time::sleep;
use upstream::message::request_body::RequestBody;

use crate::fetch::fetch_task::{FetchPurpose, FetchTask};
use crate::fill::registry::{JoinResult, name_of_head, name_of_unkept};
use crate::fill::state::{Fill, Reader};
use crate::get::collapse::{Collapse, CollapseInput, is_ranged};
use crate::get::compressed_form::StoredAnswer;
use crate::get::direct_fetch;
use crate::get::direct_fetch::DirectResponse::{Relayed, Storable};
use crate::get::direct_fetch::{FetchedResponse, Keep, fetch};
use crate::get::fill_response::{FillResponder, Role};
use crate::get::fit::{Fit, FitInput, wants_events};
use crate::get::partial_response::{PartialResponder, Served};
use crate::get::plan::{Plan, PlanInput};
use crate::get::vouching;
use crate::object::lookup::{LookupResult, find};
use crate::object::metadata::Metadata;
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
use crate::response::{error_response, pass_through};
use crate::services::{LookupStart, Services};

/// Maximum number of lookups; after that the request bypasses the cache.
const LOOKUPS_MAX: u32 = 6;

/// Minimum time between two fetches of one key for reloads while the first body is still arriving.
const RELOAD_INTERVAL: Duration = Duration::from_secs(2);

/// One in this many hits on a response that expires soon starts a validation.
const REFRESH_ONE_IN: u64 = 8;

/// Next step of a request after a lookup.
#[expect(clippy::large_enum_variant, reason = "the large one is the usual one")]
pub(crate) enum NextAction {
    Respond(Response<ResponseBody>),
    /// Look up again: the awaited fetch does not fit this request.
    Retry(Transaction),
    /// Like [`NextAction::Retry`], but no longer wait for other fetches.
    FetchAlone(Transaction),
    Bypass(Transaction, Bypass),
}

/// A stored response that must be validated.
pub(crate) struct ToValidate {
    pub stored: Rc<StoredResponse>,
    pub age: Seconds,
    pub fallback: Fallback,
    /// Cause of the validation: the age of the stored response, or the request.
    pub why: Fwd,
}

pub(crate) struct HeadRequest {
    pub key: Key,
    pub marker: Option<VaryMarker>,
    /// The stored response to validate, if there is one.
    pub to_validate: Option<ToValidate>,
}

/// Responds to a GET or HEAD. Tries these sources in order:
///
/// 1. the memories of other nodes, if this node has the object only on its device;
/// 2. this node's memory and device;
/// 3. a running fetch of the key;
/// 4. the owner of the document in the fleet;
/// 5. the origin.
pub(crate) async fn answer(
    context: &RequestContext,
    store: &Store,
    primary: &Key,
    mut transaction: Transaction,
    body: RequestBody,
) -> Response<ResponseBody> {
    let node = &context.services.shared.node;
    node.iter().for_each(|node| node.note_request(primary.as_bytes()));
    if let Some(asking) = direct_fetch::memories_to_ask(context, store, primary) {
        match Box::pin(direct_fetch::read_memories(context, asking, transaction)).await {
            Ok(response) => return response,
            Err(returned) => transaction = returned,
        }
    }
    let mut past = Bypass::NotShareable;
    let mut alone = false;
    for number in 0..LOOKUPS_MAX {
        let (method, fields) = (&context.head.method, &context.head.fields);
        let options = context.lookup_options(primary);
        let since = context.services.lookup_start();
        let Some(found) = find(store, primary, method, fields, options).await else {
            past = Bypass::LongUrl;
            break;
        };
        context.look_at_clock();
        let is_first = number == 0;
        let may_hand_over = true;
        let cache_request =
            CacheRequest { context, store, primary, is_first, since, alone, may_hand_over };
        let vouched = vouching::vouched(context.site(), &context.head, &found).await;
        let (plan, event) = PlanInput::by(context, vouched).plan(&found);
        let plan = if is_first { plan } else { cache_request.plan_again(plan, &found) };
        let plan = cache_request.plan_for_node(plan, &found);
        // Further lookups belong to the same request and are not counted.
        let count = |event| context.services.observer.count(event, u64::from(is_first));
        event.into_iter().for_each(count);
        if let LookupResult::Stored(stored) = &found
            && context.services.shared.neighbours.take_mark(stored.key.as_bytes())
            && matches!(plan, Plan::Serve { stale: None, .. })
        {
            count(Event::NeighbourUsed);
        }
        match cache_request.carry_out(plan, found, transaction).await {
            NextAction::Respond(response) => return counted(context, response),
            NextAction::Retry(returned) => transaction = returned,
            NextAction::FetchAlone(returned) => (transaction, alone) = (returned, true),
            NextAction::Bypass(returned, why) => {
                (transaction, past) = (returned, why);
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
    count_conditional(context, response.status() == StatusCode::NOT_MODIFIED);
    response
}

/// Counts a conditional request. `is_304` says that the client has the response.
pub(crate) fn count_conditional(context: &RequestContext, is_304: bool) {
    if context.facts.conditional {
        let event = if is_304 { Event::ConditionalHit } else { Event::ConditionalMiss };
        context.services.observer.count(event, 1);
    }
}

/// One lookup of a request, and the actions that may follow it.
pub(crate) struct CacheRequest<'a> {
    pub context: &'a RequestContext,
    pub store: &'a Store,
    pub primary: &'a Key,
    /// False once the request has waited for another request's fetch.
    pub is_first: bool,
    pub since: LookupStart,
    /// True if the request does not wait for other requests' fetches.
    pub alone: bool,
    /// False for a response that the origin sent in place of a part
    /// ([`PartialResponder::may_hand_over`]).
    pub may_hand_over: bool,
}

impl CacheRequest<'_> {
    /// Carries out the plan for the lookup result.
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
                let age = self.told_age(&stored, age);
                self.serve(stored, age, stale, transaction).await
            }
            (Plan::Validate { age, cause, fallback }, Some(stored)) => {
                let age = self.told_age(&stored, age);
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
                self.fetch((key, marker), Some(to_validate), transaction).await
            }
            (Plan::Pass(Bypass::NoStore), _) if self.shares_unkept(&key) => {
                self.fetch((key, marker), None, transaction).await
            }
            (Plan::Pass(why), _) => NextAction::Bypass(transaction, why),
            (Plan::Refuse(_), _) => NextAction::Respond(only_if_cached(self.context, transaction)),
            (Plan::Fetch(_) | Plan::Serve { .. } | Plan::Validate { .. }, _) => {
                self.fetch((key, marker), None, transaction).await
            }
        }
    }

    /// Returns the age to send with a stored response. To another node it is greater by what a soft
    /// purge has cut off the lifetime: the fields, by which that node judges, do not say so.
    fn told_age(&self, stored: &StoredResponse, age: Seconds) -> Seconds {
        if self.context.question.is_none() {
            return age;
        }
        age.plus(Metadata::cut_off(&stored.entry, stored.head.packed().lifetime()))
    }

    /// Returns the plan for another node's question. A node that validates its copy gets no stale
    /// response, or two nodes would renew each other's; nor does any, after a soft purge.
    fn plan_for_node(&self, plan: Plan, found: &LookupResult) -> Plan {
        let (Plan::Serve { age, stale: Some(StalePermit::WhileRevalidate) }, Some(_)) =
            (plan, &self.context.question)
        else {
            return plan;
        };
        let LookupResult::Stored(stored) = found else { return plan };
        let (facts, cause) = (&self.context.facts, Cause::Expired);
        match facts.conditional || stored.entry.outdated_since().is_some() {
            true if facts.directives.only_if_cached => Plan::Refuse(Some(cause)),
            true => {
                let fallback = Fallback::on(self.context.settings().stale_if);
                Plan::Validate { age, cause, fallback }
            }
            false => plan,
        }
    }

    /// Returns the plan for a request that has waited. If reloads share fetches, a response fetched
    /// since the request arrived is young enough.
    fn plan_again(&self, plan: Plan, found: &LookupResult) -> Plan {
        let (Plan::Validate { age, cause, .. }, LookupResult::Stored(stored)) = (plan, found)
        else {
            return plan;
        };
        let (context, fills) = (self.context, &self.context.services.shared.fills);
        let is_wish = !matches!(cause, Cause::NoCache | Cause::Expired);
        let (packed, begun, since) = (stored.head.packed(), context.begun_before, self.since);
        let by_head = || {
            packed.received() >= context.arrived
                && fills.is_renewed_after(&name_of_head(&stored.key), begun, since)
        };
        let is_renewed = is_wish
            && FitInput::by(context).shares_reloads()
            && packed.is_fresh(context.now())
            && (fills.is_renewed_after(stored.key.as_bytes(), begun, since) || by_head());
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
        let concerned = shared.outages.failure_scope(origin, stored.key.as_bytes());
        let may_try = is_representative(&self.context.facts);
        let known = shared.outages.known_failure(concerned, fallback, may_try, clock.millis())?;
        if let Some(trial) = known.trial
            && !self.revalidate_in_background(stored, Some(trial))
        {
            shared.outages.return_trial(trial);
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
        NextAction::Respond(self.stored_answer(&stored, status, age).respond(transaction).await)
    }

    /// Returns the response from a stored object, for [`StoredAnswer::respond`].
    pub fn stored_answer<'b>(
        &'b self,
        stored: &'b Rc<StoredResponse>,
        status: CacheStatus,
        age: Seconds,
    ) -> StoredAnswer<'b> {
        let CacheRequest { context, store, primary, .. } = *self;
        let (shared, own) = (None, None);
        StoredAnswer { context, store, primary, stored, status, age, shared, own }
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
        // The status of a fresh response depends on the source of its parts.
        let status = matches!(outcome, Outcome::Stale(_)).then(|| CacheStatus::new(outcome));
        let stored = &stored;
        let may_hand_over = self.may_hand_over;
        let serving = PartialResponder {
            context,
            store,
            primary,
            stored,
            head: None,
            age,
            status,
            may_hand_over,
        };
        match serving.answer(transaction).await {
            Served::Action(action) => action,
            Served::Incomplete(transaction) => {
                let place = (stored.key.clone(), stored.marker.clone());
                self.fetch(place, None, transaction).await
            }
        }
    }

    /// Returns whether a request with `no-store`, which forbids storing any part of it (RFC 9111,
    /// 5.2.1.5), shares a fetch with requests like it. It does if reloads share fetches.
    fn shares_unkept(&self, key: &Key) -> bool {
        let (facts, fit) = (&self.context.facts, FitInput::by(self.context));
        let Services { shared, clock, .. } = &*self.context.services;
        let seen = || shared.fills.hit_for_miss(key.as_bytes(), clock.instant());
        fit.shares_reloads()
            && !self.alone
            && !is_ranged(facts)
            && !facts.is_head
            && !facts.has_credentials()
            && !fit.is_concerned(seen())
    }

    /// Returns whether the request may wait for a running fill of `key`.
    fn may_follow(&self, key: &Key) -> bool {
        !self.alone && matches!(FitInput::by(self.context).running(key), Some(Fit::Follow(_)))
    }

    /// Fetches, or validates a stored response: joins the running fill of the key, begins a fill,
    /// or fetches without one. Fills for requests with `no-store` are registered under another
    /// name.
    async fn fetch(
        &self,
        (key, marker): (Key, Option<VaryMarker>),
        to_validate: Option<ToValidate>,
        transaction: Transaction,
    ) -> NextAction {
        let (context, directives) = (self.context, &self.context.facts.directives);
        if to_validate.is_none() && directives.only_if_cached {
            // The stored response has disappeared since the plan was made.
            return NextAction::Respond(only_if_cached(context, transaction));
        }
        if context.facts.is_head && !self.may_follow(&key) {
            let ask = HeadRequest { key, marker, to_validate };
            return Box::pin(self.head(ask, transaction)).await;
        }
        let unkept = directives.no_store.then(|| name_of_unkept(&key));
        let name = unkept.as_ref().unwrap_or(key.as_bytes());
        if let Some(pause) = self.reload_pause(name) {
            Box::pin(sleep(pause)).await;
            return NextAction::Retry(transaction);
        }
        let asking = if unkept.is_none() { self.asking() } else { None };
        let (collapse, status, again): (_, _, fn(_) -> _) = match &unkept {
            None => {
                let collapse = self.collapse(&key, to_validate.is_some(), asking.as_deref());
                (collapse, miss_status(&marker), NextAction::Retry)
            }
            Some(_) => {
                let status = CacheStatus::new(Outcome::Bypass(Bypass::NoStore));
                // A fetch that has ended left nothing in the store.
                (Collapse::Share, status, NextAction::FetchAlone)
            }
        };
        let (fill, began, joinable) = match collapse {
            Collapse::Bypass(why) => return NextAction::Bypass(transaction, why),
            Collapse::ReadThrough | Collapse::PastFills => {
                let (asking, keep) = match collapse {
                    Collapse::ReadThrough => {
                        let keep = self.keep_of_elsewhere(asking.as_deref());
                        (asking, keep)
                    }
                    _ => (None, Keep::IfStorable(self.store.begin_fetch(self.primary))),
                };
                // Boxed as a whole, so that other requests do not carry it.
                let fetching = async move {
                    match fetch(context, &key, asking, keep, status, transaction).await {
                        Relayed(response) => NextAction::Respond(response),
                        Storable(transaction, fetched) => {
                            self.keep((key, marker), status, transaction, fetched).await
                        }
                    }
                };
                return Box::pin(fetching).await;
            }
            Collapse::Alone => (Arc::new(self.new_fill(asking.as_deref())), true, false),
            Collapse::Share => match self.join_or_begin(name, &key, asking.as_deref()) {
                JoinResult::Running(fill) => (fill, false, true),
                JoinResult::New(fill) => (fill, true, true),
                JoinResult::Ended => return again(transaction),
            },
        };
        let Some(reader) = fill.join() else { return again(transaction) };
        let responder = self.responder(key, to_validate, status);
        if began {
            let reader = (reader, joinable);
            return Box::pin(self.lead(responder, marker, asking, reader, transaction)).await;
        }
        context.services.observer.count(Event::FollowerJoined, 1);
        Box::pin(self.wait(responder, marker, reader, transaction)).await
    }

    /// Returns the responder for a fill that this request follows.
    fn responder(
        &self,
        key: Key,
        to_validate: Option<ToValidate>,
        status: CacheStatus,
    ) -> FillResponder<'_> {
        let CacheRequest { context, store, primary, is_first, may_hand_over, .. } = *self;
        let role = Role::Follower;
        FillResponder {
            context,
            store,
            primary,
            key,
            role,
            to_validate,
            status,
            is_first,
            may_hand_over,
        }
    }

    /// Returns the pause of a request that wants a response of its own behind a running fetch whose
    /// body is still arriving. Reloads that arrive during the pause share the next fetch.
    fn reload_pause(&self, name: &Bytes) -> Option<Duration> {
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
    /// validated.
    fn collapse(&self, key: &Key, validates: bool, asking: Option<&Asking>) -> Collapse {
        let is_elsewhere =
            asking.is_some_and(|asking| asking.asks_owner() && asking.keeps_nothing());
        let input = CollapseInput::of(&FitInput::by(self.context), key, validates);
        CollapseInput { has_waited_in_vain: self.alone, is_elsewhere, ..input }.decide()
    }

    /// Returns what is kept of a document that is read through its owner: what its class says, if
    /// only the answer tells the class. A part of a document tells neither its size nor itself.
    fn keep_of_elsewhere(&self, asking: Option<&Asking>) -> Keep {
        let may_keep = asking.is_some_and(Asking::may_keep_another) && self.context.is_for_all();
        match may_keep {
            true => Keep::IfOfClass(self.store.begin_fetch(self.primary)),
            false => Keep::Nothing,
        }
    }

    /// Begins the fill of `reader` and responds from it. `joinable`: other requests may join.
    async fn lead(
        &self,
        mut responder: FillResponder<'_>,
        marker: Option<VaryMarker>,
        asking: Option<Arc<Asking>>,
        (reader, joinable): (Reader, bool),
        mut transaction: Transaction,
    ) -> NextAction {
        let (fill, place) = (reader.fill().clone(), (responder.key.clone(), marker));
        let to_validate = responder.to_validate.as_ref();
        let mut fetch_task = self.fetch_task(fill, place, to_validate, asking, joinable);
        if self.context.facts.directives.no_store {
            fetch_task.forbid_storing();
        }
        transaction.note_upstream(&fetch_task.upstream_request);
        let (interim, ranged) = (fetch_task.upstream_request.interim.clone(), fetch_task.ranged);
        responder.role = Role::Leader { interim, ranged };
        fetch_task.is_driven = self.context.head.method == Method::GET;
        responder.lead(Box::pin(fetch_task.run()), reader, transaction).await
    }

    /// Returns the running fill of this name if it may fit this request, which looked up `key`.
    /// Otherwise returns a new fill in its place, unless a fill has ended since the lookup.
    pub fn join_or_begin(&self, name: &Bytes, key: &Key, asking: Option<&Asking>) -> JoinResult {
        let fit = FitInput::by(self.context);
        let suits = |fill: &Fill| matches!(fit.of(key, fill), Fit::Follow(_));
        let fills = &self.context.services.shared.fills;
        fills.join_if(name, self.since, suits, || self.new_fill(asking))
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
        let waits_alone =
            self.context.facts.has_credentials() || wants_events(&self.context.head.fields);
        fill.waiting_with(asking.and_then(Asking::waits_with))
            .waiting_alone_if(waits_alone)
            .with_rule_mark(self.context.rule_mark().cloned())
    }

    /// Validates a response that expires soon while it is still fresh, so that later requests need
    /// not wait. One hit in [`REFRESH_ONE_IN`] does so: popular responses are validated in time,
    /// others are left alone.
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

    /// Validates in the background, possibly as a trial of an origin that failed. Does nothing and
    /// returns false if a fetch of the key is running.
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
            fallback: Fallback::on(self.context.settings().stale_if),
            why: Fwd::Stale,
        };
        let place = (stored.key.clone(), stored.marker.clone());
        let mut fetch_task = self.fetch_task(fill, place, Some(&to_validate), asking, true);
        fetch_task.upstream_request.interim = None;
        // The client's next request needs its pinned connection.
        fetch_task.upstream_request.pinned = None;
        fetch_task.purpose = FetchPurpose::Behind(trial);
        fetch_task.asks_for_client = false;
        spawn_local(fetch_task.run());
        true
    }

    /// Returns the fetch task for a fill that this request begins. It asks the nodes that `asking`
    /// names before the origin.
    pub fn fetch_task(
        &self,
        fill: Arc<Fill>,
        (key, marker): (Key, Option<VaryMarker>),
        to_validate: Option<&ToValidate>,
        asking: Option<Arc<Asking>>,
        joinable: bool,
    ) -> Box<FetchTask> {
        let context = self.context;
        let mut upstream_request = context.upstream_request();
        upstream_request.ask_fleet(asking.as_ref());
        // A stored GET response serves GET and HEAD; a HEAD would bring no body.
        upstream_request.method = Method::GET;
        // An object stored whole is validated and refetched as a whole.
        let has_same_bytes = context.rule.as_ref().is_none_or(|rule| rule.substitution.is_none());
        let ranged = has_same_bytes
            && is_ranged(&self.context.facts)
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
            asking,
            home: Home::default(),
            is_driven: false,
            handed_over: None,
            is_kept: true,
        })
    }

    /// Sends a response that the origin has already begun to send. Stores it if permitted, under
    /// this key unless it varies in a new way.
    pub async fn keep(
        &self,
        (key, marker): (Key, Option<VaryMarker>),
        status: CacheStatus,
        transaction: Transaction,
        fetched: FetchedResponse,
    ) -> NextAction {
        let context = self.context;
        let FetchedResponse { response, times, token, asking } = fetched;
        let Services { shared, clock, .. } = &*context.services;
        let share = shared.fill_budget.share(self.primary.locality().site);
        let waited = clock.time().unix_millis().saturating_sub(times.requested.unix_millis());
        let now = clock.instant();
        let begun = now.checked_sub(Duration::from_millis(waited)).unwrap_or(now);
        let fill = Arc::new(Fill::new(token, begun, share));
        let Some(reader) = fill.join() else {
            return NextAction::Respond(pass_through::relay_response(
                context,
                transaction,
                response,
                status,
            ));
        };
        let mut fetch_task = self.fetch_task(fill, (key.clone(), marker), None, asking, false);
        fetch_task.is_driven = context.is_for_all();
        let role = Role::Leader { interim: None, ranged: fetch_task.ranged };
        let fetch = Box::pin(fetch_task.run_answered(response, times));
        let responder = FillResponder { role, ..self.responder(key, None, status) };
        Box::pin(responder.lead(fetch, reader, transaction)).await
    }
}

/// Returns the status of a miss. A marker means that other variants are stored.
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
    let (is_first, alone, may_hand_over) = (true, true, true);
    let cache_request =
        CacheRequest { context, store, primary, is_first, since, alone, may_hand_over };
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

/// Returns the 504 for `only-if-cached` when nothing usable is stored (RFC 9111, 5.2.1.7), also for
/// a question of another node that goes no further.
pub(crate) fn only_if_cached(
    context: &RequestContext,
    transaction: Transaction,
) -> Response<ResponseBody> {
    let outcome = match &context.question {
        Some(question) if question.reach < Reach::Origin => Outcome::Absent,
        _ => Outcome::Error(Error::OnlyIfCached),
    };
    let text = "Not in the cache, and the request allows nothing else (only-if-cached).\n";
    error_response::plain(transaction, StatusCode::GATEWAY_TIMEOUT, outcome, text)
}
