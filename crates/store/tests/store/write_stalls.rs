//! A device whose writes hang: no caller waits longer than the write bound, memory stays bounded,
//! and every acknowledged operation holds when the device writes again.

use std::time::Duration;

use device::Clock;
use larder_store::{Mode, Options, Refusal, Target};
use store_oracle::key;

use crate::rig::{LookupResult, Rig, formatted, product};

const MIB: u64 = 1 << 20;

/// Returns a store with sixteen objects on the device and in memory.
fn filled() -> Rig {
    let mut rig = Rig::open(formatted(64 * MIB, 64 << 10), product());
    for number in 0..16 {
        rig.insert(number, 3_000).unwrap();
    }
    rig.settle_durably();
    rig
}

/// Returns the result of `what`, and how long it took.
fn timed<T>(rig: &mut Rig, what: impl FnOnce(&mut Rig) -> T) -> (T, Duration) {
    let before = rig.clock.now();
    let result = what(rig);
    (result, Duration::from_nanos(rig.clock.now() - before))
}

fn purge_all(rig: &mut Rig) -> Result<(), Refusal> {
    let store = rig.store.clone();
    rig.run(store.purge_all(&[Target::Prefix(b"none")], Mode::Hard))
}

/// Holds writes until the breaker is open.
fn stall(rig: &mut Rig) {
    rig.probe.memory.hold();
    let (result, took) = timed(rig, |rig| rig.insert(0, 3_000));
    assert!(result.is_ok(), "it is in memory, in place of the old one");
    assert_eq!(took, Options::default().write_bound);
    rig.pass(Duration::from_millis(1));
    assert!(rig.store.stats()[0].writes_stall && rig.store.share().stalled() == 1);
}

#[test]
fn no_caller_waits_for_a_device_whose_writes_hang() {
    let mut rig = filled();
    stall(&mut rig);
    let ((), took) = timed(&mut rig, |rig| {
        assert_eq!(rig.purge(1), Err(Refusal::Busy));
        assert_eq!(rig.invalidate(2), Err(Refusal::Busy));
        assert!(rig.remove(3));
        assert_eq!(purge_all(rig), Err(Refusal::Busy));
        assert!(rig.refresh(4).is_ok());
        assert!(rig.insert(5, 3_000).is_ok() && rig.insert(100, 3_000).is_ok());
        for gone in 1..4 {
            assert_eq!(rig.look(gone), LookupResult::Nothing);
        }
        assert!(matches!(rig.look(0), LookupResult::Whole(_)));
    });
    assert_eq!(took, Duration::ZERO);
    assert_eq!(rig.store.stats()[0].counters.not_durable, 3);
}

#[test]
fn memory_stays_bounded_while_writes_hang() {
    let mut rig = filled();
    stall(&mut rig);
    let results: Vec<_> = (0..2_000).map(|number| rig.insert(number, 3_000)).collect();
    assert!(results[..8].iter().all(Result::is_ok), "there is room for some");
    assert!(results[1_000..].iter().all(|result| *result == Err(Refusal::Busy)));
    let large = timed(&mut rig, |rig| rig.insert(5_000, 2 * MIB));
    assert_eq!(large, (Err(Refusal::Busy), Duration::ZERO));
    let stats = &rig.store.stats()[0];
    let waiting = stats.unwritten_bytes + stats.dirty_bytes;
    assert!(waiting < product().memory as usize / 4, "{waiting} bytes wait");
}

#[test]
fn what_happened_while_writes_hung_is_kept_when_they_go_on() {
    let mut rig = filled();
    stall(&mut rig);
    assert_eq!(rig.purge(1), Err(Refusal::Busy));
    assert_eq!(rig.invalidate(2), Err(Refusal::Busy));
    assert!(rig.remove(3));
    rig.insert(5, 3_000).unwrap();
    rig.probe.memory.release_all();
    rig.settle_durably();
    assert!(!rig.store.stats()[0].writes_stall && rig.store.share().stalled() == 0);
    assert_eq!(rig.invalidate(6), Ok(()));
    rig.insert(7, 3_000).unwrap();
    rig.settle_durably();
    rig.check_all(true);
    let (history, options) = (rig.history.borrow().clone(), product());
    for memory in [rig.probe.memory.crash_process(), rig.probe.memory.crash_power(7)] {
        let mut later = Rig::open(memory, options.clone());
        later.history.replace(history.clone());
        later.check_all(true);
    }
}

#[test]
fn a_device_that_is_slow_for_each_write_is_left_alone_until_nothing_waits() {
    let mut rig = filled();
    stall(&mut rig);
    // The hanging write ends late, and the next one hangs as well: no caller waits for that.
    let held = rig.probe.memory.held();
    rig.probe.memory.release(held[0].id);
    rig.pass(Duration::from_millis(1));
    assert!(!rig.probe.memory.held().is_empty() && rig.store.stats()[0].writes_stall);
    let (result, took) = timed(&mut rig, |rig| rig.purge(1));
    assert_eq!((result, took), (Err(Refusal::Busy), Duration::ZERO));
    rig.probe.memory.release_all();
    rig.pass(Duration::from_millis(1));
    assert!(!rig.store.stats()[0].writes_stall);
    assert_eq!(rig.store.stats()[0].counters.write_stalls, 1);
}

#[test]
fn a_store_ends_within_a_bound_while_writes_hang() {
    let mut rig = filled();
    stall(&mut rig);
    let (saved, took) = timed(&mut rig, |rig| {
        let store = rig.store.clone();
        rig.run(store.shutdown())
    });
    assert!(!saved && took <= 2 * Options::default().stall_bound, "{took:?}");
    // They begin to hang only once everything but the dump is written.
    let mut rig = filled();
    let store = rig.store.clone();
    let memory = rig.probe.memory.clone();
    let before = memory.counts();
    let mut begun = None;
    let (saved, took) = timed(&mut rig, |rig| {
        rig.run(async {
            let mut ending = std::pin::pin!(store.shutdown());
            std::future::poll_fn(|context| {
                if begun.is_none() && memory.counts().writes > before.writes {
                    memory.hold();
                    begun = Some(());
                }
                ending.as_mut().poll(context)
            })
            .await
        })
    });
    assert!(saved || took <= 3 * Options::default().stall_bound, "{took:?}");
}

#[test]
fn only_what_was_stored_costs_an_invalidation_a_flush_and_many_share_one() {
    let mut rig = filled();
    let flushes = |rig: &Rig| rig.probe.memory.counts().flushes;
    let before = flushes(&rig);
    for number in 100..200 {
        assert_eq!(rig.invalidate(number), Ok(()));
    }
    assert_eq!(flushes(&rig), before, "nothing was stored");
    assert_eq!(rig.invalidate(1), Ok(()));
    assert_eq!(flushes(&rig), before + 1);
    assert_eq!(rig.invalidate(1), Ok(()));
    assert_eq!(flushes(&rig), before + 1, "its removal is durable already");
    let store = rig.store.clone();
    let keys: Vec<_> = (2..12).map(key).collect();
    rig.run(async {
        let mut all: Vec<_> = keys
            .iter()
            .map(|key| Box::pin(store.invalidate(std::slice::from_ref(key), None)))
            .collect();
        std::future::poll_fn(|context| {
            all.retain_mut(|one| one.as_mut().poll(context).is_pending());
            if all.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
        })
        .await;
    });
    assert!(flushes(&rig) <= before + 3, "{} flushes", flushes(&rig) - before);
    assert!((1..12).all(|number| rig.entry(number).is_none()));
}

#[test]
fn a_write_that_succeeds_does_not_have_lookups_wait_for_reads_that_hang() {
    let mut rig = filled().reopen();
    rig.probe.watch.stall_read();
    let (seen, took) = timed(&mut rig, |rig| rig.look(1));
    assert_eq!((seen, took), (LookupResult::Nothing, Options::default().stall_bound));
    rig.remove(2);
    assert_eq!(timed(&mut rig, |rig| rig.look(3)), (LookupResult::Nothing, Duration::ZERO));
    assert_eq!(rig.store.share().stalled(), 1);
    rig.probe.watch.resume_read();
    rig.pass(Duration::from_secs(1));
    assert!(matches!(rig.look(3), LookupResult::Whole(_)));
    assert_eq!(rig.store.share().stalled(), 0);
}
