//! Compares an older program with this one. Both are sent the same bytes, each in front of an
//! origin of its own, and all output must be equal: the bytes to the clients and to the origins,
//! the lines of the access log, and the counters. Intended differences are listed in [`intended`].
//!
//! `cargo xtask differential` builds an older program and runs this with `LARDER_OLD` and
//! `LARDER_NEW`. Without `LARDER_OLD` this program is compared with itself in a few hundred
//! requests, to check that the comparison works and raises no false alarm.
//!
//! `LARDER_SEED=<seed>` repeats a run, `LARDER_ONLY=words` selects the configurations whose names
//! contain these words (`scripts` stands for the scripts), and `LARDER_SECONDS=<seconds>` continues
//! with further seeds for that time.

#![allow(clippy::unwrap_used)]

#[allow(dead_code)] // The tests of smuggling use all of these files.
#[path = "../smuggling/answers.rs"]
mod answers;
mod case;
mod cases;
mod configurations;
mod difference;
mod http2;
mod intended;
mod masked;
#[allow(dead_code)]
#[path = "../smuggling/origin.rs"]
mod origin;
mod pages;
mod pair;
mod program;
#[allow(dead_code)]
#[path = "../smuggling/requests.rs"]
mod requests;
mod scripts;
mod socket;
#[allow(dead_code)]
#[path = "../smuggling/strict.rs"]
mod strict;
#[path = "../smuggling/wire.rs"]
mod wire;

use std::fs;
use std::hash::BuildHasher as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use testkit::random::Random;

use case::Case;
use configurations::Configuration;
use difference::Difference;
use intended::{INTENDED, Uses};
use pair::Pair;

/// Number of cases between two comparisons of the logs and the counters.
const GROUP: usize = 50;

/// Number of differences that are printed in full.
const PRINTED: usize = 60;

/// Number of differences after which the run is aborted.
const MANY: usize = 200;

/// Amount of work.
struct Amount {
    /// Cases of each kind in a configuration other than `bare`.
    sample: usize,
    /// Cases of each kind in `bare`; `usize::MAX` stands for all.
    bare: usize,
    /// Damaged requests in each configuration.
    damaged: usize,
    /// Seconds that a script may wait.
    script_wait: u64,
    /// One of every `script_step` scripts is played.
    script_step: usize,
}

const FULL: Amount =
    Amount { sample: 60, bare: usize::MAX, damaged: 120, script_wait: 10, script_step: 1 };
const SELF_CHECK: Amount =
    Amount { sample: 4, bare: 20, damaged: 10, script_wait: 0, script_step: 5 };

/// A comparison of two programs.
struct Comparison<'a> {
    programs: [&'a Path; 2],
    amount: Amount,
    seed: u64,
    only: String,
    uses: Uses,
    unintended: Vec<Difference>,
    requests: usize,
}

impl Comparison<'_> {
    /// Plays all cases once.
    fn run(&mut self) {
        if "scripts".contains(&self.only) {
            let Amount { script_wait, script_step, .. } = self.amount;
            let played = scripts::compare(self.programs, script_wait, script_step);
            self.requests += played.1;
            self.judge(played.0);
        }
        let files = tempfile::tempdir().unwrap();
        fs::write(files.path().join("a.txt"), "text ".repeat(300)).unwrap();
        fs::write(files.path().join("b.html"), "<p>page</p>").unwrap();
        fs::create_dir(files.path().join("folder")).unwrap();
        for configuration in configurations::all(files.path()) {
            if configuration.name.contains(&self.only) {
                self.configuration(&configuration);
            }
        }
    }

    /// Plays the cases of one configuration.
    fn configuration(&mut self, configuration: &Configuration) {
        let begin = Instant::now();
        let before = self.requests;
        let mut pair = Pair::start(self.programs, configuration, &pages::plans());
        let mut chance = Random::of(self.seed);
        let is_bare = configuration.name == "bare";
        let count = if is_bare { self.amount.bare } else { self.amount.sample };
        let fill = cases::fill();
        // A part of the pages is enough to check that the comparison works.
        let fill = if self.amount.bare < fill.len() { &fill[..self.amount.bare] } else { &fill };
        self.play(&mut pair, fill);
        if is_bare {
            pair.restart();
            let from_disk = cases::fill().into_iter().step_by(2).collect();
            self.play(&mut pair, &cases::sample(from_disk, count, &mut chance));
        }
        for cases in [
            cases::pages(),
            cases::pipelines(),
            cases::answers_of_other_kinds(),
            cases::uploads(),
            cases::smuggled_requests(),
            cases::smuggled_answers(),
        ] {
            self.play(&mut pair, &cases::sample(cases, count, &mut chance));
        }
        self.play(&mut pair, &cases::damaged(self.seed, self.amount.damaged));
        if configuration.name == "site" {
            self.play(&mut pair, &cases::sample(cases::files(), count * 2, &mut chance));
        }
        if configuration.name == "http2" {
            for (number, name) in http2::names().iter().enumerate().take(self.amount.sample) {
                let differences = pair.ask(name, |front| http2::ask(front, number));
                self.requests += 1;
                self.judge(differences);
            }
            let differences = pair.compare_traces("h2");
            self.judge(differences);
        }
        self.judge(pair.finish());
        let (requests, seconds) = (self.requests - before, begin.elapsed().as_secs_f64());
        eprintln!("{}: {requests} cases, {seconds:.0} s", configuration.name);
    }

    /// Plays cases, and compares the logs and the counters after each group.
    fn play(&mut self, pair: &mut Pair, cases: &[Case]) {
        for group in cases.chunks(GROUP) {
            for case in group {
                let differences = pair.play(case);
                self.requests += 1;
                self.judge(differences);
            }
            let name = format!("{} to {}", group[0].name, group[group.len() - 1].name);
            let differences = pair.compare_traces(&name);
            self.judge(differences);
        }
    }

    /// Prints and keeps the differences that are not intended; of those with the same lines only
    /// the first.
    fn judge(&mut self, differences: Vec<Difference>) {
        for difference in differences {
            let is_same = |known: &Difference| known.is_same(&difference);
            if self.uses.covers(&difference) || self.unintended.iter().any(is_same) {
                continue;
            }
            if self.unintended.len() < PRINTED {
                let Difference { case, place, detail, .. } = &difference;
                eprintln!("\nDIFFERENT: {case}, {place:?}\n{detail}    {}", self.replay(case));
            }
            self.unintended.push(difference);
        }
        let (count, seed) = (self.unintended.len(), self.seed);
        assert!(count < MANY, "{count} differences that are not intended; seed {seed}");
    }

    /// Returns how to repeat a case.
    fn replay(&self, case: &str) -> String {
        let configuration = case.split('/').next().unwrap_or_default();
        format!("again: --seed {} --only '{configuration}'", self.seed)
    }
}

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

#[test]
fn both_programs_do_the_same() {
    let own = PathBuf::from(env!("CARGO_BIN_EXE_larder"));
    let program = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let new = program("LARDER_NEW").unwrap_or_else(|| own.clone());
    let old = program("LARDER_OLD");
    let amount = if old.is_some() { FULL } else { SELF_CHECK };
    let old = old.unwrap_or(own);
    let seed = || std::hash::RandomState::new().hash_one(()) % 1_000_000;
    let begin = Instant::now();
    let mut comparison = Comparison {
        programs: [&old, &new],
        amount,
        seed: number("LARDER_SEED").unwrap_or_else(seed),
        only: std::env::var("LARDER_ONLY").unwrap_or_default(),
        uses: Uses::of(INTENDED),
        unintended: Vec::new(),
        requests: 0,
    };
    eprintln!("{} and {}, seed {}", old.display(), new.display(), comparison.seed);
    comparison.run();
    let longest = Duration::from_secs(number("LARDER_SECONDS").unwrap_or(0));
    while begin.elapsed() < longest {
        comparison.seed += 1;
        eprintln!("seed {}", comparison.seed);
        comparison.run();
    }
    comparison.uses.print();
    let (count, requests) = (comparison.unintended.len(), comparison.requests);
    eprintln!("{requests} cases, {:.0} s", begin.elapsed().as_secs_f64());
    assert_eq!(count, 0, "differences that are not intended; seed {}", comparison.seed);
}
