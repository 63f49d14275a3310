//! The members of a fleet, as known to this node.
//!
//! The decisions of a fleet (crate `fleet`) need a list of its members. Two sources provide one,
//! behind the trait [`Membership`]: gossip between the nodes ([`gossip::Gossip`]), and an
//! operator's list combined with the results of the node's own requests
//! ([`static_list::StaticList`]).
//!
//! Guarantees: reading the members never waits; this node is always among them; a member that fails
//! leaves the list after some seconds and is then returned by [`Membership::lost`].
//!
//! Not guaranteed: that two nodes know the same at the same moment, or that a member of the list
//! responds. Users of the list must tolerate both.

#![forbid(unsafe_code)]

mod facts;
pub mod gossip;
mod published;
pub mod static_list;
pub mod warning_limiter;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::pin::Pin;
use std::time::Duration;

use fleet::{Member, MemberId, Members};
use tokio::sync::watch;

/// A member that was known in this run and is not live now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    /// Its last known facts. Its state tells one that left in order
    /// ([`State::Leaving`](fleet::member::State::Leaving)) from one that failed.
    pub member: Member,
    /// When it was lost: the time since the fixed moment that the whole membership uses.
    pub since: Duration,
}

/// The future of [`Membership::leave`].
pub type Leaving<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// A source of the fleet's members. Times are measured since any fixed moment and never decrease.
pub trait Membership: Send + Sync {
    /// Returns the current members, including this node. Never waits.
    fn members(&self) -> Members;

    /// Returns a receiver of all further changes.
    fn changes(&self) -> watch::Receiver<Members>;

    /// Announces this node's facts to the fleet from now on. Its name cannot change after the
    /// start: a different name is logged as an error, and nothing changes.
    fn announce(&self, own: &Member);

    /// Returns the members that were known in this run and are not live now, by name.
    fn lost(&self) -> Vec<Lost>;

    /// Returns when the members started, in milliseconds since 1970 by their own clocks; none if
    /// the source does not know.
    fn started(&self) -> BTreeMap<MemberId, u64> {
        BTreeMap::new()
    }

    /// Returns the address of the live member elsewhere that has this node's name, if the source
    /// knows of one. This node is no member to the others until that one is gone.
    fn name_in_use(&self) -> Option<SocketAddr> {
        None
    }

    /// Returns whether a member counts only because it answers requests: it needs some each second.
    fn is_kept_by_requests(&self, _id: &MemberId) -> bool {
        false
    }

    /// Records that a member responded or sent a request, with the facts that it included.
    fn heard(&self, of: Member, now: Duration);

    /// Records that a member did not respond.
    fn silent(&self, id: &MemberId, now: Duration);

    /// Announces to other nodes that this node leaves in order, and waits until they have had time
    /// to learn it.
    fn leave(&self) -> Leaving<'_> {
        Box::pin(async {})
    }

    /// Passes the time; call about once a second. Members that were silent for too long become
    /// lost.
    fn elapse(&self, now: Duration);
}

/// Returns a test's seed, from `LARDER_SEED` if set, and prints it.
#[cfg(test)]
fn seed() -> u64 {
    let given = std::env::var("LARDER_SEED").ok().map(|seed| seed.parse().unwrap());
    let seed = given.unwrap_or_else(|| fastrand::u64(..));
    eprintln!("LARDER_SEED={seed}");
    seed
}
