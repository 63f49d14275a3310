//! Compares curves with caches that replay the same requests.

use store::policy::PolicyName;

use super::*;
use crate::advise::missratio::{CacheConfig, Sweep};

/// Returns requests with a skewed popularity; each object has a size between 1 and `largest`.
fn trace(seed: u64, requests: usize, objects: u64, largest: u64) -> Vec<Access> {
    let mut random = fastrand::Rng::with_seed(seed);
    let access = |_| {
        // Other objects with each seed, and so other samples.
        let object = seed << 40 | (objects as f64 * random.f64().powi(4)) as u64;
        Access { object, size: 1 + name_hash(object) % largest }
    };
    (0..requests).map(access).collect()
}

fn curve(mut curve: LruCurve, trace: &[Access]) -> Curve {
    assert!(trace.iter().all(|access| curve.take(*access)));
    curve.finish()
}

fn replayed(unit: Unit, sizes: &[u64], trace: &[Access]) -> Vec<Tally> {
    let config = |size: &u64| CacheConfig { policy: PolicyName::Lru, unit, size: *size };
    let configs: Vec<CacheConfig> = sizes.iter().map(config).collect();
    let mut sweep = Sweep::with_threads(&configs, Sampling::ALL, 1);
    assert!(trace.iter().all(|access| sweep.take(*access)));
    sweep.finish().tallies
}

#[test]
fn an_exact_curve_is_what_replays_give() {
    const LARGEST: u64 = 700;
    for seed in 0..5 {
        let trace = trace(seed, 20_000, 3_000, LARGEST);
        let objects: Vec<u64> = (0..2_000).step_by(7).chain([2_000, 1 << 40]).collect();
        let bytes: Vec<u64> = (LARGEST..2_048)
            .step_by(61)
            .chain((2_048..1_400_000).step_by(4_096))
            .map(|size| size >> size.ilog2().saturating_sub(10) << size.ilog2().saturating_sub(10))
            .chain([u64::MAX])
            .collect();
        for (unit, sizes) in [(Unit::Objects, objects), (Unit::Bytes, bytes)] {
            let curve = curve(LruCurve::new(unit, Sample::Share(Sampling::ALL)), &trace);
            for (size, tally) in sizes.iter().zip(replayed(unit, &sizes, &trace)) {
                assert_eq!(curve.at(*size), tally, "seed {seed}, {unit:?}, {size}");
            }
            let last = curve.at(curve.enough());
            assert_eq!(last, curve.at(u64::MAX));
            assert!(curve.at(curve.enough() - 1).misses > last.misses);
        }
    }
}

#[test]
fn objects_above_the_bound_take_no_space() {
    let trace = trace(9, 20_000, 3_000, 5_000);
    for size in [0, 1, 10, 500, 1_024, 2_000, 4_096] {
        let exact = LruCurve::new(Unit::Bytes, Sample::Share(Sampling::ALL)).with_largest(size);
        assert_eq!([curve(exact, &trace).at(size)], replayed(Unit::Bytes, &[size], &trace)[..]);
    }
}

#[test]
fn curves_fall() {
    let trace = trace(3, 5_000, 1_000, 1 << 30);
    let curve = curve(LruCurve::new(Unit::Bytes, Sample::Objects(100)), &trace);
    let steps: Vec<_> = curve.steps().collect();
    assert!(steps.len() > 100 && steps[0].0 == 0);
    assert!(steps.windows(2).all(|pair| pair[0].0 < pair[1].0));
    assert!(steps.windows(2).all(|pair| pair[0].1.misses >= pair[1].1.misses));
    let empty = LruCurve::new(Unit::Bytes, Sample::Objects(0)).finish();
    assert_eq!((empty.at(5), empty.enough()), (Tally::default(), 0));
}

/// Returns the mean distance of two curves over 100 sizes that cover the whole trace.
fn distance(one: &Curve, other: &Curve) -> f64 {
    let sizes: Vec<u64> = (1..=100).map(|percent| one.enough() * percent / 100).collect();
    let apart = |size: &u64| (one.at(*size).miss_ratio() - other.at(*size).miss_ratio()).abs();
    sizes.iter().map(apart).sum::<f64>() / sizes.len() as f64
}

#[test]
fn samples_are_close() {
    for seed in 0..3 {
        let trace = trace(seed, 400_000, 100_000, 1_000);
        for unit in [Unit::Bytes, Unit::Objects] {
            let exact = curve(LruCurve::new(unit, Sample::Share(Sampling::ALL)), &trace);
            let share = Sample::Share(Sampling::new(0.1).unwrap());
            for (sample, most) in [(share, 0.02), (Sample::Objects(4_096), 0.03)] {
                let apart = distance(&exact, &curve(LruCurve::new(unit, sample), &trace));
                assert!(apart < most, "seed {seed}, {unit:?}, {sample:?}: {apart}");
            }
        }
    }
}

#[test]
fn a_bounded_sample_keeps_to_its_bound() {
    let mut bounded = LruCurve::new(Unit::Objects, Sample::Objects(1_000));
    for access in trace(4, 200_000, 50_000, 10) {
        assert!(bounded.take(access) && bounded.objects() <= 1_000);
    }
    assert!((0.015..0.03).contains(&bounded.rate()), "{}", bounded.rate());
    let (all, bytes) = (bounded.objects(), bounded.memory_bytes());
    assert!(all >= 990 && bytes < 1 << 18, "{all} objects, {bytes} bytes");
}

#[test]
fn caches_over_a_sample_are_close_to_all_requests() {
    let trace = trace(8, 400_000, 100_000, 1_000);
    for unit in [Unit::Bytes, Unit::Objects] {
        let size = if unit == Unit::Bytes { 5_000_000 } else { 10_000 };
        let configs = PolicyName::ALL.map(|policy| CacheConfig { policy, unit, size });
        let [exact, sampled] = [Sampling::ALL, Sampling::new(0.1).unwrap()].map(|sampling| {
            let mut sweep = Sweep::new(&configs, sampling);
            assert!(trace.iter().all(|access| sweep.take(*access)));
            sweep.finish()
        });
        assert!(sampled.sampled_objects * 9 < exact.sampled_objects);
        for (config, (exact, sampled)) in
            configs.iter().zip(exact.tallies.iter().zip(&sampled.tallies))
        {
            let apart = (exact.miss_ratio() - sampled.miss_ratio()).abs();
            let bytes = (exact.byte_miss_ratio() - sampled.byte_miss_ratio()).abs();
            assert!(apart < 0.02 && bytes < 0.03, "{config:?}: {exact:?}, {sampled:?}");
            assert_eq!((exact.requests, exact.bytes), (sampled.requests, sampled.bytes));
        }
    }
}

#[test]
fn a_new_version_is_missed_and_takes_the_place_of_the_old_one() {
    let mut curve = LruCurve::new(Unit::Bytes, Sample::Share(Sampling::ALL));
    let access = |object, size| Access { object, size };
    assert!(curve.take(access(1, 100)) && curve.take(access(2, 100)));
    // Object 1 is found out of date and larger; then both are found again.
    assert!(curve.take_changed(access(1, 300)));
    assert!(curve.take(access(2, 100)) && curve.take(access(1, 300)));
    let curve = curve.finish();
    let misses = [399, 400, 1_000].map(|size| curve.at(size).misses);
    // Both are found in 400 bytes: the old version takes no space beside the new one.
    assert_eq!(misses, [5, 3, 3]);
}
