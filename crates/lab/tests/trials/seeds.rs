//! Trials by seed.

use lab::fault_tests::{Arm, Report, run};

pub fn a_hundred_seeds(arm: Arm) {
    let mut total = Report::default();
    for seed in 0..100 {
        match run(arm, seed) {
            Ok(report) => total.add(&report),
            Err(finding) => panic!("{finding}"),
        }
    }
    assert!(total.errors > 20 && total.kept > 100, "they try too little: {total:?}");
}

/// Seeds beyond the first hundred that found something once.
pub fn seeds_that_found_something(arm: Arm) {
    // Reads that stall while slots are scanned; journal blocks of an opening that grew the device,
    // taken for those of the next.
    for seed in [100_324, 100_584, 100_838] {
        if let Err(finding) = run(arm, seed) {
            panic!("{finding}");
        }
    }
}

pub fn a_seed_repeats_bit_for_bit(arm: Arm) {
    let reports: Vec<_> = (200..203).map(|seed| run(arm, seed).unwrap()).collect();
    for (seed, report) in (200..).zip(&reports) {
        assert_eq!(run(arm, seed).as_ref(), Ok(report));
    }
    assert_ne!(reports[0].history, reports[1].history);
    assert_ne!(reports[1].history, reports[2].history);
}
