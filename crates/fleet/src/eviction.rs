//! What becomes of a copy that leaves a node's memory for room.
//!
//! If it is the last copy in any memory and its class says `offer`, the least busy member gets it,
//! provided that one is less busy than this node: a fleet in which all are equally busy gains
//! nothing by passing copies around, and loses the time (Olaru and Tichy, section 3.1). A copy is
//! passed on a few times at most, as in N-chance forwarding (Dahlin and others, "Cooperative
//! Caching", OSDI 1994), and a bucket bounds the bytes per second. Whatever is not offered is
//! dropped: disks and origin still have it.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::time::Duration;

use crate::class::{Eviction, Policy};
use crate::key::KeyHash;
use crate::member::{Member, MemberId, State};
use crate::members::Members;
use crate::placement::rendezvous;
use crate::token_bucket::TokenBucket;

/// Most times that a copy is passed on without having been used in between.
pub const MOVES_MAX: u8 = 2;

/// A copy that leaves memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EvictedCopy {
    /// The document.
    pub key: KeyHash,
    /// Its bytes, head and body.
    pub size: u64,
    /// True if no other node's memory is believed to have one.
    pub last: bool,
    /// How often it was passed on since it was last used.
    pub moves: u8,
}

/// What becomes of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is sent to this member, as passed on so many times.
    Offered {
        /// Who gets it.
        to: MemberId,
        /// How often it was passed on then.
        moves: u8,
    },
    /// It is gone.
    Dropped(Reason),
}

/// Why a copy is dropped, for the metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Evictions of its class are not handled.
    Class,
    /// Another memory has one.
    NotLast,
    /// It was passed on [`MOVES_MAX`] times and nobody used it.
    Unused,
    /// No other member can be reached.
    NoPeer,
    /// Every other member is at least as busy as this one.
    AllBusier,
    /// So many bytes were offered lately that it has to be dropped.
    Rate,
}

/// Decides what becomes of a copy that leaves the memory of `me`. Only what is offered takes from
/// `rate`, whose units are bytes.
pub fn decide(
    copy: &EvictedCopy,
    policy: &Policy,
    me: &Member,
    members: &Members,
    avoid: &BTreeSet<MemberId>,
    rate: &mut TokenBucket,
    now: Duration,
) -> Fate {
    if policy.eviction == Eviction::Drop {
        return Fate::Dropped(Reason::Class);
    }
    if !copy.last {
        return Fate::Dropped(Reason::NotLast);
    }
    if copy.moves >= MOVES_MAX {
        return Fate::Dropped(Reason::Unused);
    }
    let Some(peer) = least_busy(copy.key, me, members, avoid) else {
        return Fate::Dropped(Reason::NoPeer);
    };
    if busier(peer, me) != Ordering::Less {
        return Fate::Dropped(Reason::AllBusier);
    }
    if !rate.take(copy.size, now) {
        return Fate::Dropped(Reason::Rate);
    }
    Fate::Offered { to: peer.id.clone(), moves: copy.moves + 1 }
}

/// Finds the least busy other member; among equals the one that the key ranks first, so that not
/// all copies of a moment go to one.
fn least_busy<'m>(
    key: KeyHash,
    me: &Member,
    members: &'m Members,
    avoid: &BTreeSet<MemberId>,
) -> Option<&'m Member> {
    let able = |member: &&Member| {
        member.state == State::Serving && member.id != me.id && !avoid.contains(&member.id)
    };
    members.iter().filter(able).min_by(|a, b| {
        busier(a, b).then_with(|| rendezvous::draw(key, a).cmp(&rendezvous::draw(key, b)))
    })
}

/// Compares how busy two members are: requests under way per unit of weight, of which a member
/// without weight counts as having one.
fn busier(a: &Member, b: &Member) -> Ordering {
    let across = |load: u64, weight: u32| u128::from(load) * u128::from(weight.max(1));
    across(a.load, b.weight).cmp(&across(b.load, a.weight))
}
