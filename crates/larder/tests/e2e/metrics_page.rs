//! Checks that `docs/reference/metrics.md` lists the metrics of a running program: the name and
//! help of each, as in `/metrics`, and which are histograms.
//!
//! When they change, run the test once with `LARDER_BLESS=1` in the environment to rewrite the
//! page, and read the diff.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use testkit::fleet_nodes::Fleet;
use testkit::larder::Setup;
use testkit::origin::Origin;

const BEGIN: &str = "<!-- metrics: rendered from what /metrics says -->\n";
const END: &str = "<!-- end of metrics -->\n";

/// Returns the metrics of a scrape: the name and help of each.
fn metrics(scrape: &str) -> Vec<(String, String)> {
    let mut rows = Vec::new();
    let mut help = "";
    for line in scrape.lines() {
        if let Some((_, said)) = line.strip_prefix("# HELP ").and_then(|l| l.split_once(' ')) {
            help = said;
        }
        if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|l| l.split_once(' ')) {
            let histogram = if kind == "histogram" { "Histogram: " } else { "" };
            rows.push((format!("`{name}`"), format!("{histogram}{help}")));
        }
    }
    rows
}

/// Renders the metrics of all scrapes, by name.
fn table(scrapes: &[String]) -> String {
    let rows: BTreeMap<_, _> = scrapes.iter().flat_map(|scrape| metrics(scrape)).collect();
    let rows: String = rows.iter().map(|(name, rest)| format!("| {name} | {rest} |\n")).collect();
    format!("\n| metric | meaning |\n|---|---|\n{rows}\n")
}

#[test]
fn the_page_lists_every_metric() {
    // A server and a directory of files, so that their metrics exist too; a layout of each family;
    // and another node of a fleet. They get no requests.
    let root = tempfile::tempdir().unwrap();
    let site = format!("[[site]]\nhosts = [\"files.test\"]\nroot = {:?}\n", root.path());
    let mut scrapes = Vec::from(["cluster", "unified"].map(|layout| {
        let setup = Setup::reverse("http://127.0.0.1:9").flag("layout", layout).config(&site);
        setup.start().metrics()
    }));
    let stream = "[purge]\nstream = \"nats://127.0.0.1:9/purges\"\n";
    let fleet = Fleet::of(2, &Origin::start()).each(|setup, _| setup.config(stream));
    scrapes.push(fleet.start()[0].metrics());
    let fresh = table(&scrapes);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/metrics.md");
    let text = fs::read_to_string(&path).unwrap();
    let from = text.find(BEGIN).unwrap() + BEGIN.len();
    let to = text.find(END).unwrap();
    if std::env::var_os("LARDER_BLESS").is_some() {
        fs::write(&path, format!("{}{fresh}{}", &text[..from], &text[to..])).unwrap();
        return;
    }
    let (stands, is): (BTreeSet<_>, BTreeSet<_>) =
        (text[from..to].lines().collect(), fresh.lines().collect());
    let (gone, new): (Vec<_>, Vec<_>) =
        (stands.difference(&is).collect(), is.difference(&stands).collect());
    assert!(
        gone.is_empty() && new.is_empty(),
        "docs/reference/metrics.md is out of date: run this test with LARDER_BLESS=1\n\
         no longer said: {gone:#?}\nnew: {new:#?}"
    );
}
