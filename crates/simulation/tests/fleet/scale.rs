//! Traffic, processor time and knowledge of the nodes of a large fleet: printed, not asserted.
//! `cargo xtask sim --nodes 100` runs it with so many nodes, a test run with few.

use std::fs;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use fleet::purges::State;
use proxy::AdminSetup;
use proxy::admin::guard::Guard;
use proxy::observe::metrics::Metrics;
use sim::network::{Event, Link, What};
use simulation::{Running, World};
use tokio::time::{interval, sleep};

use crate::nodes::{listed, start_listed};

/// Time until all nodes have met, and time for which they are observed.
const SETTLING: Duration = Duration::from_secs(40);
const OBSERVED: Duration = Duration::from_secs(30);

/// Time between two hellos to each node in a fleet that gossips.
const HELLO_EVERY: Duration = Duration::from_secs(30);

/// The ports for other nodes and for operators.
const BETWEEN: u16 = 7000;
const ADMIN: u16 = 3129;

/// All nodes stay current, and each purge reaches all of them.
#[test]
fn a_large_fleet_stays_current() {
    let (nodes, rates) = match std::env::var("LARDER_NODES") {
        Ok(nodes) => (nodes.parse().unwrap(), &[0, 10][..]),
        Err(_) => (4, &[1][..]),
    };
    eprintln!("nodes  purges/s  KB/s  writes/s  CPU %  age p50, s  p99  max   (of one node)");
    for &purges in rates {
        World::run(1, Link::default(), async |world| observe(&world, nodes, purges).await);
    }
}

async fn observe(world: &World, nodes: usize, purges: u32) {
    let running = start(world, nodes).await;
    sleep(SETTLING).await;
    let (sent, cpu) = (traffic(&world.network.events()), cpu());
    let mut ages = Vec::new();
    let mut ticks = interval(Duration::from_secs(1) / purges.max(1));
    for tick in 0..OBSERVED.as_secs() as u32 * purges.max(1) {
        ticks.tick().await;
        if purges > 0 {
            purge(world, &name(tick as usize % nodes), tick).await;
        }
        if tick % purges.max(1) == 0 {
            running.iter().for_each(|one| note_ages(one, &mut ages));
        }
    }
    let (bytes, writes) = traffic(&world.network.events());
    ages.sort_unstable();
    let age = |part: f64| ages[((ages.len() - 1) as f64 * part) as usize].as_secs_f64();
    let each = |all: f64| all / nodes as f64 / OBSERVED.as_secs_f64();
    eprintln!(
        "{nodes:5} {purges:9} {:5.1} {:9.1} {:6.2} {:11.2} {:4.2} {:4.2}",
        each((bytes - sent.0) as f64) / 1e3,
        each((writes - sent.1) as f64),
        each((self::cpu() - cpu).as_secs_f64()) * 100.0,
        age(0.5),
        age(0.99),
        age(1.0),
    );
    for one in running {
        one.kill().await;
    }
}

fn name(node: usize) -> String {
    format!("node-{node:04}")
}

async fn start(world: &World, nodes: usize) -> Vec<Running> {
    let all: Vec<_> = (0..nodes).map(|node| listed(&name(node))).collect();
    let mut running = Vec::new();
    for node in 0..nodes {
        let (name, host) = (name(node), world.network.host(&name(node)));
        let admin = AdminSetup {
            listener: simulation::listen(&host, ADMIN).unwrap(),
            guard: Guard::new(Vec::new(), None),
            metrics: Arc::new(Metrics::new(1, world.clock)),
            act: Arc::new(|_| Err("there is no process".to_owned())),
            facts: Arc::new(|| serde_json::Value::Null),
            trouble: Box::new(|| None),
        };
        let started = start_listed(world, &host, (&name, all.clone()), |proxy, _| {
            (proxy.admin, proxy.hello_every) = (Some(admin), HELLO_EVERY);
        });
        running.push(started.await);
    }
    running
}

/// Purges a URL at a node, which must reach all.
async fn purge(world: &World, node: &str, number: u32) {
    let address = world.network.lookup(node).unwrap();
    let operator = world.network.host("operator");
    let connection = operator.connect(SocketAddr::new(address, ADMIN)).await.unwrap();
    let target = format!("/purge?url=http://site.test/{number}");
    let request = testkit::client::request("POST", &target).header("Host", &address.to_string());
    let (reply, _) = request.exchange(connection).await.unwrap();
    let told: serde_json::Value = serde_json::from_slice(&reply.body).unwrap();
    assert_eq!(told["fleet"]["unreached"], serde_json::json!({}), "{told}");
}

fn note_ages(of: &Running, ages: &mut Vec<Duration>) {
    let node = of.node.as_ref().unwrap();
    assert_eq!(node.purge_knowledge(), State::Current, "{}", node.id());
    ages.extend(node.purge_ages().into_values().map(|age| age.unwrap()));
}

/// Returns the bytes and writes between nodes so far.
fn traffic(events: &[Event]) -> (usize, usize) {
    let between = events.iter().filter(|of| [of.from.port(), of.to.port()].contains(&BETWEEN));
    between.fold((0, 0), |(bytes, writes), event| match event.what {
        What::Sent(len) => (bytes + len, writes + 1),
        _ => (bytes, writes),
    })
}

/// Returns the processor time of this thread, which runs all nodes.
fn cpu() -> Duration {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(text.split(' ').next().unwrap().parse().unwrap())
}
