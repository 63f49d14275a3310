//! Purges that this node has, its knowledge of other nodes' purges, and how far it may use copies.
//!
//! The decisions are in [`fleet::purges`]; this type shares one node's state between threads, and
//! answers without a lock what each request asks.
//!
//! A purge takes effect here some moments before it is durable and logged. A response fetched in
//! between counts as younger than the purge, so another node must not answer with an older one:
//! questions name purges that are about to take effect ([`Told::digest`]). While a purge made here
//! is not in the log yet, so that no other node can know it, no node is asked.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use fleet::MemberId;
use fleet::members::MEMBERS_MAX;
use fleet::purges::order::Progress;
use fleet::purges::replica::{Answer, Config};
use fleet::purges::{Maker, Replica, State, Trust, Vector};
use http::header::HeaderValue;
use tokio::sync::watch;

use crate::peers::last_purges::LastPurges;

/// Maximum size in bytes of a vector that is told in place of its digest.
const VECTOR_MAX: usize = 64;

/// Number of this node's last vectors that are recognised by their digests.
const DIGESTS: usize = 256;

/// Purges that this node has, and what it says of them to those that it asks.
pub(crate) struct Told {
    /// The purges that are in effect and durable here.
    pub durable: Vector,
    /// All purges that a node which is asked must have in effect, and their digest, or themselves
    /// where they are few.
    pub vector: HeaderValue,
    pub digest: HeaderValue,
    /// All of them are durable here.
    is_settled: bool,
}

impl Told {
    fn of(replica: &Replica) -> Arc<Told> {
        let (durable, entered) = (replica.durable().clone(), replica.entered());
        // Names, digits and punctuation.
        let value =
            |text: String| HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static("?"));
        let vector = entered.to_string();
        let digest = match vector.len() <= VECTOR_MAX {
            true => value(vector.clone()),
            false => value(format!("{:016x}", entered.digest())),
        };
        let (vector, is_settled) = (value(vector), durable == *entered);
        Arc::new(Told { durable, vector, digest, is_settled })
    }
}

/// See the module.
pub(crate) struct PurgeState {
    told: ArcSwap<Told>,
    /// Until when this node is current, in nanoseconds of its monotonic clock.
    current_until: AtomicU64,
    has_begun: AtomicBool,
    had_nothing: AtomicBool,
    /// Purges that are made here and may have an effect already, and are not noted yet.
    own_under_way: AtomicUsize,
    inner: Mutex<Inner>,
    changed: watch::Sender<()>,
    process: u64,
    /// Purges of others are carried out by one task at a time.
    pub applying: tokio::sync::Mutex<()>,
    /// Nodes that are being told what they lack.
    pub repaired: Mutex<BTreeSet<MemberId>>,
}

struct Inner {
    replica: Replica,
    config: Config,
    /// Purges that other nodes are known to have durably.
    of_others: BTreeMap<MemberId, Vector>,
    /// Why other nodes cannot be reached, and since when.
    failures: BTreeMap<MemberId, (Duration, String)>,
    processes: BTreeMap<MemberId, Process>,
    /// Since when purges of these makers are missing here that others have, and none came.
    lacks_since: BTreeMap<Maker, Duration>,
    /// Digests of the last vectors that were durable here.
    digests: VecDeque<u64>,
    /// Digests of the last purges of logs.
    last: LastPurges,
    /// Other nodes counted when this node ran before, and it has met none since.
    had_others: bool,
    /// The other nodes that may have made purges since this node ran before.
    expected: BTreeSet<MemberId>,
    /// The other nodes that were live when this node began to leave.
    left_behind: BTreeSet<MemberId>,
    unsaved: bool,
}

/// Process of another node.
struct Process {
    number: u64,
    /// When it said what was heard last, by its own clock.
    said: u64,
    /// Another process of this node is known that was before.
    is_later: bool,
}

/// Earlier knowledge of a node that says something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Heard {
    /// An earlier process of it is known.
    pub has_known: bool,
    /// It has said nothing later.
    pub is_latest: bool,
}

/// Purges that a node has, as they are saved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Saved {
    pub vector: Vector,
    pub last: LastPurges,
    /// The node had lost purges, and had not recovered them.
    pub is_recovering: bool,
    /// Other nodes counted.
    pub has_others: bool,
    /// The other nodes that counted, or were live when this node left.
    pub others: BTreeSet<MemberId>,
}

impl PurgeState {
    /// Makes the state of a node that does not know yet what it has.
    pub fn new(own: MemberId, config: Config, process: u64) -> PurgeState {
        let own = Maker { member: own, incarnation: 0 };
        // Until it is known what the node has it says nothing that others may count.
        let replica = Replica::new(own, config, Vector::default(), true, Duration::ZERO);
        PurgeState {
            told: ArcSwap::from(Told::of(&replica)),
            current_until: AtomicU64::new(0),
            has_begun: AtomicBool::new(false),
            had_nothing: AtomicBool::new(false),
            own_under_way: AtomicUsize::new(0),
            inner: Mutex::new(Inner {
                replica,
                config,
                of_others: BTreeMap::new(),
                failures: BTreeMap::new(),
                processes: BTreeMap::new(),
                lacks_since: BTreeMap::new(),
                digests: VecDeque::new(),
                last: LastPurges::default(),
                had_others: false,
                expected: BTreeSet::new(),
                left_behind: BTreeSet::new(),
                unsaved: false,
            }),
            changed: watch::Sender::new(()),
            process,
            applying: tokio::sync::Mutex::default(),
            repaired: Mutex::default(),
        }
    }

    /// Begins with what the store had, which may be nothing. `own`: this node's log and its last
    /// number, if it keeps one. `has_lost`: it cannot be known that the store has all that this
    /// node had.
    pub fn begin(
        &self,
        (saved, had_nothing): (Saved, bool),
        own: Option<(u64, u64)>,
        has_lost: bool,
        now: Duration,
    ) {
        self.had_nothing.store(had_nothing, Ordering::Release);
        let mut inner = self.lock();
        let member = inner.replica.own().member.clone();
        let maker = Maker { member, incarnation: own.map_or(0, |(log, _)| log) };
        let mut vector = saved.vector;
        if let Some((_, number)) = own {
            vector.reach(&maker, number);
        }
        let has_lost = has_lost || saved.is_recovering;
        inner.replica = Replica::new(maker, inner.config, vector, has_lost, now);
        (inner.last, inner.unsaved) = (saved.last, true);
        (inner.had_others, inner.expected) = (saved.has_others, saved.others);
        self.publish(&mut inner);
        self.has_begun.store(true, Ordering::Release);
    }

    /// Returns whether it is known which purges this node has.
    pub fn has_begun(&self) -> bool {
        self.has_begun.load(Ordering::Acquire)
    }

    /// Returns what this node says of its purges.
    pub fn told(&self) -> Arc<Told> {
        self.told.load_full()
    }

    /// Returns how far copies may be used at `now`.
    pub fn trust(&self, now: Duration) -> Trust {
        match nanos(now) <= self.current_until.load(Ordering::Acquire) {
            true => Trust::Full,
            false => self.lock().replica.trust(now),
        }
    }

    /// Returns what this node knows of the purges of others.
    pub fn state(&self, now: Duration) -> State {
        self.lock().replica.state(now)
    }

    /// Returns whether this node is current at `now`.
    pub fn is_current(&self, now: Duration) -> bool {
        nanos(now) <= self.current_until.load(Ordering::Acquire)
    }

    /// Returns a receiver of all further changes.
    pub fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// Sets the other nodes that count.
    pub fn set_view(&self, others: BTreeSet<MemberId>, now: Duration) {
        let mut inner = self.lock();
        let is_same = others.len() + 1 == inner.replica.view().len()
            && others.iter().all(|other| inner.replica.view().contains(other));
        if !is_same {
            inner.of_others.retain(|member, _| others.contains(member));
            inner.failures.retain(|member, _| others.contains(member));
            inner.had_others &= others.is_empty();
            inner.unsaved = true;
            inner.replica.set_view(others, now);
            self.settle(&inner);
        }
    }

    /// Returns whether a node counts.
    pub fn counts(&self, member: &MemberId) -> bool {
        self.lock().replica.view().contains(member)
    }

    /// Returns the nodes that count, this one included.
    pub fn view(&self) -> BTreeSet<MemberId> {
        self.lock().replica.view().clone()
    }

    /// Notes that this node has met all others that it knows of. `is_lonely`: it was told of
    /// others, and could meet none; `had_none`: none of them has known it before.
    pub fn join(&self, is_lonely: bool, had_none: bool) {
        let mut inner = self.lock();
        if had_none {
            inner.replica.had_none();
        }
        inner.replica.join(is_lonely);
        inner.expected.clear();
        self.settle(&inner);
    }

    /// Notes that this node leaves, and that the nodes `others` are live: they may make purges
    /// before it starts again.
    pub fn leave(&self, others: BTreeSet<MemberId>) {
        let mut inner = self.lock();
        inner.left_behind = others;
        inner.replica.leave();
        self.settle(&inner);
    }

    /// Notes that this node has lost purges that it had.
    pub fn begin_recovery(&self, now: Duration) {
        let mut inner = self.lock();
        inner.replica.begin_recovery(now);
        inner.unsaved = true;
        self.settle(&inner);
    }

    /// Notes that a purge is about to be made here, for as long as the guard lives: until it has
    /// been noted as durable.
    pub fn begin_own(self: &Arc<Self>) -> OwnPurge {
        self.own_under_way.fetch_add(1, Ordering::AcqRel);
        OwnPurge(self.clone())
    }

    /// Returns whether other nodes may be asked: not while a purge has an effect here of which they
    /// cannot know.
    pub fn may_ask(&self) -> bool {
        self.own_under_way.load(Ordering::Acquire) == 0
    }

    /// Notes the log that this node keeps, and the number of its last durable purge.
    pub fn note_own(&self, (log, number): (u64, u64), now: Duration) {
        let mut inner = self.lock();
        inner.replica.begin_incarnation(log);
        let own = inner.replica.own().clone();
        if inner.replica.durable().get(&own) < number {
            let mut vector = Vector::default();
            vector.reach(&own, number);
            inner.replica.note_durable(&vector, now);
            self.publish(&mut inner);
        }
    }

    /// Returns this node as a maker of purges, and the number of its last one.
    pub fn own(&self) -> (Maker, u64) {
        let inner = self.lock();
        let own = inner.replica.own().clone();
        let number = inner.replica.durable().get(&own);
        (own, number)
    }

    /// Notes that these purges are about to take effect here.
    pub fn enter(&self, purges: &Vector) {
        let mut inner = self.lock();
        inner.replica.enter(purges);
        self.publish(&mut inner);
    }

    /// Notes that these purges are in effect and durable here.
    pub fn note_durable(&self, purges: &Vector, now: Duration) {
        let mut inner = self.lock();
        inner.replica.note_durable(purges, now);
        inner.unsaved = true;
        self.publish(&mut inner);
    }

    /// Notes at `now` that another node has named a purge of `maker` that was missing here.
    pub fn note_news(&self, maker: &Maker, now: Duration) {
        if let Some(since) = self.lock().lacks_since.get_mut(maker) {
            *since = now;
        }
    }

    /// Notes that `member` has these purges durably.
    pub fn note_has(&self, member: &MemberId, purges: &Vector, now: Duration) {
        let mut inner = self.lock();
        if !inner.replica.view().contains(member) {
            return;
        }
        inner.of_others.entry(member.clone()).or_default().merge(purges);
        inner.replica.acknowledge(member, purges, now);
        let _ = self.changed.send(());
    }

    /// Returns the number of the last purge of this node's log that `member` is known to have, if
    /// it lacks a later one; `None` as the number: it is not known what it has.
    pub fn lacks_own(&self, member: &MemberId) -> Option<Option<u64>> {
        let inner = self.lock();
        let own = inner.replica.own();
        let has = inner.of_others.get(member).map(|vector| vector.get(own));
        (has.unwrap_or_default() < inner.replica.durable().get(own)).then_some(has)
    }

    /// Notes that a process of another node, with this number, has said something at a moment of
    /// its own clock.
    pub fn note_process(&self, member: &MemberId, process: u64, said: u64) -> Heard {
        let mut inner = self.lock();
        let first = Process { number: process, said, is_later: false };
        if inner.processes.len() >= MEMBERS_MAX && !inner.processes.contains_key(member) {
            // The names of former nodes; a node that is there is noted again within a second.
            inner.processes.clear();
        }
        let known = inner.processes.entry(member.clone()).or_insert(first);
        let is_latest = known.number != process || known.said <= said;
        known.is_later |= known.number != process;
        (known.number, known.said) = (process, if is_latest { said } else { known.said });
        let is_later = known.is_later;
        let has_known = is_later || inner.replica.durable().newest(member).is_some();
        Heard { has_known, is_latest }
    }

    /// Returns a number that differs from those of this node's former processes.
    pub fn process(&self) -> u64 {
        self.process
    }

    /// Takes the answer to a question that was sent at `asked`.
    pub fn take(&self, asked: Duration, answer: Answer) {
        let mut inner = self.lock();
        inner.replica.take(asked, answer);
        self.settle(&inner);
    }

    /// Returns what this node says to one that asks, apart from the purges themselves.
    pub fn answer(&self, now: Duration) -> Answer {
        self.lock().replica.answer(now)
    }

    /// Returns what the client of the purge with this number is told at `now`; nodes that are
    /// `gone` are not waited for. `None` if no such purge is waited for.
    pub fn progress(
        &self,
        number: u64,
        gone: &BTreeSet<MemberId>,
        now: Duration,
    ) -> Option<Progress> {
        self.lock().replica.progress(number, gone, now)
    }

    /// Returns whether the client of a purge waits at `now`.
    pub fn is_waited_for(&self, now: Duration) -> bool {
        self.lock().replica.is_waited_for(now)
    }

    /// Notes the result of telling `member` something at `now`.
    pub fn note_told(&self, member: &MemberId, told: Result<(), String>, now: Duration) {
        let mut inner = self.lock();
        match told {
            Ok(()) => _ = inner.failures.remove(member),
            // One that left in order begins anew when it is back.
            Err(_) if !inner.replica.view().contains(member) => {}
            Err(why) => {
                let since = inner.failures.get(member).map_or(now, |(since, _)| *since);
                inner.failures.insert(member.clone(), (since, why));
            }
        }
    }

    /// Returns the nodes that could not be reached lately, for how long, and why.
    pub fn failures(&self, now: Duration) -> BTreeMap<MemberId, (Duration, String)> {
        let inner = self.lock();
        let failing = inner.failures.iter();
        let failing = failing
            .map(|(id, (since, why))| (id.clone(), (now.saturating_sub(*since), why.clone())));
        failing.collect()
    }

    /// Returns whether nothing was stored here when this node began.
    pub fn had_nothing(&self) -> bool {
        self.had_nothing.load(Ordering::Acquire)
    }

    /// Returns the purges that others have and this node lacks.
    pub fn lacking(&self) -> Vector {
        let inner = self.lock();
        let mut lacking = Vector::default();
        for vector in inner.of_others.values() {
            let missing = inner.replica.durable().lacks(vector);
            missing.for_each(|missing| lacking.reach(missing.maker, missing.through));
        }
        lacking
    }

    /// Returns whether `member` is known to have purges that this node lacks.
    pub fn lacks_of(&self, member: &MemberId) -> bool {
        let inner = self.lock();
        let theirs = inner.of_others.get(member);
        theirs.is_some_and(|theirs| !inner.replica.durable().covers(theirs))
    }

    /// Returns for how long purges that others have have been missing here, without any coming.
    pub fn lacks_for(&self, now: Duration) -> Duration {
        let lacking = self.lacking();
        let mut inner = self.lock();
        inner.lacks_since.retain(|maker, _| lacking.get(maker) > 0);
        for (maker, _) in lacking.iter() {
            inner.lacks_since.entry(maker.clone()).or_insert(now);
        }
        let oldest = inner.lacks_since.values().min();
        oldest.map_or(Duration::ZERO, |since| now.saturating_sub(*since))
    }

    /// Returns the age of what this node knows of each other node.
    pub fn ages(&self, now: Duration) -> BTreeMap<MemberId, Option<Duration>> {
        let inner = self.lock();
        inner.replica.ages(now).map(|(member, age)| (member.clone(), age)).collect()
    }

    /// Returns whether this node has the purges that one which asks names, by their digest or one
    /// by one. `None`: the digest is unknown here.
    pub fn covers(&self, theirs: &str) -> Option<bool> {
        let told = self.told.load();
        if told.is_settled && told.digest.as_bytes() == theirs.as_bytes() {
            return Some(true);
        }
        if let Some(digest) = read_digest(theirs) {
            let inner = self.lock();
            return inner.digests.contains(&digest).then_some(true);
        }
        theirs.parse().ok().map(|theirs: Vector| told.durable.covers(&theirs))
    }

    /// Notes the digest of the purge of `maker` with this number.
    pub fn note_last(&self, maker: &Maker, number: u64, digest: u64) {
        self.lock().last.note(maker, number, digest);
    }

    /// Returns the purges that are durable here, and the digest of the last one of `member` among
    /// them, if it is known.
    pub fn durable_with_last_of(&self, member: &MemberId) -> (Vector, Option<u64>) {
        let inner = self.lock();
        let durable = inner.replica.durable();
        let last = durable.newest(member).and_then(|(maker, number)| inner.last.get(maker, number));
        (durable.clone(), last)
    }

    /// Returns whether this node has lost purges and has not recovered them.
    pub fn is_recovering(&self) -> bool {
        self.lock().replica.is_recovering()
    }

    /// Returns what is to be saved: when the purges have changed, or it is due.
    pub fn to_save(&self, is_due: bool) -> Option<Saved> {
        let mut inner = self.lock();
        let is_wanted = std::mem::take(&mut inner.unsaved) || is_due;
        let own = &inner.replica.own().member;
        let view = inner.replica.view().iter().filter(|member| *member != own);
        let others = view.chain(&inner.expected).chain(&inner.left_behind).cloned().collect();
        is_wanted.then(|| Saved {
            others,
            vector: inner.replica.durable().clone(),
            last: inner.last.clone(),
            is_recovering: inner.replica.is_recovering(),
            has_others: inner.had_others || inner.replica.view().len() > 1,
        })
    }

    /// Returns whether other nodes counted when this one ran before, and it has met none since.
    pub fn had_others(&self) -> bool {
        self.lock().had_others
    }

    /// Returns the nodes to be met before this node trusts that it knows the purges made since it
    /// ran before.
    pub fn expected(&self) -> BTreeSet<MemberId> {
        self.lock().expected.clone()
    }

    fn publish(&self, inner: &mut Inner) {
        let digest = inner.replica.durable().digest();
        if inner.digests.back() != Some(&digest) {
            inner.digests.push_back(digest);
            let over = inner.digests.len().saturating_sub(DIGESTS);
            inner.digests.drain(..over);
        }
        self.told.store(Told::of(&inner.replica));
        self.settle(inner);
    }

    fn settle(&self, inner: &Inner) {
        let until = inner.replica.current_until().map_or(u64::MAX, nanos);
        self.current_until.store(until, Ordering::Release);
        let _ = self.changed.send(());
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn read_digest(text: &str) -> Option<u64> {
    let is_digest = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_digest.then(|| u64::from_str_radix(text, 16).ok()).flatten()
}

/// Purge that is being made here.
pub(crate) struct OwnPurge(Arc<PurgeState>);

impl Drop for OwnPurge {
    fn drop(&mut self) {
        self.0.own_under_way.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use fleet::purges::Consistency;
    use fleet::purges::order::Patience;

    use super::*;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn vector(text: &str) -> Vector {
        text.parse().unwrap()
    }

    /// A node that has joined two others, and has these purges.
    fn joined(purges: &str) -> Arc<PurgeState> {
        let config = Config { consistency: Consistency::Bounded, patience: Patience::default() };
        let state = PurgeState::new("own".parse().unwrap(), config, 1);
        let saved = Saved { vector: vector(purges), ..Saved::default() };
        state.begin((saved, false), Some((7, 0)), false, at(0));
        state.set_view(["a", "b"].map(|name| name.parse().unwrap()).into(), at(0));
        state.join(false, false);
        Arc::new(state)
    }

    fn answer(from: &str, purges: &str) -> Answer {
        let (from, vector) = (from.parse().unwrap(), vector(purges));
        Answer { from, vector, ages: BTreeMap::new(), is_recovering: false }
    }

    #[test]
    fn copies_are_trusted_a_lease_long_after_the_question_of_the_last_news() {
        let state = joined("a/1=5");
        assert_ne!(state.trust(at(1)), Trust::Full);
        state.take(at(1), answer("a", "a/1=5"));
        assert_eq!(state.trust(at(2)), Trust::Full);
        assert!(matches!(state.trust(at(11)), Trust::For(limit) if limit > at(9)));
        // News that are missing here count once they are durable.
        state.take(at(20), answer("a", "a/1=6"));
        assert!(!state.is_current(at(21)));
        state.note_durable(&vector("a/1=6"), at(21));
        assert!(state.is_current(at(21)));
    }

    #[test]
    fn purges_are_recognised_by_the_digests_of_all_that_were_durable_here() {
        let many = (0..9).map(|i| format!("maker-{i}/1=1")).collect::<Vec<_>>().join(";");
        let (state, other) = (joined(&many), joined(&many));
        let covers = |of: &PurgeState| state.covers(of.told().digest.to_str().unwrap());
        assert_eq!(covers(&other), Some(true));
        state.note_durable(&vector("a/1=6"), at(1));
        assert_eq!(covers(&other), Some(true), "it has been passed");
        other.note_durable(&vector("b/1=1"), at(1));
        assert_eq!(covers(&other), None);
        let theirs = other.told();
        assert_eq!(state.covers(theirs.vector.to_str().unwrap()), Some(false));
        assert_eq!(state.covers("a/1=6"), Some(true));
        let few = joined("a/1=6").told();
        assert_eq!(state.covers(few.digest.to_str().unwrap()), Some(true), "few are told");
        // What is about to take effect here must have its effect where it is asked for.
        state.enter(&vector("a/1=7"));
        assert_eq!(covers(&state), None);
        assert_eq!(state.covers("a/1=7"), Some(false));
        assert_eq!(state.covers("nonsense"), None);
    }

    #[test]
    fn no_node_is_asked_while_a_purge_of_this_one_is_under_way() {
        let state = joined("");
        let (one, other) = (state.begin_own(), state.begin_own());
        drop(one);
        assert!(!state.may_ask());
        drop(other);
        assert!(state.may_ask());
    }

    #[test]
    fn nodes_lack_what_was_purged_here_until_they_say_that_they_have_it() {
        let (state, a) = (joined(""), "a".parse().unwrap());
        assert_eq!(state.lacks_own(&a), None);
        state.note_own((7, 2), at(1));
        assert_eq!(state.lacks_own(&a), Some(None));
        state.note_has(&a, &vector("own/7=1"), at(1));
        assert_eq!(state.lacks_own(&a), Some(Some(1)));
        state.note_has(&a, &vector("own/7=2"), at(1));
        assert_eq!(state.lacks_own(&a), None);
        // A node that does not count says nothing.
        state.note_has(&"stranger".parse().unwrap(), &vector("own/7=9;s/1=4"), at(1));
        assert!(state.lacking().is_empty());
    }

    #[test]
    fn purges_that_no_node_names_are_missing_for_longer_and_longer() {
        let (state, a) = (joined("a/1=5"), "a".parse().unwrap());
        state.note_has(&a, &vector("a/1=6;b/1=1"), at(10));
        assert_eq!(state.lacking(), vector("a/1=6;b/1=1"));
        assert_eq!((state.lacks_for(at(10)), state.lacks_for(at(14))), (at(0), at(4)));
        state.note_news(&"a/1".parse().unwrap(), at(14));
        assert_eq!(state.lacks_for(at(16)), at(6), "of the other maker none came");
        state.note_news(&"b/1".parse().unwrap(), at(14));
        assert_eq!(state.lacks_for(at(16)), at(2));
        state.note_durable(&state.lacking(), at(16));
        assert_eq!(state.lacks_for(at(20)), at(0));
    }

    #[test]
    fn an_earlier_process_of_a_node_is_known_and_what_it_said_first() {
        let (state, c) = (joined(""), "c".parse().unwrap());
        let heard = |process, said| {
            let Heard { has_known, is_latest } = state.note_process(&c, process, said);
            (has_known, is_latest)
        };
        assert_eq!(
            [heard(1, 5), heard(1, 7), heard(1, 6)],
            [(false, true), (false, true), (false, false)]
        );
        assert_eq!(
            [heard(2, 1), heard(2, 0), heard(2, 2)],
            [(true, true), (true, false), (true, true)]
        );
    }
}
