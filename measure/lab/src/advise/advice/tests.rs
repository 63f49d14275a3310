//! Logs whose best sizes are known, and verdicts from made-up evidence.

use std::fs;

use store::LayoutName;
use store::policy::{AdmissionName, PolicyName};

use super::*;
use crate::advise::access_log::{AccessLog, LogOptions};
use crate::advise::log_replay::{Measured, Row, Setup, System};
use crate::advise::missratio::Sampling;
use crate::experiment::Meter;
use workload::trace::ReadOptions;

const M: u64 = 1 << 20;
const LIMITS: Limits = Limits { memory: None, disk: None, drive: 1 << 38 };

/// A log of objects of 20,000 bytes with their records, one request a minute.
fn log(objects: impl Iterator<Item = u64>, sampling: Sampling) -> AccessLog {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log.csv");
    let size = 20_000 - RECORD;
    let line = |(minute, object)| format!("{},{object},{size}\n", minute * 60);
    let lines = (0_u64..).zip(objects).map(line);
    let text: String = std::iter::once("time,object,size\n".to_owned()).chain(lines).collect();
    fs::write(&path, text).unwrap();
    let (read, most, limit) = (ReadOptions::default(), usize::MAX, usize::MAX);
    let options = LogOptions { read, sampling, most, limit };
    AccessLog::read(vec![path], &options, |_| {}).unwrap()
}

/// 2,000 objects requested in a cycle: below 40 MB LRU never hits, above it always does.
fn circle() -> AccessLog {
    log((0..12_000).map(|number| number % 2_000), Sampling::ALL)
}

fn curves(log: &AccessLog) -> Curves {
    Curves::of(log, &Meter::default()).unwrap()
}

fn sizes(log: &AccessLog, curves: &Curves, limits: Limits) -> Sizes {
    Sizes::choose(curves, log.summary(), &limits, Goal::Requests, &Prices::default()).unwrap()
}

#[test]
fn sizes_are_those_of_the_working_set() {
    let log = circle();
    let curves = curves(&log);
    let hits = |size| curves.at(size, Part::Second).requests;
    assert_eq!([39_000_000, 40_500_000].map(hits), [0.0, 1.0]);
    assert!((curves.at(41_000_000, Part::Whole).requests - 5.0 / 6.0).abs() < 1e-9);
    assert!((curves.turnovers(40_500_000) - 40.0 / 40.5).abs() < 0.001);
    let chosen = sizes(&log, &curves, LIMITS);
    // The next size on the grid. At a request a minute no read of a disk is worth memory.
    assert_eq!((chosen.disk, chosen.disk_bound), (48 * M, Bound::Price));
    assert_eq!((chosen.memory, chosen.memory_bound), (16 * M, Bound::Least));
    assert_eq!((chosen.mean, chosen.mean_object), (20_000, None));
    // With less, nothing is gained, so the smallest size is enough.
    let little = sizes(&log, &curves, Limits { disk: Some(30 * M), ..LIMITS });
    assert_eq!((little.disk, little.disk_bound), (16 * M, Bound::Least));
    let just = sizes(&log, &curves, Limits { disk: Some(41 * M), ..LIMITS });
    assert_eq!((just.disk, just.disk_bound), (41 * M, Bound::Limit));
    let why = |limits| {
        let chosen =
            Sizes::choose(&curves, log.summary(), &limits, Goal::Requests, &Prices::default());
        chosen.unwrap_err().to_string()
    };
    assert!(why(Limits { disk: Some(M), ..LIMITS }).contains("--max-disk is 1048576"));
    assert!(why(Limits { memory: Some(M), ..LIMITS }).contains("--max-memory is 1048576"));
}

#[test]
fn memory_is_what_its_price_and_the_disk_allow() {
    let log = log(skewed(3), Sampling::ALL);
    let curves = curves(&log);
    let chosen = |prices: Prices| {
        let sizes =
            Sizes::choose(&curves, log.summary(), &LIMITS, Goal::Requests, &prices).unwrap();
        assert!(sizes.memory <= sizes.disk, "{sizes:?}");
        (sizes.disk / M, sizes.memory / M)
    };
    let busy = Prices { rate: Some(1_000.0), ..Prices::default() };
    assert!(chosen(busy).1 > 16, "{:?}", chosen(busy));
    assert_eq!(chosen(Prices { memory: 1e6, ..busy }).1, 16);
    let (disk, memory) = chosen(Prices { memory: 0.0, read_ms: 10.0, ..busy });
    assert_eq!(disk, memory, "the disk is the limit");
    assert_eq!(chosen(Prices { disk: 1e9, ..busy }), (16, 16));
}

fn skewed(seed: u64) -> impl Iterator<Item = u64> {
    let mut random = fastrand::Rng::with_seed(seed);
    (0..40_000).map(move |_| (8_000.0 * random.f64().powi(3)) as u64)
}

#[test]
fn the_curve_is_what_the_policy_lru_does() {
    let log = log(skewed(1), Sampling::ALL);
    let curves = curves(&log);
    for size in [16 * M, 48 * M, 96 * M] {
        let outcomes = compare_policies(&log, size, 2, &Meter::default()).unwrap();
        assert_eq!(outcomes.len(), PolicyName::ALL.len());
        let lru = outcomes.iter().find(|outcome| outcome.policy == PolicyName::Lru).unwrap();
        let at = curves.at(size, Part::Second);
        assert!((at.requests - lru.hits.requests).abs() < 1e-9, "{at:?} {lru:?}");
        assert!((at.bytes - lru.hits.bytes).abs() < 1e-9, "{at:?} {lru:?}");
        assert!(at.requests > curves.at(size, Part::Whole).requests, "the second half is warm");
    }
}

#[test]
fn a_sample_gives_nearly_the_same_sizes() {
    let whole = log(skewed(2), Sampling::ALL);
    let sample = log(skewed(2), Sampling::new(0.25).unwrap());
    let (exact, near) = (curves(&whole), curves(&sample));
    for size in [32 * M, 64 * M, 128 * M] {
        let [exact, near] = [&exact, &near].map(|curves| curves.at(size, Part::Second).requests);
        assert!((exact - near).abs() < 0.04, "{size}: {exact} {near}");
    }
}

fn measured(hit_ratio: f64, written_bytes: u64) -> Measured {
    Measured {
        requests: 6_000,
        memory_hits: 0,
        disk_hits: 0,
        stale: 0,
        misses: 0,
        refused: 0,
        hit_ratio,
        byte_hit_ratio: hit_ratio,
        disk_seconds: 1.0,
        disk_hit_ms: None,
        disk_hit_p99_ms: None,
        waited_ms: 0.1,
        reads: 0,
        read_bytes: 0,
        writes: 0,
        written_bytes,
        stored_bytes: 0,
        written_per_stored: None,
        turnovers: 0.0,
    }
}

/// Returns the verdict for an engine with these hit ratios by layout. Admitting every object writes
/// `written` times as many bytes as admitting second hits only, which costs `lost` of the hit
/// ratio.
fn verdict(hits: [f64; 4], written: u64, lost: f64) -> Verdict {
    verdict_on(&circle(), hits, written, lost)
}

fn verdict_on(log: &AccessLog, hits: [f64; 4], written: u64, lost: f64) -> Verdict {
    let curves = curves(log);
    let sizes = sizes(log, &curves, LIMITS);
    let policies = compare_policies(log, sizes.disk, 2, &Meter::default()).unwrap();
    let layouts = LayoutName::ALL.map(System::Layout);
    let row = |setup, measured| Row { setup, result: Ok(measured) };
    let mut rows: Vec<Row> = layouts
        .iter()
        .zip(hits)
        .map(|(system, hits)| {
            row(Setup::new(*system, sizes.memory, sizes.disk), measured(hits, 100 * written))
        })
        .collect();
    let second = Setup { admission: Some(AdmissionName::SecondHit), ..rows[0].setup };
    rows.push(row(second, measured(hits[0] - lost, 100)));
    // A row of another size is ignored.
    let larger = Setup { disk: sizes.disk * 2, ..rows[3].setup };
    rows.push(row(larger, measured(1.0, 1)));
    let evidence = Evidence {
        log,
        curves: &curves,
        sizes: &sizes,
        policies: &policies,
        rows: &rows,
        goal: Goal::Requests,
        prices: Prices::default(),
    };
    decide(&evidence).unwrap()
}

#[test]
fn the_default_stays_unless_another_is_worth_it() {
    let same = verdict([0.5, 0.505, 0.4, 0.4], 1, 0.0);
    assert_eq!(same.setup.system, System::Layout(LayoutName::Cluster));
    let why = |verdict: &Verdict, setting| {
        let found = verdict.reasons.iter().find(|reason| reason.setting == setting);
        found.unwrap_or_else(|| panic!("{setting}")).why.clone()
    };
    assert!(why(&same, "layout").contains("49.60 ms with stream lru"), "{}", why(&same, "layout"));
    assert!(why(&same, "layout").contains("saves less than 2%"));
    let other = verdict([0.5, 0.6, 0.4, 0.4], 1, 0.0);
    assert_eq!(other.setup.system, System::Layout(LayoutName::Stream));
    assert!(why(&other, "layout").starts_with("the best of 4"), "{}", why(&other, "layout"));
    assert_eq!(other.setup.admission, None);
}

#[test]
fn a_small_sample_is_no_reason_for_another_layout() {
    let sample = log((0..12_000).map(|number| number % 2_000), Sampling::new(0.5).unwrap());
    let small = verdict_on(&sample, [0.5, 0.9, 0.4, 0.4], 2, 0.0);
    assert_eq!(small.setup.system, System::Layout(LayoutName::Cluster));
    assert_eq!(small.setup.admission, None);
    let why = |reason: &Reason| reason.why.contains("too few to compare layouts");
    assert!(small.reasons.iter().any(why), "{:?}", small.reasons);
    assert!(small.doubts.iter().any(|doubt| doubt.contains("estimated from 50%")));
}

#[test]
fn second_hits_are_advised_where_they_spare_the_drive() {
    let admission = |written, lost| verdict([0.5; 4], written, lost).setup.admission;
    assert_eq!(admission(2, 0.0), Some(AdmissionName::SecondHit));
    assert_eq!(admission(2, 0.1), None);
    assert_eq!(admission(1, 0.0), None);
}

#[test]
fn doubts_about_the_log_are_reported() {
    let doubts = verdict([0.5; 4], 1, 0.0).doubts;
    let said = |what: &str| doubts.iter().any(|doubt| doubt.contains(what));
    // The cycle is stored once in total, and the made-up engine hits half as often as the curve
    // says.
    assert!(said("too short for 48M: it stores that size 0.8 times"), "{doubts:?}");
    assert!(said("6000 requests: hit ratios are accurate to 1.3 points"), "{doubts:?}");
    assert!(said("The engine hits 50%, where the curve of LRU says 100%"), "{doubts:?}");
}
