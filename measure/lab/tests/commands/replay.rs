//! `larder lab replay` through the real binary.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// An extract of a real log; its source and terms are beside it.
const NASA: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/nasa_jul95_10k.oracleGeneral.zst");

fn replay(directory: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_larder-lab"))
        .current_dir(directory)
        .arg("replay")
        .args(arguments)
        .output()
        .expect("the binary runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

fn line(second: u32, object: u32) -> String {
    format!("{second}.000 5 c TCP_MISS/200 900 GET http://h/{object} - DIRECT/- text/html\n")
}

#[test]
fn every_combination_is_a_line() {
    let dir = tempfile::tempdir().expect("a directory");
    let arguments = [NASA, "--memory", "16M", "--disk", "8M,64M", "--policy", "lru,gdsf", "--csv"];
    let output = replay(dir.path(), &arguments);
    assert_eq!(text(&output.stderr), "");
    let csv = text(&output.stdout);
    let rows: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(rows.len(), 1 + 2 * (1 + 3 * 2), "{csv}");
    assert!(rows.iter().all(|row| row.len() == rows[0].len()), "{csv}");
    let column = |name: &str| rows[0].iter().position(|other| *other == name).expect("a column");
    let number = |row: &[&str], name: &str| -> f64 { row[column(name)].parse().expect("a number") };
    for row in &rows[1..] {
        assert_eq!(number(row, "requests"), 9_543.0, "{csv}");
        let parts = ["memory_hits", "disk_hits", "misses"].map(|name| number(row, name));
        assert_eq!(parts.iter().sum::<f64>(), 9_543.0, "{csv}");
        // 803 objects of 37 MiB: with 64 MiB each is missed once.
        if number(row, "disk") == f64::from(64 << 20) {
            assert_eq!(number(row, "misses"), 803.0, "{csv}");
        }
        assert!(number(row, "written_bytes") >= number(row, "stored_bytes"), "{csv}");
    }
    let gdsf = rows.iter().filter(|row| row[column("policy")] == "gdsf").count();
    assert_eq!(gdsf, 6, "{csv}");
}

#[test]
fn admissions_are_lines_of_their_own() {
    let dir = tempfile::tempdir().expect("a directory");
    let caches = ["--layouts", "cluster,unified", "--memory", "16M", "--disk", "8M"];
    let names = ["--admission", "all,second-hit", "--csv"];
    let output = replay(dir.path(), &[&[NASA], &caches[..], &names].concat());
    assert_eq!(text(&output.stderr), "");
    let csv = text(&output.stdout);
    let rows: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
    let column = |name: &str| rows[0].iter().position(|other| *other == name).expect("a column");
    let admissions: Vec<&str> = rows[1..].iter().map(|row| row[column("admission")]).collect();
    assert_eq!(admissions, ["all", "second-hit", "all", "second-hit"], "{csv}");
    let stored = |row: &[&str]| row[column("stored_bytes")].parse::<u64>().expect("a number");
    assert!(stored(&rows[2]) < stored(&rows[1]) && stored(&rows[4]) < stored(&rows[3]), "{csv}");
    let output = replay(dir.path(), &[NASA, "--admission", "third-hit"]);
    assert!(text(&output.stderr).contains("second-hit"), "{output:?}");
}

#[test]
fn damage_is_told_and_files_are_written() {
    let dir = tempfile::tempdir().expect("a directory");
    let log = line(1, 1) + "nonsense\n" + &line(2, 1) + &line(9, 2) + &line(10, 1);
    fs::write(dir.path().join("b.log"), log).expect("written");
    fs::write(dir.path().join("a.log"), line(5, 2)).expect("written");
    let arguments = ["b.log", "a.log", "--layouts", "cluster", "--presets", "ucfs"];
    let sizes = ["--memory", "16M", "--disk", "16M", "--out", "results", "--json"];
    let output = replay(dir.path(), &[&arguments[..], &sizes].concat());
    let told = text(&output.stderr);
    assert!(told.contains("b.log: 1 damaged lines") && told.contains("b.log:2: "), "{told}");
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(json["log"]["requests"], 5);
    assert_eq!(json["log"]["damaged"], 1);
    assert_eq!(json["drive"], "nvme_tlc");
    // By time the objects are 1, 1, 2, 2, 1: two misses.
    for cache in json["caches"].as_array().expect("a list") {
        assert_eq!((&cache["misses"], &cache["memory_hits"]), (&2.into(), &3.into()), "{json}");
    }
    assert_eq!(json["caches"][1]["layout"], "preset ucfs");
    let file = |name: &str| fs::read_to_string(dir.path().join("results").join(name)).expect(name);
    assert_eq!(file("replay.json").trim(), text(&output.stdout).trim());
    assert_eq!(file("replay.csv").lines().count(), 3);
    assert!(file("replay.txt").contains("5 requests for 2 objects"));
}

#[test]
fn a_sample_and_a_drive_are_told() {
    let dir = tempfile::tempdir().expect("a directory");
    let arguments = [NASA, "--sample", "50%", "--memory", "32M", "--disk", "64M"];
    let more = ["--layouts", "cluster", "--drive", "atlas10k", "--pace", "closed"];
    let output = replay(dir.path(), &[&arguments[..], &more].concat());
    let table = text(&output.stdout);
    assert!(table.contains("Sampled: 50.000% of the objects"), "{table}");
    assert!(table.contains("Drive: atlas10k, Quantum Atlas 10K"), "{table}");
    assert!(table.contains("cluster  references"), "{table}");
}

#[test]
fn wrong_arguments_are_reported() {
    let dir = tempfile::tempdir().expect("a directory");
    fs::write(dir.path().join("log"), line(1, 1)).expect("written");
    fs::write(dir.path().join("posts"), line(1, 1).replace("GET", "POST")).expect("written");
    let told = |arguments: &[&str]| {
        let output = replay(dir.path(), arguments);
        assert!(output.status.code().is_some_and(|code| code != 0), "{arguments:?}");
        assert!(output.stdout.is_empty());
        text(&output.stderr)
    };
    assert!(told(&["log", "--layouts", "heap"]).contains("not one of cluster, stream"));
    assert!(told(&["log", "--presets", "heap"]).contains("not one of larder, ucfs"));
    assert!(told(&["log", "--policy", "mru"]).contains("choose one of lru, fifo"));
    assert!(told(&["log", "--disk", "much"]).contains("a size such as 10G"));
    assert!(told(&["log", "--drive", "floppy"]).contains("one of the shipped drives nvme_tlc"));
    assert!(told(&["log", "--disk", "1T", "--memory", "4G"]).contains("larger than the drive"));
    assert!(told(&["log", "--memory", "1M"]).contains("larder: lab replay: none of these"));
    assert!(told(&["posts"]).contains("no request that a cache may answer (1 not GET)"));
    assert!(told(&["none"]).contains("none: cannot be read"));
}
