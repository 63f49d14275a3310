//! The operator of a history: edits objects at the origin, and purges them at some node.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

use fastrand::Rng;
use tokio::time::{sleep, timeout};

use crate::histories::client;
use crate::histories::nodes::{Nodes, name};
use crate::histories::requests::Clients;
use crate::histories::truth::{COUNT, Truth};

/// Edits and purges until then.
pub async fn run(clients: Rc<Clients>, until: Duration) {
    let (nodes, truth) = (&clients.nodes, &clients.nodes.truth);
    let mut random = Rng::with_seed(truth.seed ^ 0x0be4);
    while truth.now() < until {
        sleep(Duration::from_millis(random.u64(50..2_500))).await;
        let object = Truth::any(&mut random);
        truth.edit(object);
        if random.u8(..4) == 0 {
            truth.note(format!("{object} is edited"));
            continue;
        }
        let node = random.usize(..nodes.len());
        if nodes.is_up(node) {
            purge(&clients, node, object, &mut random).await;
        }
    }
}

/// Draws what is purged, an object and with it others: how that is said, and which are meant.
fn scope(object: u32, random: &mut Rng) -> (String, Vec<u32>) {
    let (host, path, tag) = Truth::names(object);
    let (group, _) = path.rsplit_once('/').unwrap();
    let same = |other: u32, part: fn(u32) -> String| part(other) == part(object);
    let (what, is_meant): (String, Box<dyn Fn(u32) -> bool>) = match random.u8(..12) {
        0..4 => (format!("url=http://{host}{path}"), Box::new(|other| other == object)),
        4 => (format!("host={host}&regex=%5E{path}$"), Box::new(|other| other == object)),
        5 | 6 => {
            let of = |other| {
                let (host, path, _) = Truth::names(other);
                format!("{host}{}", path.rsplit_once('/').unwrap().0)
            };
            (format!("prefix=http://{host}{group}/"), Box::new(move |other| same(other, of)))
        }
        7 | 8 => {
            let of = |other| Truth::names(other).0.to_owned();
            (format!("host={host}"), Box::new(move |other| same(other, of)))
        }
        9 | 10 => {
            let of = |other| Truth::names(other).2;
            (format!("tag={tag}"), Box::new(move |other| same(other, of)))
        }
        _ => ("everything=1".to_owned(), Box::new(|_| true)),
    };
    (what, (0..COUNT).filter(|other| is_meant(*other)).collect())
}

/// Purges an object, and with it others, at a node. Returns who was named, if it was done.
pub async fn purge(
    clients: &Rc<Clients>,
    node: usize,
    object: u32,
    random: &mut Rng,
) -> Option<BTreeSet<usize>> {
    let (nodes, truth) = (&clients.nodes, &clients.nodes.truth);
    let (what, meant) = scope(object, random);
    let soft = random.u8(..4) == 0;
    let least: BTreeMap<u32, u32> =
        meant.iter().map(|object| (*object, truth.current(*object))).collect();
    // Others ask for it just then.
    for _ in 0..6 {
        let (asked, at) = (random.usize(..nodes.len()), random.u64(..12_000));
        clients.begin(asked, object, Duration::from_micros(at));
    }
    let begun = truth.now();
    truth.note(format!("purge of {what}, soft: {soft}, begins at {}", name(node)));
    let target = format!("/purge?{what}{}", if soft { "&soft=1" } else { "" });
    let operator = nodes.world.network.host("operator");
    let to = nodes.admin(node);
    let host = to.ip().to_string();
    let asking = client::ask(&operator, to, "POST", (&host, &target));
    let Ok(Ok(answer)) = timeout(Duration::from_secs(60), asking).await else {
        truth.note(format!("purge of {what} of {begun:?}: no answer"));
        return None;
    };
    let text = String::from_utf8_lossy(&answer.body).into_owned();
    truth.note(format!("purge of {what} of {begun:?}: {} {text}", answer.status));
    let told_json: serde_json::Value = serde_json::from_str(&text).unwrap();
    let answered = answer.status == 200;
    let unreached = told_json["fleet"]["unreached"].as_object().filter(|_| answered)?;
    let others = (0..nodes.len()).filter(|other| *other != node);
    let is_unmet = unreached.contains_key("any other node");
    let unreached: BTreeSet<usize> = match is_unmet {
        true => others.collect(),
        false => unreached.keys().map(|name| nodes.named(name)).collect(),
    };
    let unnamed = (0..nodes.len()).filter(|node| !unreached.contains(node));
    // One that left in order is not named. When it is back where it meets none of those that were
    // told, no node can say that it lives.
    let unnamed: BTreeSet<usize> = unnamed.collect();
    let mut known_by = BTreeSet::from([node]);
    loop {
        let meets = |other: &usize| nodes.is_up(*other) && !truth.were_apart(*other, &known_by);
        let met: Vec<usize> = unnamed.difference(&known_by).copied().filter(meets).collect();
        if met.is_empty() {
            break;
        }
        known_by.extend(met);
    }
    let is_down = |other: &usize| !nodes.is_up(*other);
    known_by.extend(unnamed.iter().copied().filter(is_down));
    assert!(known_by.contains(&node));
    let is_accepted = told_json["fleet"]["quorum"] != false && !is_unmet;
    truth.purged(least, (soft, is_accepted), known_by.clone());
    for asked in known_by {
        clients.begin(asked, object, Duration::ZERO);
        clients.begin(
            asked,
            meant[random.usize(..meant.len())],
            Duration::from_micros(random.u64(..5_000)),
        );
    }
    Some(unreached)
}

/// Waits until all nodes serve and have carried out the same purges, and no longer than that.
pub async fn settled(nodes: &Nodes, within: Duration) -> bool {
    let end = nodes.truth.now() + within;
    while nodes.truth.now() < end {
        let views: Vec<_> = nodes
            .slots
            .iter()
            .filter_map(|slot| slot.running.borrow().as_ref()?.node.clone())
            .map(|node| {
                (node.purge_knowledge(), node.members().iter().count(), node.purge_vector())
            })
            .collect();
        let (_, _, first) = &views[0];
        let is_settled = views.iter().all(|(knowledge, members, vector)| {
            *knowledge == fleet::purges::State::Current
                && *members == nodes.len()
                && vector == first
        });
        if is_settled {
            return true;
        }
        sleep(Duration::from_millis(100)).await;
    }
    for slot in &nodes.slots {
        let node = slot.running.borrow().as_ref().and_then(|running| running.node.clone());
        if let Some(node) = node {
            let (own, positions) = (node.own(), node.purge_vector());
            let members = node.members().iter().count();
            let knowledge = node.purge_knowledge().as_str();
            let text = format!("{}: {knowledge}, {members} members, {positions}", own.id);
            nodes.truth.note(text);
        }
    }
    false
}
