//! Random sequences of operations compared with a map: a lookup returns what was last committed
//! under the key, or nothing where the store may evict.

use std::time::Duration;

use larder_store::Options;
use store_oracle::{any_len, key};

use crate::rig::{Rig, formatted, product, ucfs};
use crate::seeds::seeds;

const KEYS: u32 = 40;
const MIB: u64 = 1 << 20;

/// Runs one random operation on a key.
fn step(rig: &mut Rig, random: &mut fastrand::Rng, all: bool) {
    let number = random.u32(..KEYS);
    let refused = |result: Result<_, _>| assert!(!all || result.is_ok(), "{result:?}");
    match random.u8(..16) {
        0..5 => refused(rig.insert(number, any_len(random)).map(|_| ())),
        5 => rig.abort(number, any_len(random)),
        6 | 7 => {
            let hit = rig.refresh(number);
            assert!(!all || hit.is_ok_and(|state| state == rig.current(number)));
        }
        8 => {
            let removed = rig.current(number).is_some();
            assert!(!all || rig.remove(number) == removed);
        }
        9 => refused(rig.purge(number).map(|_| ())),
        10 => rig.pass(Duration::from_millis(random.u64(..3_000))),
        11 => read_a_range(rig, number, random),
        _ => {
            let seen = rig.look(number).state();
            let current = rig.current(number);
            assert!(seen == current || !all && seen.is_none(), "{seen:?}, {current:?}");
        }
    }
}

fn read_a_range(rig: &mut Rig, number: u32, random: &mut fastrand::Rng) {
    let Some(entry) = rig.entry(number) else { return };
    let Some(state) = rig.current(number) else { panic!("{number} was removed") };
    let start = random.u64(..=state.len);
    let end = random.u64(start..=state.len);
    assert!(rig.read(&entry, state, start..end), "nothing ran beside it");
}

/// Checks that no record is damaged: the device is sound, so the store would have overwritten it.
fn nothing_is_damaged(rig: &Rig) {
    assert_eq!(rig.store.stats()[0].counters.damaged_records, 0);
}

fn run(name: &'static str, count: usize, device: u64, options: fn() -> Options, all: bool) {
    for seed in seeds(name, count) {
        let mut random = fastrand::Rng::with_seed(seed);
        let memory = formatted(device, 16 << 10 << random.u32(..4));
        let mut rig = Rig::open(memory, options());
        if random.bool() {
            rig.probe.memory.shuffle(Some(seed));
        }
        for _ in 0..random.u32(..400) {
            step(&mut rig, &mut random, all);
            if random.u8(..60) == 0 {
                nothing_is_damaged(&rig);
                rig = rig.reopen();
            }
        }
        rig.check_all(all);
        nothing_is_damaged(&rig);
        rig = rig.reopen();
        rig.check_all(all);
        nothing_is_damaged(&rig);
    }
}

#[test]
pub fn a_roomy_store_equals_a_map() {
    run("any_sequence::a_roomy_store_equals_a_map", 12, 128 * MIB, product, true);
}

#[test]
pub fn a_tight_store_equals_a_map_that_forgets() {
    run("any_sequence::a_tight_store_equals_a_map_that_forgets", 12, 8 * MIB, product, false);
}

#[test]
pub fn the_ucfs_preset_equals_a_map_that_forgets() {
    run("any_sequence::the_ucfs_preset_equals_a_map_that_forgets", 12, 8 * MIB, ucfs, false);
}

#[test]
pub fn far_more_traffic_than_room() {
    for seed in seeds("any_sequence::far_more_traffic_than_room", 2) {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut rig = Rig::open(formatted(8 * MIB, 64 << 10), product());
        let mut hits = 0;
        for number in 0..2_000 {
            let stored = rig.insert(number, any_len(&mut random));
            assert!(stored.is_ok(), "{stored:?} at {number}");
            let recent = number.saturating_sub(random.u32(..50));
            hits += u32::from(rig.look(recent).state().is_some());
        }
        assert!(hits > 1_000, "only {hits} of 2,000 recent objects were there");
        rig.check_all(false);
        nothing_is_damaged(&rig);
        // Lookups move objects and may evict a large one: look up the last object first.
        rig.insert(2_000, 1_000).unwrap();
        rig = rig.reopen();
        assert!(rig.entry(2_000).is_some(), "{:?}", key(2_000));
        rig.check_all(false);
        nothing_is_damaged(&rig);
    }
}
