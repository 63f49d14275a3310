//! Lookup plans: worked examples, and random fleets whose nodes follow their plans.

use std::collections::{BTreeMap, BTreeSet};

use fleet::class::Preset;
use fleet::lookup::{
    Ask, Asked, Keep, LookupPlan, MAX_HOPS, Reach, Request, Role, Step, View, may_follow, plan,
    substitutes,
};
use fleet::member::State;
use fleet::placement::LoadBound;
use fleet::placement::rendezvous::ranking;
use fleet::{KeyHash, Member, MemberId, Members, Policy};

use crate::fixture::{key, member, members, seeds, weighted};

const KEY: KeyHash = KeyHash::from_bits(7);

/// A node and its knowledge, for tests to change.
struct Node {
    me: MemberId,
    members: Members,
    previous: Vec<Members>,
    hinted: Vec<MemberId>,
    avoid: BTreeSet<MemberId>,
    bound: Option<LoadBound>,
    policy: Policy,
}

impl Node {
    /// Node `me` of the paper's fleet: two front ends and the disk node.
    fn new(me: &str, policy: Policy) -> Node {
        let front = |name| Member { weight: 0, ..member(name) };
        Node {
            me: id(me),
            members: members(vec![front("a"), front("b"), member("disk")]),
            previous: Vec::new(),
            hinted: Vec::new(),
            avoid: BTreeSet::new(),
            bound: None,
            policy,
        }
    }

    fn plan(&self, asked: Asked, on_own_disk: bool) -> LookupPlan {
        self.plan_for(KEY, asked, on_own_disk)
    }

    fn plan_for(&self, key: KeyHash, asked: Asked, on_own_disk: bool) -> LookupPlan {
        let request = Request { key, asked, on_own_disk, hot_owners: 1 };
        plan(&request, &self.policy, &self.view()).unwrap()
    }

    fn substitutes(&self, key: KeyHash, asked: Asked) -> Vec<Ask> {
        let request = Request { key, asked, on_own_disk: false, hot_owners: 1 };
        let plan = plan(&request, &self.policy, &self.view()).unwrap();
        substitutes(&request, &plan, &self.view())
    }

    fn view(&self) -> View<'_> {
        View {
            me: &self.me,
            members: &self.members,
            previous: &self.previous,
            hinted: &self.hinted,
            avoid: &self.avoid,
            bound: self.bound,
        }
    }
}

fn id(name: &str) -> MemberId {
    name.parse().unwrap()
}

fn by_peer(from: &str, reach: Reach, hops: u8) -> Asked {
    Asked::ByPeer { from: id(from), reach, keep_copy: false, hops, behind: false }
}

/// Writes the steps as words: `memory`, `disk`, `a:Memory`, `origin`.
fn words(plan: &LookupPlan) -> String {
    let word = |step: &Step| match step {
        Step::OwnMemory => "memory".to_string(),
        Step::OwnDisk => "disk".to_string(),
        Step::Ask(ask) => format!("{}:{:?}", ask.member, ask.reach),
        Step::Origin => "origin".to_string(),
    };
    plan.steps.iter().map(word).collect::<Vec<_>>().join(" ")
}

fn asks(plan: &LookupPlan) -> impl Iterator<Item = &Ask> {
    plan.steps.iter().filter_map(|step| match step {
        Step::Ask(ask) => Some(ask),
        _ => None,
    })
}

#[test]
fn a_class_that_cooperates_asks_memories_before_disks() {
    let mut node = Node::new("a", Preset::CooperateOnAll.policies()[0]);
    assert_eq!(words(&node.plan(Asked::ByClient, false)), "memory disk:Origin origin");
    node.hinted = ["b", "a", "gone", "b", "disk"].map(id).into();
    let plan = node.plan(Asked::ByClient, false);
    assert_eq!(words(&plan), "memory b:Memory disk:Origin origin");
    assert_eq!(plan.keep, Keep { memory: true, disk: false });
    // The read is exclusive: the disk node keeps no copy in memory.
    assert!(asks(&plan).all(|ask| !ask.keep_copy && ask.hops == 1));
    let plan = node.plan(Asked::ByClient, true);
    assert_eq!(words(&plan), "memory b:Memory disk:Memory disk disk:Origin origin");
    node.avoid = ["b", "disk"].map(id).into();
    assert_eq!(words(&node.plan(Asked::ByClient, false)), "memory origin");
}

#[test]
fn a_class_that_does_not_goes_straight_to_the_disk_node_or_nowhere() {
    let mut node = Node::new("a", Preset::CooperateOnLarge.policies()[0]);
    node.hinted = vec![id("b")];
    let plan = node.plan(Asked::ByClient, false);
    assert_eq!(words(&plan), "memory disk:Origin origin");
    assert_eq!(plan.keep, Keep { memory: false, disk: false });
    assert!(asks(&plan).all(|ask| ask.keep_copy), "the discard cache keeps it");
    node.policy = Preset::Replicated.policies()[0];
    let plan = node.plan(Asked::ByClient, true);
    assert_eq!(words(&plan), "memory disk origin");
    assert_eq!(plan.keep, Keep { memory: true, disk: true });
}

#[test]
fn the_owner_fetches_and_answers_as_far_as_it_is_asked() {
    let mut owner = Node::new("disk", Preset::CooperateOnAll.policies()[0]);
    owner.hinted = vec![id("a"), id("b")];
    let plan = owner.plan(by_peer("a", Reach::Origin, 1), true);
    // The asking node is not asked in return.
    assert_eq!(words(&plan), "memory b:Memory disk origin");
    assert_eq!(plan.keep, Keep { memory: false, disk: true });
    assert_eq!(words(&owner.plan(by_peer("a", Reach::Origin, 2), true)), "memory disk origin");
    assert_eq!(words(&owner.plan(by_peer("a", Reach::Disk, 1), true)), "memory disk");
    assert_eq!(words(&owner.plan(by_peer("a", Reach::Memory, 1), true)), "memory");
    let client = owner.plan(Asked::ByClient, true);
    assert_eq!(words(&client), "memory a:Memory b:Memory disk origin");
    assert_eq!(client.keep, Keep { memory: true, disk: true });
}

#[test]
fn a_request_with_too_many_hops_is_refused() {
    let node = Node::new("disk", Preset::RemoteDisk.policies()[0]);
    let asked = by_peer("a", Reach::Origin, MAX_HOPS + 1);
    let request = Request { key: KEY, asked, on_own_disk: true, hot_owners: 1 };
    let view = View {
        me: &node.me,
        members: &node.members,
        previous: &[],
        hinted: &[],
        avoid: &node.avoid,
        bound: None,
    };
    let error = plan(&request, &node.policy, &view).unwrap_err().to_string();
    assert_eq!(error, "a request came over 3 nodes, and 2 are the most");
}

#[test]
fn a_node_that_lags_behind_in_purges_uses_no_copy() {
    let mut owner = Node::new("disk", Preset::CooperateOnAll.policies()[0]);
    owner.hinted = vec![id("b")];
    let behind =
        |reach| Asked::ByPeer { from: id("a"), reach, keep_copy: false, hops: 1, behind: true };
    let plan = owner.plan(behind(Reach::Origin), true);
    assert!(plan.behind);
    assert_eq!(words(&plan), "b:Memory origin");
    assert_eq!(words(&owner.plan(behind(Reach::Disk), true)), "");
}

#[test]
fn a_former_owner_is_asked_for_what_it_has() {
    let mut node = Node::new("n", Preset::RemoteDisk.policies()[0]);
    let owns_nothing = Member { weight: 0, ..member("old") };
    node.previous = vec![members(vec![member("old")])];
    node.members = members(vec![owns_nothing, member("n")]);
    let plan = node.plan(Asked::ByClient, false);
    assert_eq!(words(&plan), "memory old:Disk origin");
    assert!(asks(&plan).all(|ask| ask.role == Role::PreviousOwner));
    // The former owner is this node, leaves, or is gone for good.
    assert_eq!(words(&node.plan(by_peer("old", Reach::Origin, 1), false)), "memory origin");
    let leaving = Member { state: State::Leaving, ..member("old") };
    node.members = members(vec![leaving, member("n")]);
    assert_eq!(words(&node.plan(Asked::ByClient, false)), "memory origin");
    node.members = members(vec![member("n")]);
    assert_eq!(words(&node.plan(Asked::ByClient, false)), "memory origin");
}

#[test]
fn former_owners_of_several_changes_are_asked_each_once_and_the_last_first() {
    let mut node = Node::new("n", Preset::RemoteDisk.policies()[0]);
    let former = ["d", "c", "d", "b", "a"];
    node.previous = former.map(|name| members(vec![member(name)])).into();
    let others = former.map(|name| Member { weight: 0, ..member(name) });
    let unique = others.iter().enumerate().filter(|(at, _)| *at != 2).map(|(_, m)| m.clone());
    node.members = members(unique.chain([member("n")]).collect());
    let plan = node.plan(Asked::ByClient, false);
    assert_eq!(words(&plan), "memory d:Disk c:Disk b:Disk a:Disk origin");
}

#[test]
fn owners_of_a_hot_document_share_its_readers_and_one_of_them_fetches() {
    let list: Vec<_> = (0..12).map(|at| member(&format!("n{at}"))).collect();
    let view_of = members(list);
    let ranked: Vec<_> = ranking(KEY, &view_of).iter().map(|member| member.id.clone()).collect();
    let mut asked = BTreeMap::<MemberId, usize>::new();
    for me in &ranked {
        let mut node = Node::new(me.as_str(), Preset::RemoteDisk.policies()[0]);
        node.members = view_of.clone();
        let request =
            Request { key: KEY, asked: Asked::ByClient, on_own_disk: false, hot_owners: 3 };
        let view = View {
            me,
            members: &node.members,
            previous: &[],
            hinted: &[],
            avoid: &node.avoid,
            bound: None,
        };
        let plan = plan(&request, &node.policy, &view).unwrap();
        let owner = asks(&plan).next().map(|ask| ask.member.clone());
        // An owner keeps what others read through it, although reads of the class are exclusive.
        let asked_by_peer = by_peer("else", Reach::Origin, 1);
        let for_peer =
            fleet::lookup::plan(&Request { asked: asked_by_peer, ..request }, &node.policy, &view);
        let owns = ranked[..3].contains(me);
        assert_eq!(for_peer.unwrap().keep, Keep { memory: owns, disk: owns });
        match ranked.iter().position(|id| id == me).unwrap() {
            0 => assert_eq!(owner, None),
            1 | 2 => assert_eq!(owner.as_ref(), Some(&ranked[0])),
            _ => *asked.entry(owner.unwrap()).or_default() += 1,
        }
    }
    assert!(asked.len() > 1 && asked.keys().all(|id| ranked[..3].contains(id)), "{asked:?}");
}

#[test]
fn an_owner_that_is_busier_than_the_rest_is_passed_over() {
    let all = ["x", "y", "z"].map(member);
    let first = ranking(KEY, &members(all.to_vec()))[0].id.clone();
    let loaded = |mut node: Member| {
        node.load = if node.id == first { 100 } else { 10 };
        node
    };
    let loaded = members(all.map(loaded).to_vec());
    let second = &ranking(KEY, &loaded)[1].id;
    let mut node = Node::new("a", Preset::RemoteDisk.policies()[0]);
    node.members = loaded.clone();
    assert_eq!(words(&node.plan(Asked::ByClient, false)), format!("memory {first}:Origin origin"));
    node.bound = LoadBound::new(25).ok();
    assert_eq!(words(&node.plan(Asked::ByClient, false)), format!("memory {second}:Origin origin"));
}

#[test]
fn the_next_owners_fetch_for_a_node_without_a_connection_and_ask_no_other() {
    let all = ["a", "w", "x", "y", "z"].map(member);
    let listed = members(all.to_vec());
    let ranked = ranking(KEY, &listed);
    let ranked: Vec<MemberId> = ranked.into_iter().map(|member| member.id.clone()).collect();
    let node = |at: usize| {
        let mut node = Node::new(ranked[at].as_str(), Preset::RemoteDisk.policies()[0]);
        node.members = members(all.to_vec());
        node
    };
    let names = |asks: Vec<Ask>| -> Vec<MemberId> {
        assert!(asks.iter().all(|ask| ask.hops == MAX_HOPS && ask.reach == Reach::Origin));
        asks.into_iter().map(|ask| ask.member).collect()
    };
    let owner = node(0);
    assert_eq!(names(owner.substitutes(KEY, Asked::ByClient)), ranked[1..3]);
    let from = |at: usize, hops| by_peer(ranked[at].as_str(), Reach::Origin, hops);
    assert_eq!(names(owner.substitutes(KEY, from(1, 1))), ranked[2..4]);
    assert_eq!(names(owner.substitutes(KEY, from(1, MAX_HOPS))), []);
    assert_eq!(names(owner.substitutes(KEY, by_peer("w", Reach::Disk, 1))), []);
    // The owner was asked before.
    assert_eq!(
        names(node(2).substitutes(KEY, Asked::ByClient)),
        [&ranked[1..2], &ranked[3..4]].concat()
    );
    // Other nodes still wait for the owner's fetch.
    let plan = owner.plan(Asked::ByClient, false);
    assert!(may_follow(&from(1, 1), &plan) && !may_follow(&from(1, MAX_HOPS), &plan));
}

/// Carries out a plan in a fleet without the document and records which node fetched it.
fn carry_out(nodes: &BTreeMap<MemberId, Node>, at: &MemberId, key: KeyHash, asked: Asked) -> Trip {
    let plan = nodes[at].plan_for(key, asked, false);
    let mut trip = Trip::default();
    for step in &plan.steps {
        match step {
            Step::OwnMemory | Step::OwnDisk => {}
            Step::Origin => trip.fetched_by.push(at.clone()),
            Step::Ask(ask) => {
                assert!(ask.member != *at && (1..=MAX_HOPS).contains(&ask.hops));
                let asked = Asked::ByPeer {
                    from: at.clone(),
                    reach: ask.reach,
                    keep_copy: ask.keep_copy,
                    hops: ask.hops,
                    behind: false,
                };
                let further = carry_out(nodes, &ask.member, key, asked);
                trip.asked += 1 + further.asked;
                trip.fetched_by.extend(further.fetched_by);
            }
        }
        if !trip.fetched_by.is_empty() {
            break;
        }
    }
    trip
}

#[derive(Default)]
struct Trip {
    fetched_by: Vec<MemberId>,
    asked: usize,
}

/// Makes nodes of one fleet; with `agree`, all know the same members.
fn fleet(random: &mut fastrand::Rng, agree: bool) -> BTreeMap<MemberId, Node> {
    let list = weighted(random, 5);
    let presets: Vec<_> = Preset::all().collect();
    let policy = presets[random.usize(0..presets.len())].policies()[random.usize(0..4)];
    let names: Vec<_> = list.iter().map(|member| member.id.clone()).collect();
    let some = |random: &mut fastrand::Rng| -> Vec<MemberId> {
        names.iter().filter(|_| random.bool()).cloned().collect()
    };
    let node = |me: &MemberId, random: &mut fastrand::Rng| {
        let mut node = Node::new(me.as_str(), policy);
        let mut seen = list.clone();
        if !agree {
            seen.retain(|_| random.u8(0..4) > 0);
            seen.iter_mut().for_each(|member| member.weight = random.u32(0..4));
            node.avoid = some(random).into_iter().filter(|_| random.bool()).collect();
        }
        node.members = members(seen);
        node.hinted = some(random);
        node.previous = (0..random.usize(..4)).map(|_| members(weighted(random, 5))).collect();
        (me.clone(), node)
    };
    names.iter().map(|me| node(me, random)).collect()
}

#[test]
fn nodes_that_agree_fetch_at_the_owner_and_all_others_end_too() {
    for seed in seeds("nodes_that_agree_fetch_at_the_owner", 200) {
        let mut random = fastrand::Rng::with_seed(seed);
        for agree in [true, false] {
            let nodes = fleet(&mut random, agree);
            let key = key(&mut random);
            for (me, node) in &nodes {
                let trip = carry_out(&nodes, me, key, Asked::ByClient);
                assert_eq!(trip.fetched_by.len(), 1);
                // Holders here and at the owner, the owner, the former owner.
                assert!(trip.asked <= 8, "{}", trip.asked);
                if agree && node.policy.lookup.has(fleet::class::LookupStep::Owner) {
                    assert_eq!(trip.fetched_by[0], ranking(key, &node.members)[0].id);
                }
            }
        }
    }
}

/// A running fetch at a node: the asking node and its hops.
type Fetch = (MemberId, Option<MemberId>, u8);

/// Finds all fetches that `fetch` may wait for.
fn waits_for(
    nodes: &BTreeMap<MemberId, Node>,
    plans: &BTreeMap<Fetch, LookupPlan>,
    fetch: &Fetch,
) -> Vec<Fetch> {
    let mut found = Vec::new();
    let plan = &plans[fetch];
    let others = nodes.keys().filter(|id| plan.may_substitute && **id != fetch.0);
    let substitutes = others.map(|id| Ask {
        member: id.clone(),
        role: Role::Substitute,
        reach: Reach::Origin,
        keep_copy: false,
        hops: MAX_HOPS,
    });
    for ask in asks(plan).cloned().chain(substitutes).filter(|ask| ask.reach == Reach::Origin) {
        let asked = by_peer(fetch.0.as_str(), ask.reach, ask.hops);
        let own = (ask.member.clone(), Some(fetch.0.clone()), ask.hops);
        let running = plans.iter().filter(|((at, ..), _)| *at == ask.member);
        let shared = running.filter(|(_, running)| may_follow(&asked, running));
        found.extend(shared.map(|(other, _)| other.clone()));
        found.push(own);
    }
    found
}

#[test]
fn nodes_never_wait_for_each_other_in_a_circle_whatever_they_believe() {
    for seed in seeds("nodes_never_wait_for_each_other_in_a_circle", 60) {
        let mut random = fastrand::Rng::with_seed(seed);
        let nodes = fleet(&mut random, false);
        let key = key(&mut random);
        let mut plans = BTreeMap::new();
        for (me, node) in &nodes {
            plans.insert((me.clone(), None, 0), node.plan_for(key, Asked::ByClient, false));
            for (from, hops) in nodes.keys().flat_map(|from| [(from, 1), (from, 2)]) {
                let asked = by_peer(from.as_str(), Reach::Origin, hops);
                let plan = node.plan_for(key, asked, false);
                plans.insert((me.clone(), Some(from.clone()), hops), plan);
            }
        }
        // A fetch is settled if it waits only for settled ones; in the end all must be.
        let mut settled = BTreeSet::new();
        loop {
            let before = settled.len();
            for fetch in plans.keys() {
                if waits_for(&nodes, &plans, fetch).iter().all(|other| settled.contains(other)) {
                    settled.insert(fetch.clone());
                }
            }
            if settled.len() == before {
                break;
            }
        }
        assert_eq!(settled.len(), plans.len(), "some wait in a circle");
    }
}
