//! Checks that `docs/reference/metrics.md` lists the metrics of a running program: the name and
//! help of each, as in `/metrics`, and which are histograms. Checks that the dashboard and the
//! alerts in `packaging`, and the live page, use metrics and labels that exist.
//!
//! When they change, run the test once with `LARDER_BLESS=1` in the environment to rewrite the
//! page, and read the diff.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use serde_json::Value;
use testkit::authority::Authority;
use testkit::fleet_nodes::Fleet;
use testkit::larder::Setup;
use testkit::origin::Origin;
use testkit::skip::skipped;

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
fn list(scrapes: &[String]) -> String {
    let rows: BTreeMap<_, _> = scrapes.iter().flat_map(|scrape| metrics(scrape)).collect();
    let rows: String = rows.iter().map(|(name, rest)| format!("- {name}: {rest}\n")).collect();
    format!("\n{rows}\n")
}

/// Scrapes of programs that have all metrics. They get no requests.
static SCRAPES: LazyLock<Vec<String>> = LazyLock::new(|| {
    // A server and a directory of files, so that their metrics exist too; a layout of each family;
    // a certificate; and another node of a fleet.
    let root = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let mut scrapes = Vec::from(["cluster", "unified"].map(|layout| {
        let setup = Setup::reverse("http://127.0.0.1:9").flag("layout", layout);
        let chain = authority.issue_file(&setup.path(""), "cert", &["files.test"]);
        let config = format!(
            "[[site]]\nhosts = [\"files.test\"]\nroot = {:?}\n[[certificate]]\nchain = {chain:?}\n\
             [[listener]]\naddress = \"{}\"\ntls = true\n",
            root.path(),
            testkit::address::free(),
        );
        setup.config(&config).start().metrics()
    }));
    let stream = "[purge]\nstream = \"nats://127.0.0.1:9/purges\"\n";
    let fleet = Fleet::of(2, &Origin::start()).each(|setup, _| setup.config(stream));
    scrapes.push(fleet.start()[0].metrics());
    scrapes
});

#[test]
fn the_page_lists_every_metric() {
    let fresh = list(&SCRAPES);
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

/// Returns the labels of each series name of some scrapes.
fn labels_by_name(scrapes: &[String]) -> BTreeMap<String, BTreeSet<String>> {
    let mut all: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for line in scrapes.iter().flat_map(|scrape| scrape.lines()).filter(|l| !l.starts_with('#')) {
        let (series, _) = line.rsplit_once(' ').unwrap();
        let (name, labels) = series.split_once('{').unwrap_or((series, ""));
        all.entry(name.to_owned()).or_default().extend(label_names(labels));
    }
    all
}

/// Returns the names in a list of labels or of label matchers.
fn label_names(list: &str) -> impl Iterator<Item = String> {
    // Every other part is a quoted value.
    let names = list.split('"').step_by(2).filter_map(|part| part.split(['=', '!']).next());
    let names = names.map(|name| name.trim_start_matches([',', ' ']).to_owned());
    names.filter(|name| !name.is_empty() && !name.starts_with('}'))
}

/// Returns the metrics of this program that a query names, each with the labels that it matches.
fn metrics_of(query: &str) -> Vec<(&str, Vec<String>)> {
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut found = Vec::new();
    for (at, _) in query.match_indices(['l', 'p']) {
        let rest = &query[at..];
        let begins = ["larder_", "process_"].iter().any(|prefix| rest.starts_with(prefix));
        if !begins || query[..at].ends_with(is_of_name) {
            continue;
        }
        let name = rest.split(|c| !is_of_name(c)).next().unwrap();
        let matchers = rest[name.len()..].strip_prefix('{');
        let matchers = matchers.and_then(|all| all.split('}').next()).unwrap_or_default();
        found.push((name, label_names(matchers).collect()));
    }
    found
}

/// Returns the labels by which a query groups series.
fn groupings(query: &str) -> Vec<&str> {
    let lists = query.split("by (").skip(1).filter_map(|rest| rest.split(')').next());
    lists.flat_map(|list| list.split(',').map(str::trim)).collect()
}

/// Adds the queries of a dashboard.
fn queries(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                match value {
                    Value::String(text) if name == "expr" || name == "definition" => {
                        found.push(text.clone());
                    }
                    other => queries(other, found),
                }
            }
        }
        Value::Array(values) => values.iter().for_each(|value| queries(value, found)),
        _ => {}
    }
}

#[test]
fn dashboard_and_alerts_use_metrics_that_exist() {
    let packaging = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging");
    let read = |name: &str| fs::read_to_string(packaging.join(name)).unwrap();
    let mut all = Vec::new();
    queries(&serde_json::from_str(&read("grafana/larder.json")).unwrap(), &mut all);
    let alerts = read("prometheus/alerts.yaml");
    all.extend(alerts.split("expr:").skip(1).map(|rest| {
        let end = rest.find("labels:").unwrap();
        rest[..end].to_owned()
    }));
    assert!(all.len() > 40, "{}", all.len());
    let known = labels_by_name(&SCRAPES);
    // Those that Prometheus adds.
    let added = ["instance", "job"].map(str::to_owned);
    for query in &all {
        let mut labels = BTreeSet::from(added.clone());
        let used = metrics_of(query);
        assert!(!used.is_empty(), "{query}");
        for (name, matched) in used {
            let of_name = known.get(name).unwrap_or_else(|| panic!("no metric {name}: {query}"));
            for label in matched.iter().filter(|label| !added.contains(label)) {
                assert!(of_name.contains(label), "{name} has no label {label}: {query}");
            }
            labels.extend(of_name.iter().cloned());
        }
        for label in groupings(query) {
            assert!(labels.contains(label), "no label {label}: {query}");
        }
    }
}

#[test]
fn the_live_page_uses_metrics_that_exist() {
    let page = include_str!("../../../proxy/src/admin/live/page.js");
    let used = metrics_of(page);
    let known = labels_by_name(&SCRAPES);
    assert!(used.len() > 8, "{used:?}");
    for (name, _) in used {
        assert!(known.contains_key(name), "no metric {name}");
    }
}

/// Prometheus' own tool, where it is installed.
#[test]
fn promtool_accepts_metrics_and_alerts() {
    let promtool = |arguments: &[&str], input: &str| {
        let mut command = Command::new("promtool");
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.stderr(Stdio::piped()).spawn().ok()?;
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        Some(child.wait_with_output().unwrap())
    };
    for scrape in &*SCRAPES {
        let Some(output) = promtool(&["check", "metrics"], scrape) else {
            return skipped("promtool is not installed");
        };
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let alerts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/prometheus");
    let alerts = alerts.join("alerts.yaml");
    let output = promtool(&["check", "rules", alerts.to_str().unwrap()], "").unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
