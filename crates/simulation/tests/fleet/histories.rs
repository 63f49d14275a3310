//! Random histories of a fleet: clients ask, an operator edits and purges, and ways, nodes, disks
//! and the origin fail and come back.
//!
//! Whatever happens: no byte is wrong, no answer is another object's or older than HTTP permits,
//! nothing that was purged is answered by a node that must know of it, nothing fails that the
//! origin would have answered, every request ends; and when all is well again the nodes agree, and
//! the origin is asked once for each object. What a run does follows from its seed.

mod availability;
mod client;
mod nodes;
mod operator;
mod origin;
mod requests;
mod trouble;
mod truth;

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

use fastrand::Rng;
use fleet::class::Copies;
use fleet::member::State;
use sim::network::{Event, Link};
use simulation::World;
use tokio::task::spawn_local;
use tokio::time::{Instant, sleep};

use crate::histories::nodes::{Disk, Nodes, name};
use crate::histories::requests::{Clients, Seen};
use crate::histories::truth::{COUNT, Truth};

pub use trouble::plain;

/// For how long things go wrong.
const TROUBLE: Duration = Duration::from_secs(70);

/// After how long without trouble the nodes agree.
const SETTLING: Duration = Duration::from_secs(90);

/// Result of a history.
struct Outcome {
    seen: Vec<Seen>,
    events: Vec<Event>,
}

/// Runs the history of a seed, in which things go wrong for this time, and judges it.
fn run(seed: u64, trouble: Duration) -> Outcome {
    World::run(seed, Link::default(), async |world| history(&world, trouble).await)
}

async fn history(world: &World, trouble: Duration) -> Outcome {
    let (truth, mut random) =
        (Rc::new(Truth::new(world.seed)), Rng::with_seed(world.seed ^ 0xf1ee));
    let skews: Vec<i64> = (0..random.usize(3..6)).map(|_| random.i64(-300..300)).collect();
    let classes = trouble::classes(1, &mut random);
    truth.note(format!("{} nodes, {:?}", skews.len(), classes));
    let origin = world.network.host("origin").listen(80).unwrap();
    let nodes = Nodes::new(world, truth.clone(), &skews, classes).await;
    spawn_local(origin::serve(origin, truth.clone(), world.clock, nodes.origin.clone()));
    // One may join later.
    let late = random.bool();
    (0..nodes.len() - usize::from(late)).for_each(|node| nodes.start(node));
    let last = nodes.len() - 1;
    nodes.slots[last].busy.set(late);
    let ticking = nodes.clone();
    let ticks = spawn_local(async move {
        loop {
            ticking.tick();
            sleep(Duration::from_millis(50)).await;
        }
    });
    sleep(Duration::from_secs(2)).await;
    let clients = Clients::new(nodes.clone());
    let asking = spawn_local(clients.clone().run(trouble + Duration::from_secs(10)));
    let purging = spawn_local(operator::run(clients.clone(), trouble + Duration::from_secs(5)));
    let trouble = spawn_local(trouble::run(nodes.clone(), trouble));
    if late {
        sleep(Duration::from_millis(random.u64(1_000..40_000))).await;
        nodes.start(last);
        nodes.slots[last].busy.set(false);
    }
    for task in [asking, purging, trouble] {
        task.await.unwrap();
    }
    let seen = clients.end().await;
    settle(&nodes, &clients).await;
    ticks.abort();
    truth.verdict();
    for node in 0..nodes.len() {
        nodes.stop(node).await;
    }
    Outcome { seen, events: world.network.events() }
}

/// Waits until all faults are over: the nodes agree, and an object that no node has is fetched
/// once.
async fn settle(nodes: &Rc<Nodes>, clients: &Rc<Clients>) {
    let truth = &nodes.truth;
    if !operator::settled(nodes, SETTLING).await {
        return truth.wrong("the nodes do not settle".to_owned());
    }
    // What was under way between them has ended.
    sleep(Duration::from_secs(20)).await;
    // A question whose answer hung ends only now.
    let (begun, mut of_peers) = (Instant::now(), 0);
    for object in COUNT..COUNT + 6 {
        for node in 0..nodes.len() {
            let seen = clients.ask(node, object).await;
            match &seen.answer {
                Ok((200, _, detail)) => of_peers += usize::from(detail.ends_with("HIT_PEER")),
                _ => truth.wrong(format!("after all: {seen:?}")),
            }
        }
        let (asked, owner) = (truth.asked(object), name(0));
        if asked != 1 {
            truth.wrong(format!("the origin was asked {asked} times for {object}, {owner} first"));
        }
    }
    let hits = nodes.hits(begun);
    if hits != of_peers {
        truth.wrong(format!("{of_peers} answers were of a peer, and {hits} questions were hits"));
    }
}

/// The seeds to run: those of `LARDER_SEEDS`, as `FIRST..END`, or one that fits among the others.
fn seeds() -> std::ops::Range<u64> {
    let Ok(text) = std::env::var("LARDER_SEEDS") else { return 0..1 };
    let (first, end) = text.split_once("..").expect("LARDER_SEEDS=FIRST..END");
    first.parse().unwrap()..end.parse().unwrap()
}

#[test]
fn whatever_happens_nothing_is_wrong_and_the_nodes_agree_afterwards() {
    for seed in seeds() {
        eprintln!("seed {seed}");
        let Outcome { seen, .. } = run(seed, TROUBLE);
        assert!(seen.len() > 500, "{}", seen.len());
    }
}

/// Runs so many nodes that have met, and a case of theirs.
fn case(nodes: usize, of: impl AsyncFnOnce(Rc<Nodes>, Rc<Clients>)) {
    World::run(7, Link::default(), async |world| {
        let truth = Rc::new(Truth::new(world.seed));
        let origin = world.network.host("origin").listen(80).unwrap();
        let classes = trouble::plain(Copies::Inclusive);
        let nodes = Nodes::new(&world, truth.clone(), &vec![0; nodes], classes).await;
        spawn_local(origin::serve(origin, truth.clone(), world.clock, nodes.origin.clone()));
        (0..nodes.len()).for_each(|node| nodes.start(node));
        assert!(operator::settled(&nodes, SETTLING).await);
        let clients = Clients::new(nodes.clone());
        of(nodes, clients).await;
        truth.verdict();
    });
}

#[test]
fn a_node_whose_disk_fails_does_not_stop_the_others() {
    case(3, async |nodes, clients| {
        nodes.break_disk(2);
        // Nothing that it makes durable; so it gives the device up.
        operator::purge(&clients, 2, 0, &mut Rng::with_seed(1)).await;
        for object in COUNT..COUNT + 6 {
            for node in 0..3 {
                clients.ask(node, object).await;
            }
        }
        for at in 0..60 {
            sleep(Duration::from_millis(130)).await;
            let seen = clients.ask(at % 2, COUNT + at as u32 % 6).await;
            let is_past = |detail: &str| detail.contains("BYPASS");
            assert!(matches!(&seen.answer, Ok((200, _, detail)) if !is_past(detail)), "{seen:?}");
        }
        // What it owned has other owners.
        let node =
            nodes.slots[0].running.borrow().as_ref().and_then(|running| running.node.clone());
        let members = node.unwrap().members();
        let failed = members.get(&name(2).parse().unwrap()).unwrap();
        assert_eq!((failed.weight, failed.disk_failed), (0, true));
        for object in COUNT + 6..COUNT + 18 {
            is_fetched_once(&nodes, &clients, object).await;
        }
    });
}

/// The other nodes still have the old copies then, and cannot know of the change.
#[test]
fn what_a_put_changes_does_not_come_back_from_others_while_its_node_cannot_write() {
    case(3, async |nodes, clients| {
        let (truth, operator) = (&nodes.truth, nodes.world.network.host("operator"));
        let objects = COUNT..COUNT + 8;
        for object in objects.clone() {
            for node in 0..3 {
                clients.ask(node, object).await;
            }
        }
        nodes.slow_disk(0);
        for object in objects {
            truth.edit(object);
            let (host, path, _) = Truth::names(object);
            let to = nodes.address(0);
            let put = client::ask(&operator, to, "PUT", (host, &path)).await.unwrap();
            assert_eq!(put.status, 200);
            let changed = BTreeMap::from([(object, truth.current(object))]);
            truth.purged(changed, (false, false), BTreeSet::from([0]));
            clients.ask(0, object).await;
        }
        assert!(operator::settled(&nodes, SETTLING).await);
    });
}

#[test]
fn a_node_that_comes_back_with_an_empty_disk_costs_the_others_nothing() {
    case(3, async |nodes, clients| {
        // Purges that all have carried out.
        for seed in 0..3 {
            let named = operator::purge(&clients, 2, 0, &mut Rng::with_seed(seed)).await;
            assert_eq!(named, Some([].into()));
        }
        // The others keep these in memory, where they have been asked for them.
        let small: Vec<u32> = (COUNT..COUNT + 24).filter(|object| object % 8 != 0).collect();
        let ask_all = async || {
            for (node, object) in (0..2).flat_map(|node| small.iter().map(move |at| (node, *at))) {
                let seen = clients.ask(node, object).await;
                assert!(matches!(&seen.answer, Ok((200, ..))), "{seen:?}");
            }
            small.iter().map(|object| nodes.truth.asked(*object)).collect::<Vec<_>>()
        };
        let before = ask_all().await;
        nodes.kill(2).await;
        nodes.put_disk(2, Disk::Empty).await;
        sleep(Duration::from_secs(8)).await;
        nodes.start(2);
        assert!(operator::settled(&nodes, SETTLING).await);
        assert_eq!(ask_all().await, before);
    });
}

#[test]
fn a_node_that_cannot_make_a_purge_durable_is_named_for_as_long_as_that_is_so() {
    case(3, async |nodes, clients| {
        nodes.break_disk(2);
        for seed in 0..4 {
            let named = operator::purge(&clients, 0, 0, &mut Rng::with_seed(seed)).await;
            assert_eq!(named, Some([2].into()));
            sleep(Duration::from_secs(3)).await;
        }
        clients.end().await;
    });
}

#[test]
fn of_those_that_know_a_log_of_a_node_that_is_gone_the_one_that_knows_most_is_followed() {
    case(4, async |nodes, clients| {
        nodes.kill(1).await;
        // The second knows less of it than the third.
        [0, 3].iter().for_each(|other| nodes.part(2, *other));
        let named = operator::purge(&clients, 0, 0, &mut Rng::with_seed(1)).await;
        assert_eq!(named, Some([1, 2].into()));
        clients.end().await;
        nodes.kill(0).await;
        // Who knows less answers first.
        let [asking, slow] = [1, 3].map(|node| nodes.slots[node].host.address());
        let late = Duration::from_millis(40)..=Duration::from_millis(50);
        nodes.world.network.set_link(slow, asking, Link { delay: late, ..Link::default() });
        nodes.start(1);
        sleep(Duration::from_secs(8)).await;
        let known = nodes.last_purge(3, 0);
        assert!(known.is_some() && nodes.last_purge(1, 0) == known, "{:?}", nodes.last_purge(1, 0));
        // It tells the second, which meets no other node that knows of it.
        assert_eq!(nodes.last_purge(2, 0), known);
    });
}

#[test]
fn who_still_follows_a_former_log_brings_nobody_back_to_it() {
    case(4, async |nodes, clients| {
        for object in 0..COUNT {
            clients.ask(2, object).await;
        }
        [0, 1, 3].iter().for_each(|other| nodes.part(2, *other));
        nodes.kill(3).await;
        nodes.put_disk(3, Disk::Empty).await;
        nodes.start(3);
        // It waits for the one that it cannot reach before it serves.
        sleep(Duration::from_secs(15)).await;
        (0..COUNT).for_each(|object| nodes.truth.edit(object));
        let named = operator::purge(&clients, 3, 0, &mut Rng::with_seed(1)).await;
        assert_eq!(named, Some([2].into()));
        nodes.kill(3).await;
        // It knows from the first node how far the log of the third has come, and then meets one
        // that knows the log that was on the disk before.
        nodes.kill(1).await;
        nodes.start(1);
        sleep(Duration::from_secs(2)).await;
        let known = nodes.last_purge(1, 3);
        assert!(known.is_some() && nodes.last_purge(2, 3) < known);
        nodes.part(0, 1);
        nodes.join(1, 2);
        for _ in 0..40 {
            sleep(Duration::from_millis(250)).await;
            assert_eq!(nodes.last_purge(1, 3), known);
            nodes.tick();
            clients.ask(2, 0).await;
        }
        sleep(Duration::from_secs(10)).await;
        assert_eq!(nodes.last_purge(2, 3), known);
        clients.end().await;
    });
}

#[test]
fn an_old_disk_is_found_out_each_time_that_it_comes_back() {
    case(3, async |nodes, clients| {
        for object in 0..COUNT {
            clients.ask(2, object).await;
        }
        sleep(Duration::from_secs(2)).await;
        nodes.copy_disk(2);
        for _ in 0..3 {
            for object in 0..COUNT {
                nodes.truth.edit(object);
            }
            let mut random = Rng::with_seed(1);
            for object in 0..COUNT {
                operator::purge(&clients, 2, object, &mut random).await;
            }
            nodes.kill(2).await;
            nodes.put_disk(2, Disk::Old).await;
            nodes.start(2);
            sleep(Duration::from_secs(15)).await;
            for object in 0..COUNT {
                clients.ask(2, object).await;
            }
            assert!(operator::settled(&nodes, SETTLING).await);
        }
        assert!(clients.end().await.len() > 100);
    });
}

#[test]
fn a_node_that_leaves_is_not_named_and_has_nothing_that_was_purged_when_it_is_back() {
    case(3, async |nodes, clients| {
        for object in 0..COUNT {
            clients.ask(2, object).await;
        }
        let leaving = nodes.clone();
        let leaves = spawn_local(async move { leaving.stop(2).await });
        let mut random = Rng::with_seed(1);
        for object in 0..COUNT {
            sleep(Duration::from_millis(170)).await;
            nodes.truth.edit(object);
            let begun = nodes.truth.now();
            let named = operator::purge(&clients, 1, object, &mut random).await;
            assert_eq!(named, Some([].into()));
            assert!(nodes.truth.now() - begun < Duration::from_millis(500), "it was waited for");
        }
        leaves.await.unwrap();
        nodes.start(2);
        for object in 0..COUNT {
            sleep(Duration::from_millis(50)).await;
            clients.ask(2, object).await;
        }
        assert!(clients.end().await.len() > 100);
    });
}

#[test]
fn a_node_that_left_and_came_back_where_it_is_not_seen_is_told_or_named() {
    case(3, async |nodes, clients| {
        nodes.stop(2).await;
        let [here, there] = [0, 2].map(|node| nodes.slots[node].host.address());
        let ways = [(here, there), (there, here)];
        ways.iter().for_each(|(from, to)| nodes.cut(*from, *to));
        sleep(Duration::from_secs(5)).await;
        nodes.start(2);
        // It waits for the one that it does not reach, and then serves.
        let end = nodes.truth.now() + Duration::from_secs(20);
        while nodes.truth.now() < end {
            nodes.tick();
            sleep(Duration::from_millis(50)).await;
        }
        let mut random = Rng::with_seed(1);
        for object in 0..COUNT {
            for _ in 0..2 {
                clients.ask(2, object).await;
            }
            nodes.truth.edit(object);
            let named = operator::purge(&clients, 0, object, &mut random).await;
            assert_eq!(named, Some([2].into()));
            // Those who can, tell it.
            nodes.tick();
            clients.ask(2, object).await;
        }
        ways.iter().for_each(|(from, to)| nodes.mend(*from, *to));
        assert!(operator::settled(&nodes, SETTLING).await);
        let named = operator::purge(&clients, 0, 0, &mut random).await;
        assert_eq!(named, Some([].into()));
        assert!(clients.end().await.len() > 100);
    });
}

#[test]
fn an_old_disk_is_found_out_whose_log_has_grown_as_long_before_anybody_was_met() {
    case(3, async |nodes, clients| {
        let mut random = Rng::with_seed(1);
        for object in 0..COUNT {
            clients.ask(0, object).await;
            clients.ask(2, object).await;
        }
        sleep(Duration::from_secs(2)).await;
        nodes.copy_disk(2);
        for object in 0..4 {
            nodes.truth.edit(object);
            assert!(operator::purge(&clients, 2, object, &mut random).await.is_some());
        }
        nodes.kill(2).await;
        nodes.put_disk(2, Disk::Old).await;
        let [own, a, b] = [2, 0, 1].map(|node| nodes.slots[node].host.address());
        let ways = [(own, a), (a, own), (own, b), (b, own)];
        ways.iter().for_each(|(from, to)| nodes.cut(*from, *to));
        nodes.start(2);
        sleep(Duration::from_secs(4)).await;
        for object in 8..12 {
            for node in 0..2 {
                clients.ask(node, object).await;
            }
            nodes.truth.edit(object);
            let named = operator::purge(&clients, 2, object, &mut random).await;
            assert_eq!(named, Some([0, 1].into()));
        }
        ways.iter().for_each(|(from, to)| nodes.mend(*from, *to));
        for _ in 0..100 {
            sleep(Duration::from_millis(50)).await;
            for object in 8..12 {
                clients.ask(2, object).await;
            }
        }
        assert!(operator::settled(&nodes, SETTLING).await);
        assert!(clients.end().await.len() > 100);
    });
}

#[test]
fn who_was_started_again_takes_no_purge_of_an_old_disk_for_one_that_it_knows() {
    // A node is purged before it has met another, on a disk from before a purge that one knows
    // which has been started again since.
    run(94_686, TROUBLE);
}

#[test]
fn what_one_of_those_that_wait_for_a_hanging_fetch_has_validated_serves_the_others() {
    // They found nothing to validate when they came.
    run(502, TROUBLE);
}

/// Upgrades a node to a program that understands these.
async fn upgrade(nodes: &Nodes, node: usize, protocols: &str) {
    nodes.stop(node).await;
    nodes.upgrade(node, protocols.parse().unwrap());
    nodes.start(node);
}

/// Asks all nodes for an object that none of them has; it is fetched once.
async fn is_fetched_once(nodes: &Nodes, clients: &Rc<Clients>, object: u32) {
    for node in 0..nodes.len() {
        let seen = clients.ask(node, object).await;
        assert!(matches!(seen.answer, Ok((200, ..))), "{seen:?}");
    }
    assert_eq!(nodes.truth.asked(object), 1);
}

#[test]
fn programs_with_a_protocol_in_common_are_one_fleet_while_one_after_another_is_upgraded() {
    case(3, async |nodes, clients| {
        let mut random = Rng::with_seed(1);
        for (at, protocols) in ["1-2", "1-2", "1-3", "2-3", "2-3", "2-4"].into_iter().enumerate() {
            upgrade(&nodes, at % 3, protocols).await;
            assert!(operator::settled(&nodes, SETTLING).await);
            // It is asked again.
            sleep(Duration::from_secs(20)).await;
            is_fetched_once(&nodes, &clients, COUNT + at as u32).await;
            for object in 0..4 {
                clients.ask((at + 1) % 3, object).await;
                nodes.truth.edit(object);
                let named = operator::purge(&clients, at % 3, object, &mut random).await;
                assert_eq!(named, Some([].into()));
                clients.ask((at + 1) % 3, object).await;
            }
        }
        assert!(clients.end().await.len() > 40);
    });
}

#[test]
fn a_node_of_another_protocol_is_named_and_catches_up_when_it_is_upgraded() {
    case(3, async |nodes, clients| {
        let mut random = Rng::with_seed(1);
        for object in 0..COUNT {
            for node in 0..3 {
                clients.ask(node, object).await;
            }
        }
        upgrade(&nodes, 2, "2-3").await;
        sleep(Duration::from_secs(3)).await;
        let of = |node: usize| nodes.slots[node].running.borrow().as_ref()?.node.clone();
        for (node, strangers) in [(0, vec![2]), (1, vec![2]), (2, vec![0, 1])] {
            let named = of(node).unwrap().not_understood();
            assert!(named.keys().cloned().eq(strangers.into_iter().map(name)), "{named:?}");
            assert!(named.values().all(|why| why.starts_with("it speaks protocol ")), "{named:?}");
        }
        // Each side goes on for its clients, and names the other.
        for object in 0..COUNT {
            nodes.truth.edit(object);
            for (node, strangers) in [(0, vec![2]), (2, vec![0, 1])] {
                let named = operator::purge(&clients, node, object, &mut random).await;
                assert_eq!(named, Some(strangers.into_iter().collect()));
            }
            for node in 0..3 {
                let seen = clients.ask(node, object).await;
                assert!(matches!(seen.answer, Ok((200, ..))), "{seen:?}");
            }
        }
        // What was purged at node 2 has been stored by the others since.
        for object in 0..COUNT {
            nodes.truth.edit(object);
            assert!(operator::purge(&clients, 2, object, &mut random).await.is_some());
        }
        for node in [1, 0] {
            upgrade(&nodes, node, "3").await;
            let end = nodes.truth.now() + Duration::from_secs(20);
            while nodes.truth.now() < end {
                let serves = of(node).unwrap().own().state == State::Serving;
                for object in 0..COUNT {
                    let seen = clients.ask(node, object).await;
                    let current = nodes.truth.current(object);
                    let is_new = matches!(seen.answer, Ok((200, version, _)) if version == current);
                    assert!(is_new || !serves, "{seen:?}, {current}");
                }
            }
        }
        assert!(operator::settled(&nodes, SETTLING).await);
        assert!(of(0).unwrap().not_understood().is_empty());
        let named = operator::purge(&clients, 0, 0, &mut random).await;
        assert_eq!(named, Some([].into()));
        assert!(clients.end().await.len() > 100);
    });
}

#[test]
fn a_history_follows_from_its_seed() {
    let [first, again] = [(); 2].map(|()| run(77, TROUBLE / 4));
    assert!(first.seen == again.seen, "the clients saw something else");
    for (at, (one, two)) in first.events.iter().zip(&again.events).enumerate() {
        assert_eq!(one, two, "event {at}");
    }
    assert_eq!(first.events.len(), again.events.len());
}
