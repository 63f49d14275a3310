//! Background work of a node: it joins, keeps up with the members and their purges, and leaves.
//!
//! A node starts without the right to use stored objects. It contacts all members that it is told
//! of, carries out the purges that it has missed, and serves from then on. A node that was told of
//! others but reaches none waits. After a time it continues alone, and validates its stored objects
//! before it uses them, because it cannot know which were purged.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use fleet::member::State;
use fleet::members::MEMBERS_MAX;
use fleet::{LogPosition, Member, MemberId, PurgePositions};
use membership::Membership;
use tokio::sync::oneshot;
use tokio::task::{JoinSet, spawn_local};
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

use crate::fleet_control::audience::WAITS_FOR_OTHERS;
use crate::fleet_control::following::{doubt_everything, follow};
use crate::fleet_control::message::{HELLO, Hello};
use crate::fleet_control::own_log::check_own_log;
use crate::fleet_control::post::{Failed, post, post_to};
use crate::fleet_control::saved_positions::{SETTLED, SavedPositions};
use crate::fleet_control::spreading::{own_end, own_hello};
use crate::fleet_control::{classes, departure, offers, spreading};
use crate::peers::node::Node;
use crate::peers::purge_state::Followed;
use crate::services::Services;

/// The time between two looks at the members.
const TICK: Duration = Duration::from_millis(500);

/// The time between two looks at how long this node has lagged behind.
const LAG_TICK: Duration = Duration::from_millis(100);

/// How long another node may take to say hello.
const PATIENCE: Duration = Duration::from_secs(2);

/// Positions are saved anew so often, so that they are not among what is evicted.
const SAVE_EVERY: Duration = Duration::from_secs(300);

/// After so long without any other node the log says so.
const UNANSWERED: Duration = Duration::from_secs(5);

/// Makes the source of the members. It is called again when it fails, for the process before may
/// not have let go of its address yet.
pub type FindMembers = Box<dyn Fn() -> Result<Arc<dyn Membership>, String> + Send>;

/// With so many names among the positions the log says so: half of what there may be.
const NAMES_WARNED: usize = MEMBERS_MAX / 2;

/// The part of a process in a fleet.
pub struct FleetSetup {
    /// This node.
    pub node: Arc<Node>,
    /// Makes the source of its members.
    pub members: FindMembers,
    /// It was told of other nodes: it does not begin alone.
    pub has_seeds: bool,
    /// How often it says hello to a node that has answered: often, where the source of the members
    /// knows from that alone who lives.
    pub hello_every: Duration,
}

/// Takes part until told to leave, and drops what comes with that when the other nodes have been
/// told.
pub(crate) async fn run(
    services: Rc<Services>,
    setup: FleetSetup,
    leave: oneshot::Receiver<oneshot::Sender<()>>,
) {
    let FleetSetup { node, members, has_seeds, hello_every } = setup;
    // The process before holds the cache, and is a node of this name, until it lets go of it.
    while services.awaits_store() {
        sleep(Duration::from_millis(5)).await;
    }
    if services.is_without_store() {
        log::info!("this node has no cache: it owns nothing, and answers from the other nodes");
        node.set_without_cache();
    }
    let membership = find(&members).await;
    node.set_membership(Some(membership.clone()));
    let _ends = Membered(node.clone());
    let (warned, not_understood) = (Cell::new(false), RefCell::default());
    let upkeep = Rc::new(Upkeep {
        services,
        node,
        membership,
        has_seeds,
        hello_every,
        saved: SavedPositions::new(),
        warned,
        not_understood,
    });
    upkeep.begin().await;
    let offering = offers::run(upkeep.services.clone(), upkeep.node.clone());
    let _offering = AbortAtEnd(spawn_local(offering));
    let following = upkeep.clone();
    let _following = AbortAtEnd(spawn_local(async move { following.keep_up().await }));
    tokio::select! {
        () = upkeep.look_after_members() => {}
        said = leave => upkeep.leave(said.ok()).await,
    }
}

async fn find(members: &FindMembers) -> Arc<dyn Membership> {
    let mut told = false;
    loop {
        match members() {
            Ok(membership) => return membership,
            Err(why) if !told => {
                log::error!("{why}: this node is alone until it can be done");
                told = true;
            }
            Err(why) => log::debug!("{why}"),
        }
        sleep(Duration::from_millis(200)).await;
    }
}

/// Forgets the source of the members at the end: its address is free for another process then.
struct Membered(Arc<Node>);

impl Drop for Membered {
    fn drop(&mut self) {
        self.0.set_membership(None);
    }
}

/// Ends a task with its owner.
struct AbortAtEnd(tokio::task::JoinHandle<()>);

impl Drop for AbortAtEnd {
    fn drop(&mut self) {
        self.0.abort();
    }
}

struct Upkeep {
    services: Rc<Services>,
    node: Arc<Node>,
    membership: Arc<dyn Membership>,
    has_seeds: bool,
    hello_every: Duration,
    saved: SavedPositions,
    /// Set once it was logged that no node answers.
    warned: Cell<bool>,
    /// The members that are not understood, and why, as the log was told of them.
    not_understood: RefCell<BTreeMap<String, String>>,
}

impl Upkeep {
    /// Reads how far this node had come.
    async fn begin(&self) {
        let purges = self.node.purges();
        let Some(store) = self.services.store() else {
            return purges.begin(Followed::default(), false);
        };
        let saved = self.saved.read(&store).await;
        let is_empty = store.stats().iter().all(|stats| stats.index_entries == 0);
        if saved.is_none() && !is_empty && self.has_seeds && store.kept_purge_log() {
            log::warn!(
                "how far this node has come in the purges of the fleet is not found: everything \
                 that it has stored is validated with its origin before it is used"
            );
            if let Err(why) = doubt_everything(&store).await {
                log::error!("{why}");
            }
        }
        purges.begin(saved.unwrap_or_default(), !is_empty);
        if let Some(end) = own_end(&store) {
            purges.reach_own(end, self.node.now());
        }
    }

    /// Meets members, tells them of this node, and follows what they say.
    async fn look_after_members(&self) {
        let began = self.node.now();
        let mut met = Vec::new();
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tick.tick().await;
            let (now, store) = (self.node.now(), self.services.store());
            if let Some(store) = &store {
                let (given_up, all) = store.share().offline();
                self.node.note_disks(given_up, all);
            }
            // Without a device there is no log for the moment: what is known of it stays.
            let end = store.as_ref().and_then(own_end);
            if let Some(end) = end {
                self.node.purges().reach_own(end, now);
            }
            let end = end.unwrap_or(self.node.own().purges);
            self.membership.announce(&self.node.refresh_own(end));
            self.membership.elapse(now);
            self.take_members();
            self.meet(&mut met, now).await;
            classes::take_over(&self.services, &self.node).await;
            if self.node.own().state == State::Joining {
                self.join(&met, began).await;
            }
            let since = self.saved.since(now);
            if since >= SETTLED
                && let Some(store) = store
                && let Some(followed) = self.to_save(since >= SAVE_EVERY)
            {
                self.saved.save(&store, &followed, now).await;
            }
        }
    }

    fn to_save(&self, due: bool) -> Option<Followed> {
        if due {
            warn_of_names(&self.node.positions().positions);
        }
        self.node.purges().to_save(due)
    }

    /// Takes over the members as they are known now, and how far they say that they are.
    fn take_members(&self) {
        let (members, now) = (self.membership.members(), self.node.now());
        let known = self.node.members();
        for lost in known.iter().filter(|member| members.get(&member.id).is_none()) {
            self.node.purges().lose_touch(&lost.id);
        }
        let others = members.iter().filter(|member| member.id != *self.node.id());
        for member in others.filter(|member| self.node.protocol_with(member).is_some()) {
            if member.purges != LogPosition::default() {
                self.node.purges().learn_gossip(&member.id, member.purges, now);
            }
        }
        if members.version() != self.node.members().version() || self.node.members().is_empty() {
            self.node.set_members(members);
            self.tell_who_is_not_understood();
        }
    }

    fn tell_who_is_not_understood(&self) {
        let now = self.node.not_understood();
        let mut told = self.not_understood.borrow_mut();
        for (name, why) in now.iter().filter(|(name, why)| told.get(*name) != Some(why)) {
            log::warn!(
                "{name} is not understood: {why}. Neither asks the other, and purges do not reach \
                 it, until both have a protocol in common: upgrade the older one"
            );
        }
        *told = now;
    }

    /// Says hello to all that are known: to members each time they come, and so that a source of
    /// members that learns from that alone keeps up, to all again and again.
    async fn meet(&self, met: &mut Vec<Met>, now: Duration) {
        let lost = self.membership.lost().into_iter().map(|lost| lost.member);
        let known: Vec<Member> = self.membership.members().iter().cloned().chain(lost).collect();
        let others = known.iter().filter(|member| member.id != *self.node.id());
        met.retain(|met| known.iter().any(|member| member.id == met.id));
        let mut asking = Vec::new();
        for member in others {
            let at = met.iter().position(|met| met.id == member.id).unwrap_or_else(|| {
                let (id, told, warned) = (member.id.clone(), None, false);
                met.push(Met { id, told, warned, is_lost: false, first: now, last: None });
                met.len() - 1
            });
            let is_lost = self.membership.members().get(&member.id).is_none();
            if std::mem::replace(&mut met[at].is_lost, is_lost) && !is_lost {
                met[at].last = None;
            }
            let Met { told, last, .. } = &mut met[at];
            let pause = if told.is_some() { self.hello_every } else { TICK };
            if last.is_none_or(|last| now.saturating_sub(last) >= pause) {
                *last = Some(now);
                asking.push(self.say_hello(member.clone()));
            }
        }
        for asking in asking {
            let Ok((id, answer)) = asking.await else { continue };
            if let Some(met) = met.iter_mut().find(|met| met.id == id) {
                met.note(answer, now, self.membership.members().get(&id));
            }
        }
    }

    fn say_hello(&self, member: Member) -> tokio::task::JoinHandle<(MemberId, Answer)> {
        let (services, node) = (self.services.clone(), self.node.clone());
        spawn_local(async move {
            let answer = say_hello(&services, &node, &member).await;
            (member.id, answer)
        })
    }

    /// Serves, if nothing more is to be waited for.
    async fn join(&self, met: &[Met], began: Duration) {
        let now = self.node.now();
        let late =
            |met: &&Met| met.told.is_none() && now.saturating_sub(met.first) < WAITS_FOR_OTHERS;
        if met.iter().any(|met| late(&met)) || !self.node.purges().lacking().is_empty() {
            return;
        }
        let is_alone = !met.iter().any(|met| met.told == Some(Told::Met));
        if is_alone && self.has_seeds {
            let waited = now.saturating_sub(began);
            if waited >= UNANSWERED && !self.warned.replace(true) {
                log::warn!(
                    "no other node of the fleet that this one understands answers yet: are they \
                     at fleet.join, with the same key? Until then this one uses nothing that it \
                     has stored"
                );
            }
            if waited < self.node.alone_after() {
                return;
            }
            log::warn!(
                "no other node of the fleet could be reached: this one goes on alone, and \
                 everything that it has stored is validated with its origin before it is used"
            );
            if let Some(store) = self.services.store()
                && doubt_everything(&store).await.is_err()
            {
                return;
            }
        }
        self.node.purges().caught_up();
        self.node.set_state(State::Serving);
        log::info!("node {} of the fleet serves, with {} others", self.node.id(), met.len());
    }

    /// Says that this node leaves, so that the others stop to ask it, and offers them what they own
    /// from then on.
    async fn leave(&self, said: Option<oneshot::Sender<()>>) {
        let before = self.node.members();
        let has_some = self.node.own().state == State::Serving && self.node.purges().may_use();
        self.node.purges().leave();
        self.node.set_state(State::Leaving);
        // Where the log ends is said once: purges are refused here from now on, and those that
        // have begun are ended.
        let begun = async {
            while !self.node.purges().may_ask() {
                sleep(Duration::from_millis(5)).await;
            }
        };
        // A device that hangs makes no purge durable.
        let _ = timeout(PATIENCE, begun).await;
        let end = self.services.store().as_ref().and_then(own_end);
        let own = self.node.refresh_own(end.unwrap_or(self.node.own().purges));
        self.membership.announce(&own);
        let others: Vec<Member> = self.membership.members().iter().cloned().collect();
        let telling: Vec<_> = others
            .into_iter()
            .filter(|member| member.id != own.id)
            .map(|member| self.say_hello(member))
            .collect();
        let told = async {
            for telling in telling {
                // A node that misses the message notices by itself.
                let _ = telling.await;
            }
            drop(said);
        };
        let offering = async {
            if has_some {
                departure::offer(&self.services, &self.node, &before).await;
            }
        };
        tokio::join!(told, self.membership.leave(), offering);
        if let (Some(store), Some(followed)) = (self.services.store(), self.to_save(true)) {
            self.saved.save(&store, &followed, self.node.now()).await;
        }
    }

    /// Catches up whenever this node lags behind.
    async fn keep_up(&self) {
        let purges = self.node.purges();
        let mut following = JoinSet::new();
        let mut under_way = BTreeSet::new();
        loop {
            // Woken or not: what failed is tried again, and the staleness timer keeps running while
            // no node can send a log.
            let pause = if under_way.is_empty() { TICK } else { LAG_TICK };
            tokio::select! {
                _ = timeout(pause, purges.lags.notified()) => {}
                Some(ended) = following.join_next() => match ended {
                    Ok(member) => _ = under_way.remove(&member),
                    Err(error) => {
                        log::error!("a log of purges could not be followed: {error}");
                        // Which one is not told; a log is followed by one task at a time.
                        under_way.clear();
                    }
                },
            }
            purges.elapse(self.node.now());
            for (member, wanted) in purges.lacking() {
                if under_way.insert(member.clone()) {
                    following.spawn_local(self.follow(member, wanted));
                }
            }
            if self.node.own().state != State::Joining {
                purges.caught_up();
            }
        }
    }

    /// Follows a log, and returns the node whose log it is.
    fn follow(
        &self,
        member: MemberId,
        wanted: LogPosition,
    ) -> impl Future<Output = MemberId> + use<> {
        let (services, node) = (self.services.clone(), self.node.clone());
        async move {
            if let Err(why) = follow(&services, &node, &member, wanted).await {
                log::debug!("the purges of {member} cannot be followed: {why}");
                sleep(TICK).await;
            }
            member
        }
    }
}

/// Warns when the names of nodes that never came back have become many.
fn warn_of_names(positions: &PurgePositions) {
    if positions.len() > NAMES_WARNED {
        log::warn!(
            "{} nodes have had a log of purges in this fleet, and there may be {MEMBERS_MAX}: give \
             nodes names that they keep (fleet.node)",
            positions.len()
        );
    }
}

/// A node that this one knows of.
struct Met {
    id: MemberId,
    /// Result of the last hello that it answered.
    told: Option<Told>,
    /// It was said that it does not answer.
    warned: bool,
    /// It was lost when it was last looked at.
    is_lost: bool,
    /// When it was first heard of.
    first: Duration,
    /// When it was last said hello to.
    last: Option<Duration>,
}

/// Result of the answer to a hello.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    /// How far the other has come in the purges of all is known here.
    Met,
    /// There is no protocol in common.
    NotUnderstood,
}

/// Result of a hello, or the reason why there is no answer.
type Answer = Result<Told, String>;

impl Met {
    /// Notes what came of a hello to it. One that is a `member`, and so is heard, but answers
    /// nothing is worth a warning: a key, a certificate or an open port is missing.
    fn note(&mut self, answer: Answer, now: Duration, member: Option<&Member>) {
        let why = match answer {
            Ok(told) => return self.told = Some(told),
            Err(why) => why,
        };
        let is_late = now.saturating_sub(self.first) >= UNANSWERED;
        if let Some(Member { id, address, .. }) = member
            && is_late
            && self.told.is_none()
            && !self.warned
        {
            log::warn!("{id} at {address} is heard, and does not answer: {why}");
            self.warned = true;
        }
    }
}

/// Says hello to a member, and notes what it answers.
async fn say_hello(services: &Rc<Services>, node: &Arc<Node>, member: &Member) -> Answer {
    let hello = own_hello(node, &member.id);
    let told = match node.members().get(&member.id) {
        Some(_) => post::<Hello>(services, node, &member.id, (HELLO, &hello), PATIENCE).await,
        None => {
            let to = (node.endpoint(&member.address), node.protocols().newest());
            let told = post_to::<Hello>(services, node, to, (HELLO, &hello), PATIENCE).await;
            told.map_err(Failed::text)
        }
    };
    let learnt = told.and_then(|told| {
        let positions = |text: &str| text.parse::<PurgePositions>().map_err(|why| why.to_string());
        let (carried_out, heard) = (positions(&told.positions)?, positions(&told.heard)?);
        let member = told.member.member().map_err(|why| why.to_string())?;
        Ok((member, carried_out, heard, told.last))
    });
    match learnt {
        Ok((told, ..)) if told.id != member.id => {
            log::warn!("{} answers as {}: it is not believed", member.id, told.id);
            Err(format!("it says that it is {}", told.id))
        }
        Ok((told, ..)) if node.protocol_with(&told).is_none() => {
            node.heard(told);
            Ok(Told::NotUnderstood)
        }
        Ok((told, carried_out, heard, last)) => {
            let now = node.now();
            check_own_log(services, node, (&carried_out, &heard), last).await;
            // First: who has carried out no more than this node shows no up-to-date log.
            node.purges().learn(&heard, now);
            node.purges().learn(&carried_out, now);
            node.purges().learn_end(&told.id, told.purges, now);
            node.heard(told.clone());
            spreading::repair(services, node, told, &carried_out);
            Ok(Told::Met)
        }
        Err(why) => {
            log::debug!("{} did not say hello: {why}", member.id);
            node.silent(&member.id);
            Err(why)
        }
    }
}
