//! Offers of a node that leaves in an orderly way: the most used objects in its memory go to the
//! nodes that own them next.
//!
//! The node cannot know whether it leaves for good or only restarts. It still has its disk when it
//! comes back, so nothing is read from disk for this, and the time and the bytes are limited.
//!
//! Guarantee: as for all offers ([`crate::fleet_control::offers`]), a purged object does not come
//! back. A node that knows of a purge unknown to this node takes nothing from it.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use fleet::{Members, departure};
use store::Key;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::fleet_control::message::{OFFER_OWNED, Offered};
use crate::fleet_control::offers::{COPY_MAX, PATIENCE, encode, policy_of};
use crate::fleet_control::post::post_bytes;
use crate::object::store::Store;
use crate::peers::node::Node;
use crate::services::Services;

/// The time for all offers.
const TIME: Duration = Duration::from_secs(2);

/// Objects that are offered at most.
const OBJECTS: usize = 4096;

/// Offers that are under way at a time.
const AT_ONCE: usize = 16;

/// The time until the rate is looked at again.
const PAUSE: Duration = Duration::from_millis(10);

/// Offers what is in memory and was owned among `members`, for a short time.
pub(crate) async fn offer(services: &Rc<Services>, node: &Arc<Node>, members: &Members) {
    let Some(store) = services.store().filter(|_| node.offer_rate() > 0) else { return };
    let mut taken = 0;
    // The rest is fetched again.
    let _ = timeout(TIME, offer_all(services, node, members, &store, &mut taken)).await;
    log::info!("{taken} objects of this node's memory were taken by those that own them next");
}

async fn offer_all(
    services: &Rc<Services>,
    node: &Arc<Node>,
    members: &Members,
    store: &Store,
    taken: &mut usize,
) {
    let mut under_way = JoinSet::new();
    for key in store.most_used(OBJECTS) {
        if under_way.len() >= AT_ONCE {
            *taken += usize::from(matches!(under_way.join_next().await, Some(Ok(true))));
        }
        let offering = Offering { services, node, members, store };
        if let Some(offer) = offering.begin(&key).await {
            under_way.spawn_local(offer);
        }
    }
    while let Some(ended) = under_way.join_next().await {
        *taken += usize::from(matches!(ended, Ok(true)));
    }
}

struct Offering<'a> {
    services: &'a Rc<Services>,
    node: &'a Arc<Node>,
    members: &'a Members,
    store: &'a Store,
}

impl Offering<'_> {
    /// Prepares the offer of one object, when the rate allows it; `None`: it is not offered.
    async fn begin(&self, key: &Key) -> Option<impl Future<Output = bool> + 'static> {
        let Offering { services, node, members, store } = self;
        let hash = node.hash(key.as_bytes());
        let token = store.begin_fetch(key);
        let entry = store.resident(key).filter(|entry| entry.outdated_since().is_none())?;
        let (meta, body) = (entry.meta().clone(), entry.whole()?);
        let size = (body.len() + meta.len()) as u64;
        if body.len() as u64 > COPY_MAX || size > node.offer_rate() {
            return None;
        }
        let policy = policy_of(node, key, &meta, body.len() as u64)?;
        let to = departure::next_owner(hash, &policy, node.id(), members, &node.avoided())?;
        while !node.offering.with_rate(|rate| rate.take(size, node.now())) {
            sleep(PAUSE).await;
        }
        let message = encode(node, key, &meta, &body, 0);
        let (services, node) = ((*services).clone(), (*node).clone());
        Some(async move {
            // An object removed here meanwhile is not offered.
            if token.overtaken() {
                return false;
            }
            let message = (OFFER_OWNED, message);
            let told = post_bytes::<Offered>(&services, &node, &to, message, PATIENCE).await;
            told.inspect_err(|why| log::debug!("{to} takes no copy: {why}")).is_ok_and(|o| o.taken)
        })
    }
}
