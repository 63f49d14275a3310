//! Opening a cache that changed since its stop: damaged structures, a device that grew or shrank.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use device::{Device, Extent, Fault, MemoryDevice, Operation};
use larder_store::{Event, FormatOptions, Inspector, OpenError, Options, superblock_extents};
use store_oracle::State;

use crate::probe::Probe;
use crate::rig::{LookupResult, Rig, formatted, product};

const MIB: u64 = 1 << 20;

/// Returns the extent of a structure of the cache on `memory`.
fn area(rig: &mut Rig, memory: &MemoryDevice, name: &str) -> Extent {
    let report = rig.run(async { Inspector::open(memory).await.unwrap().superblock() });
    report.areas.iter().find(|(other, _)| *other == name).unwrap().1
}

/// Stores some objects, replaces and removes others, and stops in order.
fn stopped(memory: MemoryDevice, options: &Options) -> (MemoryDevice, Vec<State>) {
    let mut rig = Rig::open(memory, options.clone());
    for number in 0..40 {
        rig.insert(number, 3_000).unwrap();
    }
    for number in 0..10 {
        rig.insert(number, 4_000).unwrap();
    }
    (20..30).for_each(|number| _ = rig.remove(number));
    let states = (0..40).filter_map(|number| rig.current(number)).collect();
    (rig.stop().memory, states)
}

fn all_there(rig: &mut Rig, states: &[State]) {
    for number in 0..40 {
        let state = states.iter().find(|state| state.key == number);
        assert_eq!(
            rig.look(number),
            state.map_or(LookupResult::Nothing, |state| LookupResult::Whole(*state))
        );
    }
}

#[test]
fn an_index_without_its_cluster_table_is_not_believed() {
    let (memory, _) = stopped(formatted(24 * MIB, 32 << 10), &product());
    let mut rig = Rig::open(memory.crash_process(), product());
    for name in ["checkpoint A", "checkpoint B"] {
        let area = area(&mut rig, &memory, name);
        memory.poke(area.offset, &[0; 64]);
    }
    let mut rig = Rig::open(memory, product());
    assert_eq!(rig.store.stats()[0].index_entries, 0);
    assert!((0..40).all(|number| rig.entry(number).is_none()));
    rig.insert(1, 100).unwrap();
}

#[test]
fn what_cannot_be_read_while_opening_costs_nothing_that_is_found() {
    let memory = MemoryDevice::new(64 * MIB, 512);
    // Small objects are expected: the dump of the index takes several steps.
    let format = FormatOptions {
        mean_object: Some(80),
        cluster_size: Some(32 << 10),
        ..FormatOptions::default()
    };
    let options = Options { memory: 64 << 20, ..Options::default() };
    let mut helper = Rig::open(formatted(8 * MIB, 32 << 10), product());
    helper.run(larder_store::format_with_seed(&memory, &format, [7; 48], 1)).unwrap();
    let (memory, states) = stopped(memory, &options);
    let mut whole = 0;
    for after in 0..40 {
        let memory = memory.crash_process();
        let error = std::io::ErrorKind::Other;
        memory.inject(Fault { operation: Operation::Read, after, times: 3, error });
        let Ok(mut rig) = Rig::open_probe(Probe::new(memory), options.clone(), 1) else { continue };
        rig.probe.memory.heal();
        rig.settle();
        let found: Vec<_> = (0..40).filter(|number| rig.entry(*number).is_some()).collect();
        whole += u32::from(found.len() == states.len());
        rig.settle_durably();
        let mut rig = Rig::open(rig.probe.memory.crash_process(), options.clone());
        for number in found {
            assert!(rig.entry(number).is_some(), "{number} was lost, read {after} had failed");
        }
    }
    assert!(whole > 20, "all was found in {whole} of 40 cases only");
}

#[test]
fn a_bad_superblock_copy_is_written_before_the_good_one() {
    for bad in [0, 1] {
        let (memory, _) = stopped(formatted(24 * MIB, 32 << 10), &product());
        let [first, _, second] = superblock_extents(24 * MIB);
        let places = [first.offset, second.offset];
        memory.poke(places[bad], &[0; 64]);
        let probe = Probe::new(memory);
        let order = Rc::new(RefCell::new(Vec::new()));
        let kept = Rc::clone(&order);
        probe.watch.set_hook(Some(Box::new(move |memory| {
            let copies = memory.held().into_iter().map(|held| held.extent.offset);
            kept.borrow_mut().extend(copies.filter(|at| places.contains(at)));
        })));
        let rig = Rig::open_probe(probe, product(), 1_700_000_000).unwrap();
        rig.probe.watch.set_hook(None);
        assert_eq!(order.borrow()[0], places[bad]);
    }
}

/// Opens the cache on `memory`; returns the error, and whether a superblock was restored.
fn opened(memory: &MemoryDevice) -> (Result<Rig, OpenError>, bool) {
    let restored = Arc::new(AtomicBool::new(false));
    let said = Arc::clone(&restored);
    let on_event = move |event: Event| {
        if matches!(event, Event::SuperblockRestored { .. }) {
            said.store(true, Ordering::Relaxed);
        }
    };
    let options = Options { on_event: Arc::new(on_event), ..product() };
    let rig = Rig::open_probe(Probe::new(memory.clone()), options, 1_700_000_000);
    (rig, restored.load(Ordering::Relaxed))
}

/// A start that cannot record that it begins empty gives the cache up, however far it came: the
/// next start does not trust the discarded contents either.
#[test]
fn a_cache_that_was_given_up_stays_so_when_its_next_start_fails() {
    let (memory, _) = stopped(formatted(24 * MIB, 32 << 10), &product());
    let error = std::io::ErrorKind::Other;
    // All attempts to write the first checkpoint fail, then those to record the failure as well.
    for times in [3, 5, 10] {
        memory.inject(Fault { operation: Operation::Write, after: 0, times, error });
        assert_eq!(opened(&memory).0.err(), Some(OpenError::Unwritable), "{times}");
        memory.heal();
    }
    all_there(&mut opened(&memory).0.unwrap(), &[]);
}

#[test]
fn what_destroys_either_end_of_the_device_leaves_a_superblock() {
    let len = 24 * MIB;
    let (memory, states) = stopped(formatted(len, 32 << 10), &product());
    let [_, near, far] = superblock_extents(len);
    assert!(far.offset > len / 2 && far.end() + (32 << 10) < len, "room for tables of others");
    assert!(memory.peek(near).iter().all(|byte| *byte == 0));
    let cases = [(0, 900 << 10), (0, 4096), (len - (128 << 10), 128 << 10)];
    for (at, bytes) in cases {
        let memory = memory.crash_process();
        memory.poke(at, &vec![0xA5; bytes as usize]);
        let (rig, restored) = opened(&memory);
        let mut rig = rig.unwrap();
        assert!(restored, "{at}");
        all_there(&mut rig, &states);
        // It was rewritten: the next start has both copies.
        let memory = rig.stop().memory;
        let (rig, restored) = opened(&memory);
        assert!(!restored, "{at}");
        all_there(&mut rig.unwrap(), &states);
    }
    let both = memory.crash_process();
    [0, far.offset].iter().for_each(|at| both.poke(at + 20, &[0xA5; 64]));
    let before = both.peek(Extent { offset: 0, len });
    assert_eq!(opened(&both).0.err(), Some(OpenError::BothDamaged));
    assert!(both.peek(Extent { offset: 0, len }) == before, "nothing is written to it");
}

#[test]
fn the_second_superblock_moves_with_the_end_of_the_device() {
    let (memory, states) = stopped(formatted(24 * MIB, 32 << 10), &product());
    // Slightly more than before, without space for a cluster, and much more.
    for len in [24 * MIB + (192 << 10), 40 * MIB] {
        memory.grow(len);
        let (rig, restored) = opened(&memory);
        assert!(!restored, "it is no damage");
        let mut rig = rig.unwrap();
        all_there(&mut rig, &states);
        rig.stop();
        let wreck = memory.crash_process();
        wreck.poke(0, &[0; 1 << 20]);
        let (rig, restored) = opened(&wreck);
        assert!(restored);
        all_there(&mut rig.unwrap(), &states);
    }
}

#[test]
fn an_old_cache_keeps_its_second_superblock_until_it_grows() {
    let old = FormatOptions { superblock_far: false, ..FormatOptions::default() };
    let old = FormatOptions { cluster_size: Some(32 << 10), ..old };
    let memory = MemoryDevice::new(24 * MIB, 512);
    crate::rig::now_or_never(larder_store::format_with_seed(&memory, &old, [7; 48], 1_700_000_000))
        .unwrap();
    let (memory, states) = stopped(memory, &product());
    let near = superblock_extents(24 * MIB)[1];
    // A body at the end of the device imitates a superblock.
    let forged = MemoryDevice::new(24 * MIB, 512);
    let other = FormatOptions { cluster_size: Some(32 << 10), ..FormatOptions::default() };
    crate::rig::now_or_never(larder_store::format_with_seed(
        &forged,
        &other,
        [8; 48],
        1_700_000_000,
    ))
    .unwrap();
    let place = superblock_extents(24 * MIB)[2];
    memory.poke(place.offset, &forged.peek(place));
    for spoilt in [None, Some(0), Some(near.offset)] {
        let memory = memory.crash_process();
        spoilt.iter().for_each(|at| memory.poke(*at, &[0; 4096]));
        let (rig, restored) = opened(&memory);
        assert_eq!(restored, spoilt.is_some());
        all_there(&mut rig.unwrap(), &states);
        assert!(memory.peek(near).starts_with(b"LARDER\r\n"), "it stays where it was");
    }
    memory.grow(40 * MIB);
    let mut rig = opened(&memory).0.unwrap();
    all_there(&mut rig, &states);
    assert!(memory.peek(near).iter().all(|byte| *byte == 0), "an old copy tells old things");
    assert!(memory.peek(superblock_extents(40 * MIB)[2]).starts_with(b"LARDER\r\n"));
    let memory = rig.stop().memory;
    memory.poke(0, &[0; 1 << 20]);
    all_there(&mut opened(&memory).0.unwrap(), &states);
}

#[test]
fn the_superblock_of_a_cache_that_was_here_before_is_not_taken_for_this_ones() {
    let old = FormatOptions { superblock_far: false, ..FormatOptions::default() };
    let memory = MemoryDevice::new(24 * MIB, 512);
    let start = 1_700_000_000;
    crate::rig::now_or_never(larder_store::format_with_seed(&memory, &old, [9; 48], start))
        .unwrap();
    let new = FormatOptions { cluster_size: Some(32 << 10), ..FormatOptions::default() };
    crate::rig::now_or_never(larder_store::format_with_seed(&memory, &new, [7; 48], start))
        .unwrap();
    let (memory, states) = stopped(memory, &product());
    memory.poke(0, &[0; 4096]);
    all_there(&mut opened(&memory).0.unwrap(), &states);
}

#[test]
fn any_crash_while_a_cache_grows_leaves_it_whole() {
    let (memory, states) = stopped(formatted(24 * MIB, 32 << 10), &product());
    // Grow it once, so that the next growth finds metadata behind the clusters. Kill it, so that
    // only the journal tells which records are dead.
    memory.grow(28 * MIB);
    let rig = Rig::open(memory.crash_process(), product());
    let memory = rig.probe.memory.crash_process();
    for more in [36 << 10, 64 << 10, 132 << 10, 400 << 10, 700 << 10, 1 << 20, 4 << 20] {
        let memory = memory.crash_process();
        memory.grow(28 * MIB + more);
        let probe = Probe::new(memory);
        let wrecks = Rc::new(RefCell::new(Vec::new()));
        let kept = Rc::clone(&wrecks);
        probe.watch.set_hook(Some(Box::new(move |memory| {
            let mut wrecks = kept.borrow_mut();
            let tear = wrecks.len() as u64;
            wrecks.push(memory.crash_process_torn(tear));
        })));
        let rig = Rig::open_probe(probe, product(), 1_700_000_000).unwrap();
        rig.probe.watch.set_hook(None);
        let last = rig.probe.memory.crash_process();
        let grown = rig.store.stats()[0].clusters;
        for wreck in wrecks.borrow().iter().chain([&last]) {
            let mut rig = Rig::open(wreck.crash_process(), product());
            all_there(&mut rig, &states);
            assert_eq!(rig.store.stats()[0].clusters, grown);
        }
    }
}

#[test]
fn a_device_that_has_shrunk_serves_what_is_left() {
    let mut rig = Rig::open(formatted(24 * MIB, 32 << 10), product());
    let states: Vec<State> = (0..700).map(|number| rig.insert(number, 20_000).unwrap()).collect();
    for orderly in [true, false] {
        if orderly {
            rig = rig.reopen();
        } else {
            rig.settle();
        }
        let whole = rig.probe.memory.crash_process();
        let short = MemoryDevice::new(8 * MIB, whole.geometry().block);
        short.poke(0, &whole.peek(Extent { offset: 0, len: 8 * MIB }));
        let told = Arc::new(AtomicBool::new(false));
        let shrunken = Arc::clone(&told);
        let on_event = move |event| {
            let told = matches!(event, Event::Shrunken { len, .. } if len == 8 * MIB);
            shrunken.fetch_or(told, Ordering::Relaxed);
        };
        let options = Options { on_event: Arc::new(on_event), ..product() };
        let mut rest = Rig::open(short, options);
        assert!(told.load(Ordering::Relaxed), "the operator is told");
        let found = states.iter().filter(|s| rest.look(s.key) == LookupResult::Whole(**s)).count();
        assert!(found > 100, "{found} found");
        for number in 1_000..2_000 {
            rest.insert(number, 20_000).unwrap();
        }
        rest.settle();
        assert!(rest.entry(1_999).is_some());
        let stats = rest.store.stats()[0];
        assert!(stats.online && stats.counters.device_errors == 0, "{stats:?}");
        let grown = rest.probe.memory.crash_process();
        grown.grow(24 * MIB);
        let mut again = Rig::open(grown, product());
        assert_eq!(again.store.stats()[0].clusters_bad, 0);
        for number in 0..700 {
            assert!(again.entry(number).is_none() || rest.entry(number).is_some(), "{number}");
        }
    }
}
