//! Makes documents invalid at all nodes: what the answer to an unsafe request tells (RFC 9111,
//! 4.4).
//!
//! Unlike a purge it is not logged, and a node that cannot be reached does not hear of it: its copy
//! lives on for as long as it is fresh, as in any cache that the request did not pass.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use store::{FetchToken, Key, LoggedPurge, Mode, PurgedTarget};
use tokio::task::spawn_local;

use crate::fleet_control::message::{FORGET, Forget, Misunderstood, Purge};
use crate::fleet_control::post::post;
use crate::peers::node::Node;
use crate::services::Services;

/// How long the answer to an unsafe request waits for the other nodes.
const PATIENCE: Duration = Duration::from_secs(1);

/// Documents in one message at most.
const KEYS_MAX: usize = 1024;

/// Removes what is stored under these keys, here and at all other nodes that can be reached.
/// `fetch`: as for [`Services::forget`].
pub(crate) async fn forget(
    services: &Rc<Services>,
    keys: Vec<Key>,
    fetch: Option<&mut FetchToken>,
) {
    let Some(node) = &services.shared.node else { return services.forget(keys, fetch).await };
    note(node, &keys);
    let purge = |key: &Key| {
        let target = PurgedTarget::Key(key.clone());
        Purge::of(&LoggedPurge { target, mode: Mode::Hard, at: 0 })
    };
    let news = Forget { keys: keys.iter().map(purge).collect() };
    let members = node.members();
    let others = members.iter().filter(|member| member.id != *node.id());
    let telling: Vec<_> = others
        .map(|member| {
            let (services, node) = (services.clone(), node.clone());
            let (id, news) = (member.id.clone(), news.clone());
            spawn_local(async move {
                let told = post::<Forget>(&services, &node, &id, (FORGET, &news), PATIENCE).await;
                if let Err(why) = told {
                    log::debug!("{id} was not told what is invalid: {why}");
                }
            })
        })
        .collect();
    services.forget(keys, fetch).await;
    for telling in telling {
        // A task ends early only by a panic, which was logged.
        let _ = telling.await;
    }
}

fn note(node: &Arc<Node>, keys: &[Key]) {
    for key in keys {
        node.offering.forget(node.hash(key.as_bytes()), node.now());
    }
}

/// Answers a node that tells of documents that were made invalid.
pub(crate) async fn answer(
    services: &Rc<Services>,
    node: &Arc<Node>,
    news: &Forget,
) -> Result<Forget, Misunderstood> {
    if news.keys.len() > KEYS_MAX {
        return Err(format!("{} keys are too many at once", news.keys.len()).into());
    }
    let mut keys = Vec::new();
    for purge in &news.keys {
        if let PurgedTarget::Key(key) = purge.logged()?.target {
            keys.push(key);
        }
    }
    note(node, &keys);
    services.forget(keys, None).await;
    Ok(Forget { keys: Vec::new() })
}
