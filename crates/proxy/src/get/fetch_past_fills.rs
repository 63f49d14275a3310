//! Requests whose response recently could not be stored. They are sent without a fill, because no
//! other request could follow it. If the response has become storable, a fill stores it and passes
//! it on.

use std::sync::Arc;

use http::Response;
use semantics::{ExchangeTimes, VaryMarker};
use store::Key;
use upstream::connection::origin_body::OriginBody;

use crate::fill::registry::HitForMiss;
use crate::get::cache_request::{CacheRequest, FetchedResponse, NextAction, miss_status};
use crate::object::object_writer::Judge;
use crate::origin::failure::Failure;
use crate::peers::asking::Asking;
use crate::request::context::RequestContext;
use crate::response::transaction::Transaction;
use crate::response::{failure, pass_through};

impl CacheRequest<'_> {
    /// Fetches for this request alone: from the nodes that `asking` names, then from the origin.
    pub(super) async fn ask_past_fills(
        &self,
        transaction: &mut Transaction,
        asking: Option<Arc<Asking>>,
    ) -> Result<FetchedResponse, Failure> {
        let token = self.store.begin_fetch(self.primary);
        let clock = self.context.services.clock;
        let requested = clock.time();
        let response = pass_through::ask_fleet(self.context, transaction, None, asking).await?;
        let times = ExchangeTimes { requested, received: clock.time() };
        Ok(FetchedResponse { response, times, token })
    }

    /// Sends a GET to the origin without a fill.
    pub(crate) async fn fetch_past_fills(
        &self,
        key: Key,
        marker: Option<VaryMarker>,
        mut transaction: Transaction,
    ) -> NextAction {
        let (context, mut status) = (self.context, miss_status(&marker));
        let fetched = match self.ask_past_fills(&mut transaction, None).await {
            Ok(fetched) => fetched,
            Err(failure) => return NextAction::Respond(failure::failed(transaction, failure)),
        };
        context.look_at_clock();
        match judge(context, &fetched.response, fetched.times) {
            Ok(()) => Box::pin(self.keep((key, marker), status, transaction, fetched)).await,
            Err(why) => {
                context.services.shared.fills.remember(
                    &key,
                    why,
                    &context.options.fill,
                    context.services.clock.instant(),
                );
                let response = fetched.response;
                if context.facts.conditional {
                    status = status.fwd_status(response.status().as_u16());
                }
                NextAction::Respond(pass_through::relay_response(
                    context,
                    transaction,
                    response,
                    status,
                ))
            }
        }
    }
}

/// Returns an error with the reason if the response to this request must not be stored.
pub(super) fn judge(
    context: &RequestContext,
    response: &Response<OriginBody>,
    times: ExchangeTimes,
) -> Result<(), HitForMiss> {
    let (facts, settings) = (context.facts.of_get(), context.settings());
    let judge = Judge { facts: &facts, times, settings };
    judge.permits(response.status(), response.headers()).map_err(|why| HitForMiss::of(why, &facts))
}
