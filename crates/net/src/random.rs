//! Random numbers. They are unpredictable unless a simulation has fixed them for its thread.

use std::cell::Cell;
use std::hash::{BuildHasher, Hasher, RandomState};

thread_local! {
    /// State of a fixed sequence; `None`: the numbers are random.
    static FIXED: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Returns a random number, derived from the keys that the standard library draws for its hash
/// maps.
pub fn random() -> u64 {
    match FIXED.get() {
        None => RandomState::new().build_hasher().finish(),
        Some(state) => {
            let state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            FIXED.set(Some(state));
            let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            mixed ^ (mixed >> 31)
        }
    }
}

/// Makes this thread's random numbers follow from `seed` until the returned guard is dropped.
#[must_use]
pub fn fix(seed: u64) -> Fixed {
    FIXED.set(Some(seed));
    Fixed(())
}

/// A guard that keeps the random numbers of its thread fixed.
pub struct Fixed(());

impl Drop for Fixed {
    fn drop(&mut self) {
        FIXED.set(None);
    }
}

#[test]
fn fixed_numbers_follow_from_the_seed_and_end() {
    let three = || [random(), random(), random()];
    let fixed = |seed| {
        let _fixed = fix(seed);
        three()
    };
    assert_eq!(fixed(1), fixed(1));
    assert!(fixed(1) != fixed(2) && three() != three());
}
