//! Runs the scripts of `tests/http` in virtual time. The proxies run in this process, with the
//! options that the program derives from the same configuration, on a simulated network and
//! simulated disks. Waiting until something becomes stale takes no real time.
//!
//! All scripts except those with long waits also run against the real program, which alone covers
//! the command line, real sockets and the binary.

#[path = "../tests/http/explanation.rs"]
mod explanation;
#[path = "../tests/e2e/message.rs"]
#[allow(dead_code)] // Other tests use this file, too.
mod message;
#[path = "../tests/http/origin.rs"]
mod origin;
#[path = "../tests/http/play.rs"]
mod play;
#[path = "../tests/http/script.rs"]
#[allow(dead_code)] // As above.
mod script;
#[path = "../tests/http/world.rs"]
mod world;

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use proxy::observe::metrics::Metrics;
use proxy::{AdminSetup, Network};
use sim::network::{Host, Link};
use simulation::{Cache, Proxy, Running};

use crate::config::file::File;
use crate::config::layers::Layer;
use crate::config::loaded::Loaded;
use crate::config::to_options::{Surroundings, guard, proxy_options};
use crate::config::webroot::OpenRoots;

use origin::Origin;
use play::{Proxies, play_all};
use script::Test;
use world::World;

/// Number of tests that run concurrently, as with the real program.
const PLAYERS: usize = 24;

const ORIGIN: u16 = 80;

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/http")
}

fn tests() -> Vec<Test> {
    let entries = fs::read_dir(directory()).unwrap();
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "http"));
    paths.sort();
    let parse = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let parsed = script::parse(&name, &fs::read_to_string(path).unwrap());
        parsed.unwrap_or_else(|problem| panic!("{problem}"))
    };
    paths.iter().flat_map(parse).collect()
}

/// Starts a proxy with this configuration as the program would. Returns its address and that of its
/// admin interface.
async fn larder(
    world: &simulation::World,
    host: &Host,
    port: u16,
    text: &str,
) -> (Running, SocketAddr, SocketAddr) {
    let file = File::parse("larder.toml", text).unwrap_or_else(|problems| panic!("{problems}"));
    let loaded = Loaded::build(&file, &Layer::new());
    let config = loaded.unwrap_or_else(|problems| panic!("{problems}")).config;
    let address = SocketAddr::new(host.address(), port);
    let admin = SocketAddr::new(host.address(), port + 1);
    let own = vec![address, admin];
    let around = Surroundings { own, descriptors: 10_000, roots: OpenRoots::default() };
    let mut proxy = Proxy::new(host.clone(), port, proxy_options(&config, &around).unwrap());
    proxy.cache = Some(Cache::new(world, 64 << 20, 32 << 20).await);
    proxy.admin = Some(AdminSetup {
        listener: simulation::listen(host, admin.port()).unwrap(),
        guard: guard(&config).unwrap(),
        metrics: Arc::new(Metrics::new(1, world.clock)),
        reload: Arc::new(|| Err("there is nothing to reload".to_owned())),
        trouble: Box::new(|| None),
    });
    (proxy.start(world).unwrap(), address, admin)
}

/// Runs all tests. Returns the failures, and the elapsed virtual time.
async fn play(simulated: simulation::World, tests: Vec<Test>) -> (Vec<String>, Duration) {
    let localhost = IpAddr::from(Ipv4Addr::LOCALHOST);
    let host = simulated.network.host_at("localhost", localhost);
    let network: Network = simulation::network_of(&host);
    let world = World { clock: simulated.clock, network, players: PLAYERS };
    let origin = Origin::start(simulation::listen(&host, ORIGIN).unwrap(), world.clock);
    let text = |name: &str| fs::read_to_string(directory().join(name)).unwrap();
    let reverse = format!("reverse = \"http://{}\"\n", origin.address());
    let all = [
        format!("{reverse}{}", text("plain.toml")),
        text("plain.toml"),
        format!("{reverse}{}", text("rules.toml")),
        format!("{reverse}{}", text("rfc.toml")),
    ];
    let mut running = Vec::new();
    for (port, text) in [8000, 8010, 8020, 8030].into_iter().zip(&all) {
        running.push(larder(&simulated, &host, port, text).await);
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let proxies = Proxies {
        reverse: running[0].1,
        forward: Some(running[1].1),
        rules: Some(running[2].1),
        rfc: Some(running[3].1),
        explaining: running.iter().map(|(_, address, admin)| (*address, *admin)).collect(),
    };
    let failures = play_all(&world, &tests, &origin, &proxies).await;
    (failures.iter().map(ToString::to_string).collect(), world.clock.running())
}

#[test]
fn larder_does_what_the_scripts_say_in_virtual_time() {
    let tests = tests();
    let count = tests.len();
    let waits = tests.iter().map(Test::waits).max().unwrap();
    assert!(tests.iter().any(Test::is_long));
    let link = Link { delay: Duration::ZERO..=Duration::from_millis(1), ..Link::default() };
    let (failures, passed) =
        simulation::World::run(1, link, async |world| play(world, tests).await);
    assert!(passed.as_secs() >= waits);
    let report = failures.join("\n\n");
    assert!(failures.is_empty(), "{} of {count} tests failed:\n\n{report}", failures.len());
}
