//! The scripts played to other widely used proxies: not to rate them, but to know where we differ
//! from what operators are used to, and why. Every difference is printed with the section of the
//! RFC and our reason; a difference in a script without a reason fails.

use std::collections::HashMap;

use testkit::peer::{NGINX, Peer, SQUID, TRAFFIC_SERVER, VARNISH};
use testkit::scripts::format::{Front, Test};
use testkit::scripts::origin::Origin;
use testkit::scripts::play::{Proxies, play_all};
use testkit::scripts::world::World;
use tokio::task::spawn_blocking;

use crate::reasons::{self, Reasons};

/// Plays all scripts that need no configuration of ours, and prints the differences.
fn compare(peer: &'static Peer, reasons: Reasons) {
    let Some(version) = peer.wanted() else { return };
    World::in_real_time(async |world, origin| {
        compare_with(peer, &version, reasons, &world, &origin).await
    });
}

async fn compare_with(
    peer: &'static Peer,
    version: &str,
    reasons: Reasons,
    world: &World,
    origin: &Origin,
) {
    let mut tests = crate::tests();
    // Scripts of Larder's own features say nothing about peers.
    let is_own =
        |test: &Test| ["purge", "sharing"].iter().any(|own| test.place.file.starts_with(own));
    tests.retain(|test| test.front == Front::Reverse && !is_own(test) && !test.is_long());
    let address = origin.address();
    // The origin serves on this thread while the peer starts.
    let running = spawn_blocking(move || peer.start(address)).await.expect("no panic");
    let proxies = Proxies {
        reverse: running.address(),
        forward: None,
        rules: None,
        rfc: None,
        explaining: HashMap::new(),
    };
    let failures = play_all(world, &tests, origin, &proxies).await;
    drop(running);
    let (name, count) = (peer.name, failures.len());
    eprintln!("{name} {version} does otherwise in {count} of {} tests:\n", tests.len());
    for (script, _) in reasons {
        let is_of = |file: &str| file.trim_end_matches(".http") == *script;
        let differs = failures.iter().filter(|failure| is_of(&failure.place.file)).count();
        let all = tests.iter().filter(|test| is_of(&test.place.file)).count();
        eprintln!("  {script}: {differs} of {all}");
    }
    for failure in failures {
        let script = failure.place.file.trim_end_matches(".http");
        let reason = reasons.iter().find(|(name, _)| *name == script);
        let (_, reason) = reason.unwrap_or_else(|| panic!("without a reason: {failure}"));
        eprintln!("\n{failure}\n  we: {reason}");
    }
}

#[test]
fn nginx_differs_where_we_have_a_reason() {
    compare(&NGINX, reasons::NGINX);
}

#[test]
fn varnish_differs_where_we_have_a_reason() {
    compare(&VARNISH, reasons::VARNISH);
}

#[test]
fn squid_differs_where_we_have_a_reason() {
    compare(&SQUID, reasons::SQUID);
}

#[test]
fn traffic_server_differs_where_we_have_a_reason() {
    compare(&TRAFFIC_SERVER, reasons::TRAFFIC_SERVER);
}
