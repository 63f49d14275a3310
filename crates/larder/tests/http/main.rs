//! Conformance tests of HTTP caching: scripts of one page of text each, run against the real
//! program.
//!
//! A script (`*.http`, see `testkit::scripts`) states the requests of a client, the responses of
//! the origin, and the responses that the client must get. Every test in it cites the section of
//! the RFC that it checks. One program serves all of them concurrently, each below a path of its
//! own, so tests that wait for staleness cost no more than the slowest. Tests with long waits are
//! played only in virtual time, in which all tests are also played (`src/simulated_scripts.rs`).
//! `docs/reference/http.md` goes through the RFCs clause by clause and names the script of each.
//! Before each request its explanation is requested and compared with what then happens.
//!
//! `LARDER_DIFFERENTIAL=nginx cargo test -p larder --test http peers -- --nocapture` (or `varnish`,
//! `squid`, `trafficserver`, `all`) plays the same scripts to another proxy and prints the
//! differences, with our reasons. `LARDER_HTTP=words` plays only the tests whose place or name
//! contains these words.

#![allow(clippy::unwrap_used)]

mod peers;
mod reasons;

use std::fs;
use std::path::{Path, PathBuf};

use testkit::larder::{Larder, Setup};
use testkit::scripts::format::Test;
use testkit::scripts::origin::Origin;
use testkit::scripts::play::{Proxies, play_all};
use testkit::scripts::world::World;

/// The directory of the scripts.
fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/http")
}

/// Returns the tests of all scripts, or those that `LARDER_HTTP` selects.
fn tests() -> Vec<Test> {
    let mut tests = testkit::scripts::load(&directory());
    if let Ok(words) = std::env::var("LARDER_HTTP") {
        tests.retain(|test| format!("{} {}", test.place, test.name).contains(&words));
        assert!(!tests.is_empty(), "no test is called {words:?}");
    }
    tests
}

/// Starts Larder with a configuration file of this directory, in front of `origin` or as a forward
/// proxy.
fn larder(file: &str, origin: Option<&Origin>) -> (Larder, Setup) {
    let setup = match origin {
        Some(origin) => Setup::reverse(&format!("http://{}", origin.address())),
        None => Setup::forward(),
    };
    let path = directory().join(file);
    let text = match origin {
        Some(origin) => origin.configuration(&path, setup.directory()),
        None => fs::read_to_string(path).unwrap(),
    };
    let config = setup.directory().join(file);
    fs::write(&config, text).unwrap();
    let setup = setup.flag("config", &config.display().to_string());
    let running = setup.start();
    // Dropped in this order: the program ends before its directory is removed.
    (running, setup)
}

#[test]
fn larder_does_what_the_scripts_say() {
    World::in_real_time(async |world, origin| play(&world, &origin).await);
}

async fn play(world: &World, origin: &Origin) {
    let mut tests = tests();
    tests.retain(|test| !test.is_long());
    let all =
        [("plain.toml", true), ("plain.toml", false), ("rules.toml", true), ("rfc.toml", true)];
    let running = all.map(|(file, is_reverse)| larder(file, is_reverse.then_some(origin)));
    let proxies = Proxies {
        reverse: running[0].0.address(),
        forward: Some(running[1].0.address()),
        rules: Some(running[2].0.address()),
        rfc: Some(running[3].0.address()),
        explaining: running.iter().map(|(_, larder)| (larder.address(), larder.admin())).collect(),
    };
    let failures = play_all(world, &tests, origin, &proxies).await;
    let report: Vec<String> = failures.iter().map(ToString::to_string).collect();
    assert!(
        failures.is_empty(),
        "{} of {} tests failed:\n\n{}",
        failures.len(),
        tests.len(),
        report.join("\n\n")
    );
}

#[test]
fn no_two_tests_have_the_same_name() {
    let mut names: Vec<_> = tests().iter().map(|test| test.name.clone()).collect();
    names.sort();
    for pair in names.windows(2) {
        assert_ne!(pair[0], pair[1]);
    }
}
