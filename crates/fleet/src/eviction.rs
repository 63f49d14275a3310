//! Decision on a copy that is evicted from a node's memory.
//!
//! The last copy in any memory follows the steps of its class. `peer`: it goes to the least busy
//! member that does not own the document, if that member is less busy than this node. An owner's
//! disk has the document, so an owner takes a copy by `owner` only if it has lost its own. In an
//! evenly loaded fleet, passing copies around costs time and gains nothing (Olaru and Tichy,
//! section 3.1). A copy is passed on a bounded number of times, as in N-chance forwarding (Dahlin
//! and others, "Cooperative Caching", OSDI 1994), and a token bucket bounds the bytes per second.
//! All other copies are dropped: disks and origin still have the document.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::time::Duration;

use crate::class::{EvictionStep, Policy, Replication};
use crate::key::KeyHash;
use crate::member::{Member, MemberId, State};
use crate::members::Members;
use crate::placement::{self, rendezvous};
use crate::token_bucket::TokenBucket;

/// Maximum times that an unused copy is passed on.
pub const MOVES_MAX: u8 = 2;

/// A copy that is evicted from memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EvictedCopy {
    /// Fleet key of the document.
    pub key: KeyHash,
    /// Bytes of head and body.
    pub size: u64,
    /// True if it is believed to be the last copy in any memory.
    pub last: bool,
    /// Times it was passed on since its last use.
    pub moves: u8,
}

/// Decision on an evicted copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is sent to other members, until one takes it.
    Offered {
        /// Members that may receive it, in the order in which they are asked; never empty.
        to: Vec<MemberId>,
        /// Times it was passed on, this one included.
        moves: u8,
    },
    /// It is dropped.
    Dropped(Reason),
}

/// Why a copy is dropped, for the metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The policy of its class drops evicted copies.
    Class,
    /// Another memory has a copy.
    NotLast,
    /// It was passed on [`MOVES_MAX`] times without being used.
    Unused,
    /// No other member that may take it can be reached.
    NoPeer,
    /// All such members are at least as busy as this one.
    AllBusier,
    /// The byte rate of offers is exhausted.
    Rate,
}

/// Decides what happens to a copy that is evicted from the memory of `me`. Only an offer takes
/// bytes from `rate`.
pub fn decide(
    copy: &EvictedCopy,
    policy: &Policy,
    me: &Member,
    members: &Members,
    avoid: &BTreeSet<MemberId>,
    rate: &mut TokenBucket,
    now: Duration,
) -> Fate {
    if !policy.eviction.offers() {
        return Fate::Dropped(Reason::Class);
    }
    if !copy.last {
        return Fate::Dropped(Reason::NotLast);
    }
    if copy.moves >= MOVES_MAX {
        return Fate::Dropped(Reason::Unused);
    }
    let able = |member: &Member| {
        member.state == State::Serving && member.id != me.id && !avoid.contains(&member.id)
    };
    let owners = owners(copy.key, policy, members);
    let (mut to, mut reason) = (Vec::new(), Reason::NoPeer);
    for step in policy.eviction.steps() {
        match step {
            EvictionStep::Peer => {
                let others =
                    members.iter().filter(|member| able(member) && !owners.contains(member));
                match least_busy(copy.key, others) {
                    Some(peer) if compare_load(peer, me) == Ordering::Less => to.push(peer),
                    Some(_) => reason = Reason::AllBusier,
                    None => {}
                }
            }
            EvictionStep::Owner => to.extend(owners.first().filter(|owner| able(owner))),
            EvictionStep::Drop => {}
        }
    }
    if to.is_empty() {
        return Fate::Dropped(reason);
    }
    if !rate.take(copy.size, now) {
        return Fate::Dropped(Reason::Rate);
    }
    let to = to.into_iter().map(|member| member.id.clone()).collect();
    Fate::Offered { to, moves: copy.moves + 1 }
}

/// Returns the owners of a key, whose disks have the document.
fn owners<'m>(key: KeyHash, policy: &Policy, members: &'m Members) -> Vec<&'m Member> {
    match policy.replication {
        Replication::Owners(count) => {
            placement::owners(key, members, usize::from(count.get()), None, |_| true)
        }
        Replication::All => Vec::new(),
    }
}

/// Finds the least busy of these members. Ties go to the member that ranks first for the key, so
/// that copies evicted together do not all go to one member.
fn least_busy<'m>(key: KeyHash, members: impl Iterator<Item = &'m Member>) -> Option<&'m Member> {
    members.min_by(|a, b| {
        compare_load(a, b).then_with(|| rendezvous::draw(key, a).cmp(&rendezvous::draw(key, b)))
    })
}

/// Compares the load of two members: requests under way per unit of weight. A weight of 0 counts as
/// 1.
fn compare_load(a: &Member, b: &Member) -> Ordering {
    let across = |load: u64, weight: u32| u128::from(load) * u128::from(weight.max(1));
    across(a.load, b.weight).cmp(&across(b.load, a.weight))
}
