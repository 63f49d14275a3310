//! Policies compared with the miss ratios that another simulator found for a real trace.

#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};

use lab::advise::missratio::reference::{self, Figure};
use lab::advise::missratio::{CacheConfig, Sampling, Sweep, Tally};
use store::policy::{PolicyName, Unit};
use workload::trace::{Format, Trace};

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

fn sweep(configs: &[CacheConfig]) -> Vec<Tally> {
    let path = data("nasa_jul95_10k.oracleGeneral.zst");
    let mut trace = Trace::open(&path, Format::Auto, None).unwrap();
    let mut sweep = Sweep::new(configs, Sampling::ALL);
    while let Some(access) = trace.next_access().unwrap() {
        assert!(sweep.take(access));
    }
    assert_eq!(trace.skipped().damaged, 0);
    sweep.finish().tallies
}

#[test]
fn policies_agree_with_the_reference() {
    let text = std::fs::read_to_string(data("nasa_jul95_10k.reference.csv")).unwrap();
    let figures = reference::parse(&text).unwrap();
    assert_eq!(figures.len(), 20, "five policies at four sizes");
    let configs: Vec<CacheConfig> = figures.iter().map(Figure::config).collect();
    for (figure, tally) in figures.iter().zip(sweep(&configs)) {
        let deviation = (tally.miss_ratio() - figure.miss_ratio).abs();
        assert!(
            deviation <= reference::tolerance(figure.policy) + 1e-9,
            "{figure:?}: {:.6}",
            tally.miss_ratio()
        );
    }
}

/// Exact miss counts of each policy on this trace: a difference is a change of the policy.
#[test]
fn miss_counts_are_known() {
    let misses = |unit, size| {
        let configs = PolicyName::ALL.map(|policy| CacheConfig { policy, unit, size });
        let tallies = sweep(&configs);
        assert!(tallies.iter().all(|tally| tally.requests == 9_543));
        PolicyName::ALL
            .into_iter()
            .zip(tallies.iter().map(|tally| tally.misses))
            .collect::<Vec<_>>()
    };
    let named = |counts: [u64; 8]| PolicyName::ALL.into_iter().zip(counts).collect::<Vec<_>>();
    assert_eq!(
        misses(Unit::Bytes, 3_827_358),
        named([3354, 4043, 3246, 2751, 2166, 2810, 1588, 2429])
    );
    assert_eq!(misses(Unit::Objects, 80), named([3336, 4052, 3254, 2797, 2815, 2857, 2875, 2900]));
}

#[test]
fn caches_of_any_size_work() {
    for unit in [Unit::Bytes, Unit::Objects] {
        for size in [0, 1, 2, 3, 7, 50, 1_000, u64::MAX] {
            let configs = PolicyName::ALL.map(|policy| CacheConfig { policy, unit, size });
            for (config, tally) in configs.iter().zip(sweep(&configs)) {
                let least = if size == u64::MAX { 803 } else { 0 };
                assert!((least..=9_543).contains(&tally.misses), "{config:?}: {tally:?}");
                let all_kept = size == u64::MAX;
                assert!(!all_kept || tally.misses == least, "{config:?}: {tally:?}");
            }
        }
    }
}
