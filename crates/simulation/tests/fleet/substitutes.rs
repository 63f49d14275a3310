//! A node that cannot connect to the origin, which the other nodes reach.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use fleet::class::Copies;
use sim::network::Link;
use simulation::World;
use tokio::task::spawn_local;
use tokio::time::{Instant, sleep};

use crate::objects::Objects;
use crate::{client, nodes, origin};

/// Number of objects that clients of each node request.
const OBJECTS: u32 = 20;

/// Lets clients of each of three nodes request objects of their own, and then the same again, after
/// packets between the first node and the origin have begun to be lost. Returns the times of the
/// first responses, and how often the origin was asked for each object.
async fn ask_all(world: World) -> (Vec<Duration>, BTreeMap<u32, usize>) {
    let began = Instant::now();
    let objects = Objects::lasting(world.seed, began);
    let names = ["node-a", "node-b", "node-c"];
    let [origin, client] = ["origin", "client"].map(|name| world.network.host(name));
    spawn_local(origin::serve(origin.listen(80).unwrap(), objects.clone(), world.clock));
    let hosts = names.map(|name| world.network.host(name));
    let mut running = Vec::new();
    for (at, host) in hosts.iter().enumerate() {
        let at = (&names[..], at);
        running.push(nodes::start(&world, host, at, Copies::DiscardCache, |_, _| ()).await);
    }
    sleep(Duration::from_secs(5)).await;
    // Each node has a connection to the origin that looks usable.
    for object in 3 * OBJECTS..4 * OBJECTS {
        let to = SocketAddr::new(hosts[0].address(), 80);
        client::get(&client, to, object).await.unwrap();
    }
    world.network.part(hosts[0].address(), origin.address());
    let mut times = Vec::new();
    for round in 0..2 {
        for (host, first) in hosts.iter().zip((0..).step_by(OBJECTS as usize)) {
            for object in first..first + OBJECTS {
                let (to, begun) = (SocketAddr::new(host.address(), 80), began.elapsed());
                let answer = client::get(&client, to, object).await.unwrap();
                assert_eq!(answer.status, 200, "{object}");
                objects.judge(object, begun, &answer);
                times.extend((round == 0).then(|| began.elapsed() - begun));
            }
        }
    }
    for proxy in running {
        proxy.stop().await;
    }
    (times, objects.asked())
}

#[test]
fn the_others_fetch_for_a_node_that_cannot_connect_to_the_origin() {
    let (times, asked) = World::run(3, Link::default(), ask_all);
    // What it owns it keeps, whichever node fetched it.
    assert!(asked.len() == 80 && asked.values().all(|times| *times == 1), "{asked:?}");
    // Some requests find out, and again each time that the origin is tried.
    let late = times.iter().filter(|time| **time >= Duration::from_millis(500)).count();
    assert!(late <= 5 && times.iter().all(|time| *time < Duration::from_secs(2)), "{times:?}");
}
