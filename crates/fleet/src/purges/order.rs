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

impl Default for Patience {
    /// Returns 10 s for both.
    fn default() -> Patience {
        Patience { lease: Duration::from_secs(10), rest: Duration::from_secs(10) }
    }
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

/// A purge made here whose client waits.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Order {
    /// When it became durable here.
    begun: Duration,
    /// When enough nodes had it.
    accepted: Option<Duration>,
}

/// Nodes of the view that have a purge durably, and those that have not.
pub(super) struct Copies {
    pub reached: usize,
    pub unreached: BTreeSet<MemberId>,
}

impl Order {
    pub fn new(now: Duration) -> Order {
        Order { begun: now, accepted: None }
    }

    /// Notes that so many nodes of a view of `nodes` have the purge at `now`. Later than a lease
    /// after its begin it is no longer accepted: who had it may have lost it, and have recovered.
    pub fn count(&mut self, copies: usize, nodes: usize, patience: Patience, now: Duration) {
        let is_open = self.accepted.is_none() && now <= self.begun + patience.trusted();
        if is_open && copies >= quorum::to_accept(nodes) {
            self.accepted = Some(now);
        }
    }

    /// Returns whether nothing is waited for any more at `now`.
    pub fn is_over(&self, patience: Patience, now: Duration) -> bool {
        now > self.accepted.unwrap_or(self.begun) + patience.lease * 2
    }

    /// Returns what the client is told at `now`. Nodes that are `gone` are not waited for.
    pub fn progress(
        &self,
        Copies { reached, unreached }: Copies,
        gone: &BTreeSet<MemberId>,
        consistency: Consistency,
        patience: Patience,
        now: Duration,
    ) -> Progress {
        if unreached.is_empty() {
            return Progress::Done(Outcome::Complete);
        }
        let until = match (consistency, self.accepted) {
            (Consistency::Strict, Some(accepted)) => Some(accepted + patience.lease),
            (_, _) if unreached.is_subset(gone) => None,
            (Consistency::Bounded, Some(accepted)) => Some(accepted + patience.rest),
            (_, None) => Some(self.begun + patience.lease),
        };
        if let Some(until) = until.filter(|until| now <= *until) {
            return Progress::Open(until);
        }
        Progress::Done(match self.accepted {
            Some(_) => Outcome::Accepted { unreached },
            None => Outcome::NoQuorum { copies: reached, unreached },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Patience =
        Patience { lease: Duration::from_secs(10), rest: Duration::from_secs(1) };

    fn names(names: &str) -> BTreeSet<MemberId> {
        names.split(' ').filter(|name| !name.is_empty()).map(|name| name.parse().unwrap()).collect()
    }

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// A purge begun at 0 in a view of `nodes`, which all but the `unreached` have at `counted`.
    fn progress(
        (nodes, unreached): (usize, &str),
        gone: &str,
        consistency: Consistency,
        (counted, now): (u64, u64),
    ) -> Progress {
        let unreached = names(unreached);
        let reached = nodes - unreached.len();
        let mut order = Order::new(at(0));
        order.count(reached, nodes, PATIENCE, at(counted));
        let copies = Copies { reached, unreached };
        order.progress(copies, &names(gone), consistency, PATIENCE, at(now))
    }

    #[test]
    fn a_purge_at_all_nodes_is_complete() {
        for consistency in [Consistency::Strict, Consistency::Bounded] {
            let told = progress((3, ""), "", consistency, (3, 3));
            assert_eq!(told, Progress::Done(Outcome::Complete));
        }
    }

    #[test]
    fn a_purge_at_a_quorum_waits_for_the_rest_or_for_the_lease() {
        let accepted = Progress::Done(Outcome::Accepted { unreached: names("c") });
        for (consistency, until) in [(Consistency::Bounded, 3), (Consistency::Strict, 12)] {
            let told = |now| progress((3, "c"), "", consistency, (2, now));
            assert_eq!(told(until), Progress::Open(at(until)));
            assert_eq!(told(until + 1), accepted);
        }
        assert_eq!(progress((3, "c"), "c", Consistency::Bounded, (2, 2)), accepted);
        let strict = progress((3, "c"), "c", Consistency::Strict, (2, 2));
        assert_eq!(strict, Progress::Open(at(12)));
    }

    #[test]
    fn a_purge_without_a_quorum_names_its_copies() {
        let told = |gone, now| progress((4, "c d"), gone, Consistency::Bounded, (1, now));
        let outcome = Outcome::NoQuorum { copies: 2, unreached: names("c d") };
        assert_eq!(told("", 10), Progress::Open(at(10)));
        assert_eq!(told("", 11), Progress::Done(outcome.clone()));
        assert_eq!(told("d", 10), Progress::Open(at(10)));
        assert_eq!(told("c d", 1), Progress::Done(outcome));
    }

    #[test]
    fn a_purge_is_not_accepted_a_lease_after_its_begin() {
        let told = progress((3, "c"), "", Consistency::Bounded, (11, 12));
        let outcome = Outcome::NoQuorum { copies: 2, unreached: names("c") };
        assert_eq!(told, Progress::Done(outcome));
    }
}
