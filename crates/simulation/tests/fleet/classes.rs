//! Classes by size, which a node that does not own a document learns from the answer, and by
//! popularity.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fleet::class::{Bounds, Class, Copies, Criteria, Eviction, Lookup, Replication};
use fleet::{ClassTable, Policy};
use membership::static_list::Listed;
use proxy::peers::node::NodeOptions;
use proxy::{Observer, RequestRecord};
use sim::network::{Host, Link};
use simulation::{Proxy, Running, World};
use tokio::task::spawn_local;
use tokio::time::{Instant, sleep};

use crate::objects::Objects;
use crate::{client, nodes, origin};

/// Names of the nodes: the first one owns everything, clients ask the others.
const NAMES: [&str; 3] = ["disk", "web-a", "web-b"];

/// Outcomes of the questions for documents that a node answered.
#[derive(Default)]
pub struct Answered(Mutex<Vec<String>>);

impl Answered {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

impl Observer for Answered {
    fn finished(&self, done: &RequestRecord<'_>) {
        let outcome = done.outcome.text();
        if done.is_peer && outcome != "FLEET" {
            self.0.lock().unwrap().push(outcome.into_owned());
        }
    }
}

/// A disk node and two nodes that own nothing, with the same classes.
struct Fleet {
    objects: Objects,
    client: Host,
    hosts: [Host; 3],
    answered: [Arc<Answered>; 3],
    running: Vec<Running>,
    began: Instant,
}

impl Fleet {
    /// Starts the nodes, each with `memory` bytes of memory.
    async fn start(world: &World, classes: &ClassTable, memory: u64) -> Fleet {
        let began = Instant::now();
        let objects = Objects::lasting(world.seed, began);
        let [origin, client] = ["origin", "client"].map(|name| world.network.host(name));
        spawn_local(origin::serve(origin.listen(80).unwrap(), objects.clone(), world.clock));
        let hosts = NAMES.map(|name| world.network.host(name));
        let answered = NAMES.map(|_| Arc::<Answered>::default());
        let weight = |name: &str| u32::from(name == NAMES[0]);
        let mut running = Vec::new();
        for (at, host) in hosts.iter().enumerate() {
            let change = |proxy: &mut Proxy, options: &mut NodeOptions| {
                proxy.observer = answered[at].clone();
                proxy.cache.as_mut().unwrap().memory = memory;
                options.own.weight = weight(NAMES[at]);
                options.classes = classes.clone();
                options.bound = None;
            };
            let listed = |name: &&str| Listed { weight: weight(name), ..nodes::listed(name) };
            let listed = NAMES.iter().map(listed).collect();
            running.push(nodes::start_listed(world, host, (NAMES[at], listed), change).await);
        }
        sleep(Duration::from_secs(5)).await;
        Fleet { objects, client, hosts, answered, running, began }
    }

    /// Asks a node for an object; returns what the answer says of itself, and the outcomes of the
    /// questions that the disk node answered for it.
    async fn ask(&self, node: usize, object: u32) -> (String, Vec<String>) {
        let (to, begun) = (SocketAddr::new(self.hosts[node].address(), 80), self.began.elapsed());
        let answer = client::get(&self.client, to, object).await.unwrap();
        assert_eq!(answer.status, 200);
        self.objects.judge(object, begun, &answer);
        let status = answer.cache_status();
        let detail = status.rsplit("detail=").next().unwrap_or_default();
        (detail.trim_matches('"').to_owned(), self.answered[0].take())
    }

    async fn stop(self) {
        for proxy in self.running {
            assert_eq!(proxy.stop().await, proxy::Ended::Saved);
        }
    }
}

fn policy(lookup: Lookup, copies: Copies, replication: Replication) -> Policy {
    Policy { lookup, copies, eviction: Eviction::DROP, replication }
}

/// Policies of the classes `kept`, `exclusive`, `discarded` and `uncached`.
fn policies() -> [(&'static str, Policy); 4] {
    let one = Replication::ONE;
    [
        ("kept", policy(Lookup::LOCAL, Copies::Exclusive, Replication::All)),
        ("exclusive", policy(Lookup::OWNER, Copies::Exclusive, one)),
        ("discarded", policy(Lookup::OWNER, Copies::DiscardCache, one)),
        ("uncached", policy(Lookup::OWNER, Copies::None, one)),
    ]
}

/// Sizes below which documents are in the first three classes.
const BELOW: [u64; 3] = [2_500, 10_000, 30_000];

/// Makes a table of these classes by size; documents of unknown size have the policy of `rest`.
fn table(rest: usize) -> ClassTable {
    let classes = policies().into_iter().enumerate().map(|(at, (name, policy))| {
        let from = at.checked_sub(1).map_or(0, |before| BELOW[before]);
        let size = Bounds { from, below: BELOW.get(at).copied() };
        Class { name: name.into(), criteria: Criteria { size, ..Criteria::ANY }, policy }
    });
    ClassTable::new(1, classes.collect(), policies()[rest].1).unwrap()
}

/// Description of an answer by itself, and how the disk node answered the questions for it.
type Seen = (String, Vec<String>);

/// Asks a node for each object, then again, then another one; returns the class of each object and
/// what was seen of the last two answers. Documents of unknown size have the policy of `rest`.
async fn later_answers(world: World, rest: usize) -> Vec<(usize, [Seen; 2])> {
    let fleet = Fleet::start(&world, &table(rest), 8 << 20).await;
    // Larger ones are stored in pieces.
    let size = |object| fleet.objects.bytes(object, 0).len() as u64;
    let objects: Vec<u32> = (0..24).filter(|object| size(*object) < 100_000).collect();
    for object in &objects {
        assert_eq!(fleet.ask(1, *object).await.0, "MISS");
    }
    // What waits to be written is in memory.
    sleep(Duration::from_secs(5)).await;
    let mut seen = Vec::new();
    for object in objects {
        let class = BELOW.iter().position(|below| size(object) < *below).unwrap_or(BELOW.len());
        seen.push((class, [fleet.ask(1, object).await, fleet.ask(2, object).await]));
    }
    fleet.stop().await;
    seen
}

#[test]
fn the_class_of_the_real_document_decides_whatever_was_expected() {
    let at_peer = |how: &str| ("HIT_PEER".to_owned(), vec![how.to_owned()]);
    let here = || ("HIT_RAM".to_owned(), Vec::new());
    let expected = [
        [here(), at_peer("HIT_DISK")],
        [here(), at_peer("HIT_DISK")],
        [at_peer("HIT_RAM"), at_peer("HIT_RAM")],
        [at_peer("HIT_DISK"), at_peer("HIT_DISK")],
    ];
    // By the first class a node fetches for itself what it does not know.
    for rest in 1..policies().len() {
        let run = async |world| later_answers(world, rest).await;
        let seen = World::run(3, Link::default(), run);
        for class in 0..expected.len() {
            assert!(seen.iter().filter(|(of, _)| *of == class).count() > 2, "{class}");
        }
        for (class, answers) in seen {
            let name = policies()[class].0;
            assert_eq!(answers, expected[class], "{name} instead of {}", policies()[rest].0);
        }
    }
}

/// Asks a node for a document of a class by popularity, ten minutes of which are counted; returns
/// what the answers say of themselves.
async fn answers_by_popularity(world: World) -> Vec<String> {
    let [(name, popular), _, _, (_, rest)] = policies();
    let popular = Policy { lookup: Lookup::OWNER, replication: Replication::ONE, ..popular };
    let requests = Bounds { from: 3, below: None };
    let criteria = Criteria { requests, ..Criteria::ANY };
    let class = Class { name: name.into(), criteria, policy: popular };
    let fleet =
        Fleet::start(&world, &ClassTable::new(1, vec![class], rest).unwrap(), 8 << 20).await;
    let mut seen = Vec::new();
    for (object, minutes) in [(1, 0), (1, 0), (1, 0), (1, 0), (2, 0), (2, 0), (2, 11), (2, 0)] {
        sleep(Duration::from_secs(60 * minutes)).await;
        seen.push(fleet.ask(1, object).await.0);
    }
    fleet.stop().await;
    seen
}

#[test]
fn a_document_is_in_a_class_by_popularity_while_it_is_asked_for() {
    let seen = World::run(3, Link::default(), answers_by_popularity);
    let [miss, peer, here] = ["MISS", "HIT_PEER", "HIT_RAM"];
    assert_eq!(seen, [miss, peer, peer, here, miss, peer, peer, peer]);
}

/// Asks two nodes, which keep what they read and have little memory, for many objects; returns how
/// many of the questions by hint found a copy, and how many did not.
async fn questions_by_hint(world: World) -> [usize; 2] {
    let policy = policy(Lookup::COOPERATE, Copies::Exclusive, Replication::ONE);
    let fleet =
        Fleet::start(&world, &ClassTable::new(1, Vec::new(), policy).unwrap(), MEMORY).await;
    let mut random = fastrand::Rng::with_seed(world.seed);
    for number in 0..1_500 {
        fleet.ask(1 + number % 2, fleet.objects.any_of(400, &mut random)).await;
        sleep(Duration::from_millis(20)).await;
    }
    let answered: Vec<String> = fleet.answered[1..].iter().flat_map(|node| node.take()).collect();
    let count = |outcome: &str| answered.iter().filter(|text| *text == outcome).count();
    let counts = [count("HIT_RAM"), count("ABSENT")];
    assert_eq!(counts.iter().sum::<usize>(), answered.len(), "{answered:?}");
    fleet.stop().await;
    counts
}

/// Memory of a node, in bytes, that does not hold all objects.
const MEMORY: u64 = 4 << 20;

#[test]
fn few_questions_by_hint_find_nothing_when_copies_leave_memory() {
    let [found, nothing] = World::run(3, Link::default(), questions_by_hint);
    eprintln!("of the questions by hint {found} found a copy, {nothing} did not");
    assert!(found > 100 && nothing * 10 <= found + nothing, "{found} {nothing}");
}

/// Asks one node twice, then the other, for each document that is stored in pieces; returns what
/// was seen of the last two answers.
async fn later_large_answers(world: World) -> Vec<[Seen; 2]> {
    let policy = policy(Lookup::COOPERATE, Copies::Exclusive, Replication::ONE);
    let classes = ClassTable::new(1, Vec::new(), policy).unwrap();
    let fleet = Fleet::start(&world, &classes, 32 << 20).await;
    let mut seen = Vec::new();
    for object in (0..40).step_by(8) {
        assert_eq!(fleet.ask(1, object).await.0, "MISS");
        seen.push([fleet.ask(1, object).await, fleet.ask(2, object).await]);
    }
    fleet.stop().await;
    seen
}

#[test]
fn documents_in_pieces_are_kept_in_the_memory_of_a_node_that_does_not_own_them() {
    let here = ("HIT_RAM".to_owned(), Vec::new());
    let at_peer = ("HIT_PEER".to_owned(), vec!["HIT_PEER".to_owned()]);
    for seen in World::run(3, Link::default(), later_large_answers) {
        assert_eq!(seen, [here.clone(), at_peer.clone()]);
    }
}
