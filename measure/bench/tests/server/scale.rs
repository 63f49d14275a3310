//! `larder bench scale`, each part at the smallest scale: it measures, and every response is right.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bench::scale::{PARTS, PartReport, Plan, Watcher};

/// Runs a part with tiny caches in a directory that must be empty again afterwards.
fn run(id: &str) -> PartReport {
    let directory = tempfile::tempdir().unwrap();
    let plan = Plan {
        larder: testkit::program::built("larder"),
        base: directory.path().to_path_buf(),
        seed: 5,
        cache: 32 << 20,
        memory: 24 << 20,
        time: Duration::from_millis(300),
        rounds: 1,
        connections: 8,
        objects: 2_000,
        filled: None,
        host: "objects.test".into(),
        idle: 40,
        busy: 20,
        workers: vec![1, 2],
        rate: 200.0,
        endurance: Duration::from_millis(1_500),
        cores: bench::run::cores::allowed(),
        interrupted: Arc::new(AtomicBool::new(false)),
    };
    let part = PARTS.iter().find(|part| part.id == id).unwrap();
    let mut watcher = Watcher { say: &mut |_| (), watch: &mut |_| () };
    let report = (part.run)(&plan, &mut watcher).unwrap();
    assert_eq!(report.failure_count, 0, "{:?}", report.failures);
    assert!(report.rows.iter().all(|row| row.len() == report.headings.len()), "{report:?}");
    assert_eq!(left_in(directory.path()), 0);
    report
}

fn left_in(directory: &Path) -> usize {
    std::fs::read_dir(directory).unwrap().count()
}

/// Returns the cells of a column.
fn column<'a>(report: &'a PartReport, heading: &str) -> Vec<&'a str> {
    let place = report.headings.iter().position(|name| name == heading).unwrap();
    report.rows.iter().map(|row| row[place].as_str()).collect()
}

#[test]
fn workers_share_a_lock_that_is_counted() {
    let report = run("workers");
    assert_eq!(column(&report, "workers"), ["1", "1", "1", "2", "2", "2"]);
    let locks = column(&report, "locks a request");
    let locks: Vec<f64> = locks.iter().map(|text| text.parse().unwrap()).collect();
    // A hit from memory takes the lock once.
    assert!((0.9..1.5).contains(&locks[0]), "{locks:?}");
    assert!(locks.iter().all(|count| (0.9..60.0).contains(count)), "{locks:?}");
}

#[test]
fn idle_connections_are_there_while_others_are_busy() {
    let report = run("connections");
    assert_eq!(column(&report, "errors"), ["0", "0", "0"]);
    assert_eq!(column(&report, "connections")[1], "40 idle");
}

#[test]
fn what_was_stored_is_there_after_a_stop_and_after_a_kill() {
    let report = run("restart");
    assert_eq!(column(&report, "start after"), ["an orderly stop", "kill -9"]);
    assert_eq!(report.phases.len(), 2);
    // Of 20,000 requests after each start the first 2,000 were stored.
    assert!(report.phases[0].hit_ratio > 0.08, "{}", report.phases[0].hit_ratio);
}

#[test]
fn hits_go_on_beside_other_work() {
    let report = run("background");
    assert_eq!(column(&report, "beside"), ["nothing", "stores and evictions", "purges"]);
    let number = |text: &str| text.replace(',', "").parse::<u64>().unwrap();
    assert!(number(column(&report, "purges")[2]) > 0, "{report:?}");
}

#[test]
fn a_long_load_is_verified_row_by_row() {
    let report = run("endurance");
    assert_eq!(report.rows.len(), 15);
    assert!(column(&report, "errors").iter().all(|errors| *errors == "0"), "{report:?}");
}
