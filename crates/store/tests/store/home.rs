//! Objects that are kept in one tier only, because another node has them in the other.

use std::cell::Cell;

use larder_store::{
    EvictionLimits, HeldStats, Hint, Home, Lookup, LookupOptions, Mode, Refusal, Source, Tiers,
};
use store_oracle::{State, key};

use crate::purging::{labelled, word};
use crate::rig::{LookupResult, Rig, formatted, product};

thread_local! {
    static VERSION: Cell<u32> = const { Cell::new(1_000_000) };
}

/// Stores an object of `len` bytes in the tiers of `home`.
fn keep(rig: &mut Rig, number: u32, len: u64, home: Home) -> Result<State, Refusal> {
    let version = VERSION.replace(VERSION.get() + 1);
    let state = State { key: number, version, meta: 0, len };
    let store = rig.store.clone();
    rig.run(async {
        let token = store.begin_fetch(&key(number));
        let hint = Hint { size: Some(len), home, ..Hint::default() };
        let mut writer = store.insert(&token, &key(number), state.meta_bytes(), hint).await?;
        writer.write(state.body()).await?;
        writer.commit().await
    })?;
    Ok(state)
}

fn source(rig: &mut Rig, number: u32) -> Option<Source> {
    rig.entry(number).map(|entry| entry.source())
}

#[test]
fn what_lives_in_memory_alone_is_offered_as_the_last_copy_and_gone_after_a_restart() {
    let mut rig = Rig::open(formatted(24 << 20, 64 << 10), product());
    keep(&mut rig, 1, 5_000, Home::Memory).unwrap();
    rig.settle_durably();
    let limits = EvictionLimits { offers: 1024, bytes: 16 << 20 };
    let mut offers = rig.store.evictions(limits);
    let mut last = false;
    for number in 10..3_000 {
        rig.insert(number, 5_000).unwrap();
        while let Some(offer) = offers.take() {
            last |= offer.key == key(1) && offer.last_copy && offer.entry.is_some();
        }
    }
    assert!(last, "it is offered");
    assert_eq!(rig.look(1), LookupResult::Nothing);
    drop(offers);
    let state = keep(&mut rig, 2, 5_000, Home::Memory).unwrap();
    assert_eq!(rig.look(2), LookupResult::Whole(state));
    assert_eq!(source(&mut rig, 2), Some(Source::Ram));
    let mut rig = rig.reopen();
    assert_eq!(rig.look(2), LookupResult::Nothing);
}

#[test]
fn it_takes_the_place_of_what_was_on_the_device_and_that_does_not_come_back() {
    let mut rig = Rig::open(formatted(24 << 20, 64 << 10), product());
    rig.insert(1, 5_000).unwrap();
    rig.settle_durably();
    let state = keep(&mut rig, 1, 4_000, Home::Memory).unwrap();
    assert_eq!(rig.look(1), LookupResult::Whole(state));
    let mut rig = rig.reopen();
    assert_eq!(rig.look(1), LookupResult::Nothing);
}

#[test]
fn a_purge_reaches_what_lives_in_memory_alone() {
    let mut rig = Rig::open(formatted(24 << 20, 64 << 10), labelled(product()));
    let state = keep(&mut rig, 1, 5_000, Home::Memory).unwrap();
    let meta = String::from_utf8_lossy(&state.meta_bytes()).into_owned();
    let name = meta.split(' ').next().unwrap();
    let store = rig.store.clone();
    rig.run(store.purge_all(&[word(name)], Mode::Hard)).unwrap();
    assert_eq!(rig.look(1), LookupResult::Nothing);
    keep(&mut rig, 1, 5_000, Home::Memory).unwrap();
    assert!(rig.remove(1));
    assert_eq!(rig.look(1), LookupResult::Nothing);
}

#[test]
fn what_lives_on_the_device_alone_enters_memory_when_it_is_asked_for() {
    let mut rig = Rig::open(formatted(24 << 20, 64 << 10), product());
    let state = keep(&mut rig, 1, 5_000, Home::Disk).unwrap();
    // Other objects fill its cluster, which is then written.
    (10..40).for_each(|number| assert!(rig.insert(number, 5_000).is_ok()));
    rig.settle_durably();
    let store = rig.store.clone();
    let memory = LookupOptions { tiers: Tiers::Memory, ..LookupOptions::default() };
    assert!(matches!(rig.run(store.lookup_with(&key(1), memory)), Lookup::Miss));
    assert_eq!(source(&mut rig, 1), Some(Source::Disk));
    assert_eq!(rig.look(1), LookupResult::Whole(state));
    let mut rig = rig.reopen();
    assert_eq!(rig.look(1), LookupResult::Whole(state));
}

/// Opens a store that keeps objects of up to 1 MiB, those above a record's length in pieces.
fn rig_of_large_objects() -> Rig {
    let options =
        larder_store::Options { object_max: Some(1 << 20), memory: 16 << 20, ..product() };
    Rig::open(formatted(24 << 20, 256 << 10), options)
}

#[test]
fn a_large_object_lives_in_memory_alone_in_pieces_until_it_is_evicted() {
    let mut rig = rig_of_large_objects();
    let tier = rig.store.stats()[0].tier_capacity as u64;
    let len = tier / 16;
    assert!(len > 150_000, "{tier}");
    let state = keep(&mut rig, 1, len, Home::Memory).unwrap();
    assert_eq!(rig.look(1), LookupResult::Whole(state));
    assert_eq!(source(&mut rig, 1), Some(Source::Ram));
    assert_eq!(keep(&mut rig, 2, len + 1, Home::Memory), Err(Refusal::TooLarge));
    assert_eq!(rig.look(2), LookupResult::Nothing);
    keep(&mut rig, 3, len, Home::Memory).unwrap();
    let mut evicted = rig.store.evictions(EvictionLimits { offers: 1024, bytes: 16 << 20 });
    let mut left = false;
    for number in 10..tier / 2_000 {
        rig.insert(number as u32, 5_000).unwrap();
        while let Some(object) = evicted.take() {
            left |= object.key == key(3) && object.last_copy && object.len == len;
        }
    }
    drop(evicted);
    assert!(left, "its head is offered");
    assert_eq!(rig.look(3), LookupResult::Nothing);
    // An object that was requested stays for longer.
    assert_eq!(rig.look(1), LookupResult::Whole(state));
    let mut rig = rig.reopen();
    assert_eq!(rig.look(1), LookupResult::Nothing);
}

#[test]
fn a_reader_gets_all_pieces_of_what_leaves_memory_meanwhile() {
    for is_replaced in [true, false] {
        let mut rig = rig_of_large_objects();
        let tier = rig.store.stats()[0].tier_capacity as u64;
        let state = keep(&mut rig, 1, tier / 16 - 8_000, Home::Memory).unwrap();
        let entry = rig.entry(1).unwrap();
        if is_replaced {
            keep(&mut rig, 1, 5_000, Home::Memory).unwrap();
        }
        (10..tier / 2_000).for_each(|number| assert!(rig.insert(number as u32, 5_000).is_ok()));
        assert_eq!(rig.verify(1, &entry), LookupResult::Whole(state), "{is_replaced}");
        drop(entry);
        assert_eq!(rig.store.stats()[0].held, HeldStats::default());
    }
}
