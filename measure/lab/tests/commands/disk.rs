//! `larder lab disk` through the real binary.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn disk(directory: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_larder-lab"))
        .current_dir(directory)
        .arg("disk")
        .args(arguments)
        .output()
        .expect("the binary runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

const REQUESTS: &str = "start_ms,op,lbn,blocks\n0,R,9000000,8\n0,W,100,128\n50.5,R,9000008,8\n";

#[test]
fn a_stream_is_replayed_and_written() {
    let dir = tempfile::tempdir().expect("a directory");
    fs::write(dir.path().join("requests.csv"), REQUESTS).expect("written");
    let arguments = ["--drive", "atlas10k", "--requests", "requests.csv", "--out", "out.csv"];
    let output = disk(dir.path(), &arguments);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let out = fs::read_to_string(dir.path().join("out.csv")).expect("the CSV");
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines[0], "start_ms,op,lbn,blocks,response_ms");
    assert_eq!(lines.len(), 4);
    assert!(lines[1].starts_with("0.000000,R,9000000,8,"), "{out}");
    assert!(lines[3].starts_with("50.500000,R,9000008,8,"), "{out}");
    let response = |line: &str| line.rsplit(',').next().and_then(|field| field.parse::<f64>().ok());
    let responses: Vec<f64> = lines[1..].iter().filter_map(|line| response(line)).collect();
    let figure = |value: &Value, name: &str| value[name].as_f64().expect("a figure");
    let mean = responses.iter().sum::<f64>() / 3.0;
    assert!((figure(&answer, "mean_ms") - mean).abs() < 1e-5);
    assert!((figure(&answer["writes"], "mean_ms") - responses[1]).abs() < 1e-5);
    assert_eq!(answer["reads"]["requests"], 2);
    for name in ["sd", "p01", "p05", "p10", "p25", "p50", "p75", "p90", "p95", "p99"] {
        figure(&answer, &format!("{name}_ms"));
    }
    // The second request was issued when the first had completed.
    let start: f64 =
        lines[2].split(',').next().and_then(|field| field.parse().ok()).expect("start");
    assert!((start - responses[0]).abs() < 1e-5);
}

#[test]
fn drives_come_by_name_or_from_a_file() {
    let dir = tempfile::tempdir().expect("a directory");
    fs::write(dir.path().join("requests.csv"), REQUESTS).expect("written");
    let list = text(&disk(dir.path(), &["--list"]).stdout);
    let names =
        ["atlas10k", "atlas10k_x3", "atlas_III", "barracuda", "hp_c3323a", "st15150", "st320414a"];
    for name in names {
        assert!(list.lines().any(|line| line.split(' ').next() == Some(name)), "{name} in {list}");
    }
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../crates/sim/src/drives/shipped/atlas10k.json");
    let from_file = format!("{}:atlas10k", shipped.display());
    let mean = |drive: &str, config: &str| {
        let arguments = ["--drive", drive, "--config", config, "--requests", "requests.csv"];
        let output = disk(dir.path(), &arguments);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        answer["mean_ms"].as_f64().expect("a figure")
    };
    assert_eq!(mean(&from_file, "shipped"), mean("atlas10k", "shipped"));
    assert!(mean("atlas10k", "shipped") != mean("atlas10k", "mech"));
    assert!(mean("atlas10k", "fastbus") < mean("atlas10k", "shipped"));
}

#[test]
fn wrong_input_is_named() {
    let dir = tempfile::tempdir().expect("a directory");
    fs::write(dir.path().join("good.csv"), REQUESTS).expect("written");
    fs::write(dir.path().join("bad.csv"), "start_ms,op,lbn,blocks\n0,R,1,8\n0,Q,1,8\n")
        .expect("written");
    fs::write(dir.path().join("drives.json"), "{\"mine\": {\"label\": 1}}").expect("written");
    let cases = [
        (vec!["--drive", "atlas10k", "--requests", "bad.csv"], 1, "bad.csv: line 3: the operation"),
        (vec!["--drive", "atlas10k", "--requests", "none.csv"], 1, "none.csv: No such file"),
        (vec!["--drive", "atlas", "--requests", "good.csv"], 2, "--drive atlas: neither FILE:NAME"),
        (vec!["--drive", "none.json:x", "--requests", "good.csv"], 2, "none.json: No such file"),
        (
            vec!["--drive", "drives.json:x", "--requests", "good.csv"],
            2,
            "it has no drive \"x\", only mine",
        ),
        (
            vec!["--drive", "drives.json:mine", "--requests", "good.csv"],
            2,
            "drives.json: drive \"mine\":",
        ),
        (
            vec!["--drive", "hp_c3323a", "--requests", "good.csv"],
            1,
            "line 2: the sectors 9000000 to",
        ),
        (vec!["--requests", "good.csv"], 2, "--drive is missing"),
        (vec!["--drive", "atlas10k"], 2, "--requests is missing"),
    ];
    for (arguments, code, said) in cases {
        let output = disk(dir.path(), &arguments);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {error}");
        assert!(error.contains(said), "{arguments:?}: {error}");
        assert!(output.stdout.is_empty());
    }
}
