//! `larder lab missratio` through the real binary.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn missratio(directory: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_larder-lab"))
        .current_dir(directory)
        .arg("missratio")
        .args(arguments)
        .output()
        .expect("the binary runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

/// Returns objects and sizes as libCacheSim writes them.
fn oracle(requests: &[(u64, u32)]) -> Vec<u8> {
    let record = |(object, size): &(u64, u32)| {
        let fields: [&[u8]; 4] =
            [&9_u32.to_le_bytes(), &object.to_le_bytes(), &size.to_le_bytes(), &[0xff; 8]];
        fields.concat()
    };
    requests.iter().flat_map(record).collect()
}

#[test]
fn policies_and_sizes_are_printed_as_given() {
    let dir = tempfile::tempdir().expect("a directory");
    // Objects 1 and 2 fit together into 1,000 bytes; 3 fits only into the largest cache.
    let requests = [(1, 600), (2, 400), (1, 600), (3, 5_000), (2, 400), (3, 5_000), (1, 600)];
    fs::write(dir.path().join("small.oracleGeneral"), oracle(&requests)).expect("written");
    let expected = "policy,size,requests,misses,miss_ratio,byte_miss_ratio\n\
                    lru,0,7,7,1.000000,1.000000\n\
                    lru,1000,7,4,0.571429,0.873016\n\
                    lru,1K,7,4,0.571429,0.873016\n\
                    lru,1T,7,3,0.428571,0.476190\n\
                    S3FIFO,0,7,7,1.000000,1.000000\n\
                    S3FIFO,1000,7,7,1.000000,1.000000\n\
                    S3FIFO,1K,7,7,1.000000,1.000000\n\
                    S3FIFO,1T,7,3,0.428571,0.476190\n";
    let arguments = ["small.oracleGeneral", "--policy", "lru,S3FIFO", "--size", "0,1000,1K,1T"];
    let output = missratio(dir.path(), &arguments);
    assert_eq!(text(&output.stdout), expected, "{}", text(&output.stderr));
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
    let arguments =
        ["small.oracleGeneral", "--policy", "fifo", "--size", "1,2", "--unit", "objects"];
    assert_eq!(
        text(&missratio(dir.path(), &arguments).stdout),
        "policy,size,requests,misses,miss_ratio,byte_miss_ratio\n\
         fifo,1,7,7,1.000000,1.000000\n\
         fifo,2,7,4,0.571429,0.523810\n"
    );
}

#[test]
fn a_compressed_trace_is_known_by_its_name() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/nasa_jul95_10k.oracleGeneral.zst");
    let output = missratio(Path::new("."), &[path, "--policy", "lru,gdsf", "--size", "3827358"]);
    let answer = text(&output.stdout);
    let rows: Vec<&str> = answer.lines().skip(1).collect();
    assert!(rows[0].starts_with("lru,3827358,9543,3354,0.351462,"), "{answer}");
    assert!(rows[1].starts_with("gdsf,3827358,9543,1588,0.166405,"), "{answer}");
}

#[test]
fn a_sample_is_told() {
    let dir = tempfile::tempdir().expect("a directory");
    // Each object is requested twice in a row.
    let requests: Vec<(u64, u32)> = (0..40_000).map(|number| (number / 2, 100)).collect();
    fs::write(dir.path().join("pairs.oracleGeneral"), oracle(&requests)).expect("written");
    let arguments = ["pairs.oracleGeneral", "--size", "500", "--unit", "objects"];
    let output = missratio(dir.path(), &[&arguments[..], &["--sample", "10%"]].concat());
    assert_eq!(output.status.code(), Some(0));
    let told = text(&output.stderr);
    assert!(told.contains("estimated from") && told.contains("a share of 0.1 of"), "{told}");
    let answer = text(&output.stdout);
    let fields: Vec<&str> = answer.lines().nth(1).unwrap_or_default().split(',').collect();
    assert_eq!(fields[..3], ["lru", "500", "40000"]);
    let misses: u64 = fields[3].parse().expect("a number");
    assert!((19_000..21_000).contains(&misses), "{answer}");
}

#[test]
fn wrong_arguments_are_reported() {
    let dir = tempfile::tempdir().expect("a directory");
    fs::write(dir.path().join("a.oracleGeneral"), oracle(&[(1, 1)])).expect("written");
    let told = |arguments: &[&str]| {
        let output = missratio(dir.path(), &[&["a.oracleGeneral"], arguments].concat());
        assert!(output.status.code().is_some_and(|code| code != 0), "{arguments:?}");
        assert!(output.stdout.is_empty());
        text(&output.stderr)
    };
    assert!(told(&["--policy", "mru", "--size", "1"]).contains("choose one of lru, fifo"));
    assert!(told(&["--size", "ten"]).contains("--size \"ten\" is not a size such as"));
    assert!(told(&["--size", "1K", "--unit", "objects"]).contains("a number of objects"));
    assert!(told(&["--size", "1", "--sample", "0"]).contains("the sampling rate is 0:"));
    assert!(told(&["--size", "1", "--sample", "few"]).contains("not a share such as 0.01"));
    let output = missratio(dir.path(), &["b.oracleGeneral", "--size", "1"]);
    assert!(text(&output.stderr).contains("b.oracleGeneral: cannot be read"));
}
