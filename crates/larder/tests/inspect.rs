//! `larder inspect` and `larder format` through the real binary, on caches at rest.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Output};

fn larder(directory: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_larder"));
    command.current_dir(directory).args(arguments).output().expect("the binary runs")
}

#[track_caller]
fn answer(output: &Output) -> String {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    String::from_utf8(output.stdout.clone()).expect("UTF-8")
}

#[track_caller]
fn refusal(output: &Output) -> String {
    let stderr = String::from_utf8(output.stderr.clone()).expect("UTF-8");
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    stderr
}

fn formatted() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    let text = answer(&larder(dir.path(), &["format", "x.cache", "--cache-size", "16M"]));
    assert!(text.ends_with("x.cache: an empty cache of 16M\n"), "{text}");
    dir
}

fn damage(directory: &Path, offset: u64) {
    let file = fs::File::options().write(true).open(directory.join("x.cache")).expect("opened");
    file.write_all_at(&[0x55; 64], offset).expect("written");
}

#[test]
fn an_empty_cache_is_described() {
    let dir = formatted();
    let text = answer(&larder(dir.path(), &["inspect", "x.cache"]));
    assert!(text.contains("0 in use (0%), 0 bad\n"), "{text}");
    assert!(text.contains("opened     0 times\n"), "{text}");
    let text = answer(&larder(dir.path(), &["inspect", "x.cache", "superblock"]));
    assert!(text.contains("copies         A whole, B whole\n"), "{text}");
    assert!(text.contains("mean object    6K\n"), "{text}");
    let text = answer(&larder(dir.path(), &["inspect", "x.cache", "verify"]));
    assert!(text.starts_with("0 records (0 bytes) are whole, in 0 clusters"), "{text}");
    let text = answer(&larder(dir.path(), &["inspect", "x.cache", "clusters"]));
    assert!(text.ends_with(" more are free\n"), "{text}");
}

#[test]
fn json_says_the_same() {
    let dir = formatted();
    let text = answer(&larder(dir.path(), &["inspect", "x.cache", "superblock", "--json"]));
    let json: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(json["copies_whole"], serde_json::json!([true, true]));
    assert_eq!(json["mean_object"], 6 << 10);
    for what in ["clusters", "verify"] {
        let text = answer(&larder(dir.path(), &["inspect", "--json", "x.cache", what]));
        serde_json::from_str::<serde_json::Value>(&text).expect("JSON");
    }
}

#[test]
fn a_damaged_superblock_copy_is_named() {
    let dir = formatted();
    damage(dir.path(), (16 << 20) - (64 << 10));
    let output = larder(dir.path(), &["inspect", "x.cache", "superblock"]);
    refusal(&output);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("copies         A whole, B DAMAGED\n"), "{text}");
    damage(dir.path(), 64);
    let why = refusal(&larder(dir.path(), &["inspect", "x.cache"]));
    assert!(why.starts_with("larder: x.cache: both superblock copies are damaged: at the begin"));
}

#[test]
fn what_is_not_there_is_said() {
    let dir = formatted();
    let why = refusal(&larder(dir.path(), &["inspect", "missing.cache"]));
    assert_eq!(why, "larder: missing.cache: No such file or directory (os error 2)\n");
    fs::write(dir.path().join("text"), "hello").expect("written");
    let why = refusal(&larder(dir.path(), &["inspect", "text"]));
    assert_eq!(why, "larder: text: there is no Larder superblock\n");
    let why = refusal(&larder(dir.path(), &["inspect", "x.cache", "object", "http://a/"]));
    assert_eq!(
        why,
        "larder: x.cache: nothing is stored for http://a/ (the forward proxy, site default, \
         site a; --config FILE names all sites, hosts and rules)\n"
    );
    let why = refusal(&larder(dir.path(), &["inspect", "x.cache", "object", "a"]));
    assert!(why.contains("expected a URL such as http://example.com/path, got \"a\""), "{why}");
}

#[test]
fn format_overwrites_only_when_told() {
    let dir = formatted();
    let again = ["format", "x.cache", "--cache-size", "32M"];
    let why = refusal(&larder(dir.path(), &again));
    assert!(why.contains("there is already a Larder cache; --force"), "{why}");
    let forced = [&again[..], &["--force"]].concat();
    answer(&larder(dir.path(), &forced));
    assert_eq!(fs::metadata(dir.path().join("x.cache")).expect("there").len(), 32 << 20);
    let smaller = ["format", "x.cache", "--cache-size", "16M", "--force"];
    answer(&larder(dir.path(), &smaller));
    assert_eq!(fs::metadata(dir.path().join("x.cache")).expect("there").len(), 16 << 20);
}

#[test]
fn format_refuses_sizes_that_cannot_be() {
    let dir = tempfile::tempdir().expect("a directory");
    let output = larder(dir.path(), &["format", "x.cache", "--cache-size", "4K"]);
    let why = refusal(&output);
    assert_eq!(why, "larder: x.cache: 4K are too few for a cache, 8M is the least\n");
    assert!(!dir.path().join("x.cache").exists());
    let output = larder(dir.path(), &["format", "y.cache", "--cache-size", "1000T"]);
    let why = refusal(&output);
    assert!(why.contains("bytes free"), "{why}");
    assert!(!dir.path().join("y.cache").exists());
    let output = larder(dir.path(), &["format", "x.cache", "--cache-size", "much"]);
    assert_eq!(output.status.code(), Some(2));
    let why = String::from_utf8_lossy(&output.stderr);
    assert!(why.contains("expected a size such as 10G"), "{why}");
}
