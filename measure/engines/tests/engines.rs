//! The comparison, as small as it can be: both engines give right answers before and after damage,
//! and wrong options are refused. No time is asserted.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::process::{Command, Output};

use serde_json::Value;

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_larder-engines")).args(arguments).output().unwrap()
}

fn figure(json: &Value, engine: &str, name: &str) -> f64 {
    let value = &json["engines"][engine]["medians"][name];
    value.as_f64().unwrap_or_else(|| panic!("{engine}: {name} is {value}"))
}

#[test]
fn both_engines_are_measured_and_nothing_is_left() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_str().unwrap();
    let small = ["--file-size", "64M", "--memory", "8M", "--requests", "12000", "--rounds", "1"];
    let output = run(&[&small[..], &["--json", "--directory", path]].concat());
    assert!(output.status.success(), "{output:?}");
    assert!(output.stderr.is_empty(), "{output:?}");
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["settings"]["file_size"], 64 << 20);
    for engine in ["larder", "foyer"] {
        let figure = |name| figure(&json, engine, name);
        let hits = figure("hit_percent");
        assert!(hits > 1.0 && hits < 99.0, "{engine}: {hits} % hits");
        assert!(figure("write_ratio") > 0.1, "{engine} wrote nothing");
        let kept = figure("kept_percent");
        assert!(kept > 10.0, "{engine} kept {kept} % through a kill");
        assert_eq!(figure("wrong"), 0.0, "{engine}");
        assert_eq!(figure("wrong_after_damage"), 0.0, "{engine}");
        assert!(figure("lost_per_damaged_byte") > 0.0, "{engine} was not damaged");
    }
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn wrong_options_are_refused() {
    let cases = [
        (&["--file-size", "many"][..], "expected a size such as 10G"),
        (&["--file-size", "1M"], "--file-size: at least 64M"),
        (&["--memory", "1M"], "--memory: at least 8M"),
        (&["--memory", "1G"], "--memory: at most half of --file-size"),
        (&["--requests", "10"], "10 is not in 1000..=4294967295"),
        (&["--rounds", "0"], "0 is not in 1..=99"),
        (&["--seed", "x"], "invalid digit"),
        (&["--directory", "/nowhere/at/all"], "/nowhere/at/all is not a directory"),
    ];
    for (arguments, message) in cases {
        let output = run(arguments);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {text}");
        assert!(text.contains(message), "{arguments:?}: {text}");
    }
}
