//! Seeds, members and keys for the tests.

use fleet::member::State;
use fleet::{KeyHash, Member, Members, Protocols};

/// Returns `count` seeds and prints each; only `LARDER_SEED` if it is set.
#[expect(clippy::disallowed_methods, reason = "a seed to run again comes from outside")]
pub fn seeds(test: &'static str, count: usize) -> impl Iterator<Item = u64> {
    let fixed = std::env::var("LARDER_SEED").ok();
    let fixed = fixed.map(|seed| seed.parse::<u64>().expect("LARDER_SEED is a number"));
    let count = if fixed.is_some() { 1 } else { count };
    std::iter::repeat_with(move || fixed.unwrap_or_else(|| fastrand::u64(..)))
        .take(count)
        .inspect(move |seed| eprintln!("{test}: LARDER_SEED={seed}"))
}

/// Makes a serving member of weight 1 in the empty zone.
pub fn member(name: &str) -> Member {
    Member {
        id: name.parse().unwrap(),
        address: "node:1".parse().unwrap(),
        zone: "".into(),
        weight: 1,
        load: 0,
        program: "".into(),
        protocols: Protocols::OWN,
        policy_version: 1,
        disk_failed: false,
        has_cache: true,
        state: State::Serving,
    }
}

pub fn members(list: Vec<Member>) -> Members {
    Members::new(1, list).unwrap()
}

/// Makes members `n0`, `n1` and so on, of random weights from 1 to 8.
pub fn weighted(random: &mut fastrand::Rng, count: usize) -> Vec<Member> {
    let weight = |at| Member { weight: random.u32(1..=8), ..member(&format!("n{at}")) };
    (0..count).map(weight).collect()
}

pub fn key(random: &mut fastrand::Rng) -> KeyHash {
    KeyHash::from_bits(random.u64(..))
}
