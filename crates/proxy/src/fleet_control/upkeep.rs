//! Background work of a node: it joins, keeps up with the members and their purges, and leaves.
//!
//! A node starts without trust in its copies: each is validated with its origin before it is used.
//! It meets all members that it is told of, carries out the purges that it has missed, and trusts
//! its copies from then on. A node that was told of others but reaches none goes on alone after a
//! time, and trusts its copies a lease long at most, because it cannot know which were purged.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use fleet::member::State;
use fleet::members::MEMBERS_MAX;
use fleet::{FleetSeed, KeyHash, Member, MemberId};
use membership::Membership;
use tokio::sync::oneshot;
use tokio::task::{JoinError, JoinSet, spawn_local};
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

use crate::fleet_control::applying::{doubt, doubt_everything};
use crate::fleet_control::meeting::{Met, PATIENCE, say_hello};
use crate::fleet_control::numbered_purge::logged_vector;
use crate::fleet_control::own_log::own_end;
use crate::fleet_control::pushing::{note_own, push_own};
use crate::fleet_control::saved_purges::{SETTLED, SavedPurges};
use crate::fleet_control::{classes, departure, offers};
use crate::peers::node::Node;
use crate::peers::purge_state::Saved;
use crate::services::Services;

/// The time between two looks at the members.
const TICK: Duration = Duration::from_millis(500);

/// The time between two hellos to those members that are asked for news.
const NEWS_EVERY: Duration = Duration::from_secs(1);

/// Members that are asked for news at a time.
const ASKED: usize = 3;

/// How long a node that was lost, and answers, is said hello to each second.
const DOUBTED: Duration = Duration::from_secs(60);

/// A node that comes waits for so long for another that does not answer.
const WAITS_FOR_OTHERS: Duration = Duration::from_secs(10);

/// How long this node waits for purges that others have and none can name.
const UNKNOWN_AFTER: Duration = Duration::from_secs(5);

/// How long a disk has to work before it counts again: its share does not move to and fro.
const RESTS: Duration = Duration::from_secs(30);

/// How often the purges that are known are saved anew, so that they are not among what is evicted.
const SAVE_EVERY: Duration = Duration::from_secs(300);

/// After so long without any other node the log says so.
const UNANSWERED: Duration = Duration::from_secs(5);

/// Makes the source of the members. It is called again when it fails, for the process before may
/// not have let go of its address yet.
pub type FindMembers = Box<dyn Fn() -> Result<Arc<dyn Membership>, String> + Send>;

/// With so many makers of purges the log says so: half of what there may be.
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
        saved: SavedPurges::new(),
        disks_out: Cell::default(),
        warned,
        not_understood,
    });
    upkeep.begin().await;
    let offering = offers::run(upkeep.services.clone(), upkeep.node.clone());
    let _offering = AbortAtEnd(spawn_local(offering));
    let pushing = push_own(upkeep.services.clone(), upkeep.node.clone());
    let _pushing = AbortAtEnd(spawn_local(pushing));
    tokio::select! {
        biased;
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
struct AbortAtEnd<T>(tokio::task::JoinHandle<T>);

impl<T> Drop for AbortAtEnd<T> {
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
    saved: SavedPurges,
    /// Most disks that were given up or stalled at a time lately, and when that was last so.
    disks_out: Cell<(usize, Duration)>,
    /// Set once it was logged that no node answers.
    warned: Cell<bool>,
    /// The members that are not understood, and why, as the log was told of them.
    not_understood: RefCell<BTreeMap<String, String>>,
}

impl Upkeep {
    /// Reads which purges this node has.
    async fn begin(&self) {
        let (purges, now) = (self.node.purges(), self.node.now());
        let Some(store) = self.services.store() else {
            return purges.begin((Saved::default(), true), None, false, now);
        };
        let saved = self.saved.read(&store).await;
        let is_empty = store.stats().iter().all(|stats| stats.index_entries == 0);
        let is_lost = saved.is_none() && !is_empty && self.has_seeds && store.kept_purge_log();
        if is_lost {
            log::warn!(
                "which purges of the fleet this node has carried out is not found: everything that \
                 it has stored is validated with its origin before it is used"
            );
            if let Err(why) = doubt_everything(&store).await {
                log::error!("{why}");
            }
        }
        let has_lost = is_lost || !store.kept_purge_log();
        let mut saved = saved.unwrap_or_default();
        saved.vector.merge(&logged_vector(&store));
        purges.begin((saved, is_empty), own_end(&store), has_lost, now);
    }

    /// Meets members, tells them of this node, and takes what they say.
    async fn look_after_members(&self) {
        let began = self.node.now();
        let (mut known, mut meeting) = (Vec::new(), JoinSet::new());
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                _ = tick.tick() => self.look(&mut known, &mut meeting).await,
                Some(met) = meeting.join_next() => self.note_met(&mut known, met),
            }
            if self.node.own().state == State::Joining {
                self.join(&known, began);
            }
        }
    }

    async fn look(&self, known: &mut Vec<Known>, meeting: &mut JoinSet<(MemberId, Answer)>) {
        let (now, store) = (self.node.now(), self.services.store());
        if let Some(store) = &store {
            let (given_up, all) = store.share().offline();
            let out = self.note_disks_out(given_up + store.share().stalled(), now);
            self.node.note_disks((given_up, out.saturating_sub(given_up)), all);
        }
        note_own(&self.services, &self.node);
        self.membership.announce(&self.node.refresh_own());
        self.membership.elapse(now);
        let members = self.membership.members();
        if members.version() != self.node.members().version() || self.node.members().is_empty() {
            self.node.set_members(members);
            self.tell_who_is_not_understood();
        }
        self.node.refresh_view();
        self.meet(known, meeting, now);
        classes::take_over(&self.services, &self.node).await;
        self.give_up_unknown(now).await;
        let since = self.saved.since(now);
        if since >= SETTLED
            && let Some(store) = store
            && let Some(saved) = self.to_save(since >= SAVE_EVERY)
        {
            self.saved.save(&store, &saved, now).await;
        }
    }

    /// Returns how many disks are given up or stall, or have done so within [`RESTS`].
    fn note_disks_out(&self, out: usize, now: Duration) -> usize {
        let (before, since) = self.disks_out.get();
        if out >= before || now.saturating_sub(since) >= RESTS {
            self.disks_out.set((out, now));
        }
        self.disks_out.get().0
    }

    fn to_save(&self, due: bool) -> Option<Saved> {
        if due {
            self.warn_of_names();
        }
        self.node.purges().to_save(due)
    }

    /// Warns when the names of nodes that never came back have become many.
    fn warn_of_names(&self) {
        let makers = self.node.purges().told().durable.len();
        if makers > NAMES_WARNED {
            log::warn!(
                "{makers} nodes have made purges in this fleet: give nodes names that they keep \
                 (fleet.node)"
            );
        }
    }

    /// Goes on without purges that others have and none has named for a while.
    async fn give_up_unknown(&self, now: Duration) {
        if self.node.is_without_cache() || self.node.purges().lacks_for(now) < UNKNOWN_AFTER {
            return;
        }
        let purges = self.node.purges();
        let _applying = purges.applying.lock().await;
        let lacking = purges.lacking();
        let why = "no node that answers can name them";
        if let Err(why) = doubt(&self.services, &self.node, &lacking, why).await {
            log::debug!("purges that are not known: {why}");
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

    /// Says hello to all that are known: each time they come, again and again, and to some of them
    /// each second for news of purges.
    fn meet(&self, all: &mut Vec<Known>, meeting: &mut JoinSet<(MemberId, Answer)>, now: Duration) {
        if self.node.name_in_use().is_some() {
            // What it says would count as said by the other node of its name.
            return;
        }
        let live = self.membership.members();
        let lost = self.membership.lost().into_iter().map(|lost| lost.member);
        let members: Vec<Member> = live.iter().cloned().chain(lost).collect();
        all.retain(|known| members.iter().any(|member| member.id == known.id));
        let asked = self.asked_for_news(all, now);
        for member in members.iter().filter(|member| member.id != *self.node.id()) {
            let at = all.iter().position(|known| known.id == member.id).unwrap_or_else(|| {
                all.push(Known::new(member.id.clone(), now));
                all.len() - 1
            });
            let known = &mut all[at];
            let is_lost = live.get(&member.id).is_none();
            if std::mem::replace(&mut known.is_lost, is_lost) && !is_lost {
                known.last = None;
            }
            if is_lost || self.membership.is_kept_by_requests(&member.id) {
                known.was_lost = Some(now);
            }
            let is_doubted = known.was_lost.is_some_and(|at| now.saturating_sub(at) < DOUBTED);
            let is_asked = asked.contains(&member.id) || known.answers && is_doubted;
            let pause = match known.met {
                None => TICK,
                Some(_) if is_asked => NEWS_EVERY.min(self.hello_every),
                Some(_) => self.hello_every,
            };
            let is_due = known.last.is_none_or(|last| now.saturating_sub(last) >= pause);
            if is_due && !std::mem::replace(&mut known.is_asked, true) {
                known.last = Some(now);
                meeting.spawn_local(self.say_hello(member.clone()));
            }
        }
    }

    /// Returns the members that are asked for news now: some, others each second, and all while
    /// this node knows too little.
    fn asked_for_news(&self, all: &[Known], now: Duration) -> BTreeSet<MemberId> {
        // One that gossip has lost may answer all the same.
        let answering = all.iter().filter(|known| !known.is_lost || known.answers);
        let mut others: Vec<&MemberId> = answering.map(|known| &known.id).collect();
        let purges = self.node.purges();
        let lacks_some = !purges.is_current(now) || !purges.lacking().is_empty();
        if lacks_some || others.len() <= ASKED {
            return others.into_iter().cloned().collect();
        }
        // Not all nodes ask the same ones.
        let second = now.as_secs();
        let draw = |id: &MemberId| {
            let text = format!("{} {id}", self.node.id());
            KeyHash::of(text.as_bytes(), FleetSeed(second)).bits()
        };
        others.sort_by_key(|id| draw(id));
        others.into_iter().take(ASKED).cloned().collect()
    }

    fn say_hello(&self, member: Member) -> impl Future<Output = (MemberId, Answer)> + use<> {
        let (services, node) = (self.services.clone(), self.node.clone());
        async move {
            let answer = say_hello(&services, &node, &member).await;
            (member.id, answer)
        }
    }

    fn note_met(&self, all: &mut [Known], met: Result<(MemberId, Answer), JoinError>) {
        let (id, answer) = match met {
            Ok(met) => met,
            Err(error) => {
                log::error!("a node could not be met: {error}");
                return all.iter_mut().for_each(|known| known.is_asked = false);
            }
        };
        if let Some(known) = all.iter_mut().find(|known| known.id == id) {
            known.is_asked = false;
            known.note(answer, self.node.now(), self.membership.members().get(&id));
        }
    }

    /// Serves, if nothing more is to be waited for.
    fn join(&self, all: &[Known], began: Duration) {
        let (now, purges) = (self.node.now(), self.node.purges());
        let is_late = |known: &Known| {
            known.met.is_none() && now.saturating_sub(known.first) < WAITS_FOR_OTHERS
        };
        let is_met = |id: &MemberId| all.iter().any(|known| known.id == *id && known.met.is_some());
        // A node that has not been heard of yet may have made purges meanwhile.
        if now.saturating_sub(began) < WAITS_FOR_OTHERS && !purges.expected().iter().all(is_met) {
            return;
        }
        let is_named_apart = self.node.name_in_use().is_none();
        if all.iter().any(is_late) || !purges.lacking().is_empty() || !is_named_apart {
            return;
        }
        let has_known = all.iter().filter_map(|known| match known.met {
            Some(Met::Understood { has_known }) => Some(has_known),
            Some(Met::NotUnderstood) | None => None,
        });
        let has_known: Vec<bool> = has_known.collect();
        let is_lonely = has_known.is_empty() && (self.has_seeds || purges.had_others());
        if is_lonely {
            let waited = now.saturating_sub(began);
            if waited >= UNANSWERED && !self.warned.replace(true) {
                log::warn!(
                    "no other node of the fleet that this one understands answers yet: are they \
                     at fleet.join, with the same key? Until then this one validates what it has \
                     stored with its origin before it uses it"
                );
            }
            if waited < self.node.alone_after() {
                return;
            }
            log::warn!(
                "no other node of the fleet could be reached: this one goes on alone, and \
                 validates what it has stored every {} s, for it may have been purged elsewhere",
                self.node.patience_of_purges().lease.as_secs()
            );
        }
        purges.join(is_lonely, !is_lonely && !has_known.contains(&true));
        self.node.set_state(State::Serving);
        log::info!("node {} of the fleet serves, with {} others", self.node.id(), all.len());
    }

    /// Says that this node leaves, so that the others stop to ask it, and offers them what they own
    /// from then on.
    async fn leave(&self, said: Option<oneshot::Sender<()>>) {
        let before = self.node.members();
        let now = self.node.now();
        let has_some =
            self.node.own().state == State::Serving && self.node.purges().is_current(now);
        let caches = before.iter().filter(|member| member.has_cache);
        let others = caches.map(|member| member.id.clone()).filter(|id| id != self.node.id());
        self.node.purges().leave(others.collect());
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
        note_own(&self.services, &self.node);
        let own = self.node.refresh_own();
        self.membership.announce(&own);
        let is_known = self.node.name_in_use().is_none();
        let others = self.membership.members();
        let others: Vec<Member> = others.iter().filter(|_| is_known).cloned().collect();
        let telling: Vec<_> = others
            .into_iter()
            .filter(|member| member.id != own.id)
            .map(|member| spawn_local(self.say_hello(member)))
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
        if let (Some(store), Some(saved)) = (self.services.store(), self.to_save(true)) {
            self.saved.save(&store, &saved, self.node.now()).await;
        }
    }
}

/// Result of a hello, or the reason why there is no answer.
type Answer = Result<Met, String>;

/// A node that this one knows of.
struct Known {
    id: MemberId,
    /// Result of the first hello that it answered and understood.
    met: Option<Met>,
    /// It answered the last hello.
    answers: bool,
    /// A hello is under way.
    is_asked: bool,
    /// It was said that it does not answer.
    is_warned: bool,
    /// It was lost when it was last looked at.
    is_lost: bool,
    /// When it was last lost.
    was_lost: Option<Duration>,
    /// When it was first heard of.
    first: Duration,
    /// When it was last said hello to.
    last: Option<Duration>,
}

impl Known {
    fn new(id: MemberId, first: Duration) -> Known {
        Known {
            id,
            met: None,
            answers: false,
            is_asked: false,
            is_warned: false,
            is_lost: false,
            was_lost: None,
            first,
            last: None,
        }
    }

    /// Notes the result of a hello to it. One that is a `member`, and so is heard, but answers
    /// nothing is worth a warning: a key, a certificate or an open port is missing.
    fn note(&mut self, answer: Answer, now: Duration, member: Option<&Member>) {
        self.answers = answer.is_ok();
        let why = match answer {
            Ok(met) => {
                let is_first = !matches!(self.met, Some(Met::Understood { .. }));
                self.met = if is_first { Some(met) } else { self.met };
                return;
            }
            Err(why) => why,
        };
        let is_late = now.saturating_sub(self.first) >= UNANSWERED;
        if let Some(Member { id, address, .. }) = member
            && is_late
            && self.met.is_none()
            && !self.is_warned
        {
            log::warn!("{id} at {address} is heard, and does not answer: {why}");
            self.is_warned = true;
        }
    }
}
