//! Makes documents invalid at all nodes: what the answer to an unsafe request tells (RFC 9111,
//! 4.4).
//!
//! It is logged and told like a purge, so that no node that is reached answers with an older copy
//! afterwards, and one that is not reached hears of it later. The answer to the request waits for
//! the other nodes only a moment. A node that keeps no log has another one do it.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use fleet::{FleetSeed, KeyHash, Member, MemberId};
use store::{FetchToken, Key, LoggedPurge, Mode, PurgedTarget};
use tokio::sync::oneshot;
use tokio::task::spawn_local;
use tokio::time::{sleep, timeout};

use crate::fleet_control::message::{INVALIDATE, Invalidate, Misunderstood, Purge};
use crate::fleet_control::own_log::own_end;
use crate::fleet_control::post::post;
use crate::fleet_control::purging::{REQUEST_PATIENCE, Wait, await_others};
use crate::fleet_control::pushing::note_own;
use crate::peers::node::Node;
use crate::services::Services;

/// How long another node may take to make documents invalid for this one.
const PATIENCE: Duration = Duration::from_secs(2);

/// Nodes that are asked for that, one after another.
const ASKED_MAX: usize = 3;

/// How often it is tried again to make an invalidation durable.
const AGAIN: Duration = Duration::from_millis(200);

/// Documents in one message at most.
const KEYS_MAX: usize = 1024;

/// Removes what is stored under these keys, here and at all other nodes that can be reached.
/// `fetch`: as for [`Services::forget`].
pub(crate) async fn forget(
    services: &Rc<Services>,
    keys: Vec<Key>,
    fetch: Option<&mut FetchToken>,
) {
    let Some(node) = &services.shared.node else {
        services.forget(keys, fetch).await;
        return;
    };
    if log_end(services, node).is_some() {
        return forget_and_tell(services, node, keys, fetch).await;
    }
    let news = Invalidate { keys: keys.iter().map(purge_of).collect() };
    services.forget(keys, fetch).await;
    let asking = spawn_local(ask_others(services.clone(), node.clone(), news));
    // Whatever comes of it, it goes on behind the response.
    let _ = timeout(REQUEST_PATIENCE, asking).await;
}

/// Has another node make documents invalid everywhere.
async fn ask_others(services: Rc<Services>, node: Arc<Node>, news: Invalidate) {
    let members = node.members();
    let is_other = |member: &&Member| member.id != *node.id() && member.may_own();
    let mut others: Vec<_> = members.iter().filter(is_other).collect();
    // Not all nodes ask the same one.
    let bits = |id: &MemberId, seed| KeyHash::of(id.as_str().as_bytes(), FleetSeed(seed)).bits();
    let seed = bits(node.id(), 0);
    others.sort_by_key(|member| bits(&member.id, seed));
    for other in others.iter().take(ASKED_MAX) {
        let asked =
            post::<Invalidate>(&services, &node, &other.id, (INVALIDATE, &news), PATIENCE).await;
        match asked {
            Ok(_) => return,
            Err(why) => log::debug!("{} did not make documents invalid: {why}", other.id),
        }
    }
    log::warn!(
        "what an unsafe request changed could not be made invalid at other nodes: none of {} \
         answered",
        others.len().min(ASKED_MAX)
    );
}

/// Returns the end of the log in which this node may write, if there is one.
fn log_end(services: &Services, node: &Node) -> Option<(u64, u64)> {
    services.store().as_ref().and_then(own_end).filter(|_| !node.leaves_others())
}

async fn forget_and_tell(
    services: &Rc<Services>,
    node: &Arc<Node>,
    keys: Vec<Key>,
    fetch: Option<&mut FetchToken>,
) {
    let purging = node.offering.begin_purge();
    let under_way = node.purges().begin_own();
    if services.forget(keys.clone(), fetch).await {
        note_own(services, node);
        drop((under_way, purging));
        await_others(node, Wait::Request).await;
        return;
    }
    let (begun, has_begun) = oneshot::channel::<()>();
    let (services, node) = (services.clone(), node.clone());
    spawn_local(async move {
        let purging = node.offering.begin_purge();
        drop(begun);
        // Until it is durable no other node can know of it: none is asked.
        while !services.forget(keys.clone(), None).await {
            sleep(AGAIN).await;
        }
        note_own(&services, &node);
        drop((under_way, purging));
        await_others(&node, Wait::Request).await;
    });
    let _ = has_begun.await;
}

fn purge_of(key: &Key) -> Purge {
    let target = PurgedTarget::Key(key.clone());
    Purge::of(&LoggedPurge { target, mode: Mode::Hard, at: 0 })
}

/// Answers a node that keeps no log: makes documents invalid everywhere.
pub(crate) async fn answer(
    services: &Rc<Services>,
    node: &Arc<Node>,
    news: &Invalidate,
) -> Result<Invalidate, Misunderstood> {
    if news.keys.len() > KEYS_MAX {
        return Err(format!("{} keys are too many at once", news.keys.len()).into());
    }
    log_end(services, node).ok_or("there is no log of purges here")?;
    let mut keys = Vec::new();
    for purge in &news.keys {
        if let PurgedTarget::Key(key) = purge.logged()?.target {
            keys.push(key);
        }
    }
    forget_and_tell(services, node, keys, None).await;
    Ok(Invalidate { keys: Vec::new() })
}
