//! How far this node has followed the purges of all nodes, and whether it may use stored objects.
//!
//! Each node follows the logs of the others. While a purge spreads a node may use stored objects:
//! the purge is acknowledged only after the node has carried it out or has been reported as not
//! reached. A node that was out of touch for so long that it may have been reported is *away*: it
//! uses no stored objects until it has caught up with all nodes that can be reached.
//!
//! A purge takes effect here some moments before it is durable and logged. A response fetched in
//! between counts as younger than the purge, so another node must not answer with an older one:
//! questions name purges in progress as carried out ([`Positions::asked`]). While a purge made here
//! is not in the log yet, so that no other node can know it, no node is asked.
//!
//! Guarantees: a purge recorded as carried out has been carried out. A node that is away reports it
//! from the first moment at which it can know.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use fleet::{LogPosition, MemberId, PurgePositions};
use http::header::HeaderValue;
use store::LoggedPurge;
use tokio::sync::Notify;

use crate::peers::last_purges::LastPurges;

/// A node that has not been known to be up to date for this long may have been named as one that
/// could not be reached. Less than the time that a purge waits for a node, minus the time in which
/// a silent node is noticed.
pub(crate) const IN_TOUCH: Duration = Duration::from_secs(2);

/// Purges of other nodes that are kept, to be told on when those are gone.
const KEPT: usize = 4096;

/// The positions of this node in the logs of purges, and the field that tells them.
pub(crate) struct Positions {
    pub positions: PurgePositions,
    pub value: HeaderValue,
    /// The positions that who is asked must have reached: those of purges that are being carried
    /// out, too.
    pub asked: HeaderValue,
}

impl Positions {
    fn of(positions: PurgePositions, begun: &PurgePositions) -> Arc<Positions> {
        // Names, digits and punctuation.
        let value = |positions: &PurgePositions| {
            let value = HeaderValue::try_from(positions.to_string());
            value.unwrap_or(HeaderValue::from_static("?"))
        };
        let mut asked = positions.clone();
        begun.iter().for_each(|(member, position)| asked.reach(member, position));
        Arc::new(Positions { value: value(&positions), asked: value(&asked), positions })
    }
}

/// See the module.
pub(crate) struct PurgeState {
    /// This node, which follows no log of its own.
    own: MemberId,
    told: RwLock<Arc<Positions>>,
    may_use: AtomicBool,
    has_begun: AtomicBool,
    /// Purges that are made here and may have an effect already, and are not noted yet.
    own_under_way: AtomicUsize,
    inner: Mutex<Inner>,
    /// Something is to be caught up with.
    pub lags: Notify,
    /// The logs of one node are followed by one task at a time, so that a node that does not answer
    /// delays only its own.
    turns: Mutex<BTreeMap<MemberId, Arc<tokio::sync::Mutex<()>>>>,
}

#[derive(Default)]
struct Inner {
    positions: PurgePositions,
    /// The number of this node's own log; 0 without one. Its former ones are followed like those
    /// of others.
    own_log: u64,
    /// How far this node will be with what it is carrying out, or was going to carry out.
    begun: PurgePositions,
    /// How far others are known to have come.
    wanted: PurgePositions,
    /// When this node was last known, by the word of the node whose log it is, to have carried out
    /// all of it. What others know of the log says nothing of being in touch: they may have lost
    /// that node as well.
    in_sync: BTreeMap<MemberId, Duration>,
    /// Since when this node lags behind in a log.
    lags_since: BTreeMap<MemberId, Duration>,
    away: bool,
    /// It leaves, and uses nothing any more.
    has_left: bool,
    /// The positions have changed since they were last saved.
    unsaved: bool,
    kept: VecDeque<(MemberId, LogPosition, LoggedPurge)>,
    last: LastPurges,
}

/// How far a node has come in the purges of all, as it is saved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Followed {
    pub positions: PurgePositions,
    pub last: LastPurges,
}

impl PurgeState {
    /// Makes the state of a node that has not joined yet: it may use nothing.
    pub fn new(own: MemberId) -> PurgeState {
        PurgeState {
            own,
            told: RwLock::new(Positions::of(PurgePositions::default(), &PurgePositions::default())),
            may_use: AtomicBool::new(false),
            has_begun: AtomicBool::new(false),
            own_under_way: AtomicUsize::new(0),
            inner: Mutex::default(),
            lags: Notify::new(),
            turns: Mutex::default(),
        }
    }

    /// Returns the lock that the task holds which follows the logs of `member`.
    pub fn turn(&self, member: &MemberId) -> Arc<tokio::sync::Mutex<()>> {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        turns.retain(|other, turn| other == member || Arc::strong_count(turn) > 1);
        turns.entry(member.clone()).or_default().clone()
    }

    /// Returns how far this node has come.
    pub fn positions(&self) -> Arc<Positions> {
        self.told.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns whether this node may use what it has stored.
    pub fn may_use(&self) -> bool {
        self.may_use.load(Ordering::Acquire)
    }

    /// Begins with what the store had, as one that was away if it has anything.
    pub fn begin(&self, saved: Followed, was_away: bool) {
        let mut inner = self.lock();
        (inner.positions, inner.last) = (saved.positions, saved.last);
        (inner.away, inner.unsaved) = (was_away, true);
        self.publish(&inner);
        self.has_begun.store(true, Ordering::Release);
    }

    /// Returns whether it is known how far this node had come.
    pub fn has_begun(&self) -> bool {
        self.has_begun.load(Ordering::Acquire)
    }

    /// Returns whether this node was away: what it does not know of a log counts as missed.
    pub fn is_away(&self) -> bool {
        self.lock().away
    }

    /// Notes how far others have come.
    pub fn learn(&self, others: &PurgePositions, now: Duration) {
        let mut inner = self.lock();
        let mut is_news = false;
        for (member, position) in others.iter() {
            // What this node's own log must have is another matter: see `own_log`.
            if *member != self.own || position.log < inner.own_log {
                is_news |= inner.learn(member, position, now);
            }
        }
        self.settle(&inner, is_news);
    }

    /// Notes the end of the log of `member`, as the member itself states it.
    pub fn learn_end(&self, member: &MemberId, end: LogPosition, now: Duration) {
        self.note_end(member, end, now, false);
    }

    /// Notes the end of the log of `member`, as gossip has it. Gossip keeps this node in touch with
    /// a member that has stated its end since the last [`PurgeState::lose_touch`]. It does not
    /// bring the two in touch again: heartbeats of a member that returns arrive before its news.
    pub fn learn_gossip(&self, member: &MemberId, end: LogPosition, now: Duration) {
        self.note_end(member, end, now, true);
    }

    fn note_end(&self, member: &MemberId, end: LogPosition, now: Duration, is_gossip: bool) {
        if end == LogPosition::default() {
            // It has none: it keeps nothing, or has no device now.
            return;
        }
        let mut inner = self.lock();
        let is_news = inner.learn(member, end, now);
        let is_in_touch = !is_gossip || inner.in_sync.contains_key(member);
        if is_in_touch && inner.positions.covers(member, end) {
            inner.in_sync.insert(member.clone(), now);
        }
        self.settle(&inner, is_news);
    }

    /// Notes that `member` was lost: purges may be made without this node from now on.
    pub fn lose_touch(&self, member: &MemberId) {
        self.lock().in_sync.remove(member);
    }

    /// Notes that all before `position` is about to be carried out. Where that fails it may have
    /// been in part.
    pub fn begin_reaching(&self, member: &MemberId, position: LogPosition) {
        let mut inner = self.lock();
        inner.begun.reach(member, position);
        inner.wanted.reach(member, position);
        self.publish(&inner);
    }

    /// Notes that all before `end` in the log that this node keeps now has been carried out.
    pub fn reach_own(&self, end: LogPosition, now: Duration) {
        self.lock().own_log = end.log;
        self.reach(&self.own, end, now);
    }

    /// Notes that a purge is about to be made here, for as long as the guard lives: until it has
    /// been noted as carried out.
    pub fn begin_own(self: &Arc<Self>) -> OwnPurge {
        self.own_under_way.fetch_add(1, Ordering::AcqRel);
        OwnPurge(self.clone())
    }

    /// Returns whether other nodes may be asked: not while a purge has an effect here of which they
    /// cannot know.
    pub fn may_ask(&self) -> bool {
        self.own_under_way.load(Ordering::Acquire) == 0
    }

    /// Notes that all before `position` has been carried out.
    pub fn reach(&self, member: &MemberId, position: LogPosition, now: Duration) {
        let mut inner = self.lock();
        inner.in_sync.insert(member.clone(), now);
        if !inner.positions.covers(member, position) {
            inner.positions.reach(member, position);
            inner.unsaved = true;
            self.publish(&inner);
        }
        if !inner.lags_behind(member) {
            inner.lags_since.remove(member);
        }
    }

    /// Keeps purges of `member` that end before `position`, to be told on.
    pub fn keep(&self, member: &MemberId, position: LogPosition, purges: &[LoggedPurge]) {
        let mut inner = self.lock();
        let begin = position.number.saturating_sub(purges.len() as u64);
        for (number, purge) in (begin..).zip(purges) {
            let at = LogPosition { number, ..position };
            inner.kept.push_back((member.clone(), at, purge.clone()));
        }
        let over = inner.kept.len().saturating_sub(KEPT);
        inner.kept.drain(..over);
    }

    /// Notes the digest of the purge of `member` that ends before `position`.
    pub fn note_last(&self, member: &MemberId, position: LogPosition, digest: u64) {
        self.lock().last.note(member, position, digest);
    }

    /// Returns the number of the log that this node keeps now, if it keeps one.
    pub fn own_log(&self) -> Option<u64> {
        Some(self.lock().own_log).filter(|log| *log > 0)
    }

    /// Returns the digest of the last purge of `member` that was carried out here, if it is known.
    pub fn last_of(&self, member: &MemberId) -> Option<u64> {
        let inner = self.lock();
        inner.last.get(member, inner.positions.get(member)?)
    }

    /// Returns whether `purge`, with this digest, is the one of `member` that ends before
    /// `position`, and has been carried out here. False where that is no longer known.
    pub fn has_carried_out(
        &self,
        member: &MemberId,
        position: LogPosition,
        (purge, digest): (&LoggedPurge, u64),
    ) -> bool {
        let inner = self.lock();
        let before = LogPosition { number: position.number.wrapping_sub(1), ..position };
        let mut kept = inner.kept.iter().rev();
        inner.last.get(member, position) == Some(digest)
            || kept.any(|(of, at, kept)| of == member && *at == before && kept == purge)
    }

    /// Returns the purges of the log of `member` since a position, as far as this node has come;
    /// `None` when they are not all kept.
    pub fn kept_since(&self, member: &MemberId, since: LogPosition) -> Option<Vec<LoggedPurge>> {
        let inner = self.lock();
        let end = inner.positions.number(member, since.log);
        let of_log = inner.kept.iter().filter(|(of, at, _)| of == member && at.log == since.log);
        let mut wanted: Vec<_> = of_log
            .filter(|(_, at, _)| (since.number..end).contains(&at.number))
            .map(|(_, at, purge)| (at.number, purge.clone()))
            .collect();
        wanted.sort_by_key(|(number, _)| *number);
        wanted.dedup_by_key(|(number, _)| *number);
        let all = end.checked_sub(since.number) == Some(wanted.len() as u64);
        all.then(|| wanted.into_iter().map(|(_, purge)| purge).collect())
    }

    /// Returns how far the newest log of `member` is followed of which a purge is known.
    pub fn followed(&self, member: &MemberId) -> Option<LogPosition> {
        self.lock().positions.get(member)
    }

    /// Returns how many purges of a log of `member` have been carried out here.
    pub fn number(&self, member: &MemberId, log: u64) -> u64 {
        self.lock().positions.number(member, log)
    }

    /// Returns whether this node lags behind in the log of `member`.
    pub fn lags_behind(&self, member: &MemberId) -> bool {
        self.lock().lags_behind(member)
    }

    /// Returns the logs in which this node lags behind, and how far others have come there.
    pub fn lacking(&self) -> Vec<(MemberId, LogPosition)> {
        let inner = self.lock();
        let lacking = inner.positions.lacking(&inner.wanted);
        lacking.map(|(member, position)| (member.clone(), position)).collect()
    }

    /// Returns how far logs have come where this node lags behind: what it has only heard of.
    pub fn heard(&self) -> PurgePositions {
        let mut heard = PurgePositions::default();
        self.lacking().iter().for_each(|(member, position)| heard.reach(member, *position));
        heard
    }

    /// Notes the time: who lags behind for so long may have been named as one that could not be
    /// reached, however in touch it was.
    pub fn elapse(&self, now: Duration) {
        let mut inner = self.lock();
        let Inner { positions, wanted, lags_since, .. } = &mut *inner;
        let lacking: BTreeSet<MemberId> =
            positions.lacking(wanted).map(|(member, _)| member.clone()).collect();
        lags_since.retain(|member, _| lacking.contains(member));
        let mut overdue = false;
        for member in lacking {
            let since = *lags_since.entry(member).or_insert(now);
            overdue |= now.saturating_sub(since) >= IN_TOUCH;
        }
        inner.away |= overdue;
        self.settle(&inner, false);
    }

    /// Returns for how long this node has lagged behind in the log of `member`.
    pub fn lags_for(&self, member: &MemberId, now: Duration) -> Duration {
        let since = self.lock().lags_since.get(member).copied();
        since.map_or(Duration::ZERO, |since| now.saturating_sub(since))
    }

    /// Notes that this node has caught up with all that can be reached: it may use what it has,
    /// unless more has become known meanwhile.
    pub fn caught_up(&self) {
        let mut inner = self.lock();
        if inner.positions.cover(&inner.wanted) && !inner.has_left {
            inner.away = false;
            self.may_use.store(true, Ordering::Release);
        }
    }

    /// Notes that this node is out of touch.
    pub fn set_away(&self) {
        self.lock().away = true;
        self.may_use.store(false, Ordering::Release);
        self.lags.notify_one();
    }

    /// Notes that this node leaves: it uses nothing from now on, for no purge waits for it.
    pub fn leave(&self) {
        self.lock().has_left = true;
        self.set_away();
    }

    /// Returns what is to be saved: when the positions have changed, or it is due.
    pub fn to_save(&self, is_due: bool) -> Option<Followed> {
        let mut inner = self.lock();
        let is_wanted = std::mem::take(&mut inner.unsaved) || is_due;
        let followed = || Followed { positions: inner.positions.clone(), last: inner.last.clone() };
        is_wanted.then(followed)
    }

    /// Stops the use of what is stored where that is due, and wakes who follows logs when there is
    /// something new to follow: what failed is tried again in its own time.
    fn settle(&self, inner: &Inner, is_news: bool) {
        if inner.positions.cover(&inner.wanted) {
            return;
        }
        if inner.away {
            self.may_use.store(false, Ordering::Release);
        }
        if is_news {
            self.lags.notify_one();
        }
    }

    fn publish(&self, inner: &Inner) {
        let told = Positions::of(inner.positions.clone(), &inner.begun);
        *self.told.write().unwrap_or_else(PoisonError::into_inner) = told;
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A purge that is being made here.
pub(crate) struct OwnPurge(Arc<PurgeState>);

impl Drop for OwnPurge {
    fn drop(&mut self) {
        self.0.own_under_way.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Inner {
    fn lags_behind(&self, member: &MemberId) -> bool {
        self.positions.lacking(&self.wanted).any(|(lacking, _)| lacking == member)
    }

    /// Notes how far others have come in a log. Returns whether that is new.
    fn learn(&mut self, member: &MemberId, position: LogPosition, now: Duration) -> bool {
        let is_news = !self.wanted.covers(member, position);
        self.wanted.reach(member, position);
        if self.positions.covers(member, position) {
            return is_news;
        }
        self.lags_since.entry(member.clone()).or_insert(now);
        let in_touch = match self.in_sync.get(member) {
            Some(then) => now.saturating_sub(*then) < IN_TOUCH,
            // A node that has just been met; who was away is so until it has caught up.
            None => self.positions.get(member).is_none(),
        };
        self.away |= !in_touch;
        is_news
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use store::{Mode, PurgedTarget};

    use super::*;

    fn at(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn joined(text: &str) -> PurgeState {
        let state = PurgeState::new("own".parse().unwrap());
        let positions: PurgePositions = text.parse().unwrap();
        state.begin(Followed { positions: positions.clone(), ..Followed::default() }, false);
        positions.iter().for_each(|(member, end)| state.learn_end(member, end, at(0)));
        state.caught_up();
        assert!(state.may_use());
        state
    }

    #[test]
    fn a_purge_that_spreads_does_not_stop_a_node_that_is_in_touch() {
        let (state, a) = (joined("a=1.5"), "a".parse().unwrap());
        state.learn_end(&a, LogPosition { log: 1, number: 6 }, at(1900));
        assert!(state.may_use());
        assert_eq!(state.lacking().len(), 1);
        state.reach(&a, LogPosition { log: 1, number: 6 }, at(1910));
        assert!(state.lacking().is_empty());
        assert_eq!(state.positions().value, "a=1.6");
    }

    #[test]
    fn who_is_asked_must_have_carried_out_what_is_being_carried_out_here() {
        let (state, a) = (Arc::new(joined("a=1.5")), "a".parse().unwrap());
        state.begin_reaching(&a, LogPosition { log: 1, number: 7 });
        let positions = state.positions();
        assert_eq!(
            (&positions.value, &positions.asked),
            (&"a=1.5".parse().unwrap(), &"a=1.7".parse().unwrap())
        );
        state.reach(&a, LogPosition { log: 1, number: 6 }, at(1));
        assert_eq!(state.positions().asked, "a=1.7");
        state.reach(&a, LogPosition { log: 1, number: 8 }, at(2));
        assert_eq!(state.positions().asked, "a=1.8");
        state.begin_reaching(&a, LogPosition { log: 1, number: 9 });
        state.reach(&a, LogPosition { log: 2, number: 1 }, at(3));
        assert_eq!(state.positions().asked, "a=1.9;a=2.1");
        assert_eq!(state.lacking(), [(a.clone(), LogPosition { log: 1, number: 9 })]);
        let (one, other) = (state.begin_own(), state.begin_own());
        drop(one);
        assert!(!state.may_ask());
        drop(other);
        assert!(state.may_ask());
    }

    #[test]
    fn one_that_was_out_of_touch_uses_nothing_until_it_has_caught_up() {
        let (state, a) = (joined("a=1.5"), "a".parse().unwrap());
        let newer = LogPosition { log: 1, number: 7 };
        state.learn_end(&a, newer, at(2500));
        assert!(!state.may_use() && state.is_away());
        state.caught_up();
        assert!(!state.may_use(), "it has not");
        state.reach(&a, newer, at(2600));
        state.caught_up();
        assert!(state.may_use() && !state.is_away());
        // A log that began anew.
        state.learn_end(&a, LogPosition { log: 2, number: 1 }, at(9000));
        assert!(!state.may_use());
    }

    #[test]
    fn gossip_alone_does_not_bring_nodes_in_touch_again() {
        let (state, a) = (joined("a=1.5"), "a".parse().unwrap());
        let [known, newer] = [5, 6].map(|number| LogPosition { log: 1, number });
        state.learn_gossip(&a, known, at(1500));
        state.lose_touch(&a);
        // Its heartbeat, with what gossip had of it before; then its news.
        state.learn_gossip(&a, known, at(9000));
        assert!(state.may_use());
        state.learn_gossip(&a, newer, at(9100));
        assert!(!state.may_use() && state.is_away());

        let state = joined("a=1.5");
        state.lose_touch(&a);
        state.learn_end(&a, known, at(9000));
        state.learn_gossip(&a, known, at(10_500));
        state.learn_gossip(&a, newer, at(12_000));
        assert!(state.may_use(), "it was in touch");
    }

    #[test]
    fn one_that_cannot_catch_up_uses_nothing_after_a_while() {
        let (state, a) = (joined("a=1.5"), "a".parse().unwrap());
        state.learn_end(&a, LogPosition { log: 1, number: 6 }, at(1000));
        state.elapse(at(2999));
        assert!(state.may_use());
        state.elapse(at(3000));
        assert!(!state.may_use());
    }

    #[test]
    fn what_others_know_of_a_log_keeps_nobody_in_touch_with_its_node() {
        let (state, a) = (joined("a=1.5"), "a".parse().unwrap());
        state.learn(&"a=1.5".parse().unwrap(), at(2400));
        assert!(state.may_use());
        state.learn_end(&a, LogPosition { log: 1, number: 6 }, at(2500));
        assert!(!state.may_use() && state.is_away());
    }

    #[test]
    fn what_cannot_be_followed_wakes_nobody_again_and_again() {
        let (state, a) = (joined("a=1.5"), "a".parse().unwrap());
        let is_woken = || {
            let mut notified = std::pin::pin!(state.lags.notified());
            notified.as_mut().enable()
        };
        is_woken();
        let newer = LogPosition { log: 1, number: 6 };
        state.learn_end(&a, newer, at(1000));
        assert!(is_woken());
        state.elapse(at(4000));
        state.learn_end(&a, newer, at(4100));
        state.learn(&"a=1.6".parse().unwrap(), at(4200));
        assert!(!is_woken() && !state.may_use());
        state.learn_end(&a, LogPosition { log: 1, number: 7 }, at(4300));
        assert!(is_woken());
    }

    #[test]
    fn the_logs_of_one_node_are_followed_apart() {
        let (state, a) = (joined("a=1.5"), "a".parse().unwrap());
        let [former, later] = [(1, 9), (2, 3)].map(|(log, number)| LogPosition { log, number });
        state.learn_end(&a, later, at(100));
        state.learn(&"a=1.9".parse().unwrap(), at(200));
        state.learn_end(&a, LogPosition { log: 1, number: 5 }, at(300));
        assert_eq!(state.lacking(), [(a.clone(), former), (a.clone(), later)]);
        state.reach(&a, later, at(400));
        assert_eq!(state.lacking(), [(a.clone(), former)]);
        state.reach(&a, former, at(600));
        assert_eq!(state.positions().value, "a=1.9;a=2.3");
    }

    #[test]
    fn a_node_that_comes_back_with_an_empty_log_stops_no_node() {
        let (state, a) = (joined("a=1.5"), "a".parse().unwrap());
        let [empty, first] = [0, 1].map(|number| LogPosition { log: 2, number });
        state.lose_touch(&a);
        state.learn_end(&a, empty, at(60_000));
        assert!(state.may_use() && !state.is_away() && state.lacking().is_empty());
        // A node that is asked meanwhile must not have missed the end of the former log.
        assert_eq!(state.positions().asked, "a=1.5");
        state.learn_end(&a, first, at(60_010));
        assert!(state.may_use(), "the two are in touch again");
        assert_eq!(state.lacking(), [(a.clone(), first)]);
    }

    #[test]
    fn former_logs_of_this_node_are_followed_and_the_present_one_is_not() {
        let (state, own) = (joined(""), "own".parse().unwrap());
        state.reach_own(LogPosition { log: 2, number: 1 }, at(0));
        state.learn(&"own=1.4;own=2.7;own=3.1".parse().unwrap(), at(100));
        assert_eq!(state.lacking(), [(own, LogPosition { log: 1, number: 4 })]);
    }

    #[test]
    fn a_node_that_leaves_uses_nothing_any_more() {
        let state = joined("a=1.5");
        state.leave();
        state.caught_up();
        assert!(!state.may_use() && state.is_away());
    }

    #[test]
    fn what_is_heard_of_and_not_carried_out_here_is_told_on() {
        let state = joined("a=1.5;b=1.1");
        let (a, b) = ("a".parse().unwrap(), "b".parse().unwrap());
        state.learn_end(&a, LogPosition { log: 1, number: 6 }, at(100));
        state.learn_end(&b, LogPosition { log: 1, number: 1 }, at(100));
        assert_eq!(state.heard().to_string(), "a=1.6");
        // Others have heard of more of that log, and of one that is not known here.
        state.learn(&"a=1.7;c=1.1".parse().unwrap(), at(200));
        assert_eq!(state.heard().to_string(), "a=1.7;c=1.1");
        state.reach(&"c".parse().unwrap(), LogPosition { log: 1, number: 1 }, at(300));
        state.learn_end(&a, LogPosition { log: 2, number: 2 }, at(400));
        assert_eq!(state.heard().to_string(), "a=1.7;a=2.2");
        state.reach(&a, LogPosition { log: 2, number: 2 }, at(500));
        state.reach(&a, LogPosition { log: 1, number: 7 }, at(500));
        assert!(state.heard().is_empty());
    }

    #[test]
    fn who_meets_only_a_node_that_cannot_catch_up_uses_nothing_either() {
        let (catching_up, other) = (joined("a=1.5"), joined("a=1.5"));
        catching_up.learn_end(&"a".parse().unwrap(), LogPosition { log: 1, number: 6 }, at(9000));
        assert!(!catching_up.may_use());
        other.learn(&catching_up.heard(), at(9100));
        other.learn(&catching_up.positions().positions, at(9100));
        assert!(!other.may_use() && other.is_away());
        // It uses what it has only after it has carried that out.
        other.caught_up();
        assert!(!other.may_use());
        other.reach(&"a".parse().unwrap(), LogPosition { log: 1, number: 6 }, at(9200));
        other.caught_up();
        assert!(other.may_use());
    }

    #[test]
    fn what_another_node_does_not_know_yet_changes_nothing() {
        let state = joined("a=1.5;b=1.1");
        state.learn(&"a=1.3".parse().unwrap(), at(60_000));
        assert!(state.may_use() && state.lacking().is_empty());
    }

    #[test]
    fn who_has_no_log_stops_nobody_and_ones_own_is_not_followed() {
        let (state, a) = (joined("a=1.5"), "a".parse().unwrap());
        state.learn_end(&a, LogPosition::default(), at(60_000));
        state.reach_own(LogPosition { log: 1, number: 2 }, at(0));
        state.learn(&"own=1.3".parse().unwrap(), at(60_000));
        assert!(state.may_use() && state.lacking().is_empty());
    }

    #[test]
    fn purges_are_told_on_when_all_are_kept() {
        let (state, a) = (joined("a=1.5"), "a".parse::<MemberId>().unwrap());
        let purge = |at| LoggedPurge { target: PurgedTarget::Everything, mode: Mode::Hard, at };
        let end = LogPosition { log: 1, number: 8 };
        state.keep(&a, end, &[purge(5), purge(6), purge(7)]);
        state.reach(&a, end, at(1));
        let since = |number| {
            let kept = state.kept_since(&a, LogPosition { log: 1, number });
            kept.map(|kept| kept.iter().map(|purge| purge.at).collect::<Vec<_>>())
        };
        assert_eq!(since(5), Some(vec![5, 6, 7]));
        assert_eq!(since(8), Some(vec![]));
        assert_eq!(since(4), None);
        assert_eq!(since(9), None);
        assert_eq!(state.kept_since(&a, LogPosition { log: 2, number: 7 }), None);
    }
}
