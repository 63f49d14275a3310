//! Derives the members from the nodes that gossip reports as live, and from those known ones that
//! answer requests though gossip has lost them, as where datagrams are blocked. Pure: times are
//! arguments.
//!
//! A node is a name, a generation (its start time) and an address. Of two live nodes with one name
//! and one address, the one that started later is the member: a restarted node appears before its
//! previous generation is found dead. At different addresses it is the one that started first, so
//! that no node takes the place of another that lives. If both stay alive, two machines have been
//! given the same name. This is reported, and the node that started later behaves like one that
//! leaves.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use chitchat::ChitchatId;
use fleet::member::State;
use fleet::{Member, MemberId};

use crate::Lost;
use crate::facts::InvalidFact;

/// Maximum number of lost members that are remembered; the first to be lost are forgotten first.
const LOST_MAX: usize = fleet::members::MEMBERS_MAX;

/// Time for which two nodes of one name must be live to be reported; a node that was killed is
/// found dead earlier.
const SAME_NAME_AFTER: Duration = Duration::from_secs(10);

/// Interval at which that error is repeated.
const SAME_NAME_AGAIN: Duration = Duration::from_secs(60);

/// Time for which a node that was heard by requests counts as live without gossip.
const HEARD_FOR: Duration = Duration::from_secs(5);

pub struct Live {
    pub node: ChitchatId,
    /// The facts that it announces; `None`: not received yet.
    pub facts: Option<Result<Member, InvalidFact>>,
}

/// A problem to be reported to the operator.
#[derive(Debug, PartialEq, Eq)]
pub enum Complaint {
    /// The facts that the node announces cannot be used, so it is not a member.
    Malformed(ChitchatId, InvalidFact),
    /// Two nodes have the same name.
    SameName {
        name: MemberId,
        /// Address of the node that started first and is the member.
        member: SocketAddr,
        /// Address of a node that started later and is ignored.
        ignored: SocketAddr,
    },
}

/// The members as known to one node.
pub struct View {
    /// This node, by name and generation.
    node: ChitchatId,
    own: Member,
    /// Address of a live node elsewhere that has the same name and started first.
    name_in_use: Option<SocketAddr>,
    others: BTreeMap<MemberId, Member>,
    /// The latest generations of the others: when they started, in milliseconds since 1970.
    generations: BTreeMap<MemberId, u64>,
    /// Generations that have said themselves that they leave, whatever gossip has of them.
    departed: BTreeMap<MemberId, u64>,
    lost: BTreeMap<MemberId, Lost>,
    /// Nodes that were heard by requests, and when.
    heard: BTreeMap<MemberId, (Member, Duration)>,
    /// The members that gossip does not report as live.
    kept: BTreeSet<MemberId>,
    same_names: BTreeMap<MemberId, SameName>,
}

struct SameName {
    since: Duration,
    reported: Option<Duration>,
}

impl View {
    /// Returns the view of a node that knows no others.
    pub fn new(node: ChitchatId, own: Member) -> View {
        View {
            node,
            own,
            name_in_use: None,
            others: BTreeMap::new(),
            generations: BTreeMap::new(),
            departed: BTreeMap::new(),
            lost: BTreeMap::new(),
            heard: BTreeMap::new(),
            kept: BTreeSet::new(),
            same_names: BTreeMap::new(),
        }
    }

    /// Returns this node's own facts.
    pub fn own(&self) -> &Member {
        &self.own
    }

    /// Replaces this node's own facts.
    pub fn announce(&mut self, own: Member) {
        self.own = own;
    }

    /// Changes the generation of this node, because gossip was restarted.
    pub fn begin_again(&mut self, node: ChitchatId) {
        self.node = node;
    }

    /// Returns the members.
    pub fn members(&self) -> Vec<Member> {
        let state = if self.name_in_use.is_some() { State::Leaving } else { self.own.state };
        let own = Member { state, ..self.own.clone() };
        self.others.values().cloned().chain([own]).collect()
    }

    /// Returns the address of the member elsewhere that has this node's name, if there is one.
    pub fn name_in_use(&self) -> Option<SocketAddr> {
        self.name_in_use
    }

    /// Returns when the members started, in milliseconds since 1970.
    pub fn started(&self) -> BTreeMap<MemberId, u64> {
        let mut started = self.generations.clone();
        started.insert(self.own.id.clone(), self.node.generation_id);
        started
    }

    /// Returns the lost members, by name.
    pub fn lost(&self) -> Vec<Lost> {
        self.lost.values().cloned().collect()
    }

    /// Records that a node that gossip knew in this run was heard by requests.
    pub fn hear(&mut self, of: Member, now: Duration) {
        if self.others.contains_key(&of.id) || self.lost.contains_key(&of.id) {
            self.heard.insert(of.id.clone(), (of, now));
        }
    }

    /// Returns whether a member counts only because it was heard by requests.
    pub fn is_kept_by_requests(&self, id: &MemberId) -> bool {
        self.kept.contains(id)
    }

    /// Records that a node did not answer.
    pub fn silent(&mut self, id: &MemberId) {
        self.heard.remove(id);
    }

    /// Records that a member has said itself that it leaves. Returns whether the view changes. A
    /// node of the same name at another address is not the member, and changes nothing.
    pub fn depart(&mut self, of: &Member) -> bool {
        let Some(member) = self.others.get_mut(&of.id) else {
            self.heard.remove(&of.id);
            return false;
        };
        if member.address != of.address {
            return false;
        }
        self.heard.remove(&of.id);
        let generation = self.generations.get(&of.id).copied().unwrap_or_default();
        self.departed.insert(of.id.clone(), generation);
        std::mem::replace(&mut member.state, State::Leaving) != State::Leaving
    }

    /// Updates the view with the nodes that are live now.
    pub fn update(&mut self, live: Vec<Live>, now: Duration) -> Vec<Complaint> {
        let mut complaints = Vec::new();
        let mut names: BTreeMap<MemberId, Vec<Live>> = BTreeMap::new();
        let own = Live { node: self.node.clone(), facts: None };
        for live in live.into_iter().filter(|live| live.node != self.node).chain([own]) {
            // Invalid names do not get here, since the wire rejects them.
            if let Ok(name) = live.node.node_id.parse() {
                names.entry(name).or_default().push(live);
            }
        }
        for (name, nodes) in &mut names {
            nodes.sort_by_key(|live| (live.node.generation_id, live.node.gossip_advertise_addr));
            self.put_member_last(name, nodes);
        }
        self.find_same_names(&names, now, &mut complaints);
        let ours = names.remove(&self.own.id).unwrap_or_default();
        let own_address = self.node.gossip_advertise_addr;
        let has_name = ours.last().map(|member| member.node.gossip_advertise_addr);
        self.name_in_use = has_name.filter(|address| *address != own_address);
        let present = names.into_values().filter_map(|nodes| member(nodes, &mut complaints));
        let present: Vec<(u64, Member)> = present.collect();
        let present = self.with_heard(present, now);
        self.generations = present.iter().map(|(of, member)| (member.id.clone(), *of)).collect();
        let generations = &self.generations;
        self.departed.retain(|id, of| generations.get(id).is_some_and(|now| *now <= *of));
        let present = present.into_iter().map(|(_, member)| {
            let state = match self.departed.contains_key(&member.id) {
                true => State::Leaving,
                false => member.state,
            };
            (member.id.clone(), Member { state, ..member })
        });
        self.replace(present.collect(), now);
        complaints
    }

    /// Adds the nodes that were heard lately and that gossip does not report as live.
    fn with_heard(&mut self, mut present: Vec<(u64, Member)>, now: Duration) -> Vec<(u64, Member)> {
        self.heard.retain(|_, (_, at)| now.saturating_sub(*at) < HEARD_FOR);
        self.kept.clear();
        for (id, (member, _)) in &self.heard {
            if present.iter().all(|(_, member)| member.id != *id) {
                let generation = self.generations.get(id).copied().unwrap_or_default();
                present.push((generation, member.clone()));
                self.kept.insert(id.clone());
            }
        }
        present
    }

    /// Moves the nodes at the address of the member to the end: of the nodes that have announced
    /// facts and do not leave, the first to start decides. `nodes` are ordered oldest first.
    fn put_member_last(&self, name: &MemberId, nodes: &mut [Live]) {
        let has_left = |live: &Live| {
            let generation = live.node.generation_id;
            let says_so = matches!(&live.facts, Some(Ok(facts)) if facts.state == State::Leaving);
            says_so || self.departed.get(name).is_some_and(|departed| generation <= *departed)
        };
        let counts =
            |live: &&Live| live.node == self.node || live.facts.is_some() && !has_left(live);
        let first = nodes.iter().find(counts).map(|live| live.node.gossip_advertise_addr);
        if let Some(first) = first {
            nodes.sort_by_key(|live| live.node.gossip_advertise_addr == first);
        }
    }

    /// Finds the names that are in use by several nodes at different addresses.
    fn find_same_names(
        &mut self,
        names: &BTreeMap<MemberId, Vec<Live>>,
        now: Duration,
        complaints: &mut Vec<Complaint>,
    ) {
        let mut found = BTreeMap::new();
        for (name, nodes) in names {
            let Some((member, ignored)) = apart(nodes) else { continue };
            let first = SameName { since: now, reported: None };
            let mut same = self.same_names.remove(name).unwrap_or(first);
            let wait = |since: Duration, wait| now.saturating_sub(since) >= wait;
            if wait(same.since, SAME_NAME_AFTER)
                && same.reported.is_none_or(|last| wait(last, SAME_NAME_AGAIN))
            {
                same.reported = Some(now);
                complaints.push(Complaint::SameName { name: name.clone(), member, ignored });
            }
            found.insert(name.clone(), same);
        }
        self.same_names = found;
    }

    /// Replaces the other members. Members that are no longer present become lost.
    fn replace(&mut self, present: BTreeMap<MemberId, Member>, now: Duration) {
        let before = std::mem::replace(&mut self.others, present);
        for (id, member) in before {
            if !self.others.contains_key(&id) {
                self.lost.insert(id, Lost { member, since: now });
            }
        }
        self.lost.retain(|id, _| !self.others.contains_key(id));
        while self.lost.len() > LOST_MAX {
            let first = self.lost.values().min_by_key(|lost| lost.since);
            let Some(first) = first.map(|lost| lost.member.id.clone()) else { break };
            self.lost.remove(&first);
        }
    }
}

/// Returns the member that the nodes of one name represent, and its generation: the last one with
/// facts.
fn member(nodes: Vec<Live>, complaints: &mut Vec<Complaint>) -> Option<(u64, Member)> {
    let newest = nodes.into_iter().rev().find(|live| live.facts.is_some())?;
    match newest.facts? {
        Ok(member) => Some((newest.node.generation_id, member)),
        Err(error) => {
            complaints.push(Complaint::Malformed(newest.node, error));
            None
        }
    }
}

/// Returns the addresses of the member and of another node with its name. A restarted node keeps
/// its address.
fn apart(nodes: &[Live]) -> Option<(SocketAddr, SocketAddr)> {
    let addresses = || nodes.iter().rev().map(|live| live.node.gossip_advertise_addr);
    let member = addresses().next()?;
    addresses().find(|address| *address != member).map(|ignored| (member, ignored))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts;

    fn node(name: &str, generation: u64, port: u16) -> ChitchatId {
        ChitchatId::new(name, generation, ([127, 0, 0, 1], port).into())
    }

    fn says(name: &str, load: u64) -> Member {
        let address = "h:1".parse().unwrap();
        let member = facts::unheard(name.parse().unwrap(), address, "".into(), 1);
        Member { load, state: State::Serving, ..member }
    }

    fn live(name: &str, generation: u64, port: u16) -> Live {
        let facts = Some(Ok(says(name, generation)));
        Live { node: node(name, generation, port), facts }
    }

    fn view() -> View {
        View::new(node("own", 5, 1), says("own", 0))
    }

    /// Returns the members' names, each with the load, in which these tests keep the generation.
    fn members(view: &View) -> Vec<(String, u64)> {
        view.members().iter().map(|member| (member.id.to_string(), member.load)).collect()
    }

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn members_come_and_go_and_come_back() {
        let mut view = view();
        view.update(vec![live("b", 1, 2), live("a", 1, 3), live("own", 5, 1)], at(1));
        assert_eq!(members(&view), [("a".into(), 1), ("b".into(), 1), ("own".into(), 0)]);
        view.update(vec![live("b", 1, 2)], at(2));
        view.update(vec![live("b", 1, 2)], at(3));
        let lost = view.lost();
        assert_eq!((lost.len(), lost[0].since), (1, at(2)));
        assert_eq!(lost[0].member, says("a", 1));
        view.update(vec![live("b", 1, 2), live("a", 9, 7)], at(4));
        assert_eq!(members(&view), [("a".into(), 9), ("b".into(), 1), ("own".into(), 0)]);
        assert!(view.lost().is_empty());
    }

    #[test]
    fn the_later_life_of_a_node_counts_once_it_has_spoken() {
        let mut view = view();
        let unheard = || Live { node: node("a", 2, 3), facts: None };
        view.update(vec![live("a", 1, 3), unheard()], at(1));
        assert_eq!(members(&view)[0], ("a".into(), 1));
        view.update(vec![live("a", 1, 3), live("a", 2, 3)], at(2));
        assert_eq!(members(&view)[0], ("a".into(), 2));
        view.update(vec![unheard()], at(3));
        assert_eq!(members(&view).len(), 1);
        assert_eq!(view.lost()[0].member.load, 2);
    }

    #[test]
    fn a_node_that_moved_counts_once_it_has_left_its_former_address() {
        let (mut view, first) = (view(), says("a", 1));
        let moved = Member { address: "h:2".parse().unwrap(), ..says("a", 2) };
        let both = || {
            let moved = Live { facts: Some(Ok(moved.clone())), ..live("a", 2, 4) };
            vec![live("a", 1, 3), moved]
        };
        view.update(both(), at(1));
        assert_eq!(members(&view)[0], ("a".into(), 1));
        assert!(!view.depart(&moved), "it is not the member yet");
        view.update(both(), at(1));
        assert_eq!(members(&view)[0], ("a".into(), 1));
        assert!(view.depart(&first));
        view.update(both(), at(2));
        assert_eq!(members(&view)[0], ("a".into(), 2));
        assert!(!view.depart(&first), "it is no longer the member");
        view.update(both(), at(2));
        assert_eq!(view.members()[0].state, State::Serving);
        view.update(vec![live("a", 2, 4)], at(3));
        assert_eq!(members(&view)[0], ("a".into(), 2));
    }

    #[test]
    fn a_node_that_says_that_it_leaves_does_so_until_its_next_generation() {
        let (mut view, a) = (view(), says("a", 1));
        let state = |view: &View| view.members()[0].state;
        assert!(!view.depart(&a), "it is unknown");
        view.update(vec![live("a", 1, 3)], at(1));
        assert!(view.depart(&a) && !view.depart(&a));
        assert_eq!(state(&view), State::Leaving);
        view.update(vec![live("a", 1, 3)], at(2));
        assert_eq!(state(&view), State::Leaving, "gossip has older facts");
        view.update(vec![], at(3));
        assert_eq!(view.lost()[0].member.state, State::Leaving);
        view.update(vec![live("a", 2, 3)], at(4));
        assert_eq!(state(&view), State::Serving);
    }

    #[test]
    fn a_node_that_answers_stays_though_gossip_has_lost_it() {
        let (mut view, a) = (view(), "a".parse().unwrap());
        view.hear(says("a", 1), at(1));
        view.update(vec![], at(1));
        assert_eq!(members(&view).len(), 1, "gossip never knew it");
        view.update(vec![live("a", 1, 3)], at(2));
        view.hear(says("a", 7), at(4));
        view.update(vec![], at(8));
        assert_eq!(members(&view)[0], ("a".into(), 7));
        assert!(view.is_kept_by_requests(&a));
        assert_eq!(view.started()[&a], 1);
        view.update(vec![], at(9));
        assert_eq!((members(&view).len(), view.lost().len()), (1, 1));
        view.hear(says("a", 8), at(10));
        view.update(vec![], at(10));
        assert_eq!((members(&view).len(), view.lost().len()), (2, 0));
        view.silent(&a);
        view.update(vec![], at(11));
        assert_eq!(members(&view).len(), 1, "it did not answer");
        view.hear(says("a", 9), at(12));
        view.update(vec![], at(12));
        assert!(view.depart(&says("a", 9)));
        view.update(vec![], at(13));
        assert_eq!(members(&view).len(), 1, "it has left");
    }

    #[test]
    fn a_node_with_malformed_facts_is_no_member() {
        let mut view = view();
        let error = facts::decode("a".parse().unwrap(), |_| None).unwrap_err();
        let malformed = Live { node: node("a", 1, 3), facts: Some(Err(error.clone())) };
        let complaints = view.update(vec![malformed, live("b", 1, 2)], at(1));
        assert_eq!(complaints, [Complaint::Malformed(node("a", 1, 3), error)]);
        assert_eq!(members(&view).len(), 2);
    }

    #[test]
    fn two_nodes_of_one_name_are_reported_when_both_go_on() {
        let mut view = view();
        let both = || vec![live("a", 2, 4), live("a", 1, 3)];
        let address = |port| ([127, 0, 0, 1], port).into();
        let report = Complaint::SameName {
            name: "a".parse().unwrap(),
            member: address(3),
            ignored: address(4),
        };
        assert_eq!(view.update(both(), at(1)), []);
        assert_eq!(view.update(both(), at(10)), []);
        assert_eq!(view.update(both(), at(11)), [report]);
        assert_eq!(view.update(both(), at(12)), []);
        assert_eq!(view.update(both(), at(71)).len(), 1);
        assert_eq!(members(&view)[0], ("a".into(), 1), "the newer one is ignored");
        view.update(vec![live("a", 2, 4)], at(72));
        assert_eq!(view.update(both(), at(82)), [], "it is another time");
        let mut restarted = self::view();
        let same_place = || vec![live("a", 2, 3), live("a", 1, 3)];
        restarted.update(same_place(), at(1));
        assert_eq!(restarted.update(same_place(), at(100)), [], "one socket, one node");
    }

    #[test]
    fn a_node_whose_name_is_in_use_leaves_until_it_is_free() {
        let state = |view: &View| view.members().last().unwrap().state;
        let mut view = view();
        view.update(vec![live("own", 6, 9)], at(1));
        assert_eq!((state(&view), view.name_in_use()), (State::Serving, None), "it was first");
        view.update(vec![live("own", 4, 1)], at(2));
        assert_eq!(view.name_in_use(), None, "this node before its restart");
        view.update(vec![live("own", 4, 9)], at(3));
        assert_eq!(state(&view), State::Leaving);
        assert_eq!(view.name_in_use(), Some(([127, 0, 0, 1], 9).into()));
        assert_eq!(view.update(vec![live("own", 4, 9)], at(13)).len(), 1);
        view.update(vec![], at(14));
        assert_eq!((state(&view), view.name_in_use()), (State::Serving, None));
    }

    #[test]
    fn few_lost_members_are_remembered() {
        let mut view = view();
        for i in 0..LOST_MAX as u64 + 10 {
            view.update(vec![live(&format!("n{i}"), 1, 3)], at(i));
        }
        view.update(vec![], at(9_999));
        let lost = view.lost();
        assert_eq!(lost.len(), LOST_MAX);
        assert!(lost.iter().all(|lost| lost.since >= at(10)));
    }
}
