//! Conformance tests of HTTP caching: scripts of one page of text each, run against the real
//! program.
//!
//! A script (`*.http`, see [`script`]) states the requests of a client, the responses of the
//! origin, and the responses that the client must get. Every test in it cites the section of the
//! RFC that it checks. One program serves all of them concurrently, each below a path of its own,
//! so tests that wait for staleness cost no more than the slowest. Tests with long waits are played
//! only in virtual time, in which all tests are also played (`src/simulated_scripts.rs`).
//! `docs/reference/http.md` goes through the RFCs clause by clause and names the script of each.
//! Before each request its explanation is requested (see [`explanation`]) and compared with what
//! then happens.
//!
//! `LARDER_DIFFERENTIAL=nginx cargo test -p larder --test http peers -- --nocapture` (or `varnish`,
//! `squid`, `trafficserver`, `all`) plays the same scripts to another proxy and prints the
//! differences, with our reasons. `LARDER_HTTP=words` plays only the tests whose place or name
//! contains these words.

#![allow(clippy::unwrap_used)]

mod explanation;
#[path = "../e2e/message.rs"]
mod message;
mod origin;
#[path = "../peer/mod.rs"]
mod peer;
mod peers;
mod play;
mod program;
mod reasons;
mod script;
mod world;

use std::net::TcpListener;
use std::path::{Path, PathBuf};

use origin::Origin;
use play::{Proxies, play_all};
use proxy::{ListenSocket, Network, TokioClock};
use script::Test;
use tokio::task::LocalSet;
use world::World;

/// Number of tests played concurrently: most of them wait.
const PLAYERS: usize = 24;

/// The directory of the scripts.
fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/http")
}

/// Returns every test of every script in this directory, in the order of the files' names.
fn tests() -> Vec<Test> {
    let entries = std::fs::read_dir(directory()).expect("the directory of the scripts");
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "http"));
    paths.sort();
    let mut tests = Vec::new();
    for path in paths {
        let name = path.file_name().expect("a file").to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&path).expect("a script");
        match script::parse(&name, &text) {
            Ok(parsed) => tests.extend(parsed),
            Err(problem) => panic!("{problem}"),
        }
    }
    if let Ok(words) = std::env::var("LARDER_HTTP") {
        tests.retain(|test| format!("{} {}", test.place, test.name).contains(&words));
        assert!(!tests.is_empty(), "no test is called {words:?}");
    }
    tests
}

#[test]
fn larder_does_what_the_scripts_say() {
    in_real_time(async |world, origin| {
        play(&world, &origin).await;
    });
}

/// Runs `test` with an origin, in real time and on the network of this machine.
fn in_real_time(test: impl AsyncFnOnce(World, Origin)) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    LocalSet::new().block_on(&runtime.expect("a runtime"), async {
        let world =
            World { clock: TokioClock::system(), network: Network::System, players: PLAYERS };
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback can be bound");
        let origin = Origin::start(ListenSocket::Tcp(listener), world.clock);
        test(world, origin).await;
    });
}

async fn play(world: &World, origin: &Origin) {
    let mut tests = tests();
    tests.retain(|test| !test.is_long());
    let plain = directory().join("plain.toml");
    let reverse = program::Larder::start(Some(origin.address()), Some(&plain));
    let forward = program::Larder::start(None, Some(&plain));
    let [rules, rfc] = ["rules.toml", "rfc.toml"]
        .map(|file| program::Larder::start(Some(origin.address()), Some(&directory().join(file))));
    let proxies = Proxies {
        reverse: reverse.address(),
        forward: Some(forward.address()),
        rules: Some(rules.address()),
        rfc: Some(rfc.address()),
        explaining: [&reverse, &forward, &rules, &rfc]
            .into_iter()
            .map(|larder| (larder.address(), larder.admin()))
            .collect(),
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
