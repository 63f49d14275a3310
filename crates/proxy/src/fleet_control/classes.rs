//! The table of classes, put in force in the whole fleet at once.
//!
//! One node is told the table. It asks all others whether they could follow it, and only when all
//! that live can, it puts the table in force, here and there. A request keeps the table that it
//! began with, so none sees half of each. A node that was away finds that others have a newer one,
//! and takes it over.
//!
//! Versions grow. That of the configuration is 0: it is each node's own, and never spread.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use fleet::member::State;
use fleet::{ClassTable, KeyHash, Member};
use serde_json::{Value, json};
use tokio::task::spawn_local;

use crate::fleet_control::message::{Misunderstood, POLICY, Policy, PolicyStep};
use crate::fleet_control::post::post;
use crate::peers::node::Node;
use crate::services::Services;

/// How long another node may take to say whether it can follow.
const PATIENCE: Duration = Duration::from_secs(5);

/// Versions differ in these bits when two tables are put in force at the same time.
const SUFFIX_BITS: u32 = 16;

/// Puts the table of a text in force in the whole fleet. Returns what became of it.
///
/// # Errors
/// It is no table, or a node cannot follow it; says why, and nothing has changed.
pub(crate) async fn put_in_force(
    services: &Rc<Services>,
    node: &Arc<Node>,
    text: &str,
) -> Result<Value, String> {
    let read = ClassTable::from_text(0, text).map_err(|why| why.to_string())?;
    let members = node.members();
    let newest = members.iter().map(|member| member.policy_version).max().unwrap_or(0);
    let version = next_version(newest.max(node.classes().version()), &read);
    let table = ClassTable::from_text(version, &read.to_text()).map_err(|why| why.to_string())?;
    let text = table.to_text();
    let others: Vec<Member> =
        members.iter().filter(|member| member.id != *node.id()).cloned().collect();
    let policy = |step| Policy { step, version, text: text.clone() };
    let asked = tell_all(services, node, &others, &policy(PolicyStep::MayFollow)).await;
    let refused: Vec<String> = asked
        .iter()
        .filter_map(|(name, told)| told.as_ref().err().map(|why| format!("{name}: {why}")))
        .collect();
    if !refused.is_empty() {
        return Err(format!("a node cannot follow, and nothing has changed: {}", {
            refused.join("; ")
        }));
    }
    node.set_classes(table);
    let done = tell_all(services, node, &others, &policy(PolicyStep::Follow)).await;
    let mut late: BTreeMap<String, String> = node.not_understood();
    let nodes = done.iter().filter(|(_, told)| told.is_ok()).count();
    late.extend(done.into_iter().filter_map(|(name, told)| Some((name, told.err()?))));
    log::info!("the table of classes with version {version} is in force");
    Ok(json!({"version": version, "nodes": nodes, "unreached": late}))
}

/// Returns a version above `newest`, which no other table gets at the same time.
fn next_version(newest: u64, table: &ClassTable) -> u64 {
    let hash = KeyHash::of(table.to_text().as_bytes(), fleet::FleetSeed(newest)).bits();
    (((newest >> SUFFIX_BITS) + 1) << SUFFIX_BITS) | (hash & ((1 << SUFFIX_BITS) - 1))
}

async fn tell_all(
    services: &Rc<Services>,
    node: &Arc<Node>,
    others: &[Member],
    policy: &Policy,
) -> Vec<(String, Result<(), String>)> {
    let telling: Vec<_> = others
        .iter()
        .map(|member| {
            let (services, node, id) = (services.clone(), node.clone(), member.id.clone());
            let policy = policy.clone();
            let told = spawn_local(async move {
                post::<Policy>(&services, &node, &id, (POLICY, &policy), PATIENCE).await.map(drop)
            });
            (member.id.to_string(), told)
        })
        .collect();
    let mut all = Vec::new();
    for (name, told) in telling {
        all.push((name, told.await.unwrap_or_else(|error| Err(error.to_string()))));
    }
    all
}

/// Answers a node that asks about a table, or puts it in force.
pub(crate) fn answer(node: &Node, asked: &Policy) -> Result<Policy, Misunderstood> {
    let in_force = || {
        let table = node.classes();
        Policy { step: PolicyStep::Tell, version: table.version(), text: table.to_text() }
    };
    match asked.step {
        PolicyStep::Tell => {}
        PolicyStep::MayFollow => {
            ClassTable::from_text(asked.version, &asked.text)?;
        }
        PolicyStep::Follow => follow(node, asked)?,
    }
    Ok(in_force())
}

fn follow(node: &Node, policy: &Policy) -> Result<(), Misunderstood> {
    if policy.version > node.classes().version() {
        node.set_classes(ClassTable::from_text(policy.version, &policy.text)?);
        log::info!("the table of classes with version {} is in force", policy.version);
    }
    Ok(())
}

/// Takes over a newer table that another node has.
pub(crate) async fn take_over(services: &Rc<Services>, node: &Arc<Node>) {
    let members = node.members();
    let newest = members
        .iter()
        .filter(|member| member.id != *node.id() && member.state != State::Joining)
        .max_by_key(|member| member.policy_version);
    let Some(newest) = newest.filter(|other| other.policy_version > node.classes().version())
    else {
        return;
    };
    let asked = Policy { step: PolicyStep::Tell, version: 0, text: String::new() };
    let told = post::<Policy>(services, node, &newest.id, (POLICY, &asked), PATIENCE).await;
    let done = told.and_then(|told| follow(node, &told).map_err(|why| why.to_string()));
    if let Err(why) = done {
        log::warn!("the table of classes of {} cannot be taken over: {why}", newest.id);
    }
}
