//! GET and HEAD at a fleet node without a cache. The node that owns the document serves it from its
//! own cache or fetches it, and the response passes through.
//!
//! Guarantees: a node asks other nodes only after it has met them, because it must know the purges
//! that they know. A node whose cache is not yet open, was handed over or lags behind asks only the
//! origin.

use std::sync::Arc;

use http::Response;
use message::request_body::RequestBody;
use store::Key;

use crate::get::cache_request::miss_status;
use crate::get::collapse::{Collapse, CollapseInput};
use crate::get::fit::FitInput;
use crate::get::read_through;
use crate::observe::cache_status::CacheStatus;
use crate::peers::asking::Asking;
use crate::request::context::RequestContext;
use crate::response::pass_through;
use crate::response::response_body::ResponseBody;
use crate::response::transaction::Transaction;

/// Responds to a request for which this node has no cache: from the other nodes, or, with status
/// `past`, from the origin alone.
pub(crate) async fn answer(
    context: &RequestContext,
    transaction: Transaction,
    body: RequestBody,
    past: CacheStatus,
) -> Response<ResponseBody> {
    match asking(context) {
        Some((key, asking)) => {
            let status = miss_status(&None);
            read_through::read(context, &key, Some(asking), status, transaction).await
        }
        None => pass_through::pass(context, transaction, body, past).await,
    }
}

/// Returns the key and the plan for asking other nodes; `None` if none is to be asked.
fn asking(context: &RequestContext) -> Option<(Key, Arc<Asking>)> {
    let node = context.services.shared.node.as_ref()?;
    if !node.is_without_cache() || !node.purges().may_use() {
        return None;
    }
    let key = context.key(&context.url()?)?;
    let fit = FitInput::by(context);
    let input = CollapseInput::of(&fit, &key, false);
    let input = CollapseInput { is_elsewhere: true, ..input };
    if input.decide() != Collapse::ReadThrough {
        return None;
    }
    let asking = context.asking(&key, false).filter(|asking| asking.asks_anybody())?;
    Some((key, asking))
}
