//! Small logs whose result is known, and properties that must not depend on how they are run.

use std::fmt::Write as _;
use std::fs;

use store::LayoutName;
use store::policy::PolicyName;

use super::*;
use crate::advise::access_log::LogOptions;
use crate::advise::missratio::Sampling;
use workload::trace::ReadOptions;

fn log(text: &str, sampling: Sampling) -> AccessLog {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    fs::write(&path, text).unwrap();
    let (read, most, limit) = (ReadOptions::default(), usize::MAX, usize::MAX);
    let options = LogOptions { read, sampling, most, limit };
    AccessLog::read(vec![path], &options, |_| {}).unwrap()
}

fn line(millis: u64, object: u64, size: u64) -> String {
    let (seconds, millis) = (millis / 1_000, millis % 1_000);
    format!("{seconds}.{millis:03} 5 c TCP_MISS/200 {size} GET http://h/{object} - DIRECT/- -\n")
}

/// Requests with a skewed popularity, one every 20 ms.
fn skewed(seed: u64, requests: u64, objects: u64, size: u64) -> String {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut text = String::new();
    for number in 0..requests {
        let object = (objects as f64 * random.f64().powi(3)) as u64;
        let _ = write!(text, "{}", line(number * 20, object, size));
    }
    text
}

fn options() -> ReplayOptions {
    let drive = DriveChoice::named("nvme_tlc").unwrap();
    ReplayOptions { drive, pace: Pace::Stated, warm_up: 0, jobs: 2, raises_sizes: false }
}

fn layouts() -> [System; 4] {
    LayoutName::ALL.map(System::Layout)
}

fn figures(log: &AccessLog, setups: &[Setup], options: &ReplayOptions) -> Vec<Measured> {
    let rows = replay(log, setups, options, &Meter::default()).unwrap();
    rows.into_iter().map(|row| row.result.unwrap()).collect()
}

const M: u64 = 1 << 20;

#[test]
fn objects_that_fit_miss_once_and_again_when_changed() {
    let mut text = String::new();
    for round in 0..3 {
        for object in 0..100 {
            // In the last round, one object in ten has another version.
            let size = if round == 2 && object % 10 == 0 { 6_000 } else { 5_000 };
            let _ = write!(text, "{}", line((round * 100 + object) * 500, object, size));
        }
    }
    let log = log(&text, Sampling::ALL);
    let setups = combinations(&layouts(), &[], &[], &[16 * M], &[32 * M]);
    for measured in figures(&log, &setups, &options()) {
        assert_eq!((measured.requests, measured.misses, measured.stale), (300, 110, 10));
        assert_eq!((measured.memory_hits, measured.disk_hits, measured.refused), (190, 0, 0));
        let bytes = 90.0 * 5_000.0 + 100.0 * 5_000.0;
        let ratio = bytes / (290.0 * 5_000.0 + 10.0 * 6_000.0);
        assert!((measured.byte_hit_ratio - ratio).abs() < 1e-9, "{measured:?}");
        assert!(measured.writes > 0 && measured.written_bytes > 110 * 5_000);
        assert_eq!(measured.disk_hit_ms, None);
    }
    let counted = ReplayOptions { warm_up: 50, ..options() };
    for measured in figures(&log, &setups, &counted) {
        assert_eq!((measured.requests, measured.misses), (150, 10));
        assert!((60_000..70_000).contains(&measured.stored_bytes), "{measured:?}");
    }
}

#[test]
fn the_disk_answers_what_memory_cannot_hold() {
    let log = log(&skewed(1, 12_000, 4_000, 20_000), Sampling::ALL);
    let setups = combinations(&[layouts()[0]], &[], &[], &[4 * M, 64 * M], &[256 * M]);
    let both = figures(&log, &setups, &options());
    // The disk holds everything, so the misses do not depend on memory.
    assert_eq!(both[0].misses, log.summary().objects);
    assert_eq!(both[1].misses, log.summary().objects);
    assert!(both[0].disk_hits > 1_000 && both[0].reads >= both[0].disk_hits / 4, "{both:?}");
    assert!(both[1].disk_hits < both[0].disk_hits / 2, "{both:?}");
    let ms = both[0].disk_hit_ms.unwrap();
    assert!((0.02..2.0).contains(&ms), "{ms} ms on flash");
    assert!(both[0].disk_hit_p99_ms.unwrap() >= ms);
}

#[test]
fn equal_runs_are_equal_and_the_pace_is_the_logs() {
    let log = log(&skewed(2, 3_000, 1_000, 20_000), Sampling::ALL);
    let setups = combinations(&layouts(), &[], &[], &[4 * M], &[16 * M]);
    let one = figures(&log, &setups, &ReplayOptions { jobs: 1, ..options() });
    assert_eq!(one, figures(&log, &setups, &ReplayOptions { jobs: 4, ..options() }));
    let closed = figures(&log, &setups, &ReplayOptions { pace: Pace::AtOnce, ..options() });
    // Batches are written after a second at the latest; the closed replay takes almost no time.
    assert!(closed[0].writes < one[0].writes, "{} {}", closed[0].writes, one[0].writes);
}

#[test]
fn policies_count_where_there_are_slots() {
    let names = [PolicyName::Lru, PolicyName::Gdsf];
    let setups = combinations(&layouts(), &names, &[], &[16 * M], &[64 * M, 128 * M]);
    let labels: Vec<String> = setups.iter().map(Setup::to_string).collect();
    assert_eq!(labels.len(), 2 * (1 + 3 * 2));
    assert_eq!(labels[0], "cluster references, 16 MiB + 64 MiB");
    assert_eq!(labels[2], "stream gdsf, 16 MiB + 64 MiB");
    assert!(System::layout("heap").unwrap_err().to_string().contains("cluster, stream"));
    assert!(System::preset("heap").unwrap_err().to_string().contains("larder, ucfs"));
    assert_eq!(System::preset("ucfs").unwrap().to_string(), "preset ucfs");
}

#[test]
fn a_sample_comes_near() {
    // Large enough that the sampled cache still works and that the sample has enough objects.
    let text = skewed(3, 60_000, 40_000, 15_000);
    let (whole, tenth) = (log(&text, Sampling::ALL), log(&text, Sampling::new(0.25).unwrap()));
    let setups = combinations(&[layouts()[0]], &[], &[], &[64 * M], &[160 * M]);
    let [exact, near] = [whole, tenth].map(|log| figures(&log, &setups, &options()).remove(0));
    assert_eq!((near.requests, exact.requests), (60_000, 60_000));
    assert!((near.hit_ratio - exact.hit_ratio).abs() < 0.03, "{near:?} {exact:?}");
    assert!((near.byte_hit_ratio - exact.byte_hit_ratio).abs() < 0.03);
    let ratio = near.written_bytes as f64 / exact.written_bytes as f64;
    assert!((0.8..1.25).contains(&ratio), "{near:?} {exact:?}");
}

#[test]
fn unusable_setups_give_a_reason() {
    let log = log(&line(0, 1, 100), Sampling::ALL);
    let why = |setup: Setup| {
        let rows = replay(&log, &[setup], &options(), &Meter::default()).unwrap();
        rows[0].result.clone().unwrap_err()
    };
    let small = Setup::new(layouts()[0], 16 * M, 64 * M);
    assert!(why(Setup { disk: 1 << 40, ..small }).contains("larger than the drive"));
    assert!(why(Setup { disk: 4 * M, ..small }).contains("too few for a cache"));
    assert!(why(Setup { disk: 1 << 36, ..small }).contains("more than half of the memory"));
}
