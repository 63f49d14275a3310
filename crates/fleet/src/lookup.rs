//! Lookup plan: where a node looks for a document, in which order, and what it keeps.
//!
//! [`plan`] is called once per request, from a client or another node, that this node's memory may
//! not answer. It returns [`Step`]s; the first that finds the document ends the lookup. For a
//! client's request of a class with [`COOPERATE`](crate::class::Lookup::COOPERATE) the steps are
//!
//! 1. this node's memory;
//! 2. the memories of nodes that hints name, at most [`HOLDERS_MAX`];
//! 3. if the index finds it on this node's disk: the owner's memory, then this disk;
//! 4. the owner, which looks in its memory and on its disk, asks the former owner of the key, and
//!    fetches from the origin;
//! 5. the origin, if the owner does not answer.
//!
//! A node that cannot connect to the origin asks other members to fetch ([`substitutes`]), which
//! ask no further node.
//!
//! Only the owner fetches, and the other nodes stream from it: the fleet fetches a document once as
//! long as the nodes know the same members and the owner answers. Where views differ, a request
//! travels to at most [`MAX_HOPS`] other nodes; the last one fetches.
//!
//! Waits never form a cycle, whatever the nodes believe. A request with h hops may wait for a
//! running fetch of this node only if that fetch waits for no other node, or waits with more than h
//! hops ([`may_follow`]). Hops increase along every chain of waiting nodes, so the chain ends.
//! Requests for memory or disk only wait for no fetch.
//!
//! A node that lags behind cannot undo a purge that the asking node knows: each [`Ask`] carries the
//! sender's purges ([`crate::purges::Vector`]), and a node that does not cover them uses
//! nothing that it stored or began to fetch before the request ([`LookupPlan::behind`]).

use std::collections::BTreeSet;
use std::error::Error;
use std::fmt;

use crate::class::{Copies, LookupStep, Policy, Replication};
use crate::key::KeyHash;
use crate::member::{Member, MemberId};
use crate::members::Members;
use crate::placement::{self, LoadBound};

/// Maximum nodes that a request travels to after the node its client asked.
pub const MAX_HOPS: u8 = 2;

/// Maximum nodes that are asked because of a hint. Hints may be wrong, and each wrong one costs a
/// round trip.
pub const HOLDERS_MAX: usize = 2;

/// Maximum number of members that are asked to fetch in place of a node without a connection.
const SUBSTITUTES_MAX: usize = 2;

/// How far the asked node goes to answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    /// Its memory.
    Memory,
    /// Its memory or disk.
    Disk,
    /// Wherever the document is, including the origin.
    Origin,
}

/// Source of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// A client.
    ByClient,
    /// Another node, by an [`Ask`].
    ByPeer {
        /// Name of the asking node; it is not asked in return.
        from: MemberId,
        /// How far to go.
        reach: Reach,
        /// True if a copy may enter this node's memory, by the class that the asking node knows. An
        /// owner keeps a fetched document by the class that it knows itself.
        keep_copy: bool,
        /// Nodes that the request has travelled to, this one included.
        hops: u8,
        /// True if the asking node knows purges that this one has not carried out.
        behind: bool,
    },
}

/// A request for a document.
#[derive(Clone, Debug)]
pub struct Request {
    /// Fleet key of the document.
    pub key: KeyHash,
    /// Source of the request.
    pub asked: Asked,
    /// True if the index finds it on this node's disk. Known without a read.
    pub on_own_disk: bool,
    /// Number of owners by popularity ([`crate::popularity`]); the policy may want more.
    pub hot_owners: usize,
}

/// A node's knowledge of the fleet.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// Name of this node.
    pub me: &'a MemberId,
    /// Current members.
    pub members: &'a Members,
    /// Members before the last changes, the newest view first, during the grace period
    /// ([`crate::grace`]).
    pub previous: &'a [Members],
    /// Members that may hold a copy in memory, likeliest first ([`crate::hints`]).
    pub hinted: &'a [MemberId],
    /// Members with an open breaker, which are not asked.
    pub avoid: &'a BTreeSet<MemberId>,
    /// Bound on an owner's load, if any.
    pub bound: Option<LoadBound>,
}

/// Why a node is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It may hold a copy in memory.
    Holder,
    /// It owns the key.
    Owner,
    /// It owned the key before the members changed.
    PreviousOwner,
    /// The asking node cannot connect to the origin.
    Substitute,
}

/// A request to another node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// Member to ask.
    pub member: MemberId,
    /// Why it is asked.
    pub role: Role,
    /// How far it goes to answer.
    pub reach: Reach,
    /// True if a copy may enter its memory; otherwise the read is exclusive.
    pub keep_copy: bool,
    /// Nodes that the request has travelled to on arrival, from 1.
    pub hops: u8,
}

/// One place to look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// This node's memory.
    OwnMemory,
    /// This node's disk.
    OwnDisk,
    /// Another node.
    Ask(Ask),
    /// The origin.
    Origin,
}

/// Where this node keeps a document that it got from elsewhere. Existing copies are never removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keep {
    /// Keep it in memory, also if it came from this node's disk.
    pub memory: bool,
    /// Keep it on disk.
    pub disk: bool,
}

/// Plan of one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LookupPlan {
    /// Places to look, in order.
    pub steps: Vec<Step>,
    /// Where to keep the document afterwards.
    pub keep: Keep,
    /// True if the asking node knows purges that this one has not carried out. Nothing may be used
    /// that was stored, or whose fetch began, before this request.
    pub behind: bool,
    /// True if [`substitutes`] may be asked.
    pub may_substitute: bool,
}

/// Error: the request has travelled to more than [`MAX_HOPS`] nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyHops(u8);

impl fmt::Display for TooManyHops {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a request came over {} nodes, and {MAX_HOPS} are the most", self.0)
    }
}

impl Error for TooManyHops {}

/// Plans where to look for a document whose class has `policy`, and what to keep of it.
///
/// # Errors
///
/// If the request has travelled to more than [`MAX_HOPS`] nodes. Answer it with an error; the
/// asking node then goes to the origin.
pub fn plan(
    request: &Request,
    policy: &Policy,
    view: &View<'_>,
) -> Result<LookupPlan, TooManyHops> {
    let planner = Planner::new(request, policy, view)?;
    let (steps, keep, behind) = (planner.steps(), planner.keep(), planner.behind);
    Ok(LookupPlan { steps, keep, behind, may_substitute: planner.may_ask() })
}

/// Returns the questions of a node that follows `plan` and cannot connect to the origin: the next
/// owners of the key are asked to fetch, except those that the plan has asked to.
pub fn substitutes(request: &Request, plan: &LookupPlan, view: &View<'_>) -> Vec<Ask> {
    if !plan.may_substitute {
        return Vec::new();
    }
    let asked =
        |id: &MemberId| plan.asks().any(|ask| ask.reach == Reach::Origin && ask.member == *id);
    let usable = |member: &Member| can_ask(request, view, &member.id) && !asked(&member.id);
    let next = placement::owners(request.key, view.members, SUBSTITUTES_MAX, view.bound, usable);
    let ask = |member: &Member| Ask {
        member: member.id.clone(),
        role: Role::Substitute,
        reach: Reach::Origin,
        keep_copy: false,
        hops: MAX_HOPS,
    };
    next.into_iter().map(ask).collect()
}

/// Returns whether this node may ask `id`: a different node that serves, has a closed breaker, and
/// does not itself wait for this answer.
fn can_ask(request: &Request, view: &View<'_>, id: &MemberId) -> bool {
    let waits = matches!(&request.asked, Asked::ByPeer { from, .. } if from == id);
    let there = view.members.get(id).is_some_and(Member::may_be_asked);
    there && !waits && id != view.me && !view.avoid.contains(id)
}

/// Returns whether a request may wait for this node's running fetch of the same document, which
/// follows the plan `running`, instead of starting its own. The module documentation gives the
/// rule.
pub fn may_follow(asked: &Asked, running: &LookupPlan) -> bool {
    may_wait(asked, running.waits_with())
}

/// Like [`may_follow`], for a fetch with the given [`LookupPlan::waits_with`].
pub fn may_wait(asked: &Asked, waits_with: Option<u8>) -> bool {
    match asked {
        Asked::ByClient => true,
        Asked::ByPeer { reach: Reach::Origin, hops, .. } => {
            waits_with.is_none_or(|waits| waits > *hops)
        }
        Asked::ByPeer { .. } => false,
    }
}

impl LookupPlan {
    /// Returns the questions among the steps.
    pub fn asks(&self) -> impl Iterator<Item = &Ask> {
        self.steps.iter().filter_map(|step| match step {
            Step::Ask(ask) => Some(ask),
            Step::OwnMemory | Step::OwnDisk | Step::Origin => None,
        })
    }

    /// Returns whether memories of other nodes are asked before this node's disk.
    pub fn asks_memories(&self) -> bool {
        let mut before = self.steps.iter().take_while(|step| **step != Step::OwnDisk);
        before.any(|step| matches!(step, Step::Ask(ask) if ask.reach == Reach::Memory))
    }

    /// Returns the hop count with which another node may be asked to fetch, the smallest of
    /// several. `None` if no node may be: a follower then waits for no other node.
    pub fn waits_with(&self) -> Option<u8> {
        let asks = self.asks().filter(|ask| ask.reach == Reach::Origin).map(|ask| ask.hops);
        asks.chain(self.may_substitute.then_some(MAX_HOPS)).min()
    }
}

/// State while the steps of one request are planned.
struct Planner<'a> {
    request: &'a Request,
    policy: &'a Policy,
    view: &'a View<'a>,
    owners: Vec<&'a Member>,
    hops: u8,
    reach: Reach,
    behind: bool,
}

impl<'a> Planner<'a> {
    fn new(
        request: &'a Request,
        policy: &'a Policy,
        view: &'a View<'a>,
    ) -> Result<Planner<'a>, TooManyHops> {
        let (hops, reach, behind) = match &request.asked {
            Asked::ByClient => (0, Reach::Origin, false),
            Asked::ByPeer { hops, .. } if *hops > MAX_HOPS => return Err(TooManyHops(*hops)),
            Asked::ByPeer { hops, reach, behind, .. } => ((*hops).max(1), *reach, *behind),
        };
        let wanted = match policy.replication {
            Replication::Owners(count) => usize::from(count.get()),
            Replication::All => 1,
        };
        let wanted = wanted.max(request.hot_owners);
        let usable = |member: &Member| member.id == *view.me || !view.avoid.contains(&member.id);
        let owners = placement::owners(request.key, view.members, wanted, view.bound, usable);
        Ok(Planner { request, policy, view, owners, hops, reach, behind })
    }

    fn steps(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        let own_disk = self.request.on_own_disk && self.reach >= Reach::Disk && !self.behind;
        let owner = self.owner_to_ask();
        for step in self.policy.lookup.steps() {
            match step {
                LookupStep::Memory if !self.behind => steps.push(Step::OwnMemory),
                LookupStep::Peers if self.may_ask() => {
                    steps.extend(self.holders(owner));
                    let is_before_disk = own_disk && !steps.contains(&Step::OwnDisk);
                    if let Some(owner) = owner.filter(|_| is_before_disk) {
                        steps.push(self.ask(owner, Role::Owner, Reach::Memory));
                    }
                }
                LookupStep::Disk if own_disk => steps.push(Step::OwnDisk),
                LookupStep::Owner if self.reach == Reach::Origin => match owner {
                    Some(owner) => steps.push(self.ask(owner, Role::Owner, Reach::Origin)),
                    None => steps.extend(self.previous_owners()),
                },
                LookupStep::Origin if self.reach == Reach::Origin => steps.push(Step::Origin),
                _ => {}
            }
        }
        steps
    }

    /// Returns whether this request may travel to another node.
    fn may_ask(&self) -> bool {
        self.hops < MAX_HOPS && self.reach == Reach::Origin
    }

    /// Returns whether this node asks current or former owners.
    fn asks_owners(&self) -> bool {
        self.may_ask() && self.policy.lookup.has(LookupStep::Owner)
    }

    fn can_ask(&self, id: &MemberId) -> bool {
        can_ask(self.request, self.view, id)
    }

    /// Chooses the owner that is asked with [`Reach::Origin`]; `None` if this node fetches.
    ///
    /// An owner, or a node that was taken for one, asks the first owner. Any other node prefers an
    /// owner in its zone; nodes choose differently among several, so that the owners share the load
    /// of a hot document.
    fn owner_to_ask(&self) -> Option<&'a MemberId> {
        if !self.asks_owners() {
            return None;
        }
        let first = &self.owners.first()?.id;
        if self.owns() || self.hops > 0 {
            return Some(first).filter(|id| self.can_ask(id));
        }
        let zone = self.view.members.get(self.view.me).map(|me| &me.zone);
        let near: Vec<_> = self.owners.iter().filter(|owner| Some(&owner.zone) == zone).collect();
        let of = if near.is_empty() { self.owners.iter().collect() } else { near };
        let at = (self.request.key.bits() ^ self.view.me.digest()) % of.len() as u64;
        of.get(at as usize).map(|owner| &owner.id).filter(|id| self.can_ask(id))
    }

    fn owns(&self) -> bool {
        self.owners.iter().any(|owner| owner.id == *self.view.me)
    }

    /// Returns the steps to hinted members, except the owner, which is asked anyway.
    fn holders(&self, owner: Option<&MemberId>) -> impl Iterator<Item = Step> {
        let mut asked = BTreeSet::new();
        self.view
            .hinted
            .iter()
            .filter(move |id| Some(*id) != owner && self.can_ask(id) && asked.insert(*id))
            .take(HOLDERS_MAX)
            .map(|id| self.ask(id, Role::Holder, Reach::Memory))
    }

    /// Returns the steps to the former owners of the key, the last one first.
    fn previous_owners(&self) -> Vec<Step> {
        let mut former: Vec<&MemberId> = Vec::new();
        for previous in self.view.previous.iter().filter(|_| self.asks_owners()) {
            let owners = placement::owners(self.request.key, previous, 1, None, |_| true);
            let owner = owners.first().map(|owner| &owner.id).filter(|id| self.can_ask(id));
            former.extend(owner.filter(|id| !former.contains(id)));
        }
        former.iter().map(|id| self.ask(id, Role::PreviousOwner, Reach::Disk)).collect()
    }

    fn ask(&self, member: &MemberId, role: Role, reach: Reach) -> Step {
        Step::Ask(Ask {
            member: member.clone(),
            role,
            reach,
            keep_copy: role == Role::Owner
                && reach == Reach::Origin
                && self.policy.copies.at_owner(),
            hops: self.hops + 1,
        })
    }

    fn keep(&self) -> Keep {
        if self.reach == Reach::Memory {
            return Keep { memory: false, disk: false };
        }
        let owns = self.owns();
        // Owners keep a hot document in memory, to share its load.
        let hot = owns && self.request.hot_owners > 1;
        let memory = match &self.request.asked {
            // An owner knows the class of the document, which the asking node may not.
            Asked::ByPeer { .. } if owns && self.reach == Reach::Origin => {
                hot || self.policy.copies.at_owner()
            }
            Asked::ByPeer { keep_copy, .. } => hot || *keep_copy,
            Asked::ByClient if owns || !self.policy.lookup.has(LookupStep::Owner) => {
                self.policy.copies != Copies::None
            }
            Asked::ByClient => self.policy.copies.at_reader(),
        };
        let disk =
            self.reach == Reach::Origin && (owns || self.policy.replication == Replication::All);
        Keep { memory, disk }
    }
}
