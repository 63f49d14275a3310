//! Runs every experiment at the smoke scale: it works, and its tables have the shape of those in
//! `tests/golden`.
//!
//! `cargo xtask goldens` checks the numbers themselves, which takes minutes. Experiments that take
//! a second at full size are held to the paper's numbers here.
//! `LARDER_EXPERIMENT=NAME` runs one experiment.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::thread;

use lab::experiment::{Experiment, Meter, Paper, Record, Row, Scale, Source};
use lab::experiments;
use lab::report;

fn check(paper: Paper) {
    let only = std::env::var("LARDER_EXPERIMENT").ok();
    let mut wrong = Vec::new();
    for experiment in experiments::of(paper) {
        if only.as_deref().is_some_and(|only| only != experiment.name) {
            continue;
        }
        if let Err(why) = check_one(experiment) {
            wrong.push(format!("{}: {why}", experiment.name));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn check_one(experiment: &'static Experiment) -> Result<(), String> {
    let jobs = thread::available_parallelism().map_or(1, usize::from);
    let record = Record::of(experiment, Scale::Smoke, jobs, &Meter::default())
        .map_err(|why| why.to_string())?;
    let outcome = &record.outcome;
    ensure(outcome.why.len() > 80, "it says nothing on what differs and why")?;
    ensure(!outcome.plots.is_empty(), "it draws nothing")?;
    let folder = tempfile::tempdir().unwrap();
    report::write(&record, folder.path()).map_err(|why| why.to_string())?;
    for plot in &outcome.plots {
        let ours = plot.series.iter().filter(|series| series.source == Source::Ours);
        let points = ours.flat_map(|series| &series.points).count();
        ensure(points > 0, &format!("the plot {} has no points of ours", plot.id))?;
    }
    let rows = outcome.tables.iter().flat_map(|table| &table.rows);
    rows.clone().try_for_each(is_possible)?;
    ensure(rows.clone().any(|row| row.ours != 0.0), "all numbers are zero")?;
    has_shape_of_golden(&record)
}

/// Rejects a number that is impossible at any scale.
fn is_possible(row: &Row) -> Result<(), String> {
    // Differences and their shares may have either sign.
    let may_be_negative = ["%", "points"].contains(&row.unit.as_str())
        || row.what.contains("difference")
        || row.what.contains('−');
    ensure(may_be_negative || row.ours >= 0.0, &format!("{}: {} {}", row.what, row.ours, row.unit))
}

/// Compares the tables and the names of their rows with those of a quick run.
fn has_shape_of_golden(record: &Record) -> Result<(), String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let path = folder.join(format!("{}.csv", record.name));
    let golden = fs::read_to_string(&path)
        .map_err(|why| format!("{}: {why}; run cargo xtask goldens --bless", path.display()))?;
    let names = |text: &str| -> BTreeSet<String> {
        text.lines().filter_map(|line| Some(line.rsplit_once(',')?.0.to_owned())).collect()
    };
    let (ours, theirs) = (names(&record.golden()), names(&golden));
    let differing: Vec<&String> = ours.symmetric_difference(&theirs).collect();
    ensure(differing.is_empty(), &format!("other rows than in its golden file: {differing:?}"))
}

fn ensure(holds: bool, why: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(why.to_owned()) }
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
fn olaru_tichy() {
    check(Paper::OlaruTichy);
}

#[test]
fn beyond() {
    check(Paper::Beyond);
}

/// Rows of experiments that take about a second at full size: experiment, table, row.
const FULL_SIZE: [(&str, &str, &[&str]); 3] = [
    (
        "markatos-fig-3",
        "costs",
        &[
            "create, empty",
            "create, 10 KB",
            "delete, empty",
            "delete, 4 KB",
            "create and delete, 4 KB",
        ],
    ),
    (
        "ucfs-disk",
        "mean",
        &[
            "4 KB read, first 5 GB",
            "64 KB read, first 5 GB",
            "4 KB read, first 16 GB",
            "64 KB read, first 16 GB",
        ],
    ),
    ("ucfs-disk", "extra", &["first 5 GB", "first 16 GB", "whole disk"]),
];

#[test]
fn full_size_rows_are_within_a_quarter_of_the_papers() {
    for (name, id, rows) in FULL_SIZE {
        let experiment = experiments::named(name).unwrap();
        let record = Record::of(experiment, Scale::Full, 2, &Meter::default()).unwrap();
        let table = record.outcome.tables.iter().find(|table| table.id == id).unwrap();
        for what in rows {
            let index = table.rows.iter().position(|row| row.what == *what).unwrap();
            let row = &table.rows[index];
            assert!(row.paper.bounds().is_some(), "{name}, {id}: {what}: nothing is stated");
            assert_eq!(table.deviation(index), None, "{name}, {id}: {what}: {}", row.ours);
        }
    }
}
