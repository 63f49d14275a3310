//! The engine on simulated disks: trials by seed for every variant, and by name each way in which a
//! removed state could reappear.
//!
//! A finding prints its seed; `cargo xtask sim` replays it, and runs many more seeds.

#![allow(clippy::unwrap_used)]

mod comes_back;
mod kept;
mod rising;
mod seeds;

/// Generates the tests of every variant.
macro_rules! for_every_arm {
    ($($variant:ident),*) => {
        /// The variants that have tests.
        const TESTED: &[&str] = &[$(stringify!($variant)),*];

        $(mod $variant {
            use store_oracle::{Variant, variant};

            fn this() -> Variant {
                variant(stringify!($variant)).unwrap()
            }

            for_every_arm!(@tests seeds:
                the_first_seeds, seeds_that_found_something, a_seed_repeats_bit_for_bit);
            for_every_arm!(@tests rising:
                each_read_fails_once, each_write_fails_once, each_flush_fails_once,
                the_device_goes_at_each_operation, it_crashes_at_each_operation);
            for_every_arm!(@tests comes_back:
                superseded_then_evicted, superseded_while_recovery_runs,
                given_up_then_stored_again, stored_late_while_recovery_runs, removed, purged,
                purged_and_power_lost, purged_while_recovery_runs, metadata_superseded,
                metadata_superseded_then_evicted, an_overtaken_fill, an_aborted_fill,
                metadata_of_a_version_that_is_gone, a_crash_between);
        })*
    };
    (@tests $module:ident: $($test:ident),* $(,)?) => {
        $(#[test]
        fn $test() {
            crate::$module::$test(this());
        })*
    };
}

for_every_arm!(cluster, stream, unified, buddy, ucfs);

#[test]
fn every_arm_is_tested() {
    let variants: Vec<&str> = store_oracle::variants().iter().map(|variant| variant.name).collect();
    assert_eq!(variants, TESTED);
}
