//! A request for what another node of the fleet keeps: its answer passes through this node as it
//! comes, and nothing of it is kept here.

use http::{Method, Response};
use semantics::VaryMarker;
use store::Key;

use crate::get::cache_request::{CacheRequest, FetchedResponse, NextAction, miss_status};
use crate::object::store::Store;
use crate::observe::cache_status::CacheStatus;
use crate::observe::outcome::Outcome;
use crate::peers::asking::Asking;
use crate::peers::origin::FromPeer;
use crate::request::context::RequestContext;
use crate::response::response_body::ResponseBody;
use crate::response::transaction::Transaction;
use crate::response::{failure, pass_through};

/// Asks the memories of other nodes for what is on the device here and not in memory, where the
/// class of the document has that done first. The request comes back when they do not have it.
pub(crate) async fn read_from_memories(
    context: &RequestContext<'_>,
    store: &Store,
    primary: &Key,
    mut transaction: Transaction,
) -> Result<Response<ResponseBody>, Transaction> {
    let Some(node) = &context.services.shared.node else { return Err(transaction) };
    let is_plain = context.parts.method == Method::GET && !context.facts.directives.only_if_cached;
    // Most documents are in no other memory that is known: that is seen before all else.
    if !is_plain || node.holders(node.hash(primary.as_bytes())).is_empty() {
        return Err(transaction);
    }
    if store.resident(primary).is_some() || !store.knows(primary) {
        return Err(transaction);
    }
    let Some(asking) = context.asking(primary, true).filter(Asking::asks_memories) else {
        return Err(transaction);
    };
    let mut upstream_request = context.upstream_request();
    upstream_request.interim = None;
    upstream_request.ask_memories(asking);
    let asked = upstream_request.run(context.services, context.options, None).await;
    context.look_at_clock();
    match asked {
        Ok(response) => {
            transaction.note_upstream(&upstream_request.to, upstream_request.trail.clone());
            let status = CacheStatus::new(Outcome::HitPeer);
            Ok(pass_through::relay_response(context, transaction, response, status))
        }
        Err(_) => Err(transaction),
    }
}

impl CacheRequest<'_> {
    /// Sends a GET to the node that keeps the document, as it came. When no node answers the origin
    /// does, and its answer passes through as well.
    pub(crate) async fn read_through(
        &self,
        key: Key,
        marker: Option<VaryMarker>,
        asking: Option<Asking>,
        mut transaction: Transaction,
    ) -> NextAction {
        let (context, mut status) = (self.context, miss_status(&marker));
        let fetched = match self.ask_past_fills(&mut transaction, asking).await {
            Ok(fetched) => fetched,
            Err(failure) => return NextAction::Respond(failure::failed(transaction, failure)),
        };
        context.look_at_clock();
        let is_whole = !context.facts.conditional && !context.facts.has_range;
        if let (true, Err(why)) = (is_whole, self.judge(&fetched.response, fetched.times)) {
            // The next go to the origin without a way round by the owner.
            let (fills, now) = (&context.services.shared.fills, context.services.clock.instant());
            fills.remember(&key, why, &context.options.fill, now);
        }
        let FetchedResponse { response, .. } = fetched;
        if response.extensions().get::<FromPeer>().is_some_and(|from| from.hit) {
            status.outcome = Outcome::HitPeer;
        }
        if context.facts.conditional {
            status = status.fwd_status(response.status().as_u16());
        }
        NextAction::Respond(pass_through::relay_response(context, transaction, response, status))
    }
}
