//! Extracts of published traces, read and checked against independent counts.

#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};

use workload::trace::statistics::{Statistics, Summary};
use workload::trace::{Filter, Format, ReadOptions, Requests, SkipReason, Skipped};

fn read(name: &str, options: ReadOptions) -> (Summary, Skipped) {
    let path: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name);
    let mut requests = Requests::new(vec![path], options);
    let mut statistics = Statistics::default();
    requests.by_ref().for_each(|request| statistics.take(&request));
    let (_, skipped) = requests.finish().unwrap().remove(0);
    (statistics.summary(), skipped)
}

const PAPERS: ReadOptions =
    ReadOptions { format: Format::Auto, columns: None, filter: Filter::Papers };

#[test]
fn browsers_of_boston() {
    let (found, skipped) = read("bu_feb95_400.tsv.zst", PAPERS);
    assert_eq!((found.requests, found.objects, found.sites), (386, 108, 12));
    assert_eq!(
        (skipped.skip_reason(SkipReason::Dynamic), skipped.skip_reason(SkipReason::NoSize)),
        (4, 10)
    );
    assert_eq!(skipped.damaged, 0);
    let (found, skipped) = read("bu_feb95_400.tsv.zst", ReadOptions::default());
    assert_eq!(found.requests + skipped.skip_reason(SkipReason::NoSize), 400, "programs count");
    let all = ReadOptions { filter: Filter::All, ..ReadOptions::default() };
    let (found, skipped) = read("bu_feb95_400.tsv.zst", all);
    assert_eq!(found.requests + skipped.skip_reason(SkipReason::NoSize), 400);
    assert_eq!(found.uncacheable, 0);
}

#[test]
fn a_server_of_nasa() {
    let (found, skipped) = read("nasa_jul95_400.tsv.zst", PAPERS);
    assert_eq!((found.requests, found.objects, found.clients), (375, 144, 71));
    let skip_reason = SkipReason::ALL.map(|why| skipped.skip_reason(why));
    assert_eq!(skip_reason, [0, 14, 7, 0, 4]);
}

#[test]
fn a_content_delivery_network() {
    let columns = Some("time,object,size_kb".parse().unwrap());
    let options = ReadOptions { columns, ..ReadOptions::default() };
    let (found, _) = read("cdn_eu3_400.csv.zst", options);
    assert_eq!((found.requests, found.objects, found.one_timers), (400, 257, 139));
    assert_eq!((found.bytes % 1_024, found.hits), (0, 143));
}
