//! `docs/reference/metrics.md` lists what a running program says of itself: names, kinds and the
//! help of each metric, as `/metrics` has them.
//!
//! When they change, run the test once with `LARDER_BLESS=1` in the environment to write the page
//! anew, and read the diff.

use std::fs;
use std::path::Path;

use crate::runner::Setup;

const BEGIN: &str = "<!-- metrics: rendered from what /metrics says -->\n";
const END: &str = "<!-- end of metrics -->\n";

/// Renders the metrics of a scrape, by name: their order differs from start to start.
fn table(scrape: &str) -> String {
    let mut rows = Vec::new();
    let mut help = "";
    for line in scrape.lines() {
        if let Some((_, said)) = line.strip_prefix("# HELP ").and_then(|l| l.split_once(' ')) {
            help = said;
        }
        if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|l| l.split_once(' ')) {
            let suffix = if kind == "counter" { "_total" } else { "" };
            rows.push(format!("| `{name}{suffix}` | {kind} | {help} |\n"));
        }
    }
    rows.sort();
    format!("\n| metric | kind | what it says |\n|---|---|---|\n{}\n", rows.concat())
}

#[test]
fn the_page_lists_every_metric() {
    // A server, so that those of servers are there, too; nothing is asked of it.
    let larder = Setup::reverse("http://127.0.0.1:9").start();
    let fresh = table(&larder.metrics());
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/metrics.md");
    let text = fs::read_to_string(&path).unwrap();
    let from = text.find(BEGIN).unwrap() + BEGIN.len();
    let to = text.find(END).unwrap();
    if std::env::var_os("LARDER_BLESS").is_some() {
        fs::write(&path, format!("{}{fresh}{}", &text[..from], &text[to..])).unwrap();
    } else {
        assert!(
            text[from..to] == fresh,
            "docs/reference/metrics.md is out of date: run this test with LARDER_BLESS=1"
        );
    }
}
