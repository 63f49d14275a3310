//! Circuit breakers: worked examples and random runs.

use std::time::Duration;

use fleet::breaker::{Breaker, InvalidSettings, Permit, Settings};

use crate::fixture::seeds;

const MS: fn(u64) -> Duration = Duration::from_millis;

fn settings() -> Settings {
    Settings { failures: 3, first: MS(1_000), longest: MS(8_000), try_time: MS(500) }
}

/// Returns a breaker that three failures opened at `now`.
fn opened(seed: u64, now: Duration) -> Breaker {
    let mut breaker = Breaker::new(settings(), seed).unwrap();
    for _ in 0..3 {
        assert_eq!(breaker.permit(now), Permit::Yes);
        breaker.failed(Permit::Yes, now);
    }
    assert!(breaker.is_open(now));
    breaker
}

#[test]
fn failures_in_a_row_open_it_and_a_try_closes_it() {
    let mut breaker = Breaker::new(settings(), 1).unwrap();
    for _ in 0..5 {
        breaker.failed(Permit::Yes, MS(0));
        breaker.failed(Permit::Yes, MS(0));
        breaker.succeeded(Permit::Yes);
    }
    assert_eq!(breaker.permit(MS(0)), Permit::Yes);
    let mut breaker = opened(1, MS(0));
    assert_eq!(breaker.permit(MS(499)), Permit::No);
    // Results of requests permitted before it opened change nothing.
    breaker.succeeded(Permit::Yes);
    breaker.failed(Permit::Yes, MS(499));
    assert_eq!((breaker.permit(MS(499)), breaker.is_open(MS(1_000))), (Permit::No, false));
    assert_eq!((breaker.permit(MS(1_000)), breaker.permit(MS(1_001))), (Permit::Try, Permit::No));
    breaker.succeeded(Permit::Yes);
    breaker.failed(Permit::Yes, MS(1_001));
    assert_eq!((breaker.permit(MS(1_001)), breaker.is_open(MS(1_500))), (Permit::No, false));
    breaker.succeeded(Permit::Try);
    assert_eq!(breaker.permit(MS(1_001)), Permit::Yes);
}

#[test]
fn a_try_that_never_ends_is_given_up() {
    let mut breaker = opened(1, MS(0));
    assert_eq!(breaker.permit(MS(1_000)), Permit::Try);
    assert_eq!(breaker.permit(MS(1_499)), Permit::No);
    assert_eq!(breaker.permit(MS(1_500)), Permit::Try);
}

#[test]
fn each_pause_is_twice_the_previous_within_bounds_and_jitter() {
    for seed in seeds("it_stays_open_for_twice_as_long_each_time", 16) {
        let mut now = MS(5);
        let mut breaker = opened(seed, now);
        for whole in [1_000, 2_000, 4_000, 8_000, 8_000, 8_000].map(MS) {
            assert!(breaker.is_open(now + whole / 2 - MS(1)));
            assert!(!breaker.is_open(now + whole));
            now += whole;
            assert_eq!(breaker.permit(now), Permit::Try);
            breaker.failed(Permit::Try, now);
        }
    }
    let first_try = |seed| (0..1_000).find(|at| !opened(seed, MS(0)).is_open(MS(*at)));
    assert_eq!(first_try(7), first_try(7));
    let differ: std::collections::BTreeSet<_> = (0..16).map(first_try).collect();
    assert!(differ.len() > 8, "{differ:?}");
}

#[test]
fn at_any_time_a_peer_is_tried_again_within_the_longest_time() {
    for seed in seeds("a_peer_is_tried_again_within_the_longest_time", 32) {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut breaker = Breaker::new(settings(), seed).unwrap();
        let mut now = Duration::ZERO;
        for _ in 0..200 {
            now += MS(random.u64(0..3_000));
            let permit = match random.u8(0..3) {
                0 => breaker.permit(now),
                1 => Permit::Yes,
                _ => Permit::Try,
            };
            match random.u8(0..4) {
                0 => breaker.succeeded(permit),
                1..3 => breaker.failed(permit, now),
                _ => {}
            }
            assert!(!breaker.is_open(now + MS(8_000)));
        }
        assert_ne!(breaker.permit(now + MS(8_000)), Permit::No);
        breaker.failed(Permit::Try, Duration::MAX);
    }
}

#[test]
fn settings_that_cannot_work_are_refused() {
    let refused = |settings| Breaker::new(settings, 0).unwrap_err();
    assert_eq!(refused(Settings { failures: 0, ..settings() }), InvalidSettings::NoFailures);
    assert_eq!(refused(Settings { try_time: MS(0), ..settings() }), InvalidSettings::NoTime);
    assert_eq!(
        refused(Settings { longest: MS(999), ..settings() }),
        InvalidSettings::FirstAboveLongest
    );
}
