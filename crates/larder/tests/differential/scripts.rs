//! The scripts of `tests/http`, played to two programs in parallel. The responses to the clients
//! and the requests at the origins are compared byte for byte. Their correctness is checked by the
//! tests of the scripts.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use testkit::scripts::format::{Plan, Step, Test};
use testkit::scripts::play::{Proxies, play_all};
use testkit::scripts::world::World;

use crate::difference::{Difference, Place};
use crate::masked::{Masked, latin1};
use crate::pair::both;
use crate::program::{Program, Start};

/// Maximum difference in seconds between corresponding moments of two plays, each of which waits on
/// its own.
const APART: u64 = 10;

/// The results of all tests with one program.
struct Played {
    /// By test: the responses to the clients, and the requests at the origin.
    tests: Vec<[Masked; 2]>,
    /// The lines of the access logs of its fronts.
    log: Vec<Masked>,
}

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/http")
}

/// Returns one of every `step` tests that wait for at most `wait_max` seconds and do not depend on
/// exact timing, and the number of tests left out.
fn tests(wait_max: u64, step: usize) -> (Vec<Test>, usize) {
    let mut tests = testkit::scripts::load(&directory());
    let all = tests.len();
    tests.retain(|test| test.waits() <= wait_max && !is_momentary(test));
    let left_out = all - tests.len();
    (tests.into_iter().step_by(step).collect(), left_out)
}

/// Returns whether a response is fresh only until the next second begins.
fn is_momentary(test: &Test) -> bool {
    plans(test).flat_map(|plan| &plan.fields).any(|(_, value)| value.contains("{date+1}"))
}

fn plans(test: &Test) -> impl Iterator<Item = &Plan> {
    test.steps.iter().flat_map(|step| match step {
        Step::Exchange(exchange) => &exchange.plans[..],
        Step::Wait(_) => &[],
    })
}

/// Returns whether the origin closes a connection without a response.
fn closes(test: &Test) -> bool {
    plans(test).any(|plan| plan.status.is_none())
}

/// Plays one of every `step` tests that wait for at most `wait_max` seconds. Returns the
/// differences and the number of requests.
pub fn compare(programs: [&Path; 2], wait_max: u64, step: usize) -> (Vec<Difference>, usize) {
    let (tests, left_out) = tests(wait_max, step);
    eprintln!("scripts: {} tests; {left_out} that wait for long are left out", tests.len());
    let [old, new] = both(&mut programs.map(|program| program), |program| play(program, &tests));
    let mut all = Vec::new();
    for (at, test) in tests.iter().enumerate() {
        let case = format!("scripts/{}: {}", test.place, test.name);
        for (number, place) in [Place::Client, Place::Origin].into_iter().enumerate() {
            let sides = [&old.tests[at][number], &new.tests[at][number]];
            all.extend(Difference::of(&case, place, sides));
        }
    }
    all.extend(Difference::of_lines("scripts/all", Place::Log, [&old.log, &new.log]));
    let exchanges = tests.iter().flat_map(|test| &test.steps);
    let requests = exchanges.filter(|step| matches!(step, Step::Exchange(_))).count();
    (all, requests)
}

/// Plays the tests to one program, in each of the configurations that they require.
fn play(program: &Path, tests: &[Test]) -> Played {
    World::in_real_time(async |world, origin| {
        let files = tempfile::tempdir().expect("a directory for files");
        let start = |file: &str, reverse: bool| {
            let path = directory().join(file);
            let configuration = match reverse {
                true => origin.configuration(&path, files.path()),
                false => fs::read_to_string(path).expect("a file"),
            };
            let origin = reverse.then(|| origin.address());
            Program::start(&Start { program, origin, configuration: &configuration, logs: true })
        };
        let mut fronts = [
            start("plain.toml", true),
            start("plain.toml", false),
            start("rules.toml", true),
            start("rfc.toml", true),
        ];
        let proxies = Proxies {
            reverse: fronts[0].address(),
            forward: Some(fronts[1].address()),
            rules: Some(fronts[2].address()),
            rfc: Some(fronts[3].address()),
            explaining: HashMap::new(),
        };
        play_all(&world, tests, &origin, &proxies).await;
        fronts.iter_mut().for_each(Program::stop);
        let mut names: Vec<_> = fronts.iter().flat_map(Program::names).collect();
        names.push((origin.address().to_string(), "<origin>"));
        names.push((format!("localhost:{}", origin.address().port()), "<other name>"));
        names.push((files.path().display().to_string(), "<files>"));
        let masked =
            |messages: &[Vec<u8>]| Masked::of(&messages.join(&b"\n----\n"[..]), &names, APART);
        let of_test = |at: usize| {
            origin.stage(&format!("t{at}"), |stage| {
                let mut seen: Vec<_> = stage.seen.iter().map(|seen| seen.bytes.clone()).collect();
                // If the origin closes the connection, a request is retried if it was on a reused
                // connection. Which connection is free depends on timing.
                if closes(&tests[at]) {
                    seen.dedup();
                }
                [masked(&stage.replies), masked(&seen)]
            })
        };
        let tests = (0..tests.len()).map(of_test).collect();
        let lines = fronts.iter().flat_map(|front| front.log(0));
        // The client leaves as soon as it has its response. Whether the program notices that before
        // it has sent everything depends on timing.
        let lines = lines.map(|line| line.replace("\"aborted\":true", "\"aborted\":false"));
        let log = lines.map(|line| masked(&[latin1(&line)])).collect();
        Played { tests, log }
    })
}
