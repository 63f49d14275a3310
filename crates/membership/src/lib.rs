//! Who is in the fleet, as this node knows it.
//!
//! The decisions of a fleet (crate `fleet`) need a list of its members. Two sources give one,
//! behind the trait [`Membership`]: nodes that tell each other ([`gossip::Gossip`]), and a list
//! that an operator wrote, with what the node learns from its own requests
//! ([`static_list::StaticList`]).
//!
//! What is promised: asking for the members never waits; this node is always among them; a member
//! that fails leaves the list after some seconds and is named by [`Membership::lost`] from then on.
//! What is not: that two nodes know the same at the same moment, or that a member of the list
//! answers. Whoever acts on the list has to live with both.

#![forbid(unsafe_code)]

mod facts;
pub mod gossip;
mod published;
pub mod static_list;

use std::pin::Pin;
use std::time::Duration;

use fleet::{Member, MemberId, Members};
use tokio::sync::watch;

/// A member that was known in this run and is not live now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    /// What was last known of it. Its state tells one that left in order
    /// ([`State::Leaving`](fleet::member::State::Leaving)) from one that failed.
    pub member: Member,
    /// When it was lost: the time since the same fixed moment as everywhere in the membership.
    pub since: Duration,
}

/// A node that is leaving.
pub type Leaving<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// A source of the fleet's members. Times are those since any fixed moment, never going back.
pub trait Membership: Send + Sync {
    /// Returns the members now, with this node among them. Never waits.
    fn members(&self) -> Members;

    /// Returns a receiver of all further changes.
    fn changes(&self) -> watch::Receiver<Members>;

    /// Tells the fleet what this node is from now on. The name is that of the start: another one is
    /// an error that is logged, and nothing changes.
    fn announce(&self, own: &Member);

    /// Returns the members that were known in this run and are not live now, by name.
    fn lost(&self) -> Vec<Lost>;

    /// Notes that a member answered or asked, and what it said of itself with that.
    fn heard(&self, of: Member, now: Duration);

    /// Notes that a member did not answer.
    fn silent(&self, id: &MemberId, now: Duration);

    /// Tells the others that this node leaves in order, and waits until they have had time to hear
    /// it.
    fn leave(&self) -> Leaving<'_> {
        Box::pin(async {})
    }

    /// Notes the time, about once a second: members that were silent for too long are lost.
    fn elapse(&self, now: Duration);
}

/// Returns the seed of a test, printed; that of `LARDER_SEED` where it is set.
#[cfg(test)]
fn seed() -> u64 {
    let given = std::env::var("LARDER_SEED").ok().map(|seed| seed.parse().unwrap());
    let seed = given.unwrap_or_else(|| fastrand::u64(..));
    eprintln!("LARDER_SEED={seed}");
    seed
}
