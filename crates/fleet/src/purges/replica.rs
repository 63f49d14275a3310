//! One node's part in the replicated set of purges: a state machine without I/O.
//!
//! The driver keeps the ring, sends messages and tells this type what became durable. Each call
//! that depends on time takes `now`, by the node's own monotonic clock; clocks of different nodes
//! are unrelated.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::member::MemberId;
use crate::purges::maker::Maker;
use crate::purges::order::{Consistency, Copies, Order, Patience, Progress};
use crate::purges::quorum;
use crate::purges::vector::Vector;

/// Leases after which a node that has lost purges counts answers of others that have, too.
const PATIENT_LEASES: u32 = 2;

/// Settings of a node, the same on all nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Config {
    /// Promise of an accepted purge.
    pub consistency: Consistency,
    /// How long clients of purges wait.
    pub patience: Patience,
}

/// Knowledge of a node about the purges of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It has not met all that it knows of since its start, and validates each copy.
    Joining,
    /// Its knowledge of enough nodes is recent: copies are used as for a single node.
    Current,
    /// It is not: copies are used for a lease after they were fetched or validated.
    Suspect,
    /// It has lost purges that it had, so that it does not count at other nodes. As suspect.
    Recovering,
    /// It has said that it leaves, and no purge waits for it: it validates each copy.
    Leaving,
}

impl State {
    /// Returns the state as it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            State::Joining => "joining",
            State::Current => "current",
            State::Suspect => "suspect",
            State::Recovering => "recovering",
            State::Leaving => "leaving",
        }
    }
}

/// How far copies may be used without asking the origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// For as long as they are fresh.
    Full,
    /// While they are fresh, and for so long after they were fetched or validated.
    For(Duration),
}

/// Purges of a node, and its knowledge of other nodes, as it tells them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Answer {
    /// The node.
    pub from: MemberId,
    /// The purges that it has durably.
    pub vector: Vector,
    /// For each other node, the age of what this one knows of it.
    pub ages: BTreeMap<MemberId, Duration>,
    /// The node has lost purges, and has not recovered them.
    pub is_recovering: bool,
}

/// Progress of a node that has lost purges.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Recovery {
    /// Answers to questions sent earlier do not count. A purge that was accepted with the help of
    /// what this node has lost was accepted by then.
    since: Duration,
    from: BTreeSet<MemberId>,
}

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Replica {
    own: Maker,
    config: Config,
    /// All nodes that count, this one included.
    view: BTreeSet<MemberId>,
    /// Purges that have an effect here, or are about to.
    entered: Vector,
    durable: Vector,
    /// For each other node, a moment such that all it had then is durable here.
    known_as_of: BTreeMap<MemberId, Duration>,
    /// Answers with purges that are not durable here yet, and when their questions were sent.
    unfinished: BTreeMap<MemberId, (Duration, Answer)>,
    recovery: Option<Recovery>,
    /// Purges made here whose clients wait, by number.
    orders: BTreeMap<u64, Order>,
    /// Number of the last purge made here that each other node is known to have durably.
    acknowledged: BTreeMap<MemberId, u64>,
    has_joined: bool,
    /// It was told of other nodes, and has met none.
    is_lonely: bool,
    is_leaving: bool,
}

impl Replica {
    /// Makes the state of a node at its start, with the purges in its ring. `has_lost` says that
    /// its disk is empty, or older than what it has told other nodes, or that it was still
    /// recovering when it ended.
    pub fn new(own: Maker, config: Config, ring: Vector, has_lost: bool, now: Duration) -> Replica {
        let since = now + config.patience.lease;
        Replica {
            view: BTreeSet::from([own.member.clone()]),
            own,
            config,
            entered: ring.clone(),
            durable: ring,
            known_as_of: BTreeMap::new(),
            unfinished: BTreeMap::new(),
            recovery: has_lost.then(|| Recovery { since, from: BTreeSet::new() }),
            orders: BTreeMap::new(),
            acknowledged: BTreeMap::new(),
            has_joined: false,
            is_lonely: false,
            is_leaving: false,
        }
    }

    /// Notes that the purges made here are numbered anew from now on. Purges of the former
    /// incarnation are waited for no longer.
    pub fn begin_incarnation(&mut self, incarnation: u64) {
        if incarnation > self.own.incarnation {
            self.own.incarnation = incarnation;
            self.orders.clear();
            self.acknowledged.clear();
        }
    }

    /// Notes that this node has met all others that it knows of. `is_lonely`: it was told of
    /// others, and could meet none.
    pub fn join(&mut self, is_lonely: bool) {
        (self.has_joined, self.is_lonely) = (true, is_lonely);
    }

    /// Returns this node as a maker of purges.
    pub fn own(&self) -> &Maker {
        &self.own
    }

    /// Returns the nodes that count.
    pub fn view(&self) -> &BTreeSet<MemberId> {
        &self.view
    }

    /// Returns the purges that have an effect here. A peer answers a question only if its own cover
    /// those of the asker when it asked.
    pub fn entered(&self) -> &Vector {
        &self.entered
    }

    /// Returns the purges that are durable here.
    pub fn durable(&self) -> &Vector {
        &self.durable
    }

    /// Sets the other nodes that count: all known names except those that left in order or were
    /// forgotten. Nodes that cannot be reached count.
    pub fn set_view(&mut self, others: BTreeSet<MemberId>, now: Duration) {
        self.view = others;
        self.view.insert(self.own.member.clone());
        self.known_as_of.retain(|member, _| self.view.contains(member));
        self.unfinished.retain(|member, _| self.view.contains(member));
        self.acknowledged.retain(|member, _| self.view.contains(member));
        self.count(0, now);
    }

    /// Counts the copies of the purges from number `from` on.
    fn count(&mut self, from: u64, now: Duration) {
        let (nodes, patience) = (self.view.len(), self.config.patience);
        self.orders.retain(|_, order| !order.is_over(patience, now));
        let numbers: Vec<u64> = self.orders.range(from..).map(|(number, _)| *number).collect();
        for number in numbers {
            let copies = self.copies(number).reached;
            if let Some(order) = self.orders.get_mut(&number) {
                order.count(copies, nodes, patience, now);
            }
        }
    }

    fn copies(&self, number: u64) -> Copies {
        let has = |member: &MemberId| {
            let known = self.acknowledged.get(member).copied().unwrap_or(0);
            *member == self.own.member || known >= number
        };
        let unreached: BTreeSet<_> =
            self.view.iter().filter(|member| !has(member)).cloned().collect();
        Copies { reached: self.view.len() - unreached.len(), unreached }
    }

    /// Returns the number of the next purge made here.
    pub fn next_number(&self) -> u64 {
        self.entered.get(&self.own) + 1
    }

    /// Notes purges that are about to take effect. A fetch that began before is not stored.
    pub fn enter(&mut self, purges: &Vector) {
        self.entered.merge(purges);
    }

    /// Notes purges that are in the ring durably. Those made here are then sent to other nodes.
    pub fn note_durable(&mut self, purges: &Vector, now: Duration) {
        let before = self.durable.get(&self.own);
        self.entered.merge(purges);
        self.durable.merge(purges);
        for number in before + 1..=self.durable.get(&self.own) {
            self.orders.insert(number, Order::new(now));
        }
        self.count(before + 1, now);
        let finished: Vec<_> = self
            .unfinished
            .extract_if(.., |_, (_, answer)| self.durable.covers(&answer.vector))
            .collect();
        finished.into_iter().for_each(|(_, (asked, answer))| self.learn(asked, &answer));
    }

    /// Notes that `member` has these purges durably.
    pub fn acknowledge(&mut self, member: &MemberId, durable: &Vector, now: Duration) {
        let through = durable.get(&self.own);
        if !self.view.contains(member) || *member == self.own.member {
            return;
        }
        let known = self.acknowledged.entry(member.clone()).or_default();
        if *known < through {
            let from = std::mem::replace(known, through) + 1;
            self.count(from, now);
        }
    }

    /// Returns what the client of the purge with this number is told at `now`; nodes that are
    /// `gone` are not waited for. `None` if no such purge is waited for any more.
    pub fn progress(
        &self,
        number: u64,
        gone: &BTreeSet<MemberId>,
        now: Duration,
    ) -> Option<Progress> {
        let Config { consistency, patience } = self.config;
        let order = self.orders.get(&number)?;
        Some(order.progress(self.copies(number), gone, consistency, patience, now))
    }

    /// Returns whether a client waits for the end of a purge at `now`.
    pub fn is_waited_for(&self, now: Duration) -> bool {
        self.orders.values().any(|order| !order.is_over(self.config.patience, now))
    }

    /// Returns what this node says to one that asks.
    pub fn answer(&self, now: Duration) -> Answer {
        let age = |as_of: &Duration| now.saturating_sub(*as_of);
        let ages = self.known_as_of.iter().map(|(member, as_of)| (member.clone(), age(as_of)));
        Answer {
            from: self.own.member.clone(),
            vector: self.durable.clone(),
            ages: ages.collect(),
            is_recovering: self.is_recovering(),
        }
    }

    /// Takes the answer to a question that was sent at `asked`. What it has more than this node is
    /// fetched by the driver; the answer counts once that is durable here.
    pub fn take(&mut self, asked: Duration, answer: Answer) {
        if !self.view.contains(&answer.from) || answer.from == self.own.member {
            return;
        }
        if self.durable.covers(&answer.vector) {
            self.learn(asked, &answer);
        } else {
            // Of two answers of a node the earlier is finished first, so it is not pushed out.
            self.unfinished.entry(answer.from.clone()).or_insert((asked, answer));
        }
    }

    /// Learns from an answer whose purges are all durable here.
    fn learn(&mut self, asked: Duration, answer: &Answer) {
        self.is_lonely = false;
        if !answer.is_recovering {
            self.know(&answer.from, asked);
        }
        if let Some(recovery) = &mut self.recovery {
            // Where many have lost their disks at once, they cannot wait for each other for ever.
            let alone = recovery.since + self.config.patience.lease * PATIENT_LEASES;
            let since = if answer.is_recovering { alone } else { recovery.since };
            if asked >= since {
                recovery.from.insert(answer.from.clone());
            }
        }
        for (member, age) in &answer.ages {
            if let Some(as_of) = asked.checked_sub(*age) {
                self.know(member, as_of);
            }
        }
        self.end_recovery();
    }

    fn know(&mut self, member: &MemberId, as_of: Duration) {
        if *member == self.own.member || !self.view.contains(member) {
            return;
        }
        let known = self.known_as_of.entry(member.clone()).or_insert(as_of);
        *known = as_of.max(*known);
    }

    fn end_recovery(&mut self) {
        let wanted = quorum::to_recover(self.view.len());
        self.recovery.take_if(|recovery| recovery.from.len() >= wanted);
    }

    /// Notes at `now` that this node has lost purges that it had.
    pub fn begin_recovery(&mut self, now: Duration) {
        let since = now + self.config.patience.lease;
        self.recovery = Some(Recovery { since, from: BTreeSet::new() });
    }

    /// Notes that this node had no purges that it could have lost: no other node has known it.
    pub fn had_none(&mut self) {
        self.recovery = None;
    }

    /// Returns whether this node has lost purges and has not recovered them. The driver keeps it
    /// on disk: a restart does not end the recovery.
    pub fn is_recovering(&self) -> bool {
        self.recovery.is_some()
    }

    /// Notes that this node leaves.
    pub fn leave(&mut self) {
        self.is_leaving = true;
    }

    /// Returns what this node knows of the purges of others at `now`.
    pub fn state(&self, now: Duration) -> State {
        match self.hindrance() {
            Some(state) => state,
            None if self.known_until().is_none_or(|until| now <= until) => State::Current,
            None => State::Suspect,
        }
    }

    /// Returns until when this node is current if it learns nothing meanwhile; `None`: for ever.
    pub fn current_until(&self) -> Option<Duration> {
        match self.hindrance() {
            Some(_) => Some(Duration::ZERO),
            None => self.known_until(),
        }
    }

    /// Returns the state of a node that is not current whatever it knows.
    fn hindrance(&self) -> Option<State> {
        let is_alone = self.view.len() == 1;
        match () {
            () if self.is_leaving && !is_alone => Some(State::Leaving),
            () if !self.has_joined => Some(State::Joining),
            () if self.is_recovering() && !is_alone => Some(State::Recovering),
            () if self.is_lonely => Some(State::Suspect),
            () => None,
        }
    }

    /// Returns until when the knowledge of enough nodes is recent; `None` if none is needed.
    fn known_until(&self) -> Option<Duration> {
        let last = (quorum::to_trust(self.view.len()) - 1).checked_sub(1)?;
        let mut known: Vec<Duration> = self.known_as_of.values().copied().collect();
        known.sort_unstable_by(|a, b| b.cmp(a));
        let oldest = known.get(last).map(|as_of| *as_of + self.config.patience.trusted());
        Some(oldest.unwrap_or_default())
    }

    /// Returns how far copies may be used at `now`.
    pub fn trust(&self, now: Duration) -> Trust {
        match self.state(now) {
            State::Current => Trust::Full,
            State::Suspect | State::Recovering => Trust::For(self.config.patience.trusted()),
            State::Joining | State::Leaving => Trust::For(Duration::ZERO),
        }
    }

    /// Returns the age of what this node knows of each other node of the view; `None` if it knows
    /// nothing.
    pub fn ages(&self, now: Duration) -> impl Iterator<Item = (&MemberId, Option<Duration>)> {
        let others = self.view.iter().filter(|member| **member != self.own.member);
        others.map(move |member| {
            let as_of = self.known_as_of.get(member);
            (member, as_of.map(|as_of| now.saturating_sub(*as_of)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(10);

    fn replica() -> Replica {
        let patience = Patience { lease: LEASE, rest: Duration::from_secs(1) };
        let config = Config { consistency: Consistency::Bounded, patience };
        let own = Maker { member: "a".parse().unwrap(), incarnation: 1 };
        Replica::new(own, config, "a/1=5".parse().unwrap(), false, Duration::ZERO)
    }

    #[test]
    fn a_node_that_joins_or_leaves_others_validates_each_copy() {
        let mut node = replica();
        let validates = Trust::For(Duration::ZERO);
        assert_eq!((node.state(LEASE), node.trust(LEASE)), (State::Joining, validates));
        node.join(false);
        assert_eq!((node.state(LEASE * 9), node.trust(LEASE * 9)), (State::Current, Trust::Full));
        node.leave();
        assert_eq!(node.state(LEASE * 9), State::Current);
        node.set_view(BTreeSet::from(["b".parse().unwrap()]), LEASE);
        assert_eq!((node.state(LEASE), node.trust(LEASE)), (State::Leaving, validates));
    }

    #[test]
    fn a_node_that_was_told_of_others_is_suspect_until_it_has_met_one() {
        let mut node = replica();
        node.join(true);
        assert_eq!(node.state(LEASE), State::Suspect);
        node.set_view(BTreeSet::from(["b".parse().unwrap()]), LEASE);
        assert_eq!(node.state(LEASE), State::Suspect);
        let mut other = replica();
        other.own.member = "b".parse().unwrap();
        node.take(LEASE, other.answer(LEASE));
        assert_eq!(node.state(LEASE), State::Current);
        node.set_view(BTreeSet::new(), LEASE);
        assert_eq!(node.state(LEASE), State::Current);
    }

    /// One of two trusts its copies without the other, since no purge is accepted by one of two.
    #[test]
    fn a_view_of_three_needs_one_other_node() {
        let mut node = replica();
        node.join(false);
        let others = |names: &str| names.split(' ').map(|name| name.parse().unwrap()).collect();
        node.set_view(others("b"), LEASE);
        assert_eq!(node.state(LEASE), State::Current);
        node.set_view(others("b c"), LEASE);
        assert_eq!(node.state(LEASE), State::Suspect);
        let mut other = replica();
        other.own.member = "b".parse().unwrap();
        node.take(LEASE, other.answer(LEASE));
        assert_eq!(node.state(LEASE + LEASE / 2), State::Current);
        assert_eq!(node.state(LEASE * 2), State::Suspect);
    }
}
