//! Objects that a node hands to the others when it leaves in order.

use std::net::SocketAddr;
use std::time::Duration;

use fleet::class::Copies;
use proxy::peers::node::NodeOptions;
use sim::network::Link;
use simulation::{Proxy, World};
use tokio::task::spawn_local;
use tokio::time::{Instant, sleep};

use crate::objects::Objects;
use crate::{client, nodes, origin};

/// Three nodes have all objects in memory, and one leaves; returns how often the others asked the
/// origin in the minute after, and how long the leaving took.
async fn misses_after_leaving(world: World, offer_rate: u64) -> (usize, Duration) {
    let began = Instant::now();
    let objects = Objects::lasting(world.seed, began);
    let names = ["node-a", "node-b", "node-c"];
    let [origin, client] = ["origin", "client"].map(|name| world.network.host(name));
    spawn_local(origin::serve(origin.listen(80).unwrap(), objects.clone(), world.clock));
    let hosts = names.map(|name| world.network.host(name));
    let mut running = Vec::new();
    for (at, host) in hosts.iter().enumerate() {
        let change = |_: &mut Proxy, options: &mut NodeOptions| options.offer_rate = offer_rate;
        let (names, copies) = ((&names[..], at), Copies::DiscardCache);
        running.push(nodes::start(&world, host, names, copies, change).await);
    }
    sleep(Duration::from_secs(5)).await;
    let ask_all = async || {
        for object in 0..40 {
            for host in &hosts[..2] {
                let (to, begun) = (SocketAddr::new(host.address(), 80), began.elapsed());
                let answer = client::get(&client, to, object).await.unwrap();
                objects.judge(object, begun, &answer);
            }
        }
    };
    ask_all().await;
    ask_all().await;
    let asked = || objects.asked().values().sum::<usize>();
    let (before, leaves) = (asked(), Instant::now());
    running.pop().unwrap().stop().await;
    let took = leaves.elapsed();
    for _ in 0..6 {
        ask_all().await;
        sleep(Duration::from_secs(10)).await;
    }
    for proxy in running {
        proxy.stop().await;
    }
    (asked() - before, took)
}

#[test]
fn what_a_node_had_in_memory_is_found_after_it_has_left() {
    let run = |offer_rate| {
        World::run(3, Link::default(), async |world| misses_after_leaving(world, offer_rate).await)
    };
    let ((without, _), (with, took)) = (run(0), run(16 << 20));
    eprintln!("without offers {without} of 480 requests asked the origin, with them {with}");
    // What is stored in pieces is not offered.
    assert!(without >= 12 && with <= 4, "{without} {with}");
    assert!(took < Duration::from_secs(3), "{took:?}");
    // 100 KB a second, of which the first second is there at once, and a second more.
    let (few, took) = run(100_000);
    assert!(few > 0 && few < without && took < Duration::from_secs(4), "{few} {took:?}");
}
