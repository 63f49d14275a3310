//! Trials by seed.

use store_oracle::{Report, Variant, run};

/// Runs few seeds, so that every change is tested with them; `cargo xtask sim` runs 100 and more.
pub fn the_first_seeds(variant: Variant) {
    let mut total = Report::default();
    for seed in 0..20 {
        match run(variant, seed) {
            Ok(report) => total.add(&report),
            Err(finding) => panic!("{finding}"),
        }
    }
    assert!(total.errors > 4 && total.kept > 4, "they try too little: {total:?}");
}

/// Runs later seeds that once had a finding.
pub fn seeds_that_found_something(variant: Variant) {
    // Reads that stall while slots are scanned; journal blocks of an opening that grew the device,
    // taken for those of the next.
    for seed in [100_324, 100_584, 100_838] {
        if let Err(finding) = run(variant, seed) {
            panic!("{finding}");
        }
    }
}

pub fn a_seed_repeats_bit_for_bit(variant: Variant) {
    let reports: Vec<_> = (200..203).map(|seed| run(variant, seed).unwrap()).collect();
    for (seed, report) in (200..).zip(&reports) {
        assert_eq!(run(variant, seed).as_ref(), Ok(report));
    }
    assert_ne!(reports[0].history, reports[1].history);
    assert_ne!(reports[1].history, reports[2].history);
}
