//! The seed of these tests' randomness, printed and settable.

use std::fmt;
use std::hash::BuildHasher as _;

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};

/// Returns `LARDER_SEED`, or a new seed. Tests are where randomness enters, so the crate's ban on
/// the environment and on random state does not apply here.
#[allow(clippy::disallowed_methods, clippy::disallowed_types)]
pub fn seed() -> u64 {
    match std::env::var("LARDER_SEED") {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("LARDER_SEED={text} is no number")),
        Err(_) => std::hash::RandomState::new().hash_one(()),
    }
}

/// Prints its seed if a test panics while it is alive.
pub struct SeedGuard(pub u64);

impl Drop for SeedGuard {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("replay with LARDER_SEED={}", self.0);
        }
    }
}

/// Runs `test` on `cases` values of `strategy`; a failing value is shrunk and shown with the seed.
pub fn check<S: Strategy>(
    cases: u32,
    strategy: S,
    test: impl Fn(S::Value) -> Result<(), TestCaseError>,
) where
    S::Value: fmt::Debug,
{
    let guard = SeedGuard(seed());
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&guard.0.to_le_bytes());
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    if let Err(error) = TestRunner::new_with_rng(config, rng).run(&strategy, test) {
        panic!("{error}");
    }
}

/// A small generator (splitmix64) for tests without strategies.
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// Returns true with a probability of `percent` in a hundred.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub fn pick<'a, T: ?Sized>(&mut self, choices: &[&'a T]) -> &'a T {
        choices[self.below(choices.len() as u64) as usize]
    }
}
