//! `larder lab space` through the real binary.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn space(directory: &Path, arguments: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_larder-lab"))
        .current_dir(directory)
        .arg("space")
        .args(arguments.split(' '))
        .output()
        .expect("the binary runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

#[test]
fn all_managers_get_the_same_operations_and_leave_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let line = "--manager all --dir . --requests 1500 --memory 512K --disk 2M --seed 7 --json";
    let output = space(dir.path(), line);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((&answer["seed"], &answer["disk"]), (&7.into(), &(2 << 20).into()));
    let managers = answer["managers"].as_array().expect("a list");
    let names: Vec<_> = managers.iter().map(|manager| manager["manager"].as_str()).collect();
    let papers = ["simple", "squid", "multiple-dirs", "buddy-files"].map(Some);
    assert_eq!(names[..4], papers);
    assert!(names[4..].contains(&Some("larder")), "{names:?}");
    for manager in managers {
        for same in ["gets", "memory_hits", "disk_hits", "misses", "evictions", "outdated"] {
            assert_eq!(manager[same], managers[0][same], "{same} of {manager}");
        }
        assert!(manager["gets_per_second"].as_f64().is_some_and(|rate| rate > 0.0), "{manager}");
    }
    let simple = &managers[0];
    assert!(simple["evictions"].as_u64() > Some(0), "{simple}");
    assert_eq!(simple["calls"]["creates"], simple["misses"]);
    assert_eq!(simple["gets"], 1_500);
    let left = fs::read_dir(dir.path()).expect("readable").count();
    assert_eq!(left, 0, "everything is removed");
}

#[test]
fn a_table_names_what_was_asked_for() {
    let dir = tempfile::tempdir().expect("a directory");
    let output = space(dir.path(), "--manager buddy-files --dir . --requests 300");
    let answer = text(&output.stdout);
    assert!(answer.starts_with("seed 1: 300 gets = "), "{answer}");
    let rows = answer.lines().filter(|line| line.starts_with("buddy-files "));
    assert_eq!(rows.count(), 2, "{answer}");
    assert!(answer.contains("gets/s") && answer.contains("written bytes"), "{answer}");
}

#[test]
fn impossible_runs_are_reported() {
    let dir = tempfile::tempdir().expect("a directory");
    fs::write(dir.path().join("file"), "not a directory").expect("written");
    let fails = |arguments: &str, code: i32, words: &str| {
        let output = space(dir.path(), arguments);
        let error = text(&output.stderr);
        assert!(error.contains(words), "{arguments}: {error}");
        assert_eq!(output.status.code(), Some(code), "{error}");
    };
    fails("--manager simple --dir missing", 1, "missing: cannot be used as a directory");
    fails("--manager simple --dir file", 1, "file: cannot be used as a directory");
    fails("--manager simple --dir . --disk 1000T", 1, "choose a smaller disk cache");
    fails("--manager best --dir .", 2, "best");
    fails("--manager simple --dir . --memory 1X", 2, "expected a size such as 10G");
    fails("--manager simple --dir . --utilization 101", 2, "expected 10 to 100 percent");
    fails("--manager simple --dir . --requests 0", 2, "--requests");
    fails("--manager larder --dir . --engine-memory 1K", 1, "larder: the engine: the index takes");
}
