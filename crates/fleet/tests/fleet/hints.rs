//! Error rate and size of hints.

use std::collections::BTreeMap;

use fleet::hints::Hints;
use fleet::{KeyHash, MemberId};

use crate::fixture::{key, seeds};

#[test]
fn a_full_table_names_a_wrong_holder_once_in_thousands() {
    for seed in seeds("a_full_table_names_a_wrong_holder_once_in_thousands", 2) {
        let mut random = fastrand::Rng::with_seed(seed);
        let member: MemberId = "a".parse().unwrap();
        let mut hints = Hints::new(64 << 10);
        assert_eq!(hints.capacity(), 16 << 10);
        (0..64 << 10).for_each(|_| hints.note(key(&mut random), &member));
        let asked = 200_000;
        let wrong = (0..asked).filter(|_| hints.holders(key(&mut random)).next().is_some()).count();
        let rate = wrong as f64 / f64::from(asked);
        eprintln!("false positives: {rate:.6}, computed {:.6}", 8.0 / 65_536.0);
        // Expected: 24, with a standard deviation of 5.
        assert!((1..=60).contains(&wrong), "{wrong} of {asked}");
    }
}

#[test]
fn hints_that_fit_are_those_of_a_map() {
    for seed in seeds("hints_that_fit_are_those_of_a_map", 8) {
        let mut random = fastrand::Rng::with_seed(seed);
        let names: Vec<MemberId> = ["a", "b", "c"].map(|name| name.parse().unwrap()).into();
        // One bucket, two keys with three holders each: nothing is evicted.
        let mut hints = Hints::new(0);
        let mut model: BTreeMap<u64, Vec<MemberId>> = BTreeMap::new();
        for _ in 0..300 {
            let (bits, name) = (random.u64(0..2), &names[random.usize(0..3)]);
            let key = KeyHash::from_bits(bits);
            model.entry(bits).or_default().retain(|known| known != name);
            match random.u8(0..8) {
                0..5 => {
                    hints.note(key, name);
                    model.entry(bits).or_default().insert(0, name.clone());
                }
                5..7 => hints.forget(key, name),
                _ => {
                    hints.forget_member(name);
                    model.values_mut().for_each(|known| known.retain(|known| known != name));
                }
            }
            for bits in 0..2 {
                let named: Vec<_> = hints.holders(KeyHash::from_bits(bits)).cloned().collect();
                assert_eq!(named, model.get(&bits).cloned().unwrap_or_default());
            }
        }
    }
}
