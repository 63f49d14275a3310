//! Smuggling and splitting: messages that two parsers may read differently, byte for byte through
//! the real program, from clients ([`requests`]) and from origin servers ([`answers`]).
//!
//! The origin server reads strictly ([`strict`]), accepting only what all parsers agree on: of each
//! request it must receive exactly that one, or nothing. `docs/reference/smuggling.md` is generated
//! from the same tables, with the behaviour of other proxies on the same bytes:
//!
//! `LARDER_DIFFERENTIAL=nginx cargo test -p larder --test smuggling peers -- --nocapture` (or
//! `varnish`, `squid`, `trafficserver`) prints where another proxy differs; with `all` and
//! `LARDER_BLESS=1` the page is rewritten. `LARDER_CASE=words` plays only the cases whose group and
//! name contain these words.

#![allow(clippy::unwrap_used)]

mod answers;
mod client;
mod origin;
mod page;
mod peers;
mod play;
mod requests;
mod strict;
mod wire;

use std::time::Duration;

use testkit::larder::{Larder, Setup};

use origin::Origin;
use play::{Player, Verdict};

/// Timeout for a response of our own program.
const PATIENCE: Duration = Duration::from_secs(20);

/// One worker, so that each request meets the state that the previous one left.
const CONFIGURATION: &str = "workers = 1\n";

fn larder(origin: &Origin) -> (Setup, Larder) {
    let setup = Setup::reverse(&format!("http://{}", origin.address())).config(CONFIGURATION);
    let running = setup.start();
    (setup, running)
}

/// Returns whether a case is to be played.
fn wanted(group: &str, name: &str) -> bool {
    let words = std::env::var("LARDER_CASE").unwrap_or_default();
    format!("{group}: {name}").contains(&words)
}

/// Repeats a failing case until it fails twice in a row: on a busy machine a single failure may be
/// due to timing.
fn settled(tries: u32, mut play: impl FnMut() -> Verdict) -> Verdict {
    let mut verdict = play();
    for _ in 1..tries {
        if verdict.complaint.is_none() {
            break;
        }
        let again = play();
        let same = again.words == verdict.words;
        verdict = again;
        if same {
            break;
        }
    }
    verdict
}

/// Plays all cases, each at most `tries` times, until a failure occurs twice in a row.
fn play_all(player: &mut Player<'_>, tries: u32) -> Vec<Verdict> {
    let mut verdicts = play_requests(player, tries);
    verdicts.extend(play_answers(player, tries));
    verdicts
}

fn play_requests(player: &mut Player<'_>, tries: u32) -> Vec<Verdict> {
    wanted_requests().map(|(group, case)| settled(tries, || player.request(group, case))).collect()
}

fn play_answers(player: &mut Player<'_>, tries: u32) -> Vec<Verdict> {
    let cases = answers::GROUPS.iter().flat_map(|g| g.cases.iter().map(move |case| (g, case)));
    let cases = cases.filter(|(group, case)| wanted(group.title, case.0));
    cases.map(|(group, case)| settled(tries, || player.answer(group, case))).collect()
}

fn wanted_requests() -> impl Iterator<Item = (&'static requests::Group, &'static requests::Case)> {
    let cases = requests::GROUPS.iter().flat_map(|g| g.cases.iter().map(move |case| (g, case)));
    cases.filter(|(group, case)| wanted(group.title, case.0))
}

/// Starts the program in front of an origin server, and passes a player for it to `play`.
fn with_player<T>(play: impl FnOnce(&mut Player<'_>) -> T) -> T {
    let origin = Origin::start();
    let (_setup, larder) = larder(&origin);
    play(&mut Player::new(larder.address(), &origin, PATIENCE))
}

#[track_caller]
fn none_is_wrong(complaints: impl Iterator<Item = Option<String>>) {
    let (mut cases, mut wrong) = (0, Vec::new());
    for complaint in complaints {
        cases += 1;
        wrong.extend(complaint);
    }
    assert!(wrong.is_empty(), "{} of {cases} cases:\n\n{}", wrong.len(), wrong.join("\n\n"));
}

// For our own program each case once is enough.

#[test]
fn every_request_means_one_thing() {
    let verdicts = with_player(|player| play_requests(player, 1));
    none_is_wrong(verdicts.into_iter().map(|verdict| verdict.complaint));
}

#[test]
fn every_request_in_two_parts_means_one_thing() {
    let late = |player: &mut Player<'_>| -> Vec<_> {
        wanted_requests().map(|(group, case)| player.late_body(group, case)).collect()
    };
    none_is_wrong(with_player(late).into_iter());
}

#[test]
fn every_answer_means_one_thing() {
    let verdicts = with_player(|player| play_answers(player, 1));
    none_is_wrong(verdicts.into_iter().map(|verdict| verdict.complaint));
}

#[test]
fn no_two_cases_have_the_same_name() {
    let requests = requests::GROUPS.iter().flat_map(|g| g.cases.iter().map(|c| (0, g.title, c.0)));
    let answers = answers::GROUPS.iter().flat_map(|g| g.cases.iter().map(|c| (1, g.title, c.0)));
    let mut names: Vec<_> = requests.chain(answers).collect();
    names.sort_unstable();
    for pair in names.windows(2) {
        assert_ne!(pair[0], pair[1]);
    }
}
