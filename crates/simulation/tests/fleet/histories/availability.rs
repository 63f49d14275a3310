//! Availability: whatever one node suffers, the others keep their hits. Each run is judged beside
//! one of the same requests in which nothing goes wrong.

use std::future::pending;
use std::rc::Rc;
use std::time::Duration;

use fastrand::Rng;
use fleet::class::{Copies, Eviction, Lookup, Replication};
use fleet::{ClassTable, Policy};
use sim::network::Link;
use tokio::task::{JoinSet, spawn_local};
use tokio::time::sleep;

use crate::histories::nodes::{Disk, Nodes};
use crate::histories::requests::Clients;
use crate::histories::truth::{COUNT, Truth};
use crate::histories::{case, client};

/// The node that suffers; the others are judged.
const FAULTY: usize = 3;

/// Objects that are asked for.
const OBJECTS: u32 = 24;

/// How long requests go on from the begin of the fault.
const TIME: Duration = Duration::from_secs(20);

/// Pause between two requests.
const PAUSE: Duration = Duration::from_millis(40);

/// Returns classes by which only owners keep documents: each hit depends on its owner.
fn at_owners_alone() -> ClassTable {
    let (lookup, copies, eviction) = (Lookup::OWNER, Copies::None, Eviction::DROP);
    let policy = Policy { lookup, copies, eviction, replication: Replication::ONE };
    ClassTable::new(2, Vec::new(), policy).unwrap()
}

/// Fault of the one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Nothing,
    Killed,
    Stopped,
    /// It is killed, and comes back after five seconds with this disk.
    Returns(Disk),
    /// Its disk fails, or is slow.
    DiskFails,
    DiskSlow,
    /// It does not run for ten seconds.
    Held,
    Isolated,
    /// Nothing from it arrives, or nothing arrives at it.
    Mute,
    Deaf,
    /// It is parted from one other node.
    Parted,
    WithoutOrigin,
    /// Connections from and to it break off, fall silent or are slow.
    Rough(&'static str),
}

impl Fault {
    /// Lets it happen, and ends it after a while where it has an end.
    async fn happen(self, nodes: &Nodes) {
        let others = || (0..FAULTY).map(|node| nodes.slots[node].host.address());
        let own = nodes.slots[FAULTY].host.address();
        let origin = nodes.world.network.lookup("origin").unwrap();
        match self {
            Fault::Nothing => {}
            Fault::Killed => nodes.kill(FAULTY).await,
            Fault::Stopped => nodes.stop(FAULTY).await,
            Fault::Returns(disk) => {
                nodes.kill(FAULTY).await;
                nodes.put_disk(FAULTY, disk).await;
                sleep(Duration::from_secs(5)).await;
                nodes.start(FAULTY);
            }
            Fault::DiskFails => nodes.break_disk(FAULTY),
            Fault::DiskSlow => nodes.slow_disk(FAULTY),
            Fault::Held => {
                nodes.hold(FAULTY);
                sleep(Duration::from_secs(10)).await;
                nodes.release(FAULTY);
            }
            Fault::Mute => others().for_each(|other| nodes.cut(own, other)),
            Fault::Deaf => others().for_each(|other| nodes.cut(other, own)),
            Fault::Isolated => {
                others().for_each(|other| nodes.cut(own, other));
                others().for_each(|other| nodes.cut(other, own));
            }
            Fault::Parted => nodes.part(0, FAULTY),
            Fault::WithoutOrigin => {
                nodes.cut(own, origin);
                nodes.cut(origin, own);
            }
            Fault::Rough(how) => {
                let late = Duration::from_millis(250)..=Duration::from_millis(250);
                let link = match how {
                    "resets" => Link { resets: 200_000, ..Link::default() },
                    "silences" => Link { silences: 100_000, ..Link::default() },
                    _ => Link { delay: late, ..Link::default() },
                };
                for other in others() {
                    nodes.world.network.set_link(own, other, link.clone());
                    nodes.world.network.set_link(other, own, link.clone());
                }
            }
        }
    }
}

/// Returns how many of the requests at the healthy nodes were hits, and how many there were.
fn hits(fault: Fault) -> (usize, usize) {
    let mut counted = (0, 0);
    case(FAULTY + 1, async |nodes, clients| {
        nodes.set_classes(at_owners_alone());
        for object in COUNT..COUNT + OBJECTS {
            clients.ask(0, object).await;
        }
        nodes.copy_disk(FAULTY);
        purge(&nodes, 0).await;
        let happening = nodes.clone();
        let fault = spawn_local(async move {
            fault.happen(&happening).await;
            pending::<()>().await;
        });
        let purging = nodes.clone();
        let purges = spawn_local(async move {
            for object in 1..4 {
                sleep(Duration::from_secs(2)).await;
                purge(&purging, object).await;
            }
        });
        counted = ask(&nodes, &clients).await;
        purges.await.unwrap();
        fault.abort();
    });
    counted
}

/// Asks the healthy nodes, whether or not earlier requests have been answered.
async fn ask(nodes: &Rc<Nodes>, clients: &Rc<Clients>) -> (usize, usize) {
    let (mut asking, mut random) = (JoinSet::new(), Rng::with_seed(5));
    let end = nodes.truth.now() + TIME;
    while nodes.truth.now() < end {
        let (node, object) = (random.usize(..FAULTY), COUNT + random.u32(..OBJECTS));
        let clients = clients.clone();
        asking.spawn_local(async move { clients.ask(node, object).await });
        sleep(PAUSE).await;
    }
    let seen = asking.join_all().await;
    let is_hit = |detail: &str| {
        detail.rsplit_once("detail=").is_some_and(|(_, detail)| detail.starts_with("HIT_"))
    };
    let hits =
        seen.iter().filter(|seen| matches!(&seen.answer, Ok((200, _, detail)) if is_hit(detail)));
    (hits.count(), seen.len())
}

/// Purges an object that is not asked for, at a healthy node.
async fn purge(nodes: &Nodes, object: u32) {
    let (host, path, _) = Truth::names(object);
    let (operator, to) = (nodes.world.network.host("operator"), nodes.admin(0));
    let target = format!("/purge?url=http://{host}{path}");
    client::ask(&operator, to, "POST", (&to.ip().to_string(), &target)).await.unwrap();
}

#[test]
fn whatever_one_node_suffers_the_others_keep_their_hits() {
    let (undisturbed, of) = hits(Fault::Nothing);
    assert_eq!(undisturbed, of);
    let faults = [
        Fault::Killed,
        Fault::Stopped,
        Fault::Returns(Disk::Left),
        Fault::Returns(Disk::Old),
        Fault::Returns(Disk::Empty),
        Fault::DiskFails,
        Fault::DiskSlow,
        Fault::Held,
        Fault::Isolated,
        Fault::Mute,
        Fault::Deaf,
        Fault::Parted,
        Fault::WithoutOrigin,
        Fault::Rough("resets"),
        Fault::Rough("silences"),
        Fault::Rough("delay"),
    ];
    let mut few = Vec::new();
    for fault in faults {
        let (hits, _) = hits(fault);
        eprintln!("{fault:?}: {hits} hits, undisturbed {undisturbed}");
        if hits * 100 < undisturbed * 95 {
            few.push((fault, hits));
        }
    }
    assert!(few.is_empty(), "undisturbed {undisturbed}: {few:?}");
}
