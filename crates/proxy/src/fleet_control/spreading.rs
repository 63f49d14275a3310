//! Spreads the purges that were made here, and answers what other nodes say of theirs.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use fleet::member::State;
use fleet::{LogPosition, MemberId, PurgePositions};
use store::{PurgePosition, PurgesSince};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::fleet_control::audience::Audience;
use crate::fleet_control::following::follow;
use crate::fleet_control::message::{
    CarriedOut, Hello, KnownNode, MemberFacts, Misunderstood, place,
};
use crate::fleet_control::message::{PURGED, Purge, Purged, Purges, PurgesOf};
use crate::fleet_control::own_log::{check_own_log, digest_before};
use crate::fleet_control::post::{Failed, post_to};
use crate::object::store::Store;
use crate::peers::greeted::Known;
use crate::peers::node::Node;
use crate::request::purge_order::Spread;
use crate::services::Services;

/// A node that has just been started tries again so often to carry out a purge.
const AGAIN: Duration = Duration::from_millis(200);

/// Stands for nodes whose names are unknown.
const UNMET: &str = "any other node";

/// Why a node did not carry out what was told to it.
const OTHER_LOG: &str = "it knows of other purges that were made here";

/// Returns the end of this node's own log.
pub(crate) fn own_end(store: &Store) -> Option<LogPosition> {
    store.purge_log_end().map(position)
}

fn position(of: PurgePosition) -> LogPosition {
    LogPosition { log: of.log(), number: of.number() }
}

/// Notes that the purges that were made here and are durable have been carried out.
pub(crate) fn note_own(services: &Services, node: &Node) {
    if let Some(end) = services.store().as_ref().and_then(own_end) {
        node.purges().reach_own(end, node.now());
    }
}

/// Tells all other nodes that there is a purge here, and waits until each has carried it out, or
/// its time is over.
pub(crate) async fn spread(services: &Rc<Services>, node: &Arc<Node>) -> Spread {
    let Some(end) = services.store().as_ref().and_then(own_end) else { return Spread::default() };
    let latest = node.now().saturating_add(node.purge_patience());
    // A node that has just started knows no peers, so it cannot know of one with newer purges.
    let knows_nobody = || node.own().state == State::Joining && node.known().is_empty();
    while knows_nobody() && node.now() < latest {
        sleep(AGAIN).await;
    }
    let unmet = knows_nobody().then(|| (UNMET.to_owned(), "none has been met yet".to_owned()));
    let mut audience = Audience::new(node.id().clone(), node.lost(), node.left_for());
    let mut telling = JoinSet::new();
    // Read later than the end, so that who is found again just now is told.
    let mut next = audience.add(node.known());
    loop {
        let news = Rc::new(Purged {
            node: node.id().to_string(),
            end: end.to_string(),
            told: audience.told(),
        });
        for (id, at) in next {
            let protocol = match node.protocol_of(&id) {
                Ok(protocol) => protocol,
                Err(why) => {
                    audience.end(&id, Err(why));
                    continue;
                }
            };
            let patience = latest.saturating_sub(node.now());
            let (services, node, news) = (services.clone(), node.clone(), news.clone());
            telling.spawn_local(async move {
                // Ignore the breaker: no client request is waiting for this call.
                let message = (PURGED, &*news);
                let to = (node.endpoint(&at), protocol);
                let told = post_to(&services, &node, to, message, patience).await;
                (id, told.map_err(Failed::text))
            });
        }
        next = match telling.join_next().await {
            None => break,
            Some(Err(error)) => {
                log::error!("a purge could not be told: {error}");
                Vec::new()
            }
            Some(Ok((id, told))) => {
                let told = told.and_then(|told| Ok((others(&told)?, told)));
                let (others, failed) = match told {
                    Ok((others, told)) => (others, failure(services, node, told).await),
                    Err(why) => (Vec::new(), Some(why)),
                };
                audience.end(&id, failed.map_or(Ok(()), Err));
                audience.add(others)
            }
        };
    }
    let (nodes, mut unreached) = audience.outcome();
    unreached.extend(unmet);
    Spread { nodes, unreached }
}

/// Returns why a node that was told of a purge has not carried it out. Where it has followed
/// another log than this node has it took the purge for one that it knows.
async fn failure(services: &Rc<Services>, node: &Arc<Node>, told: CarriedOut) -> Option<String> {
    let mut followed = PurgePositions::default();
    if let Some(place) = told.followed.and_then(|followed| followed.parse().ok()) {
        followed.reach(node.id(), place);
    }
    let heard = PurgePositions::default();
    let is_old = check_own_log(services, node, (&followed, &heard), told.last).await;
    told.failed.or_else(|| is_old.then(|| OTHER_LOG.to_owned()))
}

/// Returns whom a node knows besides those that are told.
fn others(told: &CarriedOut) -> Result<Vec<Known>, String> {
    let known = told.others.iter().map(KnownNode::known);
    known.collect::<Result<_, _>>().map_err(|why| format!("its answer is not understood: {why}"))
}

/// Answers a node that says hello: what this node is, and how far it has come.
pub(crate) async fn hello(
    services: &Rc<Services>,
    node: &Arc<Node>,
    hello: &Hello,
) -> Result<Hello, Misunderstood> {
    let member = hello.member.member()?;
    let (id, now) = (member.id.clone(), node.now());
    if member.id == *node.id() {
        return Err(format!("another node is named {}, too", member.id).into());
    }
    let positions = hello.positions.parse()?;
    let heard = hello.heard.parse()?;
    if node.protocol_with(&member).is_none() {
        // Its presence is all that can be learned: its purges could not be followed.
        node.heard(member);
        return Ok(own_hello(node, &id));
    }
    check_own_log(services, node, (&positions, &heard), hello.last).await;
    // First: who has carried out no more than this node shows no up-to-date log.
    node.purges().learn(&heard, now);
    node.purges().learn(&positions, now);
    node.purges().learn_end(&member.id, member.purges, now);
    // Before it is told how far this node has come: a later purge is told to it.
    node.greeted(member);
    Ok(own_hello(node, &id))
}

/// Returns what this node says of itself to another.
pub(crate) fn own_hello(node: &Arc<Node>, to: &MemberId) -> Hello {
    // Read first: what is carried out meanwhile is in both, and never in none.
    let heard = node.purges().heard().to_string();
    let positions = node.positions().positions.to_string();
    let (member, last) = (MemberFacts::of(&node.own()), node.purges().last_of(to));
    Hello { member, positions, heard, last }
}

/// Answers a node that follows a log: this node's own, or another's that it has kept.
pub(crate) fn purges(
    services: &Services,
    node: &Node,
    asked: &PurgesOf,
) -> Result<Purges, Misunderstood> {
    let of: MemberId = asked.node.parse()?;
    let since: Option<LogPosition> = asked.since.as_deref().map(str::parse).transpose()?;
    let is_own = |since: LogPosition| Some(since.log) == node.purges().own_log();
    if of == *node.id() && since.is_none_or(is_own) {
        let since = since.map(|since| PurgePosition::new(since.log, since.number));
        let store = services.store().ok_or("there is no cache here")?;
        return Ok(match store.purges_since(since).ok_or("there is no log of purges here")? {
            PurgesSince::Purges(purges, end) => Purges {
                last: purges.last().map(|last| Purge::of(last).digest()),
                purges: Some(purges.iter().map(Purge::of).collect()),
                end: position(end).to_string(),
            },
            PurgesSince::TooOld(end) => {
                let end = position(end);
                let last = digest_before(&store, end);
                Purges { purges: None, end: end.to_string(), last }
            }
        });
    }
    let since = since.ok_or("it is not said which log of it")?;
    let end = LogPosition { number: node.purges().number(&of, since.log), ..since };
    let purges = node.purges().kept_since(&of, since);
    let purges = purges.map(|kept| kept.iter().map(Purge::of).collect());
    Ok(Purges { purges, end: end.to_string(), last: node.purges().last_of(&of) })
}

/// Says that the end of a log is not that of the latest one that is known of the node. It will hear
/// of that, and begin another.
fn is_of_former_log(node: &Node, member: &MemberId, end: LogPosition) -> Option<String> {
    let followed = node.purges().followed(member).filter(|followed| followed.log > end.log)?;
    Some(format!("it follows a later log of purges that were made there, up to {followed}"))
}

/// Answers a node that tells of a purge: when it has been carried out here, or it is known that it
/// cannot be now. A node that has no more than heard of a purge does not say that it has carried it
/// out, even if it uses nothing that it has: after a crash it may meet only nodes that have not
/// heard of it.
pub(crate) async fn purged(
    services: &Rc<Services>,
    node: &Arc<Node>,
    news: &Purged,
) -> Result<CarriedOut, Misunderstood> {
    let (member, end) = place(&news.node, &news.end)?;
    node.purges().learn_end(&member, end, node.now());
    let latest = node.now().saturating_add(node.purge_patience() / 2);
    let failed = loop {
        match follow(services, node, &member, end).await {
            Ok(()) => break is_of_former_log(node, &member, end),
            // It has just been started: its device may not be open yet, nor all ways be known.
            Err(_) if node.own().state == State::Joining && node.now() < latest => {
                sleep(AGAIN).await;
            }
            Err(why) => break Some(why),
        }
    };
    // A node met from here on learns of the purge from a hello.
    let others = node.known();
    let others = others.iter().map(KnownNode::of).filter(|known| !news.told.contains(&known.name));
    let followed = node.purges().followed(&member).map(|followed| followed.to_string());
    let last = node.purges().last_of(&member);
    Ok(CarriedOut { failed, followed, last, others: others.collect() })
}
