//! A device that fails for good or returns wrong bytes: an object is found as it was stored or not
//! at all, during the failure and after it. Single failures: `store-oracle/tests/trials/rising.rs`.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use device::{Extent, Fault, Operation};
use larder_store::{Event, Options, ReadUnit};
use store_oracle::{State, any_len};

use crate::damage::area;
use crate::rig::{FAILURE, Rig, formatted, product};
use crate::seeds::seeds;

const MIB: u64 = 1 << 20;

/// Runs operations like [`crate::crash::small_history`] on a store that may refuse any of them.
fn troubled_history(rig: &mut Rig, random: &mut fastrand::Rng, steps: u32) {
    for _ in 0..steps {
        let number = random.u32(..8);
        match random.u8(..12) {
            0..5 => _ = rig.insert(number, any_len(random)),
            5 => _ = rig.refresh(number),
            6 => _ = rig.remove(number),
            7 => _ = rig.purge(number),
            8 => rig.settle_durably(),
            9 => rig.pass(Duration::from_millis(random.u64(..1_500))),
            _ => check(rig, number),
        }
    }
    (0..8).for_each(|number| check(rig, number));
}

fn check(rig: &mut Rig, number: u32) {
    let (seen, current) = (rig.look(number).state(), rig.current(number));
    assert!(seen.is_none() || seen == current, "{seen:?}, current {current:?}");
}

/// Makes all operations of a kind fail after the first `after`, until the end of a history. Returns
/// whether any failed.
fn trouble(seed: u64, operation: Operation, after: u64) -> bool {
    let mut random = fastrand::Rng::with_seed(seed);
    // One read for each object, so that there are several to fail.
    let options = Options { read_unit: ReadUnit::Object, ..product() };
    let mut rig = Rig::open(formatted(24 * MIB, 32 << 10), options);
    // Some objects are on the device alone.
    for number in 0..8 {
        rig.insert(number, any_len(&mut random)).unwrap();
    }
    rig = rig.reopen();
    let errors = rig.probe.memory.counts().errors;
    let error = io::ErrorKind::Other;
    rig.probe.memory.inject(Fault { operation, after, times: u64::MAX, error });
    (0..8).for_each(|number| check(&mut rig, number));
    troubled_history(&mut rig, &mut random, 40);
    let failed = rig.probe.memory.counts().errors > errors;
    rig.probe.memory.heal();
    troubled_history(&mut rig, &mut random, 10);
    // A kill; the device works again.
    let history = rig.history.borrow().clone();
    let memory = rig.probe.memory.crash_process();
    let mut rig = Rig::after_crash(memory, product(), &history, FAILURE);
    for number in history.keys() {
        let permitted = history.permitted(number, FAILURE);
        let seen = rig.look(number).state();
        assert!(seen.is_none_or(|seen| permitted.contains(&seen)), "{seen:?}, {permitted:?}");
    }
    assert!(rig.insert(9_999, 5_000).is_ok(), "the store has recovered with its device");
    failed
}

fn rising(name: &'static str, operation: Operation) {
    for seed in seeds(name, 1) {
        let reached = (0..).take_while(|after| trouble(seed, operation, *after)).count();
        // So short a history sometimes has only two flushes.
        assert!(reached >= 2, "only {reached} operations failed");
    }
}

#[test]
pub fn writes_fail_from_some_point_on() {
    rising("faults::writes_fail_from_some_point_on", Operation::Write);
}

#[test]
pub fn reads_fail_from_some_point_on() {
    rising("faults::reads_fail_from_some_point_on", Operation::Read);
}

#[test]
pub fn flushes_fail_from_some_point_on() {
    rising("faults::flushes_fail_from_some_point_on", Operation::Flush);
}

#[test]
pub fn a_dead_device_is_given_up_and_nothing_hangs() {
    let mut rig = Rig::open(formatted(24 * MIB, 32 << 10), product());
    rig.insert(1, 5_000).unwrap();
    for operation in [Operation::Read, Operation::Write, Operation::Flush] {
        let error = io::ErrorKind::Other;
        rig.probe.memory.inject(Fault { operation, after: 0, times: u64::MAX, error });
    }
    let mut random = fastrand::Rng::with_seed(1);
    troubled_history(&mut rig, &mut random, 200);
    assert!(rig.insert(2, 100).is_err(), "a dead device takes nothing");
    assert!(rig.entry(1).is_none());
    let probe = rig.stop();
    assert_eq!(probe.history.borrow().current(2), None);
}

/// Accepts older metadata than the current ones. If a cluster cannot be read and no index lists its
/// records, new metadata in it are lost, and the object has the older ones from then on
/// (docs/guide/limits.md). Call this after the start that read the clusters.
fn fall_back(rig: &mut Rig, number: u32) {
    let (seen, current) = (rig.look(number).state(), rig.current(number));
    let (Some(seen), Some(current)) = (seen, current) else { return };
    if seen.meta < current.meta && seen == (State { meta: seen.meta, ..current }) {
        let mut history = rig.history.borrow_mut();
        let begun = history.refresh(seen);
        history.returned(begun);
    }
}

#[test]
pub fn flipped_bytes_are_never_served() {
    for seed in seeds("faults::flipped_bytes_are_never_served", 20) {
        let mut random = fastrand::Rng::with_seed(seed);
        let read_clusters = Arc::new(AtomicBool::new(false));
        let noted = Arc::clone(&read_clusters);
        let on_event = move |event: Event| {
            noted.fetch_or(matches!(event, Event::Recovered { .. }), Ordering::Relaxed);
        };
        let options = Options { on_event: Arc::new(on_event), ..product() };
        let mut rig = Rig::open(formatted(24 * MIB, 32 << 10), options);
        for number in 0..8 {
            rig.insert(number, any_len(&mut random)).unwrap();
        }
        let clusters_at = area(&rig.probe.memory, "clusters").offset;
        let mut clusters_damaged = false;
        for _ in 0..6 {
            read_clusters.store(false, Ordering::Relaxed);
            rig = rig.reopen();
            if clusters_damaged && read_clusters.load(Ordering::Relaxed) {
                (0..8).for_each(|number| fall_back(&mut rig, number));
            }
            let offset = random.u64(MIB..4 * MIB);
            let extent = Extent { offset, len: random.u64(1..50_000) };
            clusters_damaged |= extent.end() > clusters_at;
            rig.probe.memory.damage_reads(extent, random.u8(1..));
            troubled_history(&mut rig, &mut random, 20);
        }
    }
}
