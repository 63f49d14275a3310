//! A class table survives writing and reading.

use std::fmt::Debug;
use std::num::NonZeroU16;
use std::str::FromStr;

use fleet::class::{
    Bounds, CLASSES_MAX, Class, Copies, Criteria, Eviction, EvictionStep, Lookup, LookupStep,
    PATTERNS_MAX, Procedure, Replication, TEXT_MAX,
};
use fleet::{ClassTable, Policy};

use crate::fixture::seeds;

/// Draws bounds, often round units, rarely contradictory.
fn bounds(random: &mut fastrand::Rng) -> Bounds {
    let number = |random: &mut fastrand::Rng| match random.u8(0..4) {
        0 => 0,
        1 => u64::from(random.u16(..)) << (10 * random.u32(0..5)),
        2 => random.u64(..),
        _ => u64::MAX,
    };
    let below = random.bool().then(|| number(random));
    Bounds { from: number(random), below }
}

fn pick<T: Copy>(random: &mut fastrand::Rng, all: &[T]) -> T {
    all[random.usize(..all.len())]
}

/// Draws steps in any order, which are rarely a procedure.
fn steps<S: FromStr<Err: Debug> + Copy, const MAX: usize>(
    random: &mut fastrand::Rng,
    all: &[&str],
) -> Procedure<S, MAX> {
    (0..random.usize(..MAX + 1)).map(|_| pick(random, all).parse::<S>().unwrap()).collect()
}

fn policy(random: &mut fastrand::Rng) -> Policy {
    let owners = Replication::Owners(NonZeroU16::new(random.u16(1..)).unwrap());
    Policy {
        lookup: match random.u8(0..4) {
            0 => steps(random, &LookupStep::NAMES),
            _ => pick(random, &[Lookup::LOCAL, Lookup::OWNER, Lookup::COOPERATE]),
        },
        copies: pick(random, &Copies::NAMES).parse().unwrap(),
        eviction: match random.u8(0..4) {
            0 => steps(random, &EvictionStep::NAMES),
            _ => pick(random, &[Eviction::DROP, Eviction::OFFER]),
        },
        replication: pick(random, &[Replication::All, owners, Replication::ONE]),
    }
}

fn class(random: &mut fastrand::Rng, at: usize) -> Class {
    let types = ["text/html", "image/*", "a!#$%&'+-.^_`|~/b!#$%&'+-.^_`|~"];
    let sites = ["example.com", "*.example.com", "[::1]", "a_b-c.d"];
    let some = |random: &mut fastrand::Rng, all: &[&'static str]| -> Vec<&'static str> {
        (0..random.usize(0..3)).map(|_| pick(random, all)).collect()
    };
    let criteria = Criteria {
        size: bounds(random),
        requests: bounds(random),
        types: some(random, &types).iter().map(|text| text.parse().unwrap()).collect(),
        sites: some(random, &sites).iter().map(|text| text.parse().unwrap()).collect(),
    };
    Class { name: format!("class-{at}").into(), criteria, policy: policy(random) }
}

#[test]
fn every_table_is_read_as_it_was_written() {
    let mut tables = 0;
    for seed in seeds("every_table_is_read_as_it_was_written", 300) {
        let mut random = fastrand::Rng::with_seed(seed);
        let count = random.usize(0..4);
        let classes = (0..count).map(|at| class(&mut random, at)).collect();
        // Many random tables contradict themselves.
        let Ok(table) = ClassTable::new(1, classes, policy(&mut random)) else { continue };
        let text = table.to_text();
        let again = ClassTable::from_text(9, &text).unwrap_or_else(|why| panic!("{text}\n{why}"));
        assert!(again.iter().eq(table.iter()), "{text}");
        assert_eq!((again.version(), again.to_text()), (9, text));
        tables += 1;
    }
    assert!(tables > 0 || std::env::var_os("LARDER_SEED").is_some());
}

#[test]
fn a_text_with_letters_exchanged_is_a_table_or_refused() {
    let text = ClassTable::from_text(1, "preset = 'replicate-small'").unwrap().to_text();
    for seed in seeds("a_text_with_letters_exchanged_is_a_table_or_refused", 300) {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut bytes = text.clone().into_bytes();
        for _ in 0..random.usize(1..6) {
            let at = random.usize(..bytes.len());
            bytes[at] = pick(&mut random, b"[]{}\"'\\=,.#\n\t\0az09-\x80");
        }
        match ClassTable::from_text(1, &String::from_utf8_lossy(&bytes)) {
            Ok(table) => {
                let again = ClassTable::from_text(1, &table.to_text()).unwrap();
                assert!(again.iter().eq(table.iter()));
            }
            Err(why) => assert!(why.to_string().starts_with("line ")),
        }
    }
}

#[test]
fn the_longest_table_is_shorter_than_what_is_read() {
    let named = |at: usize| format!("{at:0>32}").into();
    let site = |at: usize| format!("*.{at:a>251}");
    let classes = (0..CLASSES_MAX).map(|at| {
        let count = PATTERNS_MAX / CLASSES_MAX;
        let sites = (0..count).map(|n| site(at * count + n).parse().unwrap()).collect();
        let criteria = Criteria {
            size: Bounds { from: 1, below: Some(u64::MAX) },
            requests: Bounds { from: 1, below: Some(u64::MAX) },
            sites,
            types: Vec::new(),
        };
        Class { name: named(at), criteria, policy: Policy::DEFAULT }
    });
    let table = ClassTable::new(1, classes.collect(), Policy::DEFAULT).unwrap();
    let text = table.to_text();
    assert!(text.len() < TEXT_MAX, "{}", text.len());
    assert!(ClassTable::from_text(1, &text).unwrap().iter().eq(table.iter()));
}
