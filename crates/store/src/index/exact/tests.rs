//! The exact index against a plain map, and its figures.

use std::collections::BTreeMap;

use super::*;
use crate::test_seed::seeds;

/// The paper's entry of one file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Held {
    position: Option<u32>,
    refreshed: bool,
    memory: bool,
    stamp: u32,
}

type Model = BTreeMap<Digest, Held>;

fn digest(random: &mut fastrand::Rng) -> Digest {
    Digest::from_halves(random.u64(..), random.u64(..))
}

fn slot(held: Held) -> Option<Slot> {
    let class = SizeClass::LARGEST;
    held.position.map(|position| Slot { position, class, refreshed: held.refreshed })
}

/// Removes from the model the entries that an insertion displaced.
fn lost(model: &mut Model, inserted: Inserted) {
    let on_device = inserted.displaced.map(|displaced| {
        let mut held = model.iter().filter(|(_, held)| slot(**held) == Some(displaced));
        *held.next().expect("only what was in is lost").0
    });
    if let (Some(on_device), Some(expelled)) = (on_device, inserted.expelled) {
        assert_eq!(on_device, expelled);
    }
    for digest in on_device.into_iter().chain(inserted.expelled) {
        let held = model.remove(&digest);
        assert!(inserted.expelled.is_none() || held.is_none_or(|held| held.memory));
    }
}

/// Removes an entry with neither a record nor a copy in memory.
fn settle(model: &mut Model, digest: &Digest) {
    let idle = |held: &Held| held.position.is_none() && !held.memory;
    if model.get(digest).is_some_and(idle) {
        model.remove(digest);
    }
}

fn step(index: &mut ExactIndex, model: &mut Model, random: &mut fastrand::Rng, of: Digest) {
    let held = model.get(&of).copied().unwrap_or_default();
    // Positions are unique on a device.
    let position = random.u32(..u32::MAX);
    let new = Held { position: Some(position), refreshed: random.bool(), ..held };
    let (new_slot, known) = (slot(new).unwrap(), slot(held));
    match random.u8(..9) {
        0..3 => {
            let inserted = index.insert(&of, new_slot);
            assert_eq!(inserted.old, known);
            lost(model, inserted);
            model.insert(of, new);
        }
        3 => match index.insert_if_absent(&of, new_slot) {
            Err(slot) => assert_eq!(Some(slot), known),
            Ok(inserted) => {
                assert_eq!(known, None);
                lost(model, inserted);
                model.insert(of, new);
            }
        },
        4 => {
            assert_eq!(index.remove(&of), known);
            model
                .entry(of)
                .and_modify(|held| *held = Held { position: None, refreshed: false, ..*held });
        }
        5 => {
            let position = held.position.unwrap_or(3) ^ u32::from(random.bool());
            let here = held.position == Some(position);
            assert_eq!(index.remove_at(&of, position), here);
            if here {
                model.insert(of, Held { position: None, refreshed: false, ..held });
            }
        }
        6 => {
            let refreshed = random.bool();
            let position = held.position.unwrap_or(3);
            assert_eq!(index.update_flag(&of, position, refreshed), held.position.is_some());
            if held.position.is_some() {
                model.insert(of, Held { refreshed, ..held });
            }
        }
        7 => {
            let stamp = random.u32(..);
            let inserted = index.enter_memory(&of, stamp);
            lost(model, inserted);
            model.insert(of, Held { memory: true, stamp, ..held });
        }
        _ => {
            index.leave_memory(&of);
            model.entry(of).and_modify(|held| held.memory = false);
        }
    }
    settle(model, &of);
}

fn check(index: &ExactIndex, model: &Model) {
    assert_eq!(index.len(), model.len());
    for (digest, held) in model {
        assert_eq!(index.get(digest), slot(*held), "{digest:?}");
        assert_eq!(index.stamp(digest), Some(held.stamp));
        assert_eq!(index.in_memory(index.find(digest).unwrap()), held.memory);
    }
}

#[test]
fn any_sequence_of_calls_equals_a_map() {
    for seed in seeds("exact::any_sequence_of_calls_equals_a_map", 60) {
        let mut random = fastrand::Rng::with_seed(seed);
        // Capacities from far too small to ample.
        let mut index = ExactIndex::with_capacity(random.usize(1..300));
        let mut model = Model::new();
        let digests: Vec<Digest> = (0..200).map(|_| digest(&mut random)).collect();
        for _ in 0..2_000 {
            let of = *random.choice(&digests).unwrap();
            step(&mut index, &mut model, &mut random, of);
            if random.u8(..20) == 0 {
                check(&index, &model);
            }
        }
        check(&index, &model);
    }
}

#[test]
fn a_dump_restores_what_is_on_the_device() {
    for seed in seeds("exact::a_dump_restores_what_is_on_the_device", 20) {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut index = ExactIndex::with_capacity(400);
        let mut model = Model::new();
        for _ in 0..600 {
            let of = digest(&mut random);
            step(&mut index, &mut model, &mut random, of);
        }
        let mut bytes = vec![0xAA; index.bucket_count() * ExactIndex::BUCKET_BYTES];
        assert_eq!(index.dump(0, &mut bytes), index.bucket_count());
        let mut back = ExactIndex::with_capacity(400);
        back.restore(0, &bytes, u32::MAX).unwrap();
        model.retain(|_, held| held.position.is_some());
        model.values_mut().for_each(|held| held.memory = false);
        check(&back, &model);
        // A digest must stand in one of its buckets, and only once.
        let at = (0..index.digests.len()).find(|at| index.slot(*at).is_some()).unwrap();
        let entry = at / SLOTS * ExactIndex::BUCKET_BYTES + at % SLOTS * ENTRY_BYTES;
        let stranger = std::iter::repeat_with(|| digest(&mut random))
            .find(|digest| !index.homes(digest).contains(&(at / SLOTS)))
            .unwrap();
        let mut wrong = bytes.clone();
        wrong[entry..entry + 16].copy_from_slice(&stranger.0);
        assert_eq!(back.restore(0, &wrong, u32::MAX), Err(BadDump::Slot(at as u64)));
        let bucket = at / SLOTS * ExactIndex::BUCKET_BYTES;
        let mut twice = bytes.clone();
        let same = bytes[entry..entry + ENTRY_BYTES].to_vec();
        twice[bucket + 7 * ENTRY_BYTES..bucket + 8 * ENTRY_BYTES].copy_from_slice(&same);
        twice[bucket + 6 * ENTRY_BYTES..bucket + 7 * ENTRY_BYTES].copy_from_slice(&same);
        assert!(matches!(back.restore(0, &twice, u32::MAX), Err(BadDump::Slot(_))));
        assert_eq!(back.restore(0, &bytes[1..], u32::MAX), Err(BadDump::Length));
    }
}

#[test]
fn c1_nothing_is_pushed_out_of_a_table_that_is_95_percent_full() {
    let mut random = fastrand::Rng::with_seed(7);
    let mut index = ExactIndex::with_capacity(100_000);
    for position in 0..95_000 {
        let slot = Slot { position, class: SizeClass::LARGEST, refreshed: false };
        let inserted = index.insert(&digest(&mut random), slot);
        assert_eq!(inserted, Inserted::default());
    }
    assert_eq!(index.len(), 95_000);
    assert_eq!(index.memory_bytes(), 100_000 * 24 + 100_000 / 8);
}

#[test]
fn c1_an_object_on_the_device_makes_way_before_one_that_is_in_memory_only() {
    let mut random = fastrand::Rng::with_seed(11);
    let mut index = ExactIndex::with_capacity(16);
    let kept: Vec<Digest> = (0..6).map(|_| digest(&mut random)).collect();
    for digest in &kept {
        index.enter_memory(digest, 1);
    }
    let mut displaced = 0;
    for position in 0..200 {
        let slot = Slot { position, class: SizeClass::LARGEST, refreshed: false };
        let inserted = index.insert(&digest(&mut random), slot);
        assert_eq!(inserted.expelled, None);
        displaced += u32::from(inserted.displaced.is_some());
    }
    assert_eq!(displaced, 200 - 10);
    assert!(kept.iter().all(|digest| index.stamp(digest) == Some(1)));
}
