//! Requests for documents that another node of the fleet keeps. The response passes through this
//! node, which keeps nothing of it.

use std::sync::Arc;

use http::Response;
use semantics::{ExchangeTimes, VaryMarker};
use store::Key;

use crate::get::cache_request::{CacheRequest, NextAction, miss_status};
use crate::get::fetch_past_fills::judge;
use crate::observe::cache_status::CacheStatus;
use crate::observe::outcome::Outcome;
use crate::peers::asking::Asking;
use crate::peers::origin::FromPeer;
use crate::request::context::RequestContext;
use crate::response::response_body::ResponseBody;
use crate::response::transaction::Transaction;
use crate::response::{failure, pass_through};

impl CacheRequest<'_> {
    /// Sends a GET to the node that keeps the document. If no node responds, the origin is asked,
    /// and its response passes through as well.
    pub(crate) async fn read_through(
        &self,
        key: Key,
        marker: Option<VaryMarker>,
        asking: Option<Arc<Asking>>,
        transaction: Transaction,
    ) -> NextAction {
        let status = miss_status(&marker);
        NextAction::Respond(read(self.context, &key, asking, status, transaction).await)
    }
}

/// Sends a request to the nodes that `asking` names, then to the origin, and relays the response.
pub(super) async fn read(
    context: &RequestContext,
    key: &Key,
    asking: Option<Arc<Asking>>,
    mut status: CacheStatus,
    mut transaction: Transaction,
) -> Response<ResponseBody> {
    let (services, clock) = (&context.services, context.services.clock);
    let requested = clock.time();
    let response = match pass_through::ask_fleet(context, &mut transaction, None, asking).await {
        Ok(response) => response,
        Err(failure) => return failure::failed(transaction, failure),
    };
    let times = ExchangeTimes { requested, received: clock.time() };
    context.look_at_clock();
    let is_whole = !context.facts.conditional && !context.facts.has_range;
    if let (true, Err(why)) = (is_whole, judge(context, &response, times)) {
        // Later requests go to the origin directly, without the detour through the owner.
        services.shared.fills.remember(key, why, &context.options.fill, clock.instant());
    }
    if response.extensions().get::<FromPeer>().is_some_and(|from| from.hit) {
        status.outcome = Outcome::HitPeer;
    }
    if context.facts.conditional {
        status = status.fwd_status(response.status().as_u16());
    }
    pass_through::relay_response(context, transaction, response, status)
}
