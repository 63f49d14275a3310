//! A document that is asked for so often that one owner is not enough.

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fleet::class::Copies;
use fleet::popularity::Hotness;
use proxy::peers::node::NodeOptions;
use proxy::{Observer, RequestRecord};
use sim::network::Link;
use simulation::{Proxy, World};
use tokio::task::{JoinSet, spawn_local};
use tokio::time::{Instant, sleep};

use crate::objects::Objects;
use crate::{client, nodes, origin};

/// Counts the questions that a node answers with what it has.
#[derive(Default)]
struct Questions(AtomicU64);

impl Observer for Questions {
    fn finished(&self, done: &RequestRecord<'_>) {
        let is_answer = done.is_peer && done.outcome.text().starts_with("HIT");
        self.0.fetch_add(u64::from(is_answer), Ordering::Relaxed);
    }
}

/// Clients of six nodes ask thirty times a second each for one document, whose owner is enough for
/// sixty; returns how many questions each node answered in some seconds.
async fn questions(world: World, owners_max: u32) -> Vec<u64> {
    let began = Instant::now();
    let objects = Objects::lasting(world.seed, began);
    let names = ["node-a", "node-b", "node-c", "node-d", "node-e", "node-f"];
    let [origin, client] = ["origin", "client"].map(|name| world.network.host(name));
    spawn_local(origin::serve(origin.listen(80).unwrap(), objects.clone(), world.clock));
    let hosts = names.map(|name| world.network.host(name));
    let counts = names.map(|_| Arc::<Questions>::default());
    let number = |number| NonZeroU32::new(number).unwrap();
    let mut running = Vec::new();
    for (at, host) in hosts.iter().enumerate() {
        let change = |proxy: &mut Proxy, options: &mut NodeOptions| {
            proxy.observer = counts[at].clone();
            options.hotness = Hotness { per_owner: number(60), owners_max: number(owners_max) };
            options.bound = None;
        };
        let (names, copies) = ((&names[..], at), Copies::DiscardCache);
        running.push(nodes::start(&world, host, names, copies, change).await);
    }
    sleep(Duration::from_secs(5)).await;
    let mut asking = JoinSet::new();
    for (at, host) in hosts.iter().enumerate() {
        let (to, client) = (SocketAddr::new(host.address(), 80), client.clone());
        asking.spawn_local(async move {
            sleep(Duration::from_millis(5 * at as u64)).await;
            for _ in 0..150 {
                assert_eq!(client::get(&client, to, 5).await.unwrap().status, 200);
                sleep(Duration::from_millis(33)).await;
            }
        });
    }
    while let Some(asked) = asking.join_next().await {
        asked.unwrap();
    }
    assert_eq!(objects.asked()[&5], 1);
    counts.iter().map(|count| count.0.load(Ordering::Relaxed)).collect()
}

#[test]
fn nodes_spread_over_the_owners_that_they_are_told_of() {
    let [one, several] =
        [1, 4].map(|max| World::run(3, Link::default(), async |world| questions(world, max).await));
    eprintln!("questions by node, with one owner {one:?}, with several {several:?}");
    let busiest = |of: &[u64]| *of.iter().max().unwrap();
    assert_eq!(busiest(&one), one.iter().sum::<u64>());
    assert!(busiest(&several) * 2 < busiest(&one), "{one:?} {several:?}");
}
