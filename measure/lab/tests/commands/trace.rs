//! `larder lab trace` through the real binary: its messages about invalid input.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::Duration;

/// Four requests; a cache may answer three of them.
const LOG: &str = "\
1.000 5 10.0.0.1 TCP_MISS/200 900 GET http://h/x - DIRECT/- text/html
2.000 5 10.0.0.2 TCP_MISS/200 800 GET http://h/y - DIRECT/- text/html
3.000 5 10.0.0.1 TCP_MISS/200 700 GET http://h/z?q - DIRECT/- text/html
4.000 5 10.0.0.2 TCP_HIT/200 900 GET http://h/x - NONE/- text/html
";

fn trace(directory: &Path, arguments: &[&str], input: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_larder-lab"))
        .current_dir(directory)
        .arg("trace")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    // A command that reads no input may have exited.
    let _ = child.stdin.take().expect("a pipe").write_all(input.as_bytes());
    child.wait_with_output().expect("it ends")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

/// Checks that the command fails with `code` and prints all of `words`.
fn fails(directory: &Path, arguments: &[&str], code: i32, words: &[&str]) {
    let output = trace(directory, arguments, "");
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {told}");
    assert!(output.stdout.is_empty(), "{arguments:?}: {}", text(&output.stdout));
    for word in words {
        assert!(told.contains(word), "{arguments:?}: {word:?} is not in {told}");
    }
}

#[test]
fn invalid_logs_are_reported() {
    let dir = tempfile::tempdir().expect("a directory");
    fs::write(dir.path().join("empty"), "").expect("written");
    fs::write(dir.path().join("log"), LOG).expect("written");
    let only = LOG.lines().nth(2).expect("the third");
    fs::write(dir.path().join("query"), format!("{only}\n")).expect("written");
    fails(dir.path(), &["stats", "missing"], 1, &["missing", "No such file"]);
    fails(dir.path(), &["stats", "empty"], 1, &["no request", "it is empty"]);
    fails(dir.path(), &["stats", "empty", "empty"], 1, &["it is empty"]);
    fails(dir.path(), &["stats", "query", "--papers"], 1, &["(1 ", "--all"]);
    let wrong = ["stats", "log", "--format", "clf"];
    fails(dir.path(), &wrong, 1, &["log:1: ", "(4 damaged)", "another --format"]);
    fails(dir.path(), &["stats", "log", "--format", "clff"], 2, &["\"clff\"", "squid, clf"]);
    fails(dir.path(), &["convert", "log", "--out", "log.txt"], 2, &["log.txt", ".oracleGeneral"]);
    fails(dir.path(), &["convert", "log", "--out", "no/log.csv"], 1, &["no/log.csv", "written"]);
}

#[test]
fn a_log_comes_from_standard_input() {
    let dir = tempfile::tempdir().expect("a directory");
    for (arguments, requests) in [(&["stats", "-"][..], "4"), (&["stats", "-", "--papers"], "3")] {
        let output = trace(dir.path(), arguments, LOG);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let told = text(&output.stdout);
        let first: Vec<&str> = told.lines().next().expect("a line").split_whitespace().collect();
        assert_eq!(first, ["requests", requests]);
    }
}

#[test]
fn a_failed_command_replaces_no_file() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("out.csv");
    fs::write(&path, "what was there\n").expect("written");
    fails(dir.path(), &["convert", "missing", "--out", "out.csv"], 1, &["missing"]);
    fails(dir.path(), &["convert", "-", "--out", "out.csv"], 1, &["it is empty"]);
    assert_eq!(fs::read_to_string(&path).expect("there"), "what was there\n");
    let output = trace(dir.path(), &["convert", "-", "--out", "out.csv"], LOG);
    assert!(output.status.success(), "{}", text(&output.stderr));
    // The same when the output replaces the input.
    let again = trace(dir.path(), &["convert", "out.csv", "out.csv", "--out", "out.csv"], "");
    assert!(again.status.success(), "{}", text(&again.stderr));
    assert_eq!(fs::read_to_string(&path).expect("there").lines().count(), 1 + 8);
}

#[test]
fn a_signal_leaves_nothing_behind() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut child = Command::new(env!("CARGO_BIN_EXE_larder-lab"))
        .current_dir(dir.path())
        .args(["trace", "convert", "-", "--format", "squid", "--out", "out.csv"])
        .stdin(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let files = || fs::read_dir(dir.path()).expect("a directory").count();
    // The command waits for its input; its temporary file exists by then.
    while files() == 0 {
        assert!(child.try_wait().expect("a child").is_none(), "it ends by itself");
        thread::sleep(Duration::from_millis(5));
    }
    let kill = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(kill.expect("kill runs").success());
    let ended = child.wait().expect("it ends");
    assert_eq!((ended.code(), files()), (Some(130), 0));
}
