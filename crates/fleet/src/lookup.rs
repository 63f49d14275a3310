//! Where a node looks for a document, in which order, and what it keeps of it.
//!
//! [`plan`] is asked once per request that this node's memory may not answer, be it a client's or
//! another node's, and answers with [`Step`]s: the first that has the document ends them. For a
//! client's request, of a class that cooperates, they are
//!
//! 1. this node's memory;
//! 2. the memories of nodes that hints name as holders, at most [`HOLDERS_MAX`];
//! 3. if the index says that this node's disk has it: the owner's memory, then this disk;
//! 4. the owner, which looks in its memory and on its disk, asks who owned the key before the
//!    members changed, and fetches from the origin;
//! 5. the origin, when the owner does not answer.
//!
//! The owner alone fetches, so the fleet fetches a document once as long as the nodes know the same
//! members and the owner answers; the other nodes stream behind it. Where views differ, a request
//! travels to at most [`MAX_HOPS`] other nodes, the last of which fetches.
//!
//! Waiting never goes in a circle, whatever the nodes believe: a request that came with h hops may
//! wait for a running fetch of this node only when that fetch waits for no other node, or does so
//! with more than h hops ([`may_follow`]). Along any chain of nodes that wait for each other the
//! hops grow, so it ends. What asks for memory or disk only waits for no fetch at all.
//!
//! A purge that the asking node knows is not undone by one that lags behind: each [`Ask`] is sent
//! with the positions of its sender ([`crate::purge_positions`]), and who does not cover them uses
//! nothing that it stored or began to fetch before ([`LookupPlan::behind`]).

use std::collections::BTreeSet;
use std::error::Error;
use std::fmt;

use crate::class::{Copies, Lookup, Policy, Replication};
use crate::key::KeyHash;
use crate::member::{Member, MemberId};
use crate::members::Members;
use crate::placement::{self, LoadBound};

/// Most nodes that a request travels to after the one that its client asked.
pub const MAX_HOPS: u8 = 2;

/// Most nodes that are asked for a copy because a hint names them. Hints may be wrong, and each
/// wrong one costs a round trip.
pub const HOLDERS_MAX: usize = 2;

/// How far a node that is asked goes to answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    /// It answers from its memory.
    Memory,
    /// It answers from its memory or disk.
    Disk,
    /// It gets the document wherever it is.
    Origin,
}

/// Who wants a document from this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// A client.
    ByClient,
    /// Another node, with an [`Ask`].
    ByPeer {
        /// Its name; it is asked nothing in return.
        from: MemberId,
        /// How far to go.
        reach: Reach,
        /// True if a copy may enter this node's memory.
        keep_copy: bool,
        /// How many nodes the request has travelled to, this one included.
        hops: u8,
        /// The asking node knows of purges that this one has not carried out.
        behind: bool,
    },
}

/// A request for a document.
#[derive(Clone, Debug)]
pub struct Request {
    /// The document.
    pub key: KeyHash,
    /// Who wants it.
    pub asked: Asked,
    /// True if the index says that this node's disk has it, which costs no read.
    pub on_own_disk: bool,
    /// On how many owners it is kept for its popularity ([`crate::popularity`]); the policy may
    /// want more.
    pub hot_owners: usize,
}

/// What this node knows of the others.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// This node.
    pub me: &'a MemberId,
    /// The members.
    pub members: &'a Members,
    /// The members before the last change, for as long as the new owners may lack what the former
    /// ones have.
    pub previous: Option<&'a Members>,
    /// Who may hold a copy in memory, the likeliest first ([`crate::hints`]).
    pub hinted: &'a [MemberId],
    /// Members that are not asked at present, because their breakers are open.
    pub avoid: &'a BTreeSet<MemberId>,
    /// How far above its share an owner may be loaded.
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
}

/// A request to another node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// Whom to ask.
    pub member: MemberId,
    /// Why.
    pub role: Role,
    /// How far it is to go.
    pub reach: Reach,
    /// True if a copy may enter its memory; otherwise the read is exclusive.
    pub keep_copy: bool,
    /// How many nodes the request has travelled to when it arrives, from 1.
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

/// Where this node keeps what it got from elsewhere. Nothing that it has already is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keep {
    /// In memory: what came from its disk too.
    pub memory: bool,
    /// On disk.
    pub disk: bool,
}

/// What is done for a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LookupPlan {
    /// Where to look, one after another.
    pub steps: Vec<Step>,
    /// What is kept afterwards.
    pub keep: Keep,
    /// The asking node knows of purges that this one has not carried out: nothing may be used that
    /// was stored, or whose fetch began, before this request.
    pub behind: bool,
}

/// A request that has travelled to more nodes than [`MAX_HOPS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyHops(u8);

impl fmt::Display for TooManyHops {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a request came over {} nodes, and {MAX_HOPS} are the most", self.0)
    }
}

impl Error for TooManyHops {}

/// Plans where to look for a document of a class with this policy, and what to keep of it.
///
/// # Errors
///
/// When the request has travelled to more nodes than [`MAX_HOPS`]: it is answered with an error,
/// and the node that asked goes to the origin.
pub fn plan(
    request: &Request,
    policy: &Policy,
    view: &View<'_>,
) -> Result<LookupPlan, TooManyHops> {
    let planner = Planner::new(request, policy, view)?;
    Ok(LookupPlan { steps: planner.steps(), keep: planner.keep(), behind: planner.behind })
}

/// Returns whether a request may wait for the fetch of the same document that runs by `running`,
/// a plan of this node, instead of beginning its own. See the module for why not always.
pub fn may_follow(asked: &Asked, running: &LookupPlan) -> bool {
    may_wait(asked, running.waits_with())
}

/// Does as [`may_follow`], for a fetch that [waits so](LookupPlan::waits_with).
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
    /// Returns with how many hops another node is asked to fetch, the least of several; `None`:
    /// nobody is, and who follows this waits for no other node.
    pub fn waits_with(&self) -> Option<u8> {
        let asks = self.steps.iter().filter_map(|step| match step {
            Step::Ask(ask) if ask.reach == Reach::Origin => Some(ask.hops),
            _ => None,
        });
        asks.min()
    }
}

/// One request, with what all of its steps ask for.
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
        if !self.behind {
            steps.push(Step::OwnMemory);
        }
        let own_disk = self.request.on_own_disk && self.reach >= Reach::Disk && !self.behind;
        let owner = self.owner_to_ask();
        if self.policy.lookup == Lookup::Cooperate && self.may_ask() {
            steps.extend(self.holders(owner));
            if let Some(owner) = owner.filter(|_| own_disk) {
                steps.push(self.ask(owner, Role::Owner, Reach::Memory));
            }
        }
        if own_disk {
            steps.push(Step::OwnDisk);
        }
        if self.reach == Reach::Origin {
            match owner {
                Some(owner) => steps.push(self.ask(owner, Role::Owner, Reach::Origin)),
                None => steps.extend(self.previous_owner()),
            }
            steps.push(Step::Origin);
        }
        steps
    }

    /// Returns whether this request may go to yet another node.
    fn may_ask(&self) -> bool {
        self.hops < MAX_HOPS && self.reach == Reach::Origin
    }

    /// Returns whether this node asks the owners or those before them at all.
    fn asks_owners(&self) -> bool {
        self.may_ask() && self.policy.lookup != Lookup::Local
    }

    /// Returns whether this node may ask `id`: another one, which is there, answers, and does not
    /// wait for this answer itself.
    fn can_ask(&self, id: &MemberId) -> bool {
        let waits = matches!(&self.request.asked, Asked::ByPeer { from, .. } if from == id);
        let there = self.view.members.get(id).is_some_and(Member::may_be_asked);
        there && !waits && id != self.view.me && !self.view.avoid.contains(id)
    }

    /// Chooses the owner that is asked for all it can do; none when this node is the one to fetch.
    ///
    /// An owner, and a node that was taken for one, asks the first. Another node asks one in its
    /// zone if there is one; each node has its own among several, so that they share the load of a
    /// hot document.
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

    /// Returns the steps to those that hints name, without the owner that is asked anyway.
    fn holders(&self, owner: Option<&MemberId>) -> impl Iterator<Item = Step> {
        let mut asked = BTreeSet::new();
        self.view
            .hinted
            .iter()
            .filter(move |id| Some(*id) != owner && self.can_ask(id) && asked.insert(*id))
            .take(HOLDERS_MAX)
            .map(|id| self.ask(id, Role::Holder, Reach::Memory))
    }

    /// Returns the step to who owned the key before the members changed, if that is another node.
    fn previous_owner(&self) -> Option<Step> {
        let previous = self.view.previous.filter(|_| self.asks_owners())?;
        let former = placement::owners(self.request.key, previous, 1, None, |_| true);
        let former = &former.first()?.id;
        let known = self.can_ask(former);
        known.then(|| self.ask(former, Role::PreviousOwner, Reach::Disk))
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
        // A hot document is kept in the memories of its owners, so that they can share its load.
        let hot = owns && self.request.hot_owners > 1;
        let memory = match &self.request.asked {
            Asked::ByPeer { keep_copy, .. } => *keep_copy || hot,
            Asked::ByClient if owns || self.policy.lookup == Lookup::Local => {
                self.policy.copies != Copies::None
            }
            Asked::ByClient => self.policy.copies.at_reader(),
        };
        let disk =
            self.reach == Reach::Origin && (owns || self.policy.replication == Replication::All);
        Keep { memory, disk }
    }
}
