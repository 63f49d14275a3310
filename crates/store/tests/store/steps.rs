//! Events between two steps of the store: a kill, a dropped future, an eviction or an orderly stop
//! while another operation is under way.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Waker};
use std::time::Duration;

use bytes::Bytes;
use device::{Extent, Operation};
use larder_store::{Hint, Inspector, Options, Refusal};
use store_oracle::{State, key};

use crate::rig::{KILL, LookupResult, Rig, formatted, product, ucfs};

const MIB: u64 = 1 << 20;

/// Returns the extent of an object's record.
fn record_of(rig: &mut Rig, number: u32) -> Extent {
    let memory = rig.probe.memory.clone();
    let found = rig.run(async {
        let inspector = Inspector::open(&memory).await.unwrap();
        inspector.find(key(number).as_bytes()).await.unwrap().unwrap()
    });
    Extent { offset: found.offset, len: found.record_len }
}

#[test]
pub fn a_damaged_and_replaced_object_does_not_reappear_after_a_kill() {
    for options in [product(), ucfs()] {
        let mut rig = Rig::open(formatted(24 * MIB, 32 << 10), options.clone());
        let old = rig.insert(1, 5_000).unwrap();
        rig = rig.reopen();
        let record = record_of(&mut rig, 1);
        rig.probe.memory.damage_reads(record, 0xFF);
        assert_eq!(rig.look(1), LookupResult::Nothing);
        rig.probe.memory.heal();
        let new = rig.insert(1, 6_000).unwrap();
        assert_eq!(rig.look(1), LookupResult::Whole(new));
        let mut rig = Rig::open(rig.probe.memory.crash_process(), options);
        assert_ne!(rig.look(1), LookupResult::Whole(old), "superseded before the kill");
    }
}

#[test]
pub fn the_death_of_a_damaged_record_is_written_within_the_bound() {
    let mut rig = Rig::open(formatted(24 * MIB, 32 << 10), product());
    rig.insert(1, 5_000).unwrap();
    rig = rig.reopen();
    rig.settle_durably();
    let record = record_of(&mut rig, 1);
    rig.probe.memory.damage_reads(record, 0xFF);
    assert_eq!(rig.look(1), LookupResult::Nothing);
    rig.probe.memory.heal();
    rig.settle();
    let mut rig = Rig::open(rig.probe.memory.crash_process(), product());
    assert_eq!(rig.look(1), LookupResult::Nothing);
}

#[test]
pub fn a_commit_without_a_waiting_caller_stores_the_object() {
    let mut rig = Rig::open(formatted(24 * MIB, 32 << 10), product());
    rig.insert(1, 5_000).unwrap();
    rig.settle();
    let (store, state) = (rig.store.clone(), rig.next_state(1, 300_000));
    let token = store.begin_fetch(&key(1));
    let hint = Hint::default();
    let mut writer = rig.run(store.insert(&token, &key(1), state.meta_bytes(), hint)).unwrap();
    rig.run(writer.write(state.body())).unwrap();
    rig.probe.memory.hold();
    {
        // It waits for the journal entry of the older version's removal.
        let mut commit = pin!(writer.commit());
        assert!(commit.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    }
    rig.probe.memory.release_all();
    assert_eq!(rig.look(1), LookupResult::Whole(state));
    rig.settle();
    assert_eq!(rig.look(1), LookupResult::Whole(state));
}

#[test]
pub fn a_body_with_a_hole_is_not_committed() {
    let options = Options { object_max: Some(100_000), ..product() };
    let mut rig = Rig::open(formatted(24 * MIB, 32 << 10), options);
    let (store, state) = (rig.store.clone(), rig.next_state(1, 90_000));
    let token = store.begin_fetch(&key(1));
    let result = rig.run(async {
        let meta = state.meta_bytes();
        let mut writer = store.insert(&token, &key(1), meta, Hint::default()).await?;
        writer.write(state.body()).await?;
        assert_eq!(writer.write(Bytes::from(vec![0; 20_000])).await, Err(Refusal::TooLarge));
        writer.commit().await
    });
    assert_eq!(result, Err(Refusal::WrongLength));
    assert_eq!(rig.look(1), LookupResult::Nothing);
}

#[test]
pub fn metadata_longer_than_any_record_are_refused() {
    let mut rig = Rig::open(formatted(128 * MIB, 4 << 20), product());
    let store = rig.store.clone();
    let token = store.begin_fetch(&key(1));
    for len in [3_900_000, 4_000_000, 4_190_000, 5_000_000] {
        let meta = Bytes::from(vec![b'm'; len]);
        let result = rig.run(async {
            let mut writer = store.insert(&token, &key(1), meta, Hint::default()).await?;
            writer.write(Bytes::from_static(b"body")).await?;
            writer.commit().await
        });
        assert_eq!(result.is_ok(), len == 3_900_000, "{len}: {result:?}");
    }
}

#[test]
pub fn a_record_found_damaged_during_a_stop_does_not_come_back() {
    let mut rig = Rig::open(formatted(24 * MIB, 32 << 10), product());
    let old = rig.insert(1, 5_000).unwrap();
    rig = rig.reopen();
    let record = record_of(&mut rig, 1);
    let (store, memory) = (rig.store.clone(), rig.probe.memory.clone());
    memory.damage_reads(record, 0xFF);
    memory.hold();
    let one = key(1);
    let mut lookup = pin!(store.lookup(&one));
    let mut stop = pin!(store.shutdown());
    let mut context = Context::from_waker(Waker::noop());
    assert!(lookup.as_mut().poll(&mut context).is_pending());
    let read = memory.held()[0].id;
    let mut looked = false;
    while stop.as_mut().poll(&mut context).is_pending() {
        rig.pass(Duration::ZERO);
        let held = memory.held();
        // The last checkpoint is under way, and the index is not dumped yet.
        if !looked && !store.stats()[0].online && held.len() > 1 {
            memory.release(read);
            looked = lookup.as_mut().poll(&mut context).is_ready();
        }
        held.iter().filter(|held| held.id != read).for_each(|held| _ = memory.release(held.id));
    }
    assert!(looked, "the lookup ended before the stop did");
    let history = rig.history.borrow().clone();
    let mut rig = Rig::after_crash(memory.crash_process(), product(), &history, KILL);
    let found = rig.look(1);
    rig.insert(1, 6_000).unwrap();
    let mut rig = Rig::open(rig.probe.memory.crash_process(), product());
    assert_ne!(
        rig.look(1),
        LookupResult::Whole(old),
        "superseded before the kill; found {found:?}"
    );
}

#[test]
pub fn one_timers_are_no_older_after_a_kill() {
    let options = Options { one_timer_age: Some(Duration::from_secs(3_600)), ..product() };
    let mut rig = Rig::open(formatted(24 * MIB, 32 << 10), options.clone());
    let state = rig.insert(1, 5_000).unwrap();
    rig.settle();
    let mut rig = Rig::open(rig.probe.memory.crash_process(), options);
    rig.settle();
    assert_eq!(rig.look(1), LookupResult::Whole(state));
    rig.pass(Duration::from_secs(4_000));
    rig.insert(2, 100).unwrap();
    rig.settle();
    assert_eq!(rig.store.stats()[0].counters.one_timer_clusters, 1);
}

#[test]
pub fn removals_beyond_what_a_checkpoint_takes_cost_what_is_not_recovered_only() {
    let mut rig = Rig::open(formatted(24 * MIB, 32 << 10), product());
    for number in 0..400 {
        rig.insert(number, 20_000).unwrap();
    }
    rig.settle();
    let options = Options { recovery_wait: Duration::ZERO, ..product() };
    let mut rig = Rig::open(rig.probe.memory.crash_process(), options);
    rig.probe.memory.hold();
    let store = rig.store.clone();
    for number in 0..20_000 {
        rig.drop_after(1, store.remove(&key(number)));
    }
    // More journal blocks than its ring has are written while recovery waits for its reads.
    for _ in 0..1_000 {
        rig.pass(Duration::from_millis(10));
        let mut held = rig.probe.memory.held();
        held.retain(|held| held.operation != Operation::Read);
        held.iter().for_each(|held| _ = rig.probe.memory.release(held.id));
    }
    rig.probe.memory.release_all();
    rig.settle_durably();
    assert!(rig.store.stats()[0].online, "the device is well");
    let states: Vec<State> = (0..50).map(|number| rig.insert(number, 9_000).unwrap()).collect();
    rig.settle();
    let mut rig = Rig::open(rig.probe.memory.crash_process(), product());
    for number in 0..400 {
        let expected =
            states.get(number as usize).map_or(LookupResult::Nothing, |s| LookupResult::Whole(*s));
        assert_eq!(rig.look(number), expected);
    }
}

#[test]
pub fn a_large_object_is_a_miss_while_its_pieces_are_not_recovered_and_a_hit_afterwards() {
    let mut rig = Rig::open(formatted(24 * MIB, 32 << 10), product());
    // More clusters than recovery reads at once.
    let state = rig.insert(1, 2_000_000).unwrap();
    rig.settle();
    let options = Options { recovery_wait: Duration::ZERO, ..product() };
    let mut rig = Rig::open(rig.probe.memory.crash_process(), options);
    let early = rig.look(1);
    assert!(early == LookupResult::Nothing || early == LookupResult::Whole(state), "{early:?}");
    rig.settle();
    assert_eq!(rig.look(1), LookupResult::Whole(state));
}

#[test]
pub fn pieces_of_a_version_that_is_gone_count_as_dead() {
    let mut rig = Rig::open(formatted(24 * MIB, 32 << 10), product());
    rig.insert(1, 500_000).unwrap();
    rig.settle();
    rig.remove(1);
    let dead = rig.store.stats()[0].dead_records;
    assert!(dead > 15, "only {dead} dead records");
}

#[test]
pub fn a_writer_that_outlives_its_token_is_overtaken() {
    let mut rig = Rig::open(formatted(24 * MIB, 32 << 10), product());
    let (store, state) = (rig.store.clone(), rig.next_state(1, 100));
    let token = store.begin_fetch(&key(1));
    let hint = Hint::default();
    let mut writer = rig.run(store.insert(&token, &key(1), state.meta_bytes(), hint)).unwrap();
    drop(token);
    rig.run(writer.write(state.body())).unwrap();
    rig.remove(1);
    assert_eq!(rig.run(writer.commit()), Err(Refusal::Overtaken));
}
