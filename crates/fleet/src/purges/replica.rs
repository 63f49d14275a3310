//! One node's part in the replicated set of purges: a state machine without I/O.
//!
//! The driver keeps the ring, sends messages and tells this type what became durable. Each call
//! that depends on time takes `now`, by the node's own monotonic clock; clocks of different nodes
//! are unrelated.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::member::MemberId;
use crate::purges::maker::Maker;
use crate::purges::order::{Consistency, Order, Patience, Progress};
use crate::purges::quorum;
use crate::purges::vector::Vector;

/// Settings of a node, the same on all nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Config {
    /// Promise of an accepted purge.
    pub consistency: Consistency,
    /// How long clients of purges wait.
    pub patience: Patience,
}

/// How far a node may use its copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Its knowledge of enough nodes is recent: copies are used as for a single node.
    Current,
    /// It is not: copies are used for a lease after they were fetched or validated.
    Suspect,
    /// It has lost purges that it had, so that it does not count at other nodes. As suspect.
    Recovering,
    /// It has said that it leaves, and no purge waits for it. As suspect.
    Leaving,
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
    orders: BTreeMap<u64, Order>,
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
            is_leaving: false,
        }
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
        self.orders
            .values_mut()
            .for_each(|order| order.count(&self.view, self.config.patience, now));
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
            let order = self.orders.entry(number).or_insert(Order::new(&self.own.member, now));
            order.count(&self.view, self.config.patience, now);
        }
        let finished: Vec<_> = self
            .unfinished
            .extract_if(.., |_, (_, answer)| self.durable.covers(&answer.vector))
            .collect();
        finished.into_iter().for_each(|(_, (asked, answer))| self.learn(asked, &answer));
    }

    /// Notes that `member` has these purges durably.
    pub fn acknowledge(&mut self, member: &MemberId, durable: &Vector, now: Duration) {
        let through = durable.get(&self.own);
        for order in self.orders.range_mut(..=through).map(|(_, order)| order) {
            order.acknowledge(member);
            order.count(&self.view, self.config.patience, now);
        }
    }

    /// Returns what the client of the purge with this number is told at `now`. `None` if no such
    /// purge is waited for.
    pub fn progress(&self, number: u64, now: Duration) -> Option<Progress> {
        let Config { consistency, patience } = self.config;
        let order = self.orders.get(&number)?;
        Some(order.progress(&self.view, consistency, patience, now))
    }

    /// Ends the waiting for a purge.
    pub fn end_waiting(&mut self, number: u64) {
        self.orders.remove(&number);
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
        if !answer.is_recovering {
            self.know(&answer.from, asked);
            if let Some(recovery) =
                self.recovery.as_mut().filter(|recovery| asked >= recovery.since)
            {
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

    /// Returns whether a node that says this of its purges has a disk that is younger than this
    /// one's: it knows of purges of this incarnation that this node never made.
    pub fn is_older_than(&self, vector: &Vector) -> bool {
        vector.get(&self.own) > self.entered.get(&self.own)
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

    /// Returns how far this node may use its copies at `now`.
    pub fn state(&self, now: Duration) -> State {
        if self.is_leaving {
            return State::Leaving;
        }
        if self.is_recovering() && self.view.len() > 1 {
            return State::Recovering;
        }
        let oldest = self.config.patience.trusted();
        let is_recent = |as_of: &&Duration| now.saturating_sub(**as_of) <= oldest;
        let known = 1 + self.known_as_of.values().filter(is_recent).count();
        match known >= quorum::to_trust(self.view.len()) {
            true => State::Current,
            false => State::Suspect,
        }
    }

    /// Returns whether a copy may be used without validation that was fetched or last validated at
    /// `fetched`, if it is fresh by its own lifetime.
    pub fn may_use(&self, fetched: Duration, now: Duration) -> bool {
        self.state(now) == State::Current
            || now.saturating_sub(fetched) <= self.config.patience.trusted()
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
    fn a_node_alone_trusts_its_copies_until_it_leaves() {
        let mut alone = replica();
        assert_eq!(alone.state(LEASE * 9), State::Current);
        alone.leave();
        assert_eq!(alone.state(LEASE * 9), State::Leaving);
        assert!(alone.may_use(LEASE * 9, LEASE * 9) && !alone.may_use(LEASE * 8, LEASE * 9));
    }

    /// One of two trusts its copies without the other, since no purge is accepted by one of two.
    #[test]
    fn a_view_of_three_needs_one_other_node() {
        let mut node = replica();
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

    #[test]
    fn a_node_is_told_of_purges_that_it_never_made() {
        let node = replica();
        assert!(!node.is_older_than(&"a/1=5;a/2=9".parse().unwrap()));
        assert!(node.is_older_than(&"a/1=6".parse().unwrap()));
    }
}
