//! The memories of other nodes of the fleet, asked before this node reads its own device.

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

/// Returns what is asked of the memories of other nodes, for what is on the device here and not in
/// memory, where the class of the document has that done before the device is read.
pub(crate) fn asking(
    context: &RequestContext,
    store: &Store,
    primary: &Key,
) -> Option<Arc<Asking>> {
    let node = context.services.shared.node.as_ref().filter(|node| node.cooperates())?;
    let is_plain = context.head.method == Method::GET && !context.facts.directives.only_if_cached;
    // Most documents are in no other memory that is known: that is seen before all else.
    if !is_plain || node.holders(node.hash(primary.as_bytes())).is_empty() {
        return None;
    }
    if store.resident(primary).is_some() || !store.knows(primary) {
        return None;
    }
    context.asking(primary, true).filter(|asking| asking.asks_memories())
}

/// Answers from the memories of other nodes. The request comes back when they do not have it.
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
            // What is here cannot be joined to it: the rest is the origin's.
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
