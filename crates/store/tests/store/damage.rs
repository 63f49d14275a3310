//! Damage at rest: bytes of an image are changed, then the cache is opened and used. The store must
//! not panic, and must return only states that were stored.

use std::time::Duration;

use device::{Device, Extent, MemoryDevice};
use larder_store::Inspector;
use store_oracle::{End, History, any_len, key};

use crate::probe::Probe;
use crate::rig::{FAILURE, KILL, LookupResult, Rig, formatted, now_or_never, product, ucfs};
use crate::seeds::seeds;

const MIB: u64 = 1 << 20;

/// Returns an image after many kinds of operations and an orderly stop or a kill, with its history.
fn image(random: &mut fastrand::Rng, orderly: bool) -> (MemoryDevice, History) {
    let options = if random.bool() { product() } else { ucfs() };
    let mut rig = Rig::open(formatted(8 * MIB, 32 << 10), options);
    for _ in 0..random.u32(..150) {
        let number = random.u32(..30);
        match random.u8(..12) {
            0..8 => _ = rig.insert(number, any_len(random)),
            8 => _ = rig.refresh(number),
            9 => _ = rig.remove(number),
            10 => _ = rig.purge(number),
            _ => rig.pass(Duration::from_millis(random.u64(..2_000))),
        }
    }
    let probe = if orderly { rig.stop() } else { rig.probe };
    (probe.memory.crash_process(), probe.history.take())
}

/// Changes some bytes: a few bits, a run of zeros or noise, or a block copied from elsewhere.
fn damage(memory: &MemoryDevice, random: &mut fastrand::Rng) {
    let len = memory.geometry().len;
    // Most of the structures are near the start.
    let offset = if random.bool() { random.u64(..2 * MIB) } else { random.u64(..len) };
    let run = random.u64(1..20_000).min(len - offset);
    let block = offset / 4096 * 4096;
    match random.u8(..5) {
        0 => memory.poke(offset, &vec![0; run as usize]),
        1 => memory.poke(offset, &vec![0xFF; run as usize]),
        2 => {
            let noise: Vec<u8> = std::iter::repeat_with(|| random.u8(..)).take(300).collect();
            memory.poke(offset.min(len - 300), &noise);
        }
        3 => {
            let other = random.u64(..len / 4096) * 4096;
            memory.poke(block, &memory.peek(Extent { offset: other, len: 4096 }));
        }
        _ => {
            let byte = memory.peek(Extent { offset, len: 1 })[0];
            memory.poke(offset, &[byte ^ 1 << random.u8(..8)]);
        }
    }
}

/// Inspects a damaged image in every way. Only checks that the inspector returns.
fn inspect(memory: &MemoryDevice, history: &History) {
    let Ok(inspector) = now_or_never(Inspector::open(memory)) else { return };
    _ = inspector.superblock();
    _ = now_or_never(inspector.clusters());
    for number in history.keys() {
        let key = key(number);
        if let Ok(Some(report)) = now_or_never(inspector.find(key.as_bytes())) {
            assert_eq!(report.key, *key.as_bytes());
        }
    }
    _ = now_or_never(inspector.verify(|_, _| {}));
}

/// Opens a damaged image, checks all keys and uses the store. The store may also refuse to open.
fn examine(memory: &MemoryDevice, history: &History, end: End, seed: u64) {
    inspect(memory, history);
    let opened = Rig::open_probe(Probe::new(memory.crash_process()), product(), 1_700_000_000);
    let Ok(mut rig) = opened else { return };
    rig.history.replace(history.after(end));
    for number in history.keys() {
        let permitted = history.permitted(number, end);
        let seen = rig.look(number).state();
        assert!(seen.is_none_or(|seen| permitted.contains(&seen)), "{seen:?}, {permitted:?}");
    }
    rig.adopt();
    let mut random = fastrand::Rng::with_seed(seed);
    for number in 0..60 {
        _ = rig.insert(number, any_len(&mut random));
    }
    rig.settle();
    rig.check_all(false);
    rig = rig.reopen();
    rig.check_all(false);
}

#[test]
pub fn any_damage_to_any_image() {
    for seed in seeds("damage::any_damage_to_any_image", 20) {
        let mut random = fastrand::Rng::with_seed(seed);
        let orderly = random.bool();
        let (memory, mut history) = image(&mut random, orderly);
        for _ in 0..random.u32(1..8) {
            damage(&memory, &mut random);
        }
        // Any state that ever was may be found, but nothing else.
        history.journal_damaged();
        examine(&memory, &history, FAILURE, seed);
    }
}

#[test]
pub fn one_damaged_place_after_an_orderly_stop_brings_nothing_back() {
    for seed in seeds("damage::one_damaged_place_after_an_orderly_stop", 20) {
        let mut random = fastrand::Rng::with_seed(seed);
        let (memory, history) = image(&mut random, true);
        damage(&memory, &mut random);
        examine(&memory, &history, KILL, seed);
    }
}

/// Returns the extent of the area with this name.
pub fn area(memory: &MemoryDevice, name: &str) -> Extent {
    let areas = now_or_never(Inspector::open(memory)).unwrap().superblock().areas;
    areas.into_iter().find(|(other, _)| *other == name).expect("an area of this layout").1
}

/// The newer checkpoint is lost, and the whole journal since the older one. Recovery notices that,
/// because the superblocks name the last journal block.
#[test]
pub fn a_lost_checkpoint_with_the_journal_before_it_brings_nothing_back() {
    for orderly in [true, false] {
        let mut rig = Rig::open(formatted(8 * MIB, 32 << 10), product());
        let kept = rig.insert(1, 5_000).unwrap();
        rig.insert(2, 5_000).unwrap();
        rig.insert(3, 5_000).unwrap();
        rig = rig.reopen();
        assert!(rig.remove(2));
        assert_eq!(rig.purge(3), Ok(true));
        let memory = match orderly {
            true => rig.stop().memory.crash_process(),
            false => {
                rig.settle();
                let crashed = rig.probe.memory.crash_process();
                Rig::open(crashed, product()).probe.memory.crash_process()
            }
        };
        let found = ["checkpoint A", "checkpoint B"].map(|checkpoint| {
            let damaged = memory.crash_process();
            for lost in [checkpoint, "journal", "index dump"] {
                let Extent { offset, len } = area(&damaged, lost);
                damaged.poke(offset, &vec![0; len as usize]);
            }
            let mut rig = Rig::open(damaged, product());
            assert_eq!(
                [rig.look(2), rig.look(3)],
                [LookupResult::Nothing; 2],
                "{checkpoint}, {orderly}"
            );
            rig.look(1)
        });
        let whole = found.iter().filter(|seen| **seen == LookupResult::Whole(kept)).count();
        assert_eq!(whole, 1, "without the older checkpoint nothing is missing: {found:?}");
    }
}
