//! The compact index against a plain map, and its figures: load, false positives, memory.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::*;
use crate::test_seed::seeds;

fn digest(random: &mut fastrand::Rng) -> Digest {
    Digest::from_halves(random.u64(..), random.u64(..))
}

fn slot(random: &mut fastrand::Rng) -> Slot {
    Slot {
        position: random.u32(..),
        class: SizeClass::from_number(random.u8(..SizeClass::COUNT)).unwrap(),
        refreshed: random.bool(),
    }
}

/// Digests that collide: `tags` different tags and `homes` different first buckets.
fn colliding(random: &mut fastrand::Rng, homes: u64, tags: u64) -> Digest {
    let low = random.u64(..homes) * (u64::MAX / homes);
    Digest::from_halves(low, (random.u64(..tags) << (64 - TAG_BITS)) | random.u64(..1 << 40))
}

/// The entries that the index must hold, by pair of buckets and tag.
type Model = BTreeMap<(usize, u32), Slot>;

fn pair(index: &CompactIndex, digest: &Digest) -> (usize, u32) {
    let (first, tag) = index.home(digest);
    (first.min(index.other(first, tag)), tag)
}

fn forget(model: &mut Model, displaced: Option<Slot>) {
    let Some(slot) = displaced else { return };
    let key = *model.iter().find(|(_, held)| **held == slot).expect("only what was in is lost").0;
    model.remove(&key);
}

fn step(index: &mut CompactIndex, model: &mut Model, random: &mut fastrand::Rng, digest: &Digest) {
    let key = pair(index, digest);
    let new = slot(random);
    let at = |slot: Slot, exact: bool| slot.position ^ u32::from(!exact);
    match random.u8(..8) {
        0..3 => {
            let inserted = index.insert(digest, new);
            assert_eq!(inserted.old, model.get(&key).copied());
            forget(model, inserted.displaced);
            model.insert(key, new);
        }
        3 => {
            let result = index.insert_if_absent(digest, new);
            match model.entry(key) {
                Entry::Occupied(held) => assert_eq!(result, Err(*held.get())),
                Entry::Vacant(free) => {
                    free.insert(new);
                    forget(model, result.unwrap().displaced);
                }
            }
        }
        4 => assert_eq!(index.remove(digest), model.remove(&key)),
        5 => {
            let exact = random.bool();
            let held = model.get(&key).copied();
            let position = held.map_or(1, |held| at(held, exact));
            assert_eq!(index.remove_at(digest, position), held.is_some() && exact);
            if exact {
                model.remove(&key);
            }
        }
        6 => {
            let exact = random.bool();
            let held = model.get(&key).copied();
            let position = held.map_or(1, |held| at(held, exact));
            let flag = random.bool();
            assert_eq!(index.update_flag(digest, position, flag), held.is_some() && exact);
            if let Some(held) = model.get_mut(&key).filter(|_| exact) {
                held.refreshed = flag;
            }
        }
        _ => assert_eq!(index.get(digest), model.get(&key).copied()),
    }
}

fn check(index: &CompactIndex, model: &Model, digests: &[Digest]) {
    assert_eq!(index.len(), model.len());
    for digest in digests {
        assert_eq!(index.get(digest), model.get(&pair(index, digest)).copied());
    }
}

#[test]
fn any_sequence_of_operations_equals_a_map() {
    for seed in seeds("index::any_sequence_of_operations_equals_a_map", 60) {
        let mut random = fastrand::Rng::with_seed(seed);
        let capacity = random.usize(1..400);
        let mut index = CompactIndex::with_capacity(capacity);
        let mut model = Model::new();
        // Up to 1.6 times the capacity, so that entries are displaced as well.
        let digests: Vec<Digest> = (0..random.usize(1..capacity * 2))
            .map(|number| match number % 4 {
                0 => colliding(&mut random, 4, 30),
                _ => digest(&mut random),
            })
            .collect();
        for _ in 0..capacity * 10 {
            let digest = digests[random.usize(..digests.len())];
            step(&mut index, &mut model, &mut random, &digest);
        }
        check(&index, &model, &digests);
        let mut copy = CompactIndex::with_capacity(capacity);
        let mut bytes = vec![0; index.memory_bytes()];
        assert_eq!(index.dump(0, &mut bytes), index.bucket_count());
        copy.restore(0, &bytes, u32::MAX).unwrap();
        check(&copy, &model, &digests);
        index.sweep(0..index.bucket_count() / 2, |slot| slot.refreshed);
        index.sweep(index.bucket_count() / 2..usize::MAX, |slot| slot.refreshed);
        model.retain(|_, slot| slot.refreshed);
        check(&index, &model, &digests);
        index.clear();
        check(&index, &Model::new(), &digests);
    }
}

#[test]
fn ninety_percent_load_is_reached_without_loss_and_misses_stay_misses() {
    for objects in [1_000, 99_991, 400_000] {
        let mut random = fastrand::Rng::with_seed(objects as u64);
        let mut index = CompactIndex::with_capacity(objects);
        let mut digests = Vec::new();
        while index.len() < objects {
            let digest = digest(&mut random);
            let slot = Slot { position: digests.len() as u32, ..slot(&mut random) };
            let inserted = index.insert(&digest, slot);
            assert_eq!(inserted.displaced, None, "at {} of {objects}", index.len());
            digests.push((digest, slot));
        }
        assert_eq!(index.given_up(), 0);
        assert!(index.load() > 0.89, "{}", index.load());
        assert!(index.memory_bytes() as f64 / objects as f64 <= 9.0 + 64.0 / objects as f64);
        assert_eq!(index.memory_bytes(), CompactIndex::bytes_for(objects));
        let lost = digests.iter().filter(|(digest, slot)| index.get(digest) != Some(*slot)).count();
        assert!(lost <= 3, "{lost} of {objects} replaced by a digest with the same tag");
        let absent = 1_000_000;
        let wrong = (0..absent).filter(|_| index.get(&digest(&mut random)).is_some()).count();
        assert!(wrong <= 10, "{wrong} of {absent} absent digests found");
    }
}

#[test]
fn an_overfull_index_returns_what_it_gives_up() {
    let mut random = fastrand::Rng::with_seed(3);
    let mut index = CompactIndex::with_capacity(2_000);
    let slots = index.bucket_count() * SLOTS;
    let mut gone = 0;
    for position in 0..5_000 {
        let slot = Slot { position, ..slot(&mut random) };
        let inserted = index.insert(&digest(&mut random), slot);
        gone += usize::from(inserted.displaced.is_some()) + usize::from(inserted.old.is_some());
        assert_eq!(index.len() + gone, position as usize + 1);
    }
    assert!(index.len() > slots * 95 / 100 && index.len() <= slots, "{} of {slots}", index.len());
    assert!(index.given_up() > 2_000);
}

#[test]
fn dumps_that_are_none_are_refused() {
    let mut index = CompactIndex::with_capacity(100);
    let last = index.bucket_count();
    let bucket = |words: &[u64]| {
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        bytes.resize(CompactIndex::BUCKET_BYTES, 0);
        bytes
    };
    assert_eq!(index.restore(0, &[0; 63], u32::MAX), Err(BadDump::Length));
    assert_eq!(index.restore(last, &bucket(&[]), u32::MAX), Err(BadDump::Length));
    assert_eq!(index.restore(usize::MAX, &bucket(&[]), u32::MAX), Err(BadDump::Length));
    assert_eq!(index.restore(1, &bucket(&[0, 5]), 100), Err(BadDump::Slot(9)), "no tag");
    assert_eq!(index.restore(1, &bucket(&[1 << 40 | 100]), 100), Err(BadDump::Slot(8)), "position");
    let twins = bucket(&[1 << 40 | 7, 2 << 40, 1 << 40 | 8]);
    assert_eq!(index.restore(1, &twins, 100), Err(BadDump::Slot(10)), "a tag twice");
    index.clear();
    assert_eq!(index.restore(1, &bucket(&[1 << 40 | 99]), 100), Ok(()));
    assert_eq!(index.len(), 1);
    assert_eq!(index.restore(1, &bucket(&[]), 100), Ok(()));
    assert_eq!(index.len(), 0);
}
