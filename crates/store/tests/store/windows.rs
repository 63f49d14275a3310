//! Reads that take along the surroundings of a record in slots: only live records enter memory with
//! them, although only the requested record is kept in place during the read.

use std::task::{Context, Waker};
use std::time::Duration;

use larder_store::{FetchToken, LayoutName, Lookup, Source};
use store_oracle::key;

use crate::rig::{LookupResult, Rig, TestEntry, formatted, product, use_layout};
use crate::seeds::seeds;

const MIB: u64 = 1 << 20;
const SLOTTED: [LayoutName; 3] = [LayoutName::Stream, LayoutName::Unified, LayoutName::Buddy];

/// Looks the object up and verifies it; returns the tier it came from, or `None` on a miss.
fn source(rig: &mut Rig, number: u32) -> Option<Source> {
    let entry = rig.entry(number)?;
    let source = entry.source();
    assert_eq!(rig.verify(number, &entry).state(), rig.current(number));
    Some(source)
}

#[test]
fn what_surrounds_a_record_in_slots_comes_along() {
    for layout in SLOTTED {
        use_layout(layout, 0);
        let mut rig = Rig::open(formatted(8 * MIB, 32 << 10), product());
        (0..64).for_each(|number| _ = rig.insert(number, 3_000).unwrap());
        let mut rig = rig.reopen();
        assert_eq!(source(&mut rig, 32), Some(Source::Disk));
        for neighbour in [31, 33] {
            assert_eq!(source(&mut rig, neighbour), Some(Source::Ram), "{layout:?}");
        }
        let stats = rig.store.stats()[0];
        assert_eq!((stats.reads.exact, stats.reads.windows, stats.reads.clusters), (0, 1, 0));
        assert!(stats.counters.prefetched >= 4 && stats.counters.prefetch_hits == 2);
        rig.check_all(true);
    }
}

#[test]
fn what_lies_in_several_runs_is_never_brought_along() {
    for seed in seeds("windows::what_lies_in_several_runs", 4) {
        let mut random = fastrand::Rng::with_seed(seed);
        use_layout(LayoutName::Stream, 0);
        let mut rig = Rig::open(formatted(8 * MIB, 32 << 10), product());
        for number in 0..3_000 {
            let number = if number < 700 { number } else { random.u32(..700) };
            _ = rig.insert(number, random.u64(1..20_000));
        }
        let mut rig = rig.reopen();
        let keys: Vec<_> = (0..700).map(key).collect();
        let store = rig.store.clone();
        let placed = rig.run(store.placements(&keys)).remove(0).records;
        let named = |split: bool| {
            let of = placed.iter().filter(move |record| (record.runs.len() > 1) == split);
            of.filter_map(|record| record.key).map(|key| key as u32).collect::<Vec<u32>>()
        };
        let (whole, mut split) = (named(false), named(true));
        random.shuffle(&mut split);
        assert!(split.len() > 20, "space was broken up: {} lie in several runs", split.len());
        let mut windows = 0;
        for some in split.chunks(4).take(40) {
            // Windows are largest before any measurement.
            rig = rig.reopen();
            for number in some {
                (0..4).for_each(|_| _ = source(&mut rig, whole[random.usize(..whole.len())]));
                assert_eq!(source(&mut rig, *number), Some(Source::Disk), "{number}");
            }
            let stats = rig.store.stats()[0];
            windows += stats.reads.windows;
            assert_eq!(stats.counters.damaged_records, 0);
        }
        assert!(windows > 10, "{windows} windows");
    }
}

/// Supersedes, refreshes, removes or evicts some of the objects; slots of evicted ones are reused
/// at once.
fn disturb(
    rig: &mut Rig,
    random: &mut fastrand::Rng,
    near: u32,
    mut entries: Vec<(FetchToken, TestEntry)>,
) {
    for _ in 0..random.u32(1..12) {
        let number = (near + random.u32(..24)).saturating_sub(12) % OBJECTS;
        match random.u8(..8) {
            0 => {
                if let Some((token, entry)) = entries.pop() {
                    _ = rig.refresh_entry(&token, &entry);
                }
            }
            1 => _ = rig.remove(number),
            2 => _ = rig.insert(number, random.u64(1..6_000)),
            3 => rig.pass(Duration::from_millis(random.u64(..1_200))),
            // A purge frees its slots at once; the next object gets them.
            4 => _ = rig.purge(number),
            _ => {
                let as_long = rig.current(number).map_or(3_000, |state| state.len);
                _ = rig.purge(number);
                let other = random.u32(..OBJECTS);
                _ = rig.insert(other, as_long);
            }
        }
    }
}

const OBJECTS: u32 = 1_500;

/// Returns entries of some neighbours of an object, which have left memory since; sometimes none.
fn entries_near(
    rig: &mut Rig,
    random: &mut fastrand::Rng,
    near: u32,
) -> Vec<(FetchToken, TestEntry)> {
    if random.u8(..4) > 0 {
        return Vec::new();
    }
    let numbers = [near + 1, near + 2].into_iter().filter(|number| *number < OBJECTS);
    let entries = numbers.filter_map(|number| {
        let token = rig.store.begin_fetch(&key(number));
        Some((token, rig.entry(number)?))
    });
    let entries = entries.collect();
    let far = (0..OBJECTS).filter(|number| number.abs_diff(near) > 100);
    far.for_each(|number| _ = rig.look(number));
    entries
}

/// Reads a window while the surroundings of the record change, before or after the device is read.
fn a_window_while_its_surroundings_change(layout: LayoutName) {
    use_layout(layout, 0);
    let mut brought = 0;
    for seed in seeds("windows::a_window_while_its_surroundings_change", 2) {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut rig = Rig::open(formatted(8 * MIB, 32 << 10), product());
        (0..OBJECTS).for_each(|number| _ = rig.insert(number, random.u64(1..6_000)));
        for round in 0..40 {
            rig = rig.reopen();
            let number = random.u32(..OBJECTS);
            let entries = entries_near(&mut rig, &mut random, number);
            match round % 2 {
                0 => rig.probe.watch.stall_read(),
                _ => rig.probe.watch.stall_read_with_its_bytes(),
            }
            let (store, wanted) = (rig.store.clone(), key(number));
            let mut lookup = Box::pin(store.lookup(&wanted));
            if lookup.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready() {
                rig.probe.watch.resume_read();
                continue;
            }
            let asked = rig.current(number);
            disturb(&mut rig, &mut random, number, entries);
            rig.probe.watch.resume_read();
            if let Lookup::Hit(entry) = rig.run(lookup) {
                let seen = rig.verify(number, &entry).state();
                assert!(seen == asked || seen == rig.current(number), "{seen:?}");
            }
            let near = number.saturating_sub(40)..(number + 40).min(OBJECTS);
            for other in near {
                let seen = rig.look(other);
                let current = rig.current(other);
                assert!(
                    seen == LookupResult::Nothing || seen.state() == current,
                    "{seen:?}, {current:?}"
                );
            }
            let counters = rig.store.stats()[0].counters;
            assert_eq!(counters.damaged_records, 0);
            brought += counters.prefetched;
        }
        rig.check_all(false);
    }
    assert!(brought > 100, "{brought} objects came along");
}

#[test]
fn a_window_while_its_surroundings_change_in_stream() {
    a_window_while_its_surroundings_change(LayoutName::Stream);
}

#[test]
fn a_window_while_its_surroundings_change_in_unified() {
    a_window_while_its_surroundings_change(LayoutName::Unified);
}

#[test]
fn a_window_while_its_surroundings_change_in_buddy() {
    a_window_while_its_surroundings_change(LayoutName::Buddy);
}

/// A lookup waits for a read under way that covers its record, unless that cannot succeed.
#[test]
fn a_lookup_joins_the_window_over_its_record() {
    for layout in SLOTTED {
        use_layout(layout, 0);
        let mut rig = Rig::open(formatted(8 * MIB, 32 << 10), product());
        (0..64).for_each(|number| _ = rig.insert(number, 3_000).unwrap());
        let mut rig = rig.reopen();
        let store = rig.store.clone();
        let (first, second) = (key(32), key(33));
        let (one, two) = rig.run(async {
            let mut one = Box::pin(store.lookup(&first));
            let mut context = Context::from_waker(Waker::noop());
            assert!(one.as_mut().poll(&mut context).is_pending());
            let mut two = Box::pin(store.lookup(&second));
            assert!(two.as_mut().poll(&mut context).is_pending());
            (one.await, two.await)
        });
        assert!(matches!((one, two), (Lookup::Hit(_), Lookup::Hit(_))));
        let reads = rig.store.stats()[0].reads;
        assert_eq!((reads.windows, reads.exact, reads.joined), (1, 0, 1), "{layout:?}");
    }
}
