//! Nodes that disagree about owners on purpose: each takes the next one for the owner of every
//! object, in a circle. Load bounds, hot objects and views of different age cause this for some
//! objects; here it holds for all objects, at all nodes, at the same moment.
//!
//! Every request is answered in the time that the origin takes, over at most two further nodes, and
//! no two nodes wait for each other. Without a bound on hops a question would go round until a node
//! gives up; if the asked node could always wait for the fetch that runs there, all three would
//! wait for each other.

use std::net::SocketAddr;
use std::time::Duration;

use fleet::class::Copies;
use fleet::{ClassTable, FleetSeed, Member};
use membership::static_list::Listed;
use proxy::peers::node::NodeOptions;
use sim::network::Link;
use simulation::{Cache, Proxy, Running, World};
use tokio::task::{JoinSet, spawn_local};
use tokio::time::{Instant, sleep, timeout};

use crate::histories::plain;
use crate::nodes::{listed, member, options};
use crate::objects::Objects;
use crate::{client, origin};

const NAMES: [&str; 3] = ["node-a", "node-b", "node-c"];

const MEGABYTE: u64 = 1 << 20;

/// How long the way to the origin and back takes.
const ORIGIN: Duration = Duration::from_millis(600);

/// Starts a node that takes the next one for the owner of everything.
async fn start(world: &World, at: usize, classes: ClassTable) -> Running {
    let host = world.network.host(NAMES[at]);
    let mut proxy = Proxy::new(host.clone(), 80, options(host.address()));
    proxy.cache = Some(Cache::new(world, 64 * MEGABYTE, 8 * MEGABYTE).await);
    let weight = |of: usize| u32::from(of == (at + 1) % NAMES.len());
    let own = Member { weight: weight(at), ..member(NAMES[at]) };
    let list = (0..NAMES.len()).map(|of| Listed { weight: weight(of), ..listed(NAMES[of]) });
    proxy.node = Some((NodeOptions::new(own, FleetSeed(7), classes), list.collect()));
    proxy.start(world).unwrap()
}

/// Asks each node for an object, `pause` after the one before; returns how many nodes each answer
/// came through.
async fn ask_all(
    world: &World,
    objects: &Objects,
    object: u32,
    pause: Duration,
) -> Result<Vec<usize>, String> {
    let (host, mut asked) = (world.network.host("client"), JoinSet::new());
    for name in NAMES {
        let (host, objects) = (host.clone(), objects.clone());
        let to = SocketAddr::new(world.network.host(name).address(), 80);
        asked.spawn_local(async move {
            let answer = timeout(Duration::from_secs(30), client::get(&host, to, object)).await;
            let answer = answer.map_err(|_| format!("{name} does not answer"))?;
            let answer = answer.map_err(|why| format!("{name}: {why}"))?;
            objects.judge(object, Duration::ZERO, &answer);
            match answer.status {
                200 => Ok(answer.cache_status().matches("larder").count()),
                _ => Err(format!("{name}: {answer:?}")),
            }
        });
        sleep(pause).await;
    }
    asked.join_all().await.into_iter().collect()
}

async fn circle(world: World, copies: Copies) {
    let objects = Objects::lasting(world.seed, Instant::now());
    let origin = world.network.host("origin");
    spawn_local(origin::serve(origin.listen(80).unwrap(), objects.clone(), world.clock));
    let mut running = Vec::new();
    for (at, name) in NAMES.iter().enumerate() {
        let own = world.network.host(name).address();
        for (from, to) in [(own, origin.address()), (origin.address(), own)] {
            let link = Link { delay: ORIGIN / 2..=ORIGIN / 2, ..Link::default() };
            world.network.set_link(from, to, link);
        }
        running.push(start(&world, at, plain(copies)).await);
    }
    sleep(Duration::from_secs(5)).await;
    // Those that are no larger than what is under way at a time.
    for object in (0..16).filter(|object| object % 8 != 0) {
        let begun = Instant::now();
        let pause = Duration::from_millis(u64::from(object) * 5);
        let nodes = ask_all(&world, &objects, object, pause).await.unwrap();
        let took = begun.elapsed();
        // A connection, the answer, and what is between the nodes.
        assert!(took < 4 * ORIGIN, "{object}: {took:?}");
        assert!(nodes.iter().all(|nodes| (1..=3).contains(nodes)), "{object}: {nodes:?}");
        assert!(objects.asked()[&object] <= NAMES.len(), "{:?}", objects.asked());
    }
    for proxy in running {
        assert_eq!(proxy.stop().await, proxy::Ended::Saved);
    }
}

#[test]
fn nodes_that_take_each_other_for_the_owner_in_a_circle_answer_all_the_same() {
    for copies in [Copies::DiscardCache, Copies::Inclusive] {
        World::run(3, Link::default(), async |world| circle(world, copies).await);
    }
}
