//! Takes a node that is lost for good out of those that count for purges, at all nodes.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use fleet::MemberId;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::fleet_control::message::{FORGET, Forget, Misunderstood};
use crate::fleet_control::post::post;
use crate::peers::node::Node;
use crate::services::Services;

/// How long another node may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// Forgets a node here and at all others. Returns the result, for the operator.
///
/// # Errors
///
/// The node is not one that is lost, and nothing has changed. Holds the reason.
pub(crate) async fn forget(
    services: &Rc<Services>,
    node: &Arc<Node>,
    name: &str,
) -> Result<Value, String> {
    let id: MemberId = name.parse().map_err(|why: fleet::member::InvalidMember| why.to_string())?;
    if !node.forget(&id) {
        let lost: Vec<String> = node.lost().into_keys().collect();
        let lost = if lost.is_empty() { "none".to_owned() } else { lost.join(", ") };
        return Err(format!("{id} is not a lost node; lost are: {lost}"));
    }
    let (mut nodes, mut unreached, mut telling) = (0, BTreeMap::new(), JoinSet::new());
    for member in node.members().iter().filter(|member| member.id != *node.id()) {
        let (services, node, member) = (services.clone(), node.clone(), member.id.clone());
        let news = Forget { node: id.to_string() };
        telling.spawn_local(async move {
            let telling = post::<Forget>(&services, &node, &member, (FORGET, &news), PATIENCE);
            (telling.await, member)
        });
    }
    while let Some(told) = telling.join_next().await {
        match told {
            Ok((Ok(_), _)) => nodes += 1,
            Ok((Err(why), member)) => _ = unreached.insert(member.to_string(), why),
            Err(error) => log::error!("a node could not be told: {error}"),
        }
    }
    log::info!("{id} is forgotten: it does not count for purges until it is heard again");
    Ok(json!({"node": id.as_str(), "nodes": nodes, "unreached": unreached}))
}

/// Answers a node that forgets another.
pub(crate) fn answer(node: &Node, told: &Forget) -> Result<Forget, Misunderstood> {
    let id: MemberId = told.node.parse()?;
    let counts = node.counted().contains_key(&id);
    match node.forget(&id) || !counts {
        true => Ok(told.clone()),
        false => Err(format!("{id} is not lost here").into()),
    }
}
