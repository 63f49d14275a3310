//! Asks the memory tiers of other nodes of the fleet before this node reads its own device.

use std::sync::Arc;

use http::{Method, Response};
use store::Key;

use crate::body::peer_body;
use crate::object::store::Store;
use crate::observe::cache_status::CacheStatus;
use crate::observe::outcome::Outcome;
use crate::peers::asking::Asking;
use crate::request::context::RequestContext;
use crate::response::pass_through;
use crate::response::response_body::ResponseBody;
use crate::response::transaction::Transaction;

/// Returns the plan for asking the memories of other nodes. `None` unless the object is on this
/// node's device and not in its memory, and the class of the document asks memories first.
pub(crate) fn asking(
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

/// Responds from the memory of another node. Returns the transaction if none has the document.
pub(crate) async fn read(
    context: &RequestContext,
    asking: Arc<Asking>,
    mut transaction: Transaction,
) -> Result<Response<ResponseBody>, Transaction> {
    let mut upstream_request = context.upstream_request();
    upstream_request.interim = None;
    upstream_request.ask_memories(asking);
    let asked = upstream_request.run(&context.services, &context.options, None).await;
    context.look_at_clock();
    match asked {
        Ok(response) => {
            // The local copy cannot be joined to this body: if the peer fails, the origin sends the
            // rest.
            let rest = || context.upstream_request();
            let (services, options) = (&context.services, &context.options);
            let response = peer_body::outlasting(services, options, rest, response).await;
            transaction.note_upstream(&upstream_request.to, upstream_request.trail.clone());
            let status = CacheStatus::new(Outcome::HitPeer);
            Ok(pass_through::relay_response(context, transaction, response, status))
        }
        Err(_) => Err(transaction),
    }
}
