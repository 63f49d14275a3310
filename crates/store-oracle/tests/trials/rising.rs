//! Histories in which the N-th operation fails, for N from 0 until a run does not reach it.

use device::Operation;
use sim::{Fault, FaultPlan};
use store_oracle::{Client, LookupResult, Scenario, Variant};

const MIB: u64 = 1 << 20;

/// Runs every kind of operation.
async fn short_history(client: &mut Client) -> Result<(), String> {
    for number in 0..3 {
        _ = client.insert(number, 5_000).await;
    }
    client.look(0).await?;
    _ = client.refresh(1).await?;
    _ = client.insert(2, 90_000).await;
    _ = client.insert(0, 7_000).await;
    client.remove(1).await;
    _ = client.insert(3, 2_000).await;
    _ = client.purge(2).await;
    client.look(3).await?;
    client.look(5).await.map(|_| ())
}

/// Runs the history on a cache with objects, with `fault(0)`, then `fault(1)` and so on.
fn rising(variant: Variant, fault: impl Fn(u64) -> Fault) {
    let mut reached = 0;
    for after in 0.. {
        let scenario = Scenario::new(variant, 8 * MIB).unwrap();
        for number in 4..8 {
            scenario.run(async |client| client.insert(number, 9_000).await).unwrap();
        }
        let scenario = scenario.stop().unwrap();
        scenario.disk.disk.set_plan(FaultPlan::one(fault(after)));
        let errors = scenario.disk.disk.counts().errors;
        scenario.run(async |client| short_history(client).await).unwrap();
        for number in 0..8 {
            scenario.look(number).unwrap();
        }
        scenario.settle_durably();
        let failed = scenario.disk.disk.counts().errors > errors;
        scenario.disk.disk.set_plan(FaultPlan::none());
        let given_up = !scenario.store.stats()[0].online;
        scenario.check(false).unwrap();
        let scenario = match given_up {
            // Changes that could not be written may be undone: only bytes are checked.
            true => continue,
            false => scenario.crash(false, after).unwrap(),
        };
        let lost = |number| matches!(scenario.look(number), Ok(LookupResult::Nothing));
        if !failed {
            assert!((4..8).all(|number| !lost(number)), "nothing failed");
            break;
        }
        scenario.check(false).unwrap();
        scenario.run(async |client| client.insert(9, 4_000).await).unwrap();
        reached += 1;
    }
    assert!(reached > 0, "no operation of the kind failed in a way that the store survives");
}

fn error(operation: Operation) -> impl Fn(u64) -> Fault {
    move |after| Fault::Error { operation, after, times: 1 }
}

pub fn each_read_fails_once(variant: Variant) {
    rising(variant, error(Operation::Read));
}

pub fn each_write_fails_once(variant: Variant) {
    rising(variant, error(Operation::Write));
}

/// A flush that fails condemns the device: the cache starts empty.
pub fn each_flush_fails_once(variant: Variant) {
    for after in 0.. {
        let scenario = Scenario::new(variant, 8 * MIB).unwrap();
        let operation = Operation::Flush;
        scenario.disk.disk.set_plan(FaultPlan::one(Fault::Error { operation, after, times: 1 }));
        scenario.run(async |client| short_history(client).await).unwrap();
        scenario.settle_durably();
        if scenario.disk.disk.counts().errors == 0 {
            assert!(after > 0, "the history flushes");
            break;
        }
        let scenario = scenario.crash(false, after).unwrap();
        (0..8).for_each(|number| _ = scenario.look(number).unwrap());
    }
}

pub fn the_device_goes_at_each_operation(variant: Variant) {
    rising(variant, |after| Fault::Gone { after, times: 3 });
}

/// The process dies, or power is lost, at each operation in turn.
pub fn it_crashes_at_each_operation(variant: Variant) {
    for power in [false, true] {
        for operations in 0.. {
            let scenario = Scenario::new(variant, 8 * MIB).unwrap();
            for number in 4..8 {
                scenario.run(async |client| client.insert(number, 9_000).await).unwrap();
            }
            let scenario = scenario.stop().unwrap();
            let ended = scenario
                .run_until(operations, async |client| {
                    let result = short_history(client).await;
                    client.rest().await;
                    result
                })
                .unwrap();
            if let Some(result) = ended {
                result.unwrap();
                assert!(operations > 1, "the history uses the device");
                break;
            }
            let scenario = scenario.crash(power, operations).unwrap();
            // With writes on eviction, an object that was read may have left its cluster.
            let bounded = variant.name != "ucfs";
            scenario.check(bounded).unwrap();
        }
    }
}
