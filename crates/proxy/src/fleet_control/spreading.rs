//! Spreads the purges that were made here, and answers what other nodes say of theirs.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use fleet::member::State;
use fleet::{LogPosition, Member, MemberId, PurgePositions};
use store::{LoggedPurge, PurgePosition, PurgesSince};
use tokio::task::{JoinSet, spawn_local};
use tokio::time::sleep;
use upstream::settings::endpoint::Endpoint;

use crate::fleet_control::audience::{Audience, WAITS_FOR_OTHERS};
use crate::fleet_control::following::{Pushed, carry_out};
use crate::fleet_control::message::{CarriedOut, Hello, KnownNode, MemberFacts, Misunderstood};
use crate::fleet_control::message::{PURGED, Purge, Purged, Purges, PurgesOf};
use crate::fleet_control::own_log::{check_own_log, digest_before};
use crate::fleet_control::post::{Failed, post_to};
use crate::object::store::Store;
use crate::peers::greeted::Known;
use crate::peers::node::Node;
use crate::request::purge_order::Spread;
use crate::services::Services;

/// How often it is tried again to carry out a purge, or to make it durable.
pub(super) const AGAIN: Duration = Duration::from_millis(200);

/// How long a member may take to carry out purges that it was found to lack.
const REPAIR: Duration = Duration::from_secs(5);

/// Maximum size in bytes of the purges in one message.
const PUSH_MAX: usize = 512 << 10;

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

/// Which nodes the maker of a purge waits for, and how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// An operator wants to know which nodes have carried it out: all are waited for, up to the
    /// configured time.
    Purge,
    /// The response to an unsafe request waits a moment for the nodes that answer others.
    Request,
}

/// How long the response to an unsafe request waits for the other nodes.
pub(super) const REQUEST_PATIENCE: Duration = Duration::from_secs(1);

/// Tells all other nodes the purges that were made here since a position, and waits until they have
/// carried them out.
pub(crate) async fn spread(
    services: &Rc<Services>,
    node: &Arc<Node>,
    since: LogPosition,
    wait: Wait,
) -> Spread {
    let latest = node.now().saturating_add(match wait {
        Wait::Purge => node.purge_patience(),
        Wait::Request => REQUEST_PATIENCE,
    });
    // A node that has just started knows no peers, so it cannot know of one with newer purges.
    let knows_nobody = || node.own().state == State::Joining && node.known().is_empty();
    while knows_nobody() && node.now() < latest {
        sleep(AGAIN).await;
    }
    let unmet = knows_nobody().then(|| (UNMET.to_owned(), "none has been met yet".to_owned()));
    let mut audience = Audience::new(node.id().clone(), node.lost(), node.left_for());
    let (mut telling, avoided) = (JoinSet::new(), node.avoided());
    // Read later than the purge, so that a node that is found again just now is told.
    let mut next = audience.add(node.known());
    loop {
        let told: Rc<[String]> = audience.told().into();
        for (id, at) in next {
            let protocol = match node.protocol_of(&id) {
                Ok(protocol) => protocol,
                Err(why) => {
                    audience.end(&id, Err(why));
                    continue;
                }
            };
            if wait == Wait::Request && avoided.contains(&id) {
                audience.end(&id, Err("it is not asked for a moment".to_owned()));
                continue;
            }
            let to = (node.endpoint(&at), protocol);
            let push = Push { services: services.clone(), node: node.clone(), to, latest };
            let told = told.clone();
            telling.spawn_local(async move { (id, push.run(since, &told).await) });
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
                let left_for = node.left_for().get(&id).copied();
                match failed {
                    // It left meanwhile, and so uses nothing that it has stored.
                    Some(_) if left_for.is_some_and(|left| left < WAITS_FOR_OTHERS) => {
                        audience.leave(&id);
                    }
                    failed => audience.end(&id, failed.map_or(Ok(()), Err)),
                }
                audience.add(others)
            }
        };
    }
    let (nodes, mut unreached) = audience.outcome();
    unreached.extend(unmet);
    Spread { nodes, unreached }
}

/// Tells a member the purges of this node that it lacks by its positions: it may not be able to ask
/// for them.
pub(crate) fn repair(
    services: &Rc<Services>,
    node: &Arc<Node>,
    member: Member,
    theirs: &PurgePositions,
) {
    let end = services.store().as_ref().and_then(own_end);
    let Some(end) = end.filter(|end| !theirs.covers(node.id(), *end)) else { return };
    let Some(protocol) = node.protocol_with(&member) else { return };
    let since = LogPosition { number: theirs.number(node.id(), end.log), ..end };
    let (to, latest) = ((node.endpoint(&member.address), protocol), node.now() + REPAIR);
    let push = Push { services: services.clone(), node: node.clone(), to, latest };
    spawn_local(async move {
        if let Err(why) = push.run(since, &[]).await {
            log::debug!("{} was not told the purges that it lacks: {why}", member.id);
        }
    });
}

/// Purges that are told to one node.
struct Push {
    services: Rc<Services>,
    node: Arc<Node>,
    to: (Arc<Endpoint>, u16),
    latest: Duration,
}

impl Push {
    /// Tells what was made here since a position, or since the earlier one up to which the node has
    /// carried it out. If another log has begun since then, the node is told that purges are not
    /// known. Returns its last answer.
    async fn run(&self, mut since: LogPosition, told: &[String]) -> Result<CarriedOut, String> {
        let Push { services, node, to, latest } = self;
        let store = services.store().ok_or("there is no cache here any more")?;
        let goal = own_end(&store).ok_or("there is no log of purges here any more")?;
        loop {
            let (purges, end) = since_then(&store, since)?;
            let news = Purged {
                maker: MemberFacts::of(&node.own()),
                since: since.to_string(),
                purges,
                end: end.to_string(),
                told: told.to_vec(),
            };
            let patience = latest.saturating_sub(node.now());
            // Ignore the breaker: no client request is waiting for this call.
            let telling = post_to(services, node, to.clone(), (PURGED, &news), patience);
            let answer: CarriedOut = telling.await.map_err(Failed::text)?;
            let followed = answer.followed.as_deref().and_then(|place| place.parse().ok());
            let followed = followed.filter(|place: &LogPosition| place.log == end.log);
            let number = followed.map_or(0, |place| place.number);
            if end.log != goal.log || number >= goal.number || number == since.number {
                return Ok(answer);
            }
            since = LogPosition { number, ..end };
        }
    }
}

/// Returns the purges made here since a position, as many as one message takes, and the position
/// behind them; no purges if the log does not reach back so far.
fn since_then(
    store: &Store,
    since: LogPosition,
) -> Result<(Option<Vec<Purge>>, LogPosition), String> {
    let of = PurgePosition::new(since.log, since.number);
    match store.purges_since(Some(of)).ok_or("there is no log of purges here any more")? {
        PurgesSince::TooOld(end) => Ok((None, position(end))),
        PurgesSince::Purges(purges, end) => {
            let mut bytes = 0;
            let fits = |purge: &&LoggedPurge| {
                bytes += Purge::MAX_BYTES_BESIDE_NAME + 2 * purge.target.name().len();
                bytes <= PUSH_MAX
            };
            let told: Vec<Purge> = purges.iter().take_while(fits).map(Purge::of).collect();
            let left = (purges.len() - told.len()) as u64;
            let end = position(end);
            Ok((Some(told), LogPosition { number: end.number - left, ..end }))
        }
    }
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
    let since: LogPosition = asked.since.parse()?;
    if of == *node.id() && Some(since.log) == node.purges().own_log() {
        let since = PurgePosition::new(since.log, since.number);
        let store = services.store().ok_or("there is no cache here")?;
        return Ok(
            match store.purges_since(Some(since)).ok_or("there is no log of purges here")? {
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
            },
        );
    }
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

/// Answers a node that tells its purges: when they have been carried out here, or it is known that
/// they cannot be now. A node that has no more than heard of a purge does not say that it has
/// carried it out, even if it uses nothing that it has: after a crash it may meet only nodes that
/// have not heard of it.
pub(crate) async fn purged(
    services: &Rc<Services>,
    node: &Arc<Node>,
    news: &Purged,
) -> Result<CarriedOut, Misunderstood> {
    let maker = news.maker.member()?;
    if maker.id == *node.id() {
        return Err(format!("another node is named {}, too", maker.id).into());
    }
    let purges = news.purges.as_ref();
    let purges = purges.map(|purges| purges.iter().map(Purge::logged).collect()).transpose()?;
    let (since, end): (LogPosition, LogPosition) = (news.since.parse()?, news.end.parse()?);
    let (id, pushed) = (maker.id.clone(), Pushed { since, purges, end });
    // A node that gossip does not show is told the purges that are made here, too.
    node.greeted(maker);
    let latest = node.now().saturating_add(node.purge_patience() / 2);
    // It may have just been started.
    while !node.purges().has_begun() && node.now() < latest {
        sleep(AGAIN).await;
    }
    let failed = match carry_out(services, node, &id, &pushed).await {
        Ok(()) => is_of_former_log(node, &id, end),
        Err(why) => Some(why),
    };
    if failed.is_some() {
        node.purges().learn_end(&id, end, node.now());
    }
    // A node met from here on learns of the purge from a hello.
    let others = node.known();
    let others = others.iter().map(KnownNode::of).filter(|known| !news.told.contains(&known.name));
    let followed = node.purges().followed(&id).map(|followed| followed.to_string());
    let last = node.purges().last_of(&id);
    Ok(CarriedOut { failed, followed, last, others: others.collect() })
}
