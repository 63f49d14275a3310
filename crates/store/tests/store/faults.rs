//! A device that fails: what was asked for is found as it was stored or not at all, during the
//! trouble and after it; the proxy above goes on.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use device::{Extent, Fault, Operation};
use store::{Event, Options, ReadUnit};

use crate::content::{State, any_len};
use crate::crash::history_of;
use crate::damage::area;
use crate::history::Crash;
use crate::rig::{Rig, formatted, product};
use crate::seeds::seeds;

const MIB: u64 = 1 << 20;

/// As [`crate::crash::small_history`], on a store that may refuse anything.
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
    let (seen, current) = (rig.look(number).state(), rig.history.current(number));
    assert!(seen.is_none() || seen == current, "{seen:?}, current {current:?}");
}

/// The `after`-th operation of a kind fails, and so do the `times - 1` that follow. True when it
/// came to that.
fn trouble(seed: u64, operation: Operation, after: u64, times: u64) -> bool {
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
    rig.probe.memory.inject(Fault { operation, after, times, error });
    (0..8).for_each(|number| check(&mut rig, number));
    troubled_history(&mut rig, &mut random, 40);
    let failed = rig.probe.memory.counts().errors > errors;
    rig.probe.memory.heal();
    troubled_history(&mut rig, &mut random, 10);
    // As after a kill, and the device is well again.
    let (at, history) = (rig.probe.watch.stamp(), history_of(&rig));
    let crash = if times == 1 { Crash::Kill } else { Crash::Failure };
    let mut rig = Rig::open(rig.probe.memory.crash_process(), product());
    for number in history.keys() {
        let permitted = history.permitted(number, crash, at);
        let seen = rig.look(number).state();
        assert!(seen.is_none_or(|seen| permitted.contains(&seen)), "{seen:?}, {permitted:?}");
    }
    rig.history.version = history.version;
    assert!(rig.insert(9_999, 5_000).is_ok(), "the store has recovered with its device");
    failed
}

fn rising(name: &'static str, operation: Operation, times: u64) {
    for seed in seeds(name, 1) {
        let reached = (0..).take_while(|after| trouble(seed, operation, *after, times)).count();
        // Of flushes a history as short as this has but two now and then.
        assert!(reached >= 2, "only {reached} operations failed");
    }
}

#[test]
pub fn each_write_fails_once() {
    rising("faults::each_write_fails_once", Operation::Write, 1);
}

#[test]
pub fn each_read_fails_once() {
    rising("faults::each_read_fails_once", Operation::Read, 1);
}

#[test]
pub fn each_flush_fails_once() {
    rising("faults::each_flush_fails_once", Operation::Flush, 1);
}

#[test]
pub fn writes_fail_from_some_point_on() {
    rising("faults::writes_fail_from_some_point_on", Operation::Write, u64::MAX);
}

#[test]
pub fn reads_fail_from_some_point_on() {
    rising("faults::reads_fail_from_some_point_on", Operation::Read, u64::MAX);
}

#[test]
pub fn flushes_fail_from_some_point_on() {
    rising("faults::flushes_fail_from_some_point_on", Operation::Flush, u64::MAX);
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
    let (_, history) = rig.stop();
    assert_eq!(history.current(2), None);
}

/// Of a cluster that cannot be read, and of which no index tells what it held, new metadata are
/// lost, and an object has those before from then on (docs/guide/limits.md). Takes over
/// what is found of that kind after the start that read the clusters; anything else that is not
/// current stays what it is: wrong.
fn fall_back(rig: &mut Rig, number: u32) {
    let (seen, current) = (rig.look(number).state(), rig.history.current(number));
    let (Some(seen), Some(current)) = (seen, current) else { return };
    if seen.meta < current.meta && seen == (State { meta: seen.meta, ..current }) {
        let now = rig.probe.watch.stamp();
        let begun = rig.history.refresh(seen, now);
        rig.history.returned(begun, now);
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
