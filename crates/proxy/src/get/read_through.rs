//! A request for what another node of the fleet keeps: its answer passes through this node as it
//! comes, and nothing of it is kept here.

use semantics::VaryMarker;
use store::Key;

use crate::get::cache_request::{CacheRequest, FetchedResponse, NextAction, miss_status};
use crate::observe::outcome::Outcome;
use crate::peers::asking::Asking;
use crate::peers::origin::FromPeer;
use crate::response::transaction::Transaction;
use crate::response::{failure, pass_through};

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
