//! `larder advise` through the real binary.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// An extract of a real log; its source and terms are beside it.
const NASA: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/nasa_jul95_10k.oracleGeneral.zst");

fn advise(directory: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_larder-lab"))
        .current_dir(directory)
        .arg("advise")
        .args(arguments)
        .output()
        .expect("the binary runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

#[test]
fn a_log_gets_settings() {
    let dir = tempfile::tempdir().expect("a directory");
    let output = advise(dir.path(), &[NASA, "--max-disk", "64M", "--max-memory", "32M"]);
    let advice = text(&output.stdout);
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()), "{advice}");
    assert!(advice.contains("\n    larder serve --"), "{advice}");
    for setting in ["cache-size: ", "memory: ", "layout: ", "store.policy: "] {
        assert!(advice.contains(&format!("  - {setting}")), "{setting} in {advice}");
    }
    // 36 MiB of objects: too few to judge disks.
    assert!(advice.contains("The log is too short for"), "{advice}");
    let folder = dir.path().join("larder-advice");
    let file = |name: &str| fs::read(folder.join(name)).expect(name);
    assert_eq!(text(&file("advice.txt")).trim(), advice.trim());
    let config = text(&file("larder.toml"));
    for line in config.lines().filter(|line| line.contains('=')) {
        assert!(advice.contains(line), "{line} in {advice}");
    }
    let curve = text(&file("curve.csv"));
    let disks: Vec<Vec<f64>> = curve
        .lines()
        .filter_map(|line| line.strip_prefix("disk,"))
        .map(|line| line.split(',').map(|cell| cell.parse().expect("a number")).collect())
        .collect();
    assert!(disks.len() > 4, "{curve}");
    let rises = |pair: &[Vec<f64>]| pair[0][0] < pair[1][0] && pair[0][2] <= pair[1][2];
    assert!(disks.windows(2).all(rises), "{curve}");
    assert_eq!(text(&file("policies.csv")).lines().count(), 1 + 8);
    assert!(text(&file("replay.csv")).lines().count() > 5);
    for plot in ["disk", "memory", "policies"] {
        assert!(text(&file(&format!("{plot}.svg"))).contains("</svg>"));
    }
}

#[test]
fn settings_that_only_a_file_can_say_are_in_the_file() {
    let dir = tempfile::tempdir().expect("a directory");
    // Small objects: the default index would be too small.
    let mut log = String::from("time,object,size\n");
    for request in 0..600 {
        let _ = writeln!(log, "{},{},700", request * 10, request % 40);
    }
    fs::write(dir.path().join("small.csv"), log).expect("written");
    let arguments = ["small.csv", "--out", "here", "--goal", "bytes", "--drive", "sata_tlc"];
    let output = advise(dir.path(), &arguments);
    let advice = text(&output.stdout);
    assert!(advice.contains("larder serve --config here/larder.toml"), "{advice}");
    assert!(advice.contains("mean-object = \"1K\""), "{advice}");
    assert!(advice.contains("store.mean-object: objects of this log take 1.12K"), "{advice}");
}

#[test]
fn a_log_that_says_nothing_is_called_so() {
    let dir = tempfile::tempdir().expect("a directory");
    let log = "1.000 5 c TCP_MISS/200 900 GET http://h/1 - DIRECT/- text/html\n";
    fs::write(dir.path().join("log"), log).expect("written");
    let output = advise(dir.path(), &["log"]);
    let advice = text(&output.stdout);
    assert!(text(&output.stderr).contains("the log has no times"));
    for doubt in
        ["The log is too short for 16M", "The second half has 1 requests", "does not justify"]
    {
        assert!(advice.contains(doubt), "{doubt} in {advice}");
    }
    // No counted request wrote anything, so admission cannot save writes.
    assert!(!advice.contains("admission = "), "{advice}");
}

#[test]
fn limits_that_leave_nothing_are_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let told = |arguments: &[&str]| {
        let output = advise(dir.path(), &[&[NASA], arguments].concat());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(output.stdout.is_empty());
        text(&output.stderr)
    };
    assert!(told(&["--max-disk", "1M"]).contains("--max-disk is 1048576 bytes"));
    assert!(told(&["--max-memory", "1M"]).contains("--max-memory is 1048576 bytes"));
    assert!(told(&["--goal", "fame"]).contains("not one of requests, bytes"));
    assert!(told(&["--max-disk", "lots"]).contains("a size such as 10G"));
    assert!(!dir.path().join("larder-advice").exists());
}
