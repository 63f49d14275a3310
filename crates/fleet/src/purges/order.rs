//! Result of a purge in the fleet, and when it is known.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::member::MemberId;
use crate::purges::quorum;

/// Promise of an accepted purge about nodes that do not have it yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Consistency {
    /// They stop giving out what it concerns at most a lease later. Who is in the view is known by
    /// gossip.
    #[default]
    Bounded,
    /// They no longer give it out when the client is told. The members are configured.
    Strict,
}

/// Result of a purge in the fleet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Every node of the view has the purge durably and in effect.
    Complete,
    /// Enough nodes have it durably that all the others learn of it or cease to trust their copies.
    Accepted {
        /// Nodes that do not have it yet.
        unreached: BTreeSet<MemberId>,
    },
    /// Too few nodes have it durably: others may go on without it.
    NoQuorum {
        /// Number of nodes that have it durably.
        copies: usize,
        /// Nodes that do not have it yet.
        unreached: BTreeSet<MemberId>,
    },
}

/// Knowledge of the result at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// It is open until an acknowledgement comes, and at most until this moment.
    Open(Duration),
    /// It is known.
    Done(Outcome),
}

/// How long a client waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Patience {
    /// How long a node trusts its copies without news, at most.
    pub lease: Duration,
    /// How long an accepted bounded purge waits for the other nodes. At most the lease.
    pub rest: Duration,
}

/// Share of a lease by which clocks of two nodes may drift apart in it: 1% each.
const DRIFT: u32 = 50;

impl Patience {
    /// Returns how long a node trusts its copies without news. Shorter than the lease that makers
    /// wait for, as clocks may drift apart.
    pub(super) fn trusted(self) -> Duration {
        self.lease - self.lease / DRIFT
    }
}

/// A purge made here, with the nodes that are known to have it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Order {
    /// When it became durable here.
    pub begun: Duration,
    /// Nodes that have it durably, this one included.
    pub holders: BTreeSet<MemberId>,
    /// When enough nodes had it.
    pub accepted: Option<Duration>,
}

impl Order {
    pub fn new(own: &MemberId, now: Duration) -> Order {
        Order { begun: now, holders: BTreeSet::from([own.clone()]), accepted: None }
    }

    /// Records a node that has the purge durably.
    pub fn acknowledge(&mut self, holder: &MemberId) {
        self.holders.insert(holder.clone());
    }

    /// Notes whether enough nodes of the view have the purge at `now`. Later than a lease after its
    /// begin it is no longer accepted: who had it may have lost it, and have recovered.
    pub fn count(&mut self, view: &BTreeSet<MemberId>, patience: Patience, now: Duration) {
        let is_open = self.accepted.is_none() && now <= self.begun + patience.trusted();
        if is_open && self.copies(view) >= quorum::to_accept(view.len()) {
            self.accepted = Some(now);
        }
    }

    /// Returns what the client is told at `now`.
    pub fn progress(
        &self,
        view: &BTreeSet<MemberId>,
        consistency: Consistency,
        patience: Patience,
        now: Duration,
    ) -> Progress {
        let unreached: BTreeSet<_> = view.difference(&self.holders).cloned().collect();
        if unreached.is_empty() {
            return Progress::Done(Outcome::Complete);
        }
        let wait = match consistency {
            Consistency::Bounded => patience.rest,
            Consistency::Strict => patience.lease,
        };
        let until = match self.accepted {
            Some(accepted) => accepted + wait,
            None => self.begun + patience.lease,
        };
        if now <= until {
            return Progress::Open(until);
        }
        Progress::Done(match self.accepted {
            Some(_) => Outcome::Accepted { unreached },
            None => Outcome::NoQuorum { copies: self.copies(view), unreached },
        })
    }

    fn copies(&self, view: &BTreeSet<MemberId>) -> usize {
        view.intersection(&self.holders).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Patience =
        Patience { lease: Duration::from_secs(10), rest: Duration::from_secs(1) };

    fn id(name: &str) -> MemberId {
        name.parse().unwrap()
    }

    fn view(names: &str) -> BTreeSet<MemberId> {
        names.split(' ').map(id).collect()
    }

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_purge_at_all_nodes_is_complete() {
        let view = view("a b c");
        let mut order = Order::new(&id("a"), at(0));
        for holder in ["b", "c"] {
            let progress = order.progress(&view, Consistency::Strict, PATIENCE, at(3));
            assert!(matches!(progress, Progress::Open(_)), "{progress:?}");
            order.acknowledge(&id(holder));
            order.count(&view, PATIENCE, at(3));
        }
        let progress = order.progress(&view, Consistency::Strict, PATIENCE, at(3));
        assert_eq!(progress, Progress::Done(Outcome::Complete));
    }

    #[test]
    fn a_purge_at_a_quorum_waits_for_the_rest_or_for_the_lease() {
        let view = view("a b c");
        let mut order = Order::new(&id("a"), at(0));
        order.acknowledge(&id("b"));
        order.count(&view, PATIENCE, at(2));
        let accepted = Progress::Done(Outcome::Accepted { unreached: BTreeSet::from([id("c")]) });
        for (consistency, until) in [(Consistency::Bounded, 3), (Consistency::Strict, 12)] {
            let progress = |now| order.progress(&view, consistency, PATIENCE, at(now));
            assert_eq!(progress(until), Progress::Open(at(until)));
            assert_eq!(progress(until + 1), accepted);
        }
    }

    #[test]
    fn a_purge_without_a_quorum_names_its_copies() {
        let view = view("a b c d");
        let mut order = Order::new(&id("a"), at(0));
        // A node that left the view does not count.
        order.acknowledge(&id("b"));
        order.acknowledge(&id("z"));
        order.count(&view, PATIENCE, at(1));
        let progress = |now| order.progress(&view, Consistency::Bounded, PATIENCE, at(now));
        assert_eq!(progress(10), Progress::Open(at(10)));
        let unreached = BTreeSet::from([id("c"), id("d")]);
        let outcome = Outcome::NoQuorum { copies: 2, unreached };
        assert_eq!(progress(11), Progress::Done(outcome));
    }
}
