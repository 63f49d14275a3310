//! Sends purges to nodes that lack them.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use fleet::MemberId;
use fleet::purges::{Maker, Vector};
use store::{PurgePosition, PurgesSince};
use tokio::task::JoinSet;
use tokio::time::sleep;
use upstream::settings::endpoint::Endpoint;

use crate::fleet_control::message::Purged;
use crate::fleet_control::message::{CarriedOut, MemberFacts, News, Numbered, PURGED, Purge};
use crate::fleet_control::numbered_purge::{NumberedPurge, logged_after};
use crate::fleet_control::own_log::{check_own_log, own_end};
use crate::fleet_control::post::{Failed, post_to};
use crate::object::store::Store;
use crate::peers::node::{Counted, Node};
use crate::services::Services;

/// How long a node may take to carry out purges.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long after a failure a node is told again.
const AGAIN: Duration = Duration::from_millis(300);

/// How long purges are gathered before they are told.
const GATHERING: Duration = Duration::from_millis(1);

/// Maximum size in bytes of the purges in one message.
const NEWS_MAX: usize = 256 << 10;

/// Returns the purges up to `goal` that a node with the purges `theirs` lacks, as many as one
/// message takes.
pub(crate) async fn news_for(
    services: &Services,
    node: &Node,
    theirs: &Vector,
    goal: &Vector,
) -> News {
    let (own, _) = node.purges().own();
    let (mut news, mut forgotten, mut bytes) = (News::default(), Vector::default(), 0);
    let Some(store) = services.store() else { return news };
    for missing in theirs.lacks(goal) {
        let found = match *missing.maker == own {
            true => own_after(&store, missing.maker, missing.after).await,
            false => logged_after(&store, missing.maker, missing.after, missing.through).await,
        };
        match found {
            // Others may know them. Of a log that does not reach back only its own node is sure.
            None if *missing.maker == own => forgotten.reach(missing.maker, missing.through),
            None => {}
            Some(found) => {
                for purge in found.iter().filter(|found| found.number <= missing.through) {
                    bytes += Purge::MAX_BYTES_BESIDE_NAME + 2 * purge.purge.target.name().len();
                    if bytes > NEWS_MAX {
                        break;
                    }
                    news.purges.push(Numbered::of(purge));
                }
            }
        }
    }
    news.forgotten = forgotten.to_string();
    news
}

/// Returns purges of this node's log behind number `after`; `None` if it does not reach back so
/// far.
async fn own_after(store: &Store, own: &Maker, after: u64) -> Option<Vec<NumberedPurge>> {
    let since = PurgePosition::new(own.incarnation, after);
    match store.purges_since(Some(since)).await? {
        PurgesSince::TooOld(_) => None,
        PurgesSince::Purges(purges, _) => {
            let numbered = (after + 1..).zip(purges);
            let of_own = |(number, purge)| NumberedPurge { maker: own.clone(), number, purge };
            Some(numbered.map(of_own).collect())
        }
    }
}

/// Tells a node purges that it lacks, until it has all that are durable here now.
///
/// # Errors
///
/// It cannot be reached, or the purges are not durable there. Holds the reason.
pub(crate) async fn push(
    services: &Rc<Services>,
    node: &Arc<Node>,
    id: &MemberId,
    to: (Arc<Endpoint>, u16),
    mut theirs: Vector,
) -> Result<(), String> {
    let goal = node.purge_vector();
    if services.store().is_none() {
        return Err("there is no cache here any more".to_owned());
    }
    loop {
        let news = news_for(services, node, &theirs, &goal).await;
        if news == News::default() {
            return Ok(());
        }
        let told = Purged { from: MemberFacts::of(node), news };
        // Ignore the breaker: no client request is waiting for this call.
        let telling = post_to(services, node, to.clone(), (PURGED, &told), PATIENCE);
        let answer: CarriedOut = telling.await.map_err(Failed::text)?;
        let has: Vector = answer.vector.parse().map_err(|why| format!("its answer: {why}"))?;
        check_own_log(services, node, &has, answer.last).await;
        node.purges().note_has(id, &has, node.now());
        if let Some(why) = answer.failed {
            return Err(why);
        }
        let before = theirs.clone();
        // It may have fewer than it was taken to have.
        for told in told.news.purges.iter().filter_map(|told| told.read().ok()) {
            theirs.set(&told.maker, has.get(&told.maker));
        }
        theirs.merge(&has);
        if theirs == before {
            return Err("it lacks earlier purges".to_owned());
        }
    }
}

/// Tells other nodes the purges that are made here, while clients wait for them.
pub(crate) async fn push_own(services: Rc<Services>, node: Arc<Node>) -> Infallible {
    let mut changes = node.purges().changes();
    let mut pushing = JoinSet::new();
    let mut busy = BTreeSet::new();
    loop {
        let is_waited_for = node.purges().is_waited_for(node.now());
        let counted = if is_waited_for { node.counted() } else { Default::default() };
        for counted in counted.into_values() {
            let is_wanted = !busy.contains(&counted.id) && node.purges().counts(&counted.id);
            let Some(has) = node.purges().lacks_own(&counted.id).filter(|_| is_wanted) else {
                continue;
            };
            busy.insert(counted.id.clone());
            pushing.spawn_local(push_to(services.clone(), node.clone(), counted, has));
        }
        tokio::select! {
            biased;
            // What follows soon is told with it.
            _ = changes.changed() => sleep(GATHERING).await,
            Some(ended) = pushing.join_next() => match ended {
                Ok(id) => _ = busy.remove(&id),
                Err(error) => {
                    log::error!("purges could not be told: {error}");
                    // Which node it was is not known; at worst it is told twice.
                    busy.clear();
                }
            },
        }
    }
}

/// Tells a node purges of this one's log, from number `has` on if that is known, and returns its
/// name.
async fn push_to(
    services: Rc<Services>,
    node: Arc<Node>,
    Counted { id, address, .. }: Counted,
    has: Option<u64>,
) -> MemberId {
    let (own, number) = node.purges().own();
    let mut theirs = node.purges().told().durable.clone();
    theirs.set(&own, has.unwrap_or(number.saturating_sub(1)));
    let told = match node.protocol_of(&id) {
        Ok(protocol) => {
            let to = (node.endpoint(&address), protocol);
            push(&services, &node, &id, to, theirs).await
        }
        Err(why) => Err(why),
    };
    let is_told = told.is_ok();
    node.purges().note_told(&id, told, node.now());
    if !is_told {
        sleep(AGAIN).await;
    }
    id
}

/// Notes the purges that were made here and are durable.
pub(crate) fn note_own(services: &Services, node: &Node) {
    if let Some(end) = services.store().as_ref().and_then(own_end) {
        node.purges().note_own(end, node.now());
    }
}
