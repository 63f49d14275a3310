//! Staged objects in memory that outlives a killed process: in layout `cluster` a kill loses none.
//! The scenario itself rejects every state that the history does not permit.

use store::Mode;
use store_oracle::{LookupResult, Scenario, Sweep, variant};

fn scenario() -> Scenario {
    Scenario::new(variant("cluster").unwrap(), 24 << 20).unwrap()
}

#[test]
fn a_kill_loses_no_object_that_was_answered_as_stored() {
    let mut scenario = scenario();
    let mut stored = Vec::new();
    for kill in 0..4 {
        for number in 20 * kill..20 * (kill + 1) {
            stored.push(scenario.run(async |client| client.insert(number, 3_000).await).unwrap());
        }
        // Some batches and parts of clusters were placed but not written, others are staged.
        scenario.run(async |client| client.insert(500, 200_000 * u64::from(kill)).await).unwrap();
        scenario = scenario.crash(false, u64::from(kill)).unwrap();
        for state in &stored {
            assert_eq!(scenario.look(state.key).unwrap(), LookupResult::Whole(*state));
        }
    }
    assert!(scenario.store.stats()[0].kept_objects > 0, "nothing was left to write");
    scenario.settle();
    assert_eq!(scenario.store.stats()[0].kept_objects, 0, "everything was written");
    let scenario = scenario.crash(true, 1).unwrap();
    scenario.check(false).unwrap();
}

#[test]
fn recovery_goes_on_with_more_staged_objects_than_removals_that_a_checkpoint_holds() {
    let mut scenario = scenario();
    scenario.set_memory(16 << 20);
    scenario = scenario.stop().unwrap();
    for number in 0..40 {
        scenario.run(async |client| client.insert(number, 20_000).await).unwrap();
    }
    scenario.settle();
    let mut stored = Vec::new();
    for number in 1_000..3_500 {
        stored.push(scenario.run(async |client| client.insert(number, 20).await).unwrap());
    }
    assert!(scenario.store.stats()[0].kept_objects > 2_000, "too few are staged");
    scenario = scenario.crash(false, 1).unwrap();
    let found = |number| scenario.look(number).unwrap() != LookupResult::Nothing;
    assert!((0..40).all(found), "clusters were given up");
    let lost = stored.iter().filter(|state| !found(state.key)).count();
    assert_eq!(lost, 0, "of {}", stored.len());
}

#[test]
fn a_kill_brings_no_staged_object_back() {
    let scenario = scenario();
    for number in 0..8 {
        scenario.run(async |client| client.insert(number, 3_000).await).unwrap();
    }
    let newer = scenario.run(async |client| client.insert(0, 2_000).await).unwrap();
    let refreshed = scenario.run(async |client| client.refresh(1).await).unwrap().unwrap();
    scenario.run(async |client| {
        assert!(client.remove(2).await);
        assert!(client.purge(3).await.unwrap());
        client.invalidate(4).await.unwrap();
        client.sweep_by(Sweep::Meta(0), Mode::Soft).await.unwrap();
    });
    let scenario = scenario.crash(false, 1).unwrap();
    let seen = scenario.look(0).unwrap().state();
    assert!(seen.is_none_or(|seen| seen.version == newer.version), "an older version: {seen:?}");
    assert_eq!(scenario.look(2).unwrap(), LookupResult::Nothing);
    assert_eq!(scenario.look(3).unwrap(), LookupResult::Nothing);
    let seen = scenario.look(1).unwrap().state();
    assert!(seen.is_none_or(|seen| seen == refreshed), "older metadata came back: {seen:?}");
    scenario.check(false).unwrap();
    scenario.run(async |client| client.sweep_by(Sweep::Everything, Mode::Hard).await).unwrap();
    let scenario = scenario.crash(false, 2).unwrap();
    for number in 0..8 {
        assert_eq!(scenario.look(number).unwrap(), LookupResult::Nothing);
    }
}

#[test]
fn a_power_loss_costs_at_most_the_flush_interval() {
    let scenario = scenario();
    let state = scenario.run(async |client| client.insert(1, 3_000).await).unwrap();
    scenario.pass(store::Options::default().flush_interval);
    let scenario = scenario.crash(true, 1).unwrap();
    assert_eq!(scenario.look(1).unwrap(), LookupResult::Whole(state));
}
