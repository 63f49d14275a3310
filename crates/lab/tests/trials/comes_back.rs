//! Each way in which something dead could come back, by name. The scene itself refuses every state
//! that the history does not permit; what is asserted here is that the case came to pass.

use std::time::Duration;

use lab::fault_tests::{Arm, Scene, Seen, State};
use store::{LayoutName, WritePolicy};

const MIB: u64 = 1 << 20;

fn scene(arm: Arm) -> Scene {
    Scene::new(arm, 8 * MIB).unwrap()
}

fn insert(scene: &Scene, number: u32, len: u64) -> State {
    scene.run(async |client| client.insert(number, len).await).unwrap()
}

/// A cache after a kill, with 60 objects under the keys from 0 on, of which recovery has not met
/// all.
fn recovering(arm: Arm, prepare: impl FnOnce(&mut Scene)) -> Scene {
    let mut scene = Scene::new(arm, 24 * MIB).unwrap();
    // More than recovery reads before it looks at the time.
    (200..400).for_each(|number| _ = insert(&scene, number, 25_000));
    (0..60).for_each(|number| _ = insert(&scene, number, 9_000));
    scene = scene.stop().unwrap();
    insert(&scene, 100, 1_000);
    scene.settle_durably();
    scene.set_recovery_wait(Duration::ZERO);
    prepare(&mut scene);
    let scene = scene.crash(false, 1).unwrap();
    assert!(!scene.store.share().recovered(), "there is more to read");
    scene
}

/// A kill and a power loss, each after everything was durable; nothing may be found under key 1.
fn gone_after_every_end(make: impl Fn() -> Scene) {
    for end in 0..3 {
        let scene = make();
        scene.settle_durably();
        let scene = match end {
            0 => scene.crash(false, 7),
            1 => scene.crash(true, 7),
            _ => scene.stop(),
        };
        let scene = scene.unwrap();
        assert_eq!(scene.look(1).unwrap(), Seen::Nothing);
        let scene = scene.crash(false, 8).unwrap();
        assert_eq!(scene.look(1).unwrap(), Seen::Nothing);
    }
}

pub fn superseded_then_evicted(arm: Arm) {
    for power in [false, true] {
        let scene = scene(arm);
        insert(&scene, 1, 3_000);
        let scene = scene.stop().unwrap();
        insert(&scene, 1, 4_000);
        let mut scene = scene.stop().unwrap();
        scene.crowd_out(1).unwrap();
        scene.settle_durably();
        let scene = scene.crash(power, 3).unwrap();
        assert_eq!(scene.look(1).unwrap(), Seen::Nothing);
        scene.check(false).unwrap();
    }
}

/// The older version went for room, and nobody has said so on the device; the process dies the
/// moment that the newer one is answered.
pub fn given_up_then_stored_again(arm: Arm) {
    for seed in 0..4 {
        let scene = scene(arm);
        insert(&scene, 1, 3_000);
        let scene = scene.stop().unwrap();
        scene.run(async |client| client.give_up(1));
        let newer = insert(&scene, 1, 4_000);
        let scene = scene.crash(false, seed).unwrap();
        let seen = scene.look(1).unwrap();
        assert!(seen == Seen::Nothing || seen == Seen::Whole(newer));
    }
}

/// The newer version is in memory only, and recovery had not met the older one when it came.
pub fn stored_late_while_recovery_runs(arm: Arm) {
    let scene = recovering(arm, |scene| scene.set_write_policy(WritePolicy::OnEvict));
    (0..60).step_by(7).for_each(|number| _ = insert(&scene, number, 500));
    let scene = scene.crash(false, 2).unwrap();
    scene.settle_durably();
    scene.check(false).unwrap();
}

pub fn superseded_while_recovery_runs(arm: Arm) {
    let scene = recovering(arm, |_| ());
    let store = |number| scene.run(async |client| client.insert(number, 500).await);
    let newer: Vec<State> = (0..60).step_by(7).filter_map(|number| store(number).ok()).collect();
    let in_slots = arm.layout != LayoutName::Cluster;
    assert_eq!(newer.is_empty(), in_slots, "in slots nothing has a place yet");
    for state in &newer {
        assert_eq!(scene.look(state.key).unwrap(), Seen::Whole(*state));
    }
    scene.settle_durably();
    scene.check(false).unwrap();
    let scene = scene.crash(true, 2).unwrap();
    scene.check(false).unwrap();
}

pub fn removed(arm: Arm) {
    gone_after_every_end(|| {
        let scene = scene(arm);
        insert(&scene, 1, 3_000);
        let scene = scene.stop().unwrap();
        assert!(scene.run(async |client| client.remove(1).await));
        scene
    });
}

pub fn purged(arm: Arm) {
    gone_after_every_end(|| {
        let scene = scene(arm);
        insert(&scene, 1, 200_000);
        let scene = scene.stop().unwrap();
        assert_eq!(scene.run(async |client| client.purge(1).await), Ok(true));
        scene
    });
}

/// Power goes the moment that the purge is answered.
pub fn purged_and_power_lost(arm: Arm) {
    for seed in 0..10 {
        let scene = scene(arm);
        insert(&scene, 1, 3_000);
        let scene = scene.stop().unwrap();
        assert_eq!(scene.run(async |client| client.purge(1).await), Ok(true));
        let scene = scene.crash(true, seed).unwrap();
        assert_eq!(scene.look(1).unwrap(), Seen::Nothing);
    }
}

pub fn purged_while_recovery_runs(arm: Arm) {
    let mut scene = recovering(arm, |_| ());
    for number in 0..10 {
        scene.run(async |client| client.purge(number).await).unwrap();
    }
    scene = scene.crash(true, 2).unwrap();
    scene.settle();
    for number in 0..10 {
        assert_eq!(scene.look(number).unwrap(), Seen::Nothing);
    }
}

pub fn metadata_superseded(arm: Arm) {
    for power in [false, true] {
        let scene = scene(arm);
        insert(&scene, 1, 3_000);
        let scene = scene.stop().unwrap();
        let newer = scene.run(async |client| client.refresh(1).await).unwrap().unwrap();
        let scene = scene.stop().unwrap().crash(power, 1).unwrap();
        assert_eq!(scene.look(1).unwrap(), Seen::Whole(newer));
    }
}

/// The record of the newer metadata goes, for room; the object may not fall back to older ones.
pub fn metadata_superseded_then_evicted(arm: Arm) {
    let mut scene = scene(arm);
    (0..20).for_each(|number| _ = insert(&scene, number, 1_000));
    // Written on eviction, an object in memory takes its newer metadata along in its own record.
    scene.set_write_policy(WritePolicy::OnInsert);
    scene = scene.stop().unwrap();
    for number in 0..20 {
        scene.run(async |client| client.refresh(number).await).unwrap();
    }
    scene.set_write_policy((arm.options)().write_policy);
    scene = scene.stop().unwrap();
    let in_slots = arm.layout != LayoutName::Cluster;
    let mut gone = 0;
    for round in 0..400 {
        for filler in 0..30 {
            let number = 1_000 + (round * 30 + filler) as u32;
            _ = scene.run(async |client| client.insert(number, 20_000).await);
        }
        // Half of the objects are asked for again and again: their cluster stays. Their metadata
        // are in memory with them, and the cluster that holds those is asked for nothing.
        for number in 0..10 {
            scene.look(number).unwrap();
        }
        if round % 30 == 29 {
            scene.settle_durably();
            gone += scene.store.stats()[0].counters.evicted_by_metadata;
            scene = scene.crash(round % 60 == 29, round).unwrap();
            let found = (0..20).filter(|key| scene.look(*key).unwrap() != Seen::Nothing).count();
            // After a kill as after a power loss. In slots metadata go with their object.
            if round % 60 == 59 && (gone > 0 || in_slots && found < 20) {
                return;
            }
        }
    }
    panic!("no metadata were evicted");
}

pub fn an_overtaken_fill(arm: Arm) {
    for power in [false, true] {
        let scene = scene(arm);
        insert(&scene, 1, 3_000);
        let scene = scene.stop().unwrap();
        scene.run(async |client| {
            let token = client.store.begin_fetch(&lab::fault_tests::key(1));
            client.purge(1).await.unwrap();
            let state = client.history.borrow_mut().next_state(1, 5_000);
            assert!(client.insert_with(&token, state).await.is_err());
        });
        scene.settle_durably();
        let scene = scene.crash(power, 1).unwrap();
        assert_eq!(scene.look(1).unwrap(), Seen::Nothing);
    }
}

pub fn an_aborted_fill(arm: Arm) {
    for power in [false, true] {
        let scene = scene(arm);
        let kept = insert(&scene, 1, 3_000);
        let scene = scene.stop().unwrap();
        for _ in 0..10 {
            scene.run(async |client| client.abort(1).await);
        }
        assert_eq!(scene.look(1).unwrap(), Seen::Whole(kept));
        scene.settle_durably();
        let scene = scene.stop().unwrap().crash(power, 1).unwrap();
        assert_eq!(scene.look(1).unwrap(), Seen::Whole(kept));
    }
}

pub fn metadata_of_a_version_that_is_gone(arm: Arm) {
    let scene = scene(arm);
    for _ in 0..20 {
        insert(&scene, 1, 3_000);
        scene.run(async |client| client.refresh_superseded(1).await).unwrap();
        scene.settle();
    }
    scene.settle_durably();
    scene.crash(true, 1).unwrap().check(false).unwrap();
}

/// A body takes the place of another, is removed and purged; the end comes at each operation of
/// the device in turn.
pub fn a_crash_between(arm: Arm) {
    for power in [false, true] {
        for operations in 0.. {
            let scene = scene(arm);
            insert(&scene, 1, 3_000);
            insert(&scene, 2, 90_000);
            insert(&scene, 3, 4_000);
            let scene = scene.stop().unwrap();
            let ended = scene.run_until(operations, async |client| {
                client.insert(1, 4_000).await.unwrap();
                client.remove(2).await;
                client.insert(2, 60_000).await.unwrap();
                client.refresh(3).await.unwrap();
                client.purge(1).await.unwrap();
                client.rest().await;
            });
            let over = ended.unwrap().is_some();
            let scene = scene.crash(power, operations).unwrap();
            scene.check(false).unwrap();
            scene.crash(false, operations).unwrap().check(false).unwrap();
            if over {
                assert!(operations > 3, "the history uses the device");
                break;
            }
        }
    }
}
