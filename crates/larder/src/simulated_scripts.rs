//! Runs the scripts of `tests/http` in virtual time. The proxies run in this process, with the
//! options that the program derives from the same configuration, on a simulated network and
//! simulated disks. Waiting until something becomes stale takes no real time.
//!
//! All scripts except those with long waits also run against the real program, which alone covers
//! the command line, real sockets and the binary.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use proxy::AdminSetup;
use proxy::observe::metrics::Metrics;
use sim::network::{Host, Link};
use simulation::{Cache, Proxy, Running};
use testkit::scripts::format::Test;
use testkit::scripts::origin::Origin;
use testkit::scripts::play::{Proxies, play_all};
use testkit::scripts::world::World;

use crate::config::file::File;
use crate::config::layers::Layer;
use crate::config::loaded::Loaded;
use crate::config::to_options::{Surroundings, guard, proxy_options};
use crate::config::webroot::OpenRoots;

/// The port of the origin.
const ORIGIN: u16 = 80;

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/http")
}

/// Starts a proxy with this configuration as the program would. Returns its address and that of its
/// admin interface.
pub(crate) async fn larder(
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
        act: Arc::new(|_| Err("there is no process".to_owned())),
        facts: Arc::new(|| serde_json::Value::Null),
        trouble: Box::new(|| None),
    });
    (proxy.start(world).unwrap(), address, admin)
}

/// Runs all tests. Returns the failures, and the elapsed virtual time.
async fn play(simulated: simulation::World, tests: Vec<Test>) -> (Vec<String>, Duration) {
    let localhost = IpAddr::from(Ipv4Addr::LOCALHOST);
    let host = simulated.network.host_at("localhost", localhost);
    let world = World::new(simulated.clock, simulation::network_of(&host));
    let origin = Origin::start(simulation::listen(&host, ORIGIN).unwrap(), world.clock);
    let files = tempfile::tempdir().unwrap();
    let text = |name: &str| origin.configuration(&directory().join(name), files.path());
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
    let tests = testkit::scripts::load(&directory());
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
