//! Carries out purges that were made at other nodes.
//!
//! It promises: a purge is noted as durable here only when it is, and with it all earlier ones of
//! its maker. Where it is not known what was purged, everything that is stored is validated with
//! its origin before it is used.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use fleet::member::State;
use fleet::purges::Vector;
use store::{LoggedPurge, Refusal};
use tokio::time::sleep;

use crate::fleet_control::message::{CarriedOut, Misunderstood, News, Numbered, Purge, Purged};
use crate::fleet_control::numbered_purge::NumberedPurge;
use crate::object::store::Store;
use crate::peers::node::Node;
use crate::request::purge_names::with_keys;
use crate::services::Services;

/// Consequence of purges that are not known.
pub(crate) const VALIDATED: &str =
    "everything that is stored here is validated with its origin before it is used";

/// How often it is looked whether a node that has just started knows what it has.
const START_TICK: Duration = Duration::from_millis(20);

/// How long a node that has just started lets others wait for it.
const START_PATIENCE: Duration = Duration::from_secs(5);

/// Carries out news of purges, as far as they are new and nothing before them is missing.
///
/// # Errors
///
/// The message is not understood, or the purges are not durable here. Holds the reason.
pub(crate) async fn apply(
    services: &Rc<Services>,
    node: &Arc<Node>,
    news: &News,
) -> Result<(), Misunderstood> {
    let purges = node.purges();
    let told = news.purges.iter().map(Numbered::read).collect::<Result<Vec<_>, _>>()?;
    let forgotten: Vector = news.forgotten.parse()?;
    {
        let _applying = purges.applying.lock().await;
        let durable = purges.told().durable.clone();
        if !durable.covers(&forgotten) {
            doubt(services, node, &forgotten, "their node does not know them any more").await?;
        }
    }
    Ok(apply_new(services, node, told).await?)
}

/// Carries out purges, as far as they are new and nothing before them is missing.
///
/// # Errors
///
/// They are not durable here. Holds the reason.
pub(crate) async fn apply_new(
    services: &Rc<Services>,
    node: &Arc<Node>,
    told: Vec<NumberedPurge>,
) -> Result<(), String> {
    let purges = node.purges();
    let _applying = purges.applying.lock().await;
    let mut next = purges.told().durable.clone();
    let is_next = |purge: &NumberedPurge| {
        let is_next = purge.number == next.get(&purge.maker) + 1;
        next.reach(&purge.maker, if is_next { purge.number } else { 0 });
        is_next
    };
    let new: Vec<NumberedPurge> = told.into_iter().filter(is_next).collect();
    if !new.is_empty() {
        new.iter().for_each(|new| purges.note_news(&new.maker, node.now()));
        carry_out(services, node, new, &next).await?;
    }
    Ok(())
}

/// Carries out purges that are next of their makers, up to `next`.
///
/// # Errors
///
/// They are not durable here. Holds the reason.
pub(crate) async fn carry_out(
    services: &Rc<Services>,
    node: &Arc<Node>,
    new: Vec<NumberedPurge>,
    next: &Vector,
) -> Result<(), String> {
    let purges = node.purges();
    let _purging = node.offering.begin_purge();
    purges.enter(next);
    for NumberedPurge { maker, number, purge } in &new {
        purges.note_last(maker, *number, Purge::of(purge).digest());
    }
    log_purges(services, new).await?;
    purges.note_durable(next, node.now());
    Ok(())
}

/// Carries out purges that were made elsewhere, and logs them.
///
/// # Errors
///
/// They are not durable here. Holds the reason.
pub(crate) async fn log_purges(services: &Services, new: Vec<NumberedPurge>) -> Result<(), String> {
    let store = services.store().ok_or("there is no cache here")?;
    let logged: Vec<LoggedPurge> = new.iter().map(|new| new.purge.clone()).collect();
    let by_key = with_keys(&services.options(), &logged);
    let made = new.into_iter().map(NumberedPurge::made).collect();
    store.apply_purges(&by_key, made).await.map_err(not_durable)
}

/// Has everything that is stored here validated before it is used, because purges up to `until` may
/// have been missed.
///
/// # Errors
///
/// The mark is not durable here. Holds the reason.
pub(crate) async fn doubt(
    services: &Rc<Services>,
    node: &Arc<Node>,
    until: &Vector,
    why: &str,
) -> Result<(), String> {
    let purges = node.purges();
    let _purging = node.offering.begin_purge();
    let lacks = purges.told().durable.clone();
    let makers = lacks.lacks(until).map(|lack| format!(" of {}", lack.maker));
    let makers = Vec::from_iter(makers).join(",");
    let is_new = purges.had_nothing() && node.own().state == State::Joining;
    log::log!(
        if is_new { log::Level::Debug } else { log::Level::Warn },
        "purges{makers} are not known ({why}): {VALIDATED}"
    );
    let store = services.store().ok_or("there is no cache here")?;
    purges.enter(until);
    store.doubt_everything().await.map_err(not_durable)?;
    purges.note_durable(until, node.now());
    Ok(())
}

/// Has everything that is stored validated before it is used.
///
/// # Errors
///
/// The device cannot make it durable. A device that is given up needs nothing: no lookup finds what
/// is on it, and a later process reads there which purges this node had.
pub(crate) async fn doubt_everything(store: &Store) -> Result<(), String> {
    match store.doubt_everything().await {
        Ok(()) | Err(Refusal::Offline) => Ok(()),
        Err(refusal) => Err(format!("marking stored objects for validation: {refusal}")),
    }
}

fn not_durable(refusal: Refusal) -> String {
    format!("purges are not durable here: {refusal}")
}

/// Answers a node that tells purges: when they are durable here, or it is known that they cannot be
/// now.
pub(crate) async fn answer(
    services: &Rc<Services>,
    node: &Arc<Node>,
    told: &Purged,
) -> Result<CarriedOut, Misunderstood> {
    let from = told.from.member()?;
    if from.id == *node.id() {
        return Err(format!("another node is named {}, too", from.id).into());
    }
    let id = from.id.clone();
    // A node that gossip does not show is told the purges that are made here, too.
    node.greet(from, told.from.moment());
    let latest = node.now().saturating_add(START_PATIENCE);
    while !node.purges().has_begun() && node.now() < latest {
        sleep(START_TICK).await;
    }
    let failed = match node.purges().has_begun() {
        true => apply(services, node, &told.news).await.err().map(|why| why.to_string()),
        false => Some("it does not know yet what it has".to_owned()),
    };
    let (durable, last) = node.purges().durable_with_last_of(&id);
    let mut vector = Vector::default();
    for maker in told.news.purges.iter().filter_map(|purge| purge.read().ok()) {
        vector.reach(&maker.maker, durable.get(&maker.maker));
    }
    let forgotten: Vector = told.news.forgotten.parse()?;
    forgotten.iter().for_each(|(maker, _)| vector.reach(maker, durable.get(maker)));
    Ok(CarriedOut { failed, vector: vector.to_string(), last })
}
