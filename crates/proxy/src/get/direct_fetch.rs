//! Fetches for one request alone, without a fill that other requests could join. The response is
//! relayed. The fetches differ in the nodes they ask and in the part of the response they keep.

use std::sync::Arc;

use http::{Method, Response};
use semantics::ExchangeTimes;
use store::{FetchToken, Key};
use upstream::connection::origin_body::OriginBody;
use upstream::message::request_body::RequestBody;

use crate::body::peer_body;
use crate::fill::registry::HitForMiss;
use crate::get::collapse::{Collapse, CollapseInput};
use crate::get::direct_fetch::DirectResponse::{Relayed, Storable};
use crate::get::fit::FitInput;
use crate::object::object_writer::Judge;
use crate::object::store::Store;
use crate::observe::cache_status::CacheStatus;
use crate::observe::outcome::{Bypass, Outcome};
use crate::peers::asking::Asking;
use crate::peers::origin::FromPeer;
use crate::request::context::RequestContext;
use crate::response::response_body::ResponseBody;
use crate::response::transaction::Transaction;
use crate::response::{failure, pass_through};

/// Which part of a direct fetch's response is kept.
pub(crate) enum Keep {
    /// Nothing: another fleet node keeps the document, or fetches it.
    Nothing,
    /// The response, if the class of the document in it keeps a copy here. The token was taken
    /// before the fetch.
    IfOfClass(FetchToken),
    /// The response, if it has become storable. The token was taken before the fetch.
    IfStorable(FetchToken),
}

pub(crate) enum DirectResponse {
    Relayed(Response<ResponseBody>),
    /// The response may be stored.
    Storable(Transaction, FetchedResponse),
}

/// Response of the origin that arrived before a fill existed for it.
pub(crate) struct FetchedResponse {
    pub response: Response<OriginBody>,
    pub times: ExchangeTimes,
    /// Taken before the request was sent to the origin.
    pub token: FetchToken,
    /// The plan that says where the document is kept; `None`: as without a fleet.
    pub asking: Option<Arc<Asking>>,
}

/// Fetches from the nodes that `asking` names, then from the origin. Returns the relayed response,
/// unless it may be stored and `keep` permits it.
///
/// A response that may not be stored is remembered for `key`: later requests go to the origin
/// directly, without a fill and without the detour through the document's owner.
pub(crate) async fn fetch(
    context: &RequestContext,
    key: &Key,
    asking: Option<Arc<Asking>>,
    keep: Keep,
    mut status: CacheStatus,
    mut transaction: Transaction,
) -> DirectResponse {
    let (clock, facts) = (context.services.clock, &context.facts);
    let requested = clock.time();
    let plan = asking.clone();
    let response = match pass_through::ask(context, &mut transaction, None, asking).await {
        Ok(response) => response,
        Err(failure) => return Relayed(failure::failed(transaction, failure)),
    };
    let times = ExchangeTimes { requested, received: clock.time() };
    context.look_at_clock();
    let keeps = || plan.as_ref().is_some_and(|plan| plan.keeps(&response));
    let is_stored_there = response.extensions().get::<FromPeer>().is_some_and(|from| from.hit);
    // The owner's response to a condition or a range says nothing about the whole document, and
    // what it has stored is storable.
    let is_judged = match keep {
        Keep::IfStorable(_) => true,
        _ if facts.conditional || facts.has_range => false,
        Keep::IfOfClass(_) => !is_stored_there || keeps(),
        Keep::Nothing => !is_stored_there,
    };
    let judged = if is_judged { judge(context, &response, times) } else { Ok(()) };
    match (judged, keep) {
        (Ok(()), Keep::IfStorable(token)) => {
            return Storable(transaction, FetchedResponse { response, times, token, asking: None });
        }
        (Ok(()), Keep::IfOfClass(token)) if keeps() => {
            return Storable(transaction, FetchedResponse { response, times, token, asking: plan });
        }
        (Ok(()), Keep::Nothing | Keep::IfOfClass(_)) => {}
        (Err(why), _) => {
            let fills = &context.services.shared.fills;
            fills.remember(key, why, &context.options.fill, clock.instant());
        }
    }
    if let Some(plan) = &plan {
        plan.note_not_kept();
    }
    if is_stored_there {
        status.outcome = Outcome::HitPeer;
    }
    if facts.conditional {
        status = status.fwd_status(response.status().as_u16());
    }
    Relayed(pass_through::relay_response(context, transaction, response, status))
}

/// Returns an error with the reason if the response to this request must not be stored.
fn judge(
    context: &RequestContext,
    response: &Response<OriginBody>,
    times: ExchangeTimes,
) -> Result<(), HitForMiss> {
    let facts = context.facts.of_get();
    let settings = &*context.settings_for(response.status(), response.headers());
    let judge = Judge { facts: &facts, times, settings };
    judge.permits(response.status(), response.headers()).map_err(|why| HitForMiss::of(why, &facts))
}

/// Returns the plan for asking the memories of other nodes. Returns `None` unless the object is on
/// this node's device and not in its memory, and the class of the document asks memories first.
pub(super) fn memories_to_ask(
    context: &RequestContext,
    store: &Store,
    primary: &Key,
) -> Option<Arc<Asking>> {
    let node = context.services.shared.node.as_ref().filter(|node| node.cooperates())?;
    let is_plain = context.head.method == Method::GET && !context.facts.directives.only_if_cached;
    // Cheapest test first: most documents have no known holder.
    if !is_plain || node.holders(node.hash(primary.as_bytes())).is_empty() {
        return None;
    }
    if store.resident(primary).is_some() || !store.knows(primary) {
        return None;
    }
    context.asking(primary, true).filter(|asking| asking.asks_memories())
}

/// Responds from the memory of another node. Returns the transaction if none has the document. That
/// is not a failure and is not logged, because this node's device has it.
pub(super) async fn read_memories(
    context: &RequestContext,
    asking: Arc<Asking>,
    mut transaction: Transaction,
) -> Result<Response<ResponseBody>, Transaction> {
    let (services, options) = (&context.services, &context.options);
    let mut upstream_request = context.upstream_request();
    upstream_request.interim = None;
    upstream_request.ask_fleet(Some(&asking));
    let asked = upstream_request.run(services, options, None).await;
    context.look_at_clock();
    let Ok(response) = asked else { return Err(transaction) };
    // The local copy cannot continue this body: if the peer fails, the origin sends the rest.
    let rest = || context.upstream_request();
    let response = peer_body::continued_elsewhere(services, options, rest, response).await;
    transaction.note_upstream(&upstream_request);
    let status = CacheStatus::new(Outcome::HitPeer);
    Ok(pass_through::relay_response(context, transaction, response, status))
}

/// Responds at a node without a usable store. At a fleet node that never has one, the node that
/// owns the document serves or fetches it, and the response passes through. Otherwise the request
/// bypasses the cache.
///
/// Guarantees: a node asks other nodes only after it has met them, because it must know the purges
/// that they know. A node whose cache is not open yet, was handed over or lags behind asks only the
/// origin.
pub(crate) async fn answer_without_store(
    context: &RequestContext,
    transaction: Transaction,
    body: RequestBody,
) -> Response<ResponseBody> {
    let Some((key, asking)) = owner_to_ask(context) else {
        return pass_through::pass(context, transaction, body, Bypass::Offline).await;
    };
    let status = CacheStatus::new(Outcome::Miss);
    match fetch(context, &key, Some(asking), Keep::Nothing, status, transaction).await {
        Relayed(response) => response,
        Storable(transaction, FetchedResponse { response, .. }) => {
            pass_through::relay_response(context, transaction, response, status)
        }
    }
}

/// Returns the key and the plan for asking other nodes at a node without a cache. `None` if no node
/// is to be asked.
fn owner_to_ask(context: &RequestContext) -> Option<(Key, Arc<Asking>)> {
    let node = context.services.shared.node.as_ref()?;
    if !node.is_without_cache() {
        return None;
    }
    let key = context.key(&context.url()?)?;
    let fit = FitInput::by(context);
    let input = CollapseInput::of(&fit, &key, false);
    if (CollapseInput { is_elsewhere: true, ..input }).decide() != Collapse::ReadThrough {
        return None;
    }
    let asking = context.asking(&key, false).filter(|asking| asking.asks_anybody())?;
    Some((key, asking))
}
