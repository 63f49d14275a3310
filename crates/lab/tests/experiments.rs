//! Every experiment, run quickly, against its golden numbers.
//!
//! What came of an experiment is in `tests/golden/NAME.csv`: every number of its tables, with six
//! digits. `LARDER_BLESS=1` writes these files anew, `LARDER_EXPERIMENT=NAME` runs one experiment.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;
use std::thread;

use lab::experiment::{Meter, Paper, Record, Scale};
use lab::experiments;

/// Runs all of a paper; says of each what is not as it was.
fn check(paper: Paper) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let only = std::env::var("LARDER_EXPERIMENT").ok();
    let jobs = thread::available_parallelism().map_or(1, usize::from);
    let mut wrong = Vec::new();
    for experiment in experiments::of(paper) {
        let name = experiment.name;
        if only.as_deref().is_some_and(|only| only != name) {
            continue;
        }
        let record = match Record::of(experiment, Scale::Quick, jobs, &Meter::default()) {
            Ok(record) => record,
            Err(why) => {
                wrong.push(format!("{name}: {why}"));
                continue;
            }
        };
        assert!(record.outcome.why.len() > 80, "{name} says nothing on what differs and why");
        assert!(!record.outcome.plots.is_empty(), "{name} draws nothing");
        let (ours, path) = (record.golden(), folder.join(format!("{name}.csv")));
        if std::env::var_os("LARDER_BLESS").is_some() {
            fs::create_dir_all(&folder).unwrap();
            fs::write(&path, ours).unwrap();
            continue;
        }
        let golden = fs::read_to_string(&path).unwrap_or_default();
        if ours != golden {
            wrong.push(format!("{name} (seed {}):\n{}", record.seed, difference(&golden, &ours)));
        }
    }
    let help = "if that is what was meant to change: LARDER_BLESS=1 cargo test -p lab --test \
                experiments, and look at the difference";
    assert!(wrong.is_empty(), "not as in tests/golden:\n{}\n{help}", wrong.join("\n"));
}

/// The lines that only one of the two has.
fn difference(golden: &str, ours: &str) -> String {
    let lacks = |text: &str, line: &str| !text.lines().any(|known| known == line);
    let gone = golden.lines().filter(|line| lacks(ours, line)).map(|line| format!("  - {line}"));
    let new = ours.lines().filter(|line| lacks(golden, line)).map(|line| format!("  + {line}"));
    gone.chain(new).collect::<Vec<_>>().join("\n")
}

#[test]
fn markatos() {
    check(Paper::Markatos);
}

#[test]
fn ucfs() {
    check(Paper::Ucfs);
}

#[test]
fn tfs() {
    check(Paper::Tfs);
}

#[test]
fn unified() {
    check(Paper::Unified);
}

#[test]
fn beyond() {
    check(Paper::Beyond);
}
