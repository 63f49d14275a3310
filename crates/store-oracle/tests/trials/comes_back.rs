//! Each way in which a removed or superseded state could reappear, by name. The scenario itself
//! rejects every state that the history does not permit; the tests assert that the case occurred.

use std::time::Duration;

use store::{LayoutName, WritePolicy};
use store_oracle::{LookupResult, Scenario, State, Variant, any_len};

const MIB: u64 = 1 << 20;

fn scenario(variant: Variant) -> Scenario {
    Scenario::new(variant, 8 * MIB).unwrap()
}

fn insert(scenario: &Scenario, number: u32, len: u64) -> State {
    scenario.run(async |client| client.insert(number, len).await).unwrap()
}

/// Returns a cache after a kill, with 60 objects under the keys from 0 on, some of which recovery
/// has not found yet.
fn recovering(variant: Variant, prepare: impl FnOnce(&mut Scenario)) -> Scenario {
    let mut scenario = Scenario::new(variant, 24 * MIB).unwrap();
    // More than recovery reads before it checks the time.
    (200..400).for_each(|number| _ = insert(&scenario, number, 25_000));
    (0..60).for_each(|number| _ = insert(&scenario, number, 9_000));
    scenario = scenario.stop().unwrap();
    insert(&scenario, 100, 1_000);
    scenario.settle_durably();
    scenario.set_recovery_wait(Duration::ZERO);
    prepare(&mut scenario);
    let scenario = scenario.crash(false, 1).unwrap();
    assert!(!scenario.store.share().recovered(), "there is more to read");
    scenario
}

/// Checks that key 1 is not found after a kill nor after a power loss, once everything was durable.
fn gone_after_every_end(make: impl Fn() -> Scenario) {
    for end in 0..3 {
        let scenario = make();
        scenario.settle_durably();
        let scenario = match end {
            0 => scenario.crash(false, 7),
            1 => scenario.crash(true, 7),
            _ => scenario.stop(),
        };
        let scenario = scenario.unwrap();
        assert_eq!(scenario.look(1).unwrap(), LookupResult::Nothing);
        let scenario = scenario.crash(false, 8).unwrap();
        assert_eq!(scenario.look(1).unwrap(), LookupResult::Nothing);
    }
}

pub fn superseded_then_evicted(variant: Variant) {
    for power in [false, true] {
        let scenario = scenario(variant);
        insert(&scenario, 1, 3_000);
        let scenario = scenario.stop().unwrap();
        insert(&scenario, 1, 4_000);
        let mut scenario = scenario.stop().unwrap();
        scenario.crowd_out(1).unwrap();
        scenario.settle_durably();
        let scenario = scenario.crash(power, 3).unwrap();
        assert_eq!(scenario.look(1).unwrap(), LookupResult::Nothing);
        scenario.check(false).unwrap();
    }
}

/// The older version was evicted, which the journal does not say yet; the process dies when the
/// newer one is acknowledged.
pub fn given_up_then_stored_again(variant: Variant) {
    for seed in 0..4 {
        let scenario = scenario(variant);
        insert(&scenario, 1, 3_000);
        let scenario = scenario.stop().unwrap();
        scenario.run(async |client| client.give_up(1));
        let newer = insert(&scenario, 1, 4_000);
        let scenario = scenario.crash(false, seed).unwrap();
        let seen = scenario.look(1).unwrap();
        assert!(seen == LookupResult::Nothing || seen == LookupResult::Whole(newer));
    }
}

/// The newer version is in memory only, and was stored before recovery found the older one.
pub fn stored_late_while_recovery_runs(variant: Variant) {
    let scenario = recovering(variant, |scenario| scenario.set_write_policy(WritePolicy::OnEvict));
    (0..60).step_by(7).for_each(|number| _ = insert(&scenario, number, 500));
    let scenario = scenario.crash(false, 2).unwrap();
    scenario.settle_durably();
    scenario.check(false).unwrap();
}

pub fn superseded_while_recovery_runs(variant: Variant) {
    let scenario = recovering(variant, |_| ());
    let store = |number| scenario.run(async |client| client.insert(number, 500).await);
    let newer: Vec<State> = (0..60).step_by(7).filter_map(|number| store(number).ok()).collect();
    let in_slots = variant.layout != LayoutName::Cluster;
    assert_eq!(newer.is_empty(), in_slots, "in slots nothing has a place yet");
    for state in &newer {
        assert_eq!(scenario.look(state.key).unwrap(), LookupResult::Whole(*state));
    }
    scenario.settle_durably();
    scenario.check(false).unwrap();
    let scenario = scenario.crash(true, 2).unwrap();
    scenario.check(false).unwrap();
}

pub fn removed(variant: Variant) {
    gone_after_every_end(|| {
        let scenario = scenario(variant);
        insert(&scenario, 1, 3_000);
        let scenario = scenario.stop().unwrap();
        assert!(scenario.run(async |client| client.remove(1).await));
        scenario
    });
}

pub fn purged(variant: Variant) {
    gone_after_every_end(|| {
        let scenario = scenario(variant);
        insert(&scenario, 1, 200_000);
        let scenario = scenario.stop().unwrap();
        assert_eq!(scenario.run(async |client| client.purge(1).await), Ok(true));
        scenario
    });
}

/// Power is lost when the purge is acknowledged.
pub fn purged_and_power_lost(variant: Variant) {
    for seed in 0..10 {
        let scenario = scenario(variant);
        insert(&scenario, 1, 3_000);
        let scenario = scenario.stop().unwrap();
        assert_eq!(scenario.run(async |client| client.purge(1).await), Ok(true));
        let scenario = scenario.crash(true, seed).unwrap();
        assert_eq!(scenario.look(1).unwrap(), LookupResult::Nothing);
    }
}

pub fn purged_while_recovery_runs(variant: Variant) {
    let mut scenario = recovering(variant, |_| ());
    for number in 0..10 {
        scenario.run(async |client| client.purge(number).await).unwrap();
    }
    scenario = scenario.crash(true, 2).unwrap();
    scenario.settle();
    for number in 0..10 {
        assert_eq!(scenario.look(number).unwrap(), LookupResult::Nothing);
    }
}

pub fn metadata_superseded(variant: Variant) {
    for power in [false, true] {
        let scenario = scenario(variant);
        insert(&scenario, 1, 3_000);
        let scenario = scenario.stop().unwrap();
        let newer = scenario.run(async |client| client.refresh(1).await).unwrap().unwrap();
        let scenario = scenario.stop().unwrap().crash(power, 1).unwrap();
        assert_eq!(scenario.look(1).unwrap(), LookupResult::Whole(newer));
    }
}

/// The record of the newer metadata is evicted; the object must not fall back to older ones.
pub fn metadata_superseded_then_evicted(variant: Variant) {
    let mut scenario = scenario(variant);
    (0..20).for_each(|number| _ = insert(&scenario, number, 1_000));
    // Written on eviction, an object in memory has its newer metadata in its own record.
    scenario.set_write_policy(WritePolicy::OnInsert);
    scenario = scenario.stop().unwrap();
    for number in 0..20 {
        scenario.run(async |client| client.refresh(number).await).unwrap();
    }
    scenario.set_write_policy((variant.options)().write_policy);
    scenario = scenario.stop().unwrap();
    let in_slots = variant.layout != LayoutName::Cluster;
    let mut gone = 0;
    for round in 0..400 {
        for filler in 0..30 {
            let number = 1_000 + (round * 30 + filler) as u32;
            _ = scenario.run(async |client| client.insert(number, 20_000).await);
        }
        // Half of the objects are requested again and again, so their cluster stays. Their metadata
        // are in memory with them, so the cluster of these is never read.
        for number in 0..10 {
            scenario.look(number).unwrap();
        }
        if round % 30 == 29 {
            scenario.settle_durably();
            gone += scenario.store.stats()[0].counters.evicted_by_metadata;
            scenario = scenario.crash(round % 60 == 29, round).unwrap();
            let found =
                (0..20).filter(|key| scenario.look(*key).unwrap() != LookupResult::Nothing).count();
            // After a kill and after a power loss. In slots metadata are evicted with their object.
            if round % 60 == 59 && (gone > 0 || in_slots && found < 20) {
                return;
            }
        }
    }
    panic!("no metadata were evicted");
}

pub fn an_overtaken_fill(variant: Variant) {
    for power in [false, true] {
        let scenario = scenario(variant);
        insert(&scenario, 1, 3_000);
        let scenario = scenario.stop().unwrap();
        scenario.run(async |client| {
            let token = client.store.begin_fetch(&store_oracle::key(1));
            client.purge(1).await.unwrap();
            let state = client.history.borrow_mut().next_state(1, 5_000);
            assert!(client.insert_with(&token, state).await.is_err());
        });
        scenario.settle_durably();
        let scenario = scenario.crash(power, 1).unwrap();
        assert_eq!(scenario.look(1).unwrap(), LookupResult::Nothing);
    }
}

pub fn an_aborted_fill(variant: Variant) {
    for power in [false, true] {
        let scenario = scenario(variant);
        let kept = insert(&scenario, 1, 3_000);
        let scenario = scenario.stop().unwrap();
        for _ in 0..10 {
            scenario.run(async |client| {
                let len = any_len(&mut client.random);
                client.abort(1, len).await;
            });
        }
        assert_eq!(scenario.look(1).unwrap(), LookupResult::Whole(kept));
        scenario.settle_durably();
        let scenario = scenario.stop().unwrap().crash(power, 1).unwrap();
        assert_eq!(scenario.look(1).unwrap(), LookupResult::Whole(kept));
    }
}

pub fn metadata_of_a_version_that_is_gone(variant: Variant) {
    let scenario = scenario(variant);
    for _ in 0..20 {
        insert(&scenario, 1, 3_000);
        scenario.run(async |client| client.refresh_superseded(1).await).unwrap();
        scenario.settle();
    }
    scenario.settle_durably();
    scenario.crash(true, 1).unwrap().check(false).unwrap();
}

/// A body replaces another, is removed and purged; the process ends at each operation of the device
/// in turn.
pub fn a_crash_between(variant: Variant) {
    for power in [false, true] {
        for operations in 0.. {
            let scenario = scenario(variant);
            insert(&scenario, 1, 3_000);
            insert(&scenario, 2, 90_000);
            insert(&scenario, 3, 4_000);
            let scenario = scenario.stop().unwrap();
            let ended = scenario.run_until(operations, async |client| {
                client.insert(1, 4_000).await.unwrap();
                client.remove(2).await;
                client.insert(2, 60_000).await.unwrap();
                client.refresh(3).await.unwrap();
                client.purge(1).await.unwrap();
                client.rest().await;
            });
            let over = ended.unwrap().is_some();
            let scenario = scenario.crash(power, operations).unwrap();
            scenario.check(false).unwrap();
            scenario.crash(false, operations).unwrap().check(false).unwrap();
            if over {
                assert!(operations > 3, "the history uses the device");
                break;
            }
        }
    }
}
