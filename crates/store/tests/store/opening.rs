//! Opening what is not quite as it was left: damaged structures, a device that has grown or shrunk.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use device::{Device, Extent, Fault, MemoryDevice, Operation};
use store::{Event, FormatOptions, Inspector, Options, SUPERBLOCK_EXTENTS};

use crate::content::State;
use crate::probe::Probe;
use crate::rig::{Rig, Seen, formatted, product};

const MIB: u64 = 1 << 20;

/// Where a structure of the cache on `memory` is.
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
    let states = (0..40).filter_map(|number| rig.history.current(number)).collect();
    (rig.stop().0.memory, states)
}

fn all_there(rig: &mut Rig, states: &[State]) {
    for number in 0..40 {
        let state = states.iter().find(|state| state.key == number);
        assert_eq!(rig.look(number), state.map_or(Seen::Nothing, |state| Seen::Whole(*state)));
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
    helper.run(store::format(&memory, &format, [7; 48], 1)).unwrap();
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
        memory.poke(SUPERBLOCK_EXTENTS[bad].offset, &[0; 64]);
        let probe = Probe::new(memory);
        let order = Rc::new(RefCell::new(Vec::new()));
        let kept = Rc::clone(&order);
        probe.watch.set_hook(Some(Box::new(move |memory, _| {
            let copies = memory.held().into_iter().map(|held| held.extent.offset);
            let copies = copies.filter(|at| SUPERBLOCK_EXTENTS.iter().any(|e| e.offset == *at));
            kept.borrow_mut().extend(copies);
        })));
        let rig = Rig::open_probe(probe, product(), 1_700_000_000).unwrap();
        rig.probe.watch.set_hook(None);
        assert_eq!(order.borrow()[0], SUPERBLOCK_EXTENTS[bad].offset);
    }
}

#[test]
fn any_crash_while_a_cache_grows_leaves_it_whole() {
    let (memory, states) = stopped(formatted(24 * MIB, 32 << 10), &product());
    // Grown once, so that the next growth finds metadata behind the clusters; killed, so that
    // what is dead is known from the journal alone.
    memory.grow(28 * MIB);
    let rig = Rig::open(memory.crash_process(), product());
    let memory = rig.probe.memory.crash_process();
    for more in [36 << 10, 64 << 10, 132 << 10, 400 << 10, 700 << 10, 1 << 20, 4 << 20] {
        let memory = memory.crash_process();
        memory.grow(28 * MIB + more);
        let probe = Probe::new(memory);
        let wrecks = Rc::new(RefCell::new(Vec::new()));
        let kept = Rc::clone(&wrecks);
        probe.watch.set_hook(Some(Box::new(move |memory, at| {
            kept.borrow_mut().push(memory.crash_process_torn(at));
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
        let found = states.iter().filter(|s| rest.look(s.key) == Seen::Whole(**s)).count();
        assert!(found > 100, "{found} found");
        for number in 1_000..2_000 {
            rest.insert(number, 20_000).unwrap();
        }
        rest.settle();
        assert!(rest.entry(1_999).is_some());
        let stats = rest.store.stats()[0];
        assert!(stats.online && stats.counters.device_errors == 0, "{stats:?}");
        // Long again.
        let grown = rest.probe.memory.crash_process();
        grown.grow(24 * MIB);
        let mut again = Rig::open(grown, product());
        assert_eq!(again.store.stats()[0].clusters_bad, 0);
        for number in 0..700 {
            assert!(again.entry(number).is_none() || rest.entry(number).is_some(), "{number}");
        }
    }
}
