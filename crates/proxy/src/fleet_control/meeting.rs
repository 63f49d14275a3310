//! Meets other nodes: both sides tell what they are and which purges they have, and each gives the
//! other those that it lacks.

use std::rc::Rc;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use fleet::purges::Vector;
use fleet::purges::replica::Answer;
use fleet::{Member, MemberId};
use tokio::task::spawn_local;

use crate::fleet_control::applying::apply;
use crate::fleet_control::message::{HELLO, Hello, MemberFacts, Misunderstood, News};
use crate::fleet_control::own_log::check_own_log;
use crate::fleet_control::post::{Failed, post, post_to};
use crate::fleet_control::pushing::{news_for, push};
use crate::peers::node::Node;
use crate::services::Services;

/// How long another node may take to say hello.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);

/// Result of a hello that was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Met {
    /// Both have told each other which purges they have. The other `has_known` this node in an
    /// earlier process.
    Understood { has_known: bool },
    /// There is no protocol in common.
    NotUnderstood,
}

/// Answers a node that says hello.
pub(crate) async fn answer(
    services: &Rc<Services>,
    node: &Arc<Node>,
    hello: &Hello,
) -> Result<Hello, Misunderstood> {
    let member = hello.member.member()?;
    let id = member.id.clone();
    if id == *node.id() {
        return Err(format!("another node is named {id}, too").into());
    }
    let theirs: Vector = hello.vector.parse()?;
    if node.protocol_with(&member).is_none() {
        // Its presence is all that can be learned: its purges could not be understood.
        node.heard(member);
        return Ok(own_hello(node, &id));
    }
    check_own_log(services, node, &theirs, hello.last).await;
    // Before it is told which purges there are: a later one is told to it.
    let has_known = node.greet(member, hello.member.moment()).has_known;
    node.purges().note_has(&id, &theirs, node.now());
    let news = news_for(services, node, &theirs, &node.purge_vector()).await;
    let ages = node.purges().answer(node.now()).ages.into_iter();
    let ages = ages.map(|(member, age)| (member.to_string(), age.as_millis() as u64 + 1)).collect();
    let of = |is_lost| {
        let counted = node.counted().into_values();
        let counted = counted.filter(move |counted| counted.is_lost == is_lost);
        counted.map(|counted| (counted.id.to_string(), counted.address.to_string())).collect()
    };
    let (counted, lost) = (of(false), of(true));
    Ok(Hello { ages, counted, lost, has_known, news, ..own_hello(node, &id) })
}

/// Returns what this node says of itself to another.
fn own_hello(node: &Arc<Node>, to: &MemberId) -> Hello {
    let (durable, last) = node.purges().durable_with_last_of(to);
    Hello {
        member: MemberFacts::of(node),
        vector: durable.to_string(),
        is_recovering: node.purges().is_recovering(),
        last,
        ages: Default::default(),
        counted: Default::default(),
        lost: Default::default(),
        has_known: false,
        news: News::default(),
    }
}

/// Says hello to a member, and notes what it answers.
///
/// # Errors
///
/// It does not answer, or is another one. Holds the reason.
pub(super) async fn say_hello(
    services: &Rc<Services>,
    node: &Arc<Node>,
    member: &Member,
) -> Result<Met, String> {
    let met = meet(services, node, member).await;
    if let Err(why) = &met {
        log::debug!("{} did not say hello: {why}", member.id);
        node.purges().note_told(&member.id, Err(why.clone()), node.now());
        node.silent(&member.id);
    }
    met
}

async fn meet(services: &Rc<Services>, node: &Arc<Node>, member: &Member) -> Result<Met, String> {
    let mut first = None;
    loop {
        let asked = node.now();
        let told = ask(services, node, member).await?;
        let wrong = |why: Misunderstood| why.to_string();
        let (facts, news) = (told.member.member().map_err(wrong)?, told.news.clone());
        if facts.id != member.id {
            log::warn!("{} answers as {}: it is not believed", member.id, facts.id);
            return Err(format!("it says that it is {}", facts.id));
        }
        if node.protocol_with(&facts).is_none() {
            node.heard(facts);
            return Ok(Met::NotUnderstood);
        }
        let has_known = *first.get_or_insert(told.has_known);
        let answer = read(&told, &facts.id).map_err(wrong)?;
        let theirs = answer.vector.clone();
        check_own_log(services, node, &theirs, told.last).await;
        let (process, said) = told.member.moment();
        if node.purges().note_process(&facts.id, process, said).is_latest {
            node.heard(facts.clone());
        }
        note_counted(node, &told).map_err(wrong)?;
        let (before, now) = (node.purges().told(), node.now());
        node.purges().note_has(&facts.id, &theirs, now);
        if node.purges().lacks_own(&facts.id).is_none() {
            // One that lacks some may not be able to make them durable.
            node.purges().note_told(&facts.id, Ok(()), now);
        }
        if facts.has_cache && !node.is_without_cache() {
            apply(services, node, &news).await.map_err(wrong)?;
            node.purges().take(asked, answer);
        }
        let after = node.purges().told();
        let left = |durable: &Vector| -> u64 {
            durable.lacks(&theirs).map(|missing| missing.through - missing.after).sum()
        };
        if (1..left(&before.durable)).contains(&left(&after.durable)) {
            // There are more than one answer takes.
            continue;
        }
        if facts.has_cache && !theirs.covers(&after.durable) {
            repair(services, node, &facts, theirs);
        }
        return Ok(Met::Understood { has_known });
    }
}

async fn ask(services: &Rc<Services>, node: &Arc<Node>, member: &Member) -> Result<Hello, String> {
    let hello = own_hello(node, &member.id);
    let is_asked = node.members().get(&member.id).is_some() && !node.avoided().contains(&member.id);
    if is_asked {
        return post::<Hello>(services, node, &member.id, (HELLO, &hello), PATIENCE).await;
    }
    let to = (node.endpoint(&member.address), node.protocols().newest());
    let told = post_to::<Hello>(services, node, to, (HELLO, &hello), PATIENCE).await;
    told.map_err(Failed::text)
}

fn read(told: &Hello, from: &MemberId) -> Result<Answer, Misunderstood> {
    let mut answer = Answer {
        from: from.clone(),
        vector: told.vector.parse()?,
        ages: Default::default(),
        is_recovering: told.is_recovering,
    };
    for (member, age) in &told.ages {
        answer.ages.insert(member.parse()?, Duration::from_millis(*age));
    }
    Ok(answer)
}

/// Notes the nodes that another one counts: one that came back may have met only some.
fn note_counted(node: &Node, told: &Hello) -> Result<(), Misunderstood> {
    for (id, address) in &told.counted {
        node.told_of(id.parse()?, address.parse()?);
    }
    for (id, address) in &told.lost {
        node.told_lost(id.parse()?, address.parse()?);
    }
    node.refresh_view();
    Ok(())
}

/// Tells a member the purges that it lacks: it may not be able to ask for them.
fn repair(services: &Rc<Services>, node: &Arc<Node>, member: &Member, theirs: Vector) {
    let Some(protocol) = node.protocol_with(member) else { return };
    let to = (node.endpoint(&member.address), protocol);
    let (services, node, id) = (services.clone(), node.clone(), member.id.clone());
    let Some(repairing) = Repairing::begin(&node, &id) else { return };
    spawn_local(async move {
        let told = push(&services, &node, &id, to, theirs).await;
        node.purges().note_told(&id, told.clone(), node.now());
        if let Err(why) = told {
            log::debug!("{id} was not told the purges that it lacks: {why}");
        }
        drop(repairing);
    });
}

/// A node that is being told what it lacks, by one task at a time.
struct Repairing(Arc<Node>, MemberId);

impl Repairing {
    fn begin(node: &Arc<Node>, id: &MemberId) -> Option<Repairing> {
        let repaired = &node.purges().repaired;
        let is_new = repaired.lock().unwrap_or_else(PoisonError::into_inner).insert(id.clone());
        is_new.then(|| Repairing(node.clone(), id.clone()))
    }
}

impl Drop for Repairing {
    fn drop(&mut self) {
        let Repairing(node, id) = self;
        node.purges().repaired.lock().unwrap_or_else(PoisonError::into_inner).remove(id);
    }
}
