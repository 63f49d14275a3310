//! Nodes of a fleet: several proxies that are one cache.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use fleet::class::{Copies, Eviction, Lookup, Replication};
use fleet::member::State;
use fleet::{ClassTable, FleetSeed, Member, Policy, Protocols};
use membership::static_list::Listed;
use net::address::Locals;
use proxy::observe::front_kind::FrontKind;
use proxy::options::Options;
use proxy::origin::site::{Front, Site};
use proxy::peers::node::NodeOptions;
use proxy::rules::access::Access;
use sim::network::{Host, Link};
use simulation::{Cache, Proxy, Running, World};
use tokio::task::spawn_local;
use tokio::time::{Instant, sleep};
use upstream::servers::group::Group;
use upstream::settings::endpoint::Endpoint;

use crate::objects::Objects;
use crate::{client, origin};

const MEGABYTE: u64 = 1 << 20;

pub fn member(name: &str) -> Member {
    Member {
        id: name.parse().unwrap(),
        address: format!("{name}:7000").parse().unwrap(),
        zone: "".into(),
        weight: 100,
        load: 0,
        program: "test".into(),
        protocols: Protocols::OWN,
        policy_version: 0,
        disk_failed: false,
        has_cache: true,
        state: State::Serving,
    }
}

pub fn listed(name: &str) -> Listed {
    let Member { id, address, zone, weight, .. } = member(name);
    Listed { id, address, zone, weight }
}

fn policy(copies: Copies) -> Policy {
    Policy {
        lookup: Lookup::OWNER,
        copies,
        eviction: Eviction::DROP,
        replication: Replication::ONE,
    }
}

pub fn options(own: IpAddr) -> Options {
    let group = Group::one(Endpoint::plain("origin", 80));
    let site = Site::new("main", group).with_pass_host(true);
    let locals: Locals = [own].into_iter().collect();
    let access = Access::new(FrontKind::Reverse, locals);
    Options::new(Front::reverse(vec![site]), Arc::new(access))
}

/// Starts one of these nodes, whose copies are kept so; `change` changes how it is set up.
pub async fn start(
    world: &World,
    host: &Host,
    (names, at): (&[&str], usize),
    copies: Copies,
    change: impl FnOnce(&mut Proxy, &mut NodeOptions),
) -> Running {
    let all = names.iter().map(|name| listed(name)).collect();
    let classes = ClassTable::new(1, Vec::new(), policy(copies)).unwrap();
    start_listed(world, host, (names[at], all), |proxy, options| {
        options.classes = classes;
        change(proxy, options);
    })
    .await
}

/// Starts the node of this name, one of `all`; `change` changes how it is set up.
pub async fn start_listed(
    world: &World,
    host: &Host,
    (name, all): (&str, Vec<Listed>),
    change: impl FnOnce(&mut Proxy, &mut NodeOptions),
) -> Running {
    let mut proxy = Proxy::new(host.clone(), 80, options(host.address()));
    proxy.cache = Some(Cache::new(world, 64 * MEGABYTE, 8 * MEGABYTE).await);
    let classes = ClassTable::new(1, Vec::new(), Policy::DEFAULT).unwrap();
    let mut options = NodeOptions::new(member(name), FleetSeed(7), classes);
    change(&mut proxy, &mut options);
    proxy.node = Some((options, all));
    proxy.start(world).unwrap()
}

/// Asks each of three nodes for each of some objects, twice; returns what the answers said of
/// themselves, and how often the origin, which answers after a delay, was asked for each object.
async fn ask_all(
    world: World,
    copies: Copies,
    delay: Duration,
) -> (Vec<String>, BTreeMap<u32, usize>) {
    let began = Instant::now();
    let objects = Objects::lasting(world.seed, began);
    let names = ["node-a", "node-b", "node-c"];
    let [origin, client] = ["origin", "client"].map(|name| world.network.host(name));
    let listener = origin.listen(80).unwrap();
    spawn_local(origin::serve_slowly(listener, objects.clone(), world.clock, delay));
    let hosts = names.map(|name| world.network.host(name));
    let mut running = Vec::new();
    for (at, host) in hosts.iter().enumerate() {
        running.push(start(&world, host, (&names, at), copies, |_, _| ()).await);
    }
    sleep(Duration::from_secs(5)).await;
    let mut details = Vec::new();
    for _ in 0..2 {
        for object in 0..20 {
            for host in &hosts {
                let (to, begun) = (SocketAddr::new(host.address(), 80), began.elapsed());
                let answer = client::get(&client, to, object).await.unwrap();
                assert_eq!(answer.status, 200);
                objects.judge(object, begun, &answer);
                details.push(answer.cache_status());
            }
        }
    }
    for proxy in running {
        assert_eq!(proxy.stop().await, proxy::Ended::Saved);
    }
    (details, objects.asked())
}

#[test]
fn a_document_is_fetched_once_whichever_node_is_asked() {
    // A node that waits for its origin says so from time to time, and is not given up.
    let slow = Duration::from_secs(15);
    for (copies, kept, delay) in [
        (Copies::DiscardCache, false, Duration::ZERO),
        (Copies::DiscardCache, false, slow),
        (Copies::Inclusive, true, Duration::ZERO),
    ] {
        let run = async |world| ask_all(world, copies, delay).await;
        let (details, asked) = World::run(3, Link::default(), run);
        assert!(asked.len() == 20 && asked.values().all(|times| *times == 1), "{asked:?}");
        let of_peer = details.iter().filter(|detail| detail.ends_with("HIT_PEER")).count();
        // Each of 20 objects is owned by one; of the others one asks for it first, in a third of
        // the cases, and the rest find it there.
        match kept {
            false => assert!((60..100).contains(&of_peer), "{of_peer} {details:?}"),
            true => assert!((20..40).contains(&of_peer), "{of_peer} {details:?}"),
        }
    }
}
