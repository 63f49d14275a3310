//! Crashes at any moment: the store that is opened on the device afterwards returns only what
//! [`History`] permits, and all that it requires.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use device::MemoryDevice;
use larder_store::Options;
use store_oracle::{End, History, any_len};

use crate::probe::Probe;
use crate::rig::{KILL, LookupResult, POWER, Rig, formatted, product, ucfs};
use crate::seeds::seeds;

const MIB: u64 = 1 << 20;

/// The device as a crash left it, and the history up to then.
struct Wreck {
    memory: MemoryDevice,
    history: Rc<History>,
    end: End,
}

/// Opens a wreck and checks every key of the history. With `all`, nothing can have been evicted.
fn salvage(wreck: &Wreck, options: Options, all: bool) -> Rig {
    let Wreck { memory, history, end } = wreck;
    let mut rig = Rig::after_crash(memory.crash_process(), options, history, *end);
    for number in history.keys() {
        let permitted = history.permitted(number, *end);
        let seen = rig.look(number);
        if let Some(state) = seen.state() {
            let events = history.explain(number);
            assert!(
                permitted.contains(&state),
                "{end:?}: {seen:?}, permitted {permitted:?}{events}"
            );
        }
        let required = history.required(number, *end);
        let kept = required.is_none_or(|required| seen == LookupResult::Whole(required));
        assert!(!all || kept, "{end:?}: {seen:?}, required {required:?}");
    }
    // The new store works.
    let state = rig.insert(9_999, 2_000).unwrap();
    assert_eq!(rig.look(9_999), LookupResult::Whole(state));
    rig
}

/// Collects wrecks of all kinds while the rig works: at the first crash point, and at each further
/// one with a chance of one in `rarity`.
fn collect_wrecks(rig: &Rig, seed: u64, rarity: u32) -> Rc<RefCell<Vec<Wreck>>> {
    let wrecks = Rc::new(RefCell::new(Vec::new()));
    let kept = Rc::clone(&wrecks);
    let mut random = fastrand::Rng::with_seed(seed);
    let history = Rc::clone(&rig.history);
    rig.probe.watch.set_hook(Some(Box::new(move |memory| {
        let mut wrecks = kept.borrow_mut();
        if !wrecks.is_empty() && random.u32(..rarity) > 0 {
            return;
        }
        let history = Rc::new(history.borrow().clone());
        let mut keep =
            |memory, end| wrecks.push(Wreck { memory, history: Rc::clone(&history), end });
        keep(memory.crash_process(), KILL);
        keep(memory.crash_process_torn(random.u64(..)), KILL);
        keep(memory.crash_power(random.u64(..)), POWER);
        keep(memory.crash_power(random.u64(..)), POWER);
    })));
    wrecks
}

/// Runs random operations of every kind on few keys.
pub fn small_history(rig: &mut Rig, random: &mut fastrand::Rng, steps: u32) {
    for _ in 0..steps {
        let number = random.u32(..8);
        match random.u8(..13) {
            12 => assert!(rig.invalidate(number).is_ok()),
            0..5 => assert!(rig.insert(number, any_len(random)).is_ok()),
            5 | 6 => assert!(rig.refresh(number).is_ok()),
            7 => _ = rig.remove(number),
            8 => assert!(rig.purge(number).is_ok()),
            9 => rig.pass(Duration::from_millis(random.u64(..1_500))),
            10 => rig.settle(),
            _ => rig.settle_durably(),
        }
    }
}

/// Copies the history so far.
pub fn history_of(rig: &Rig) -> Rc<History> {
    Rc::new(rig.history.borrow().clone())
}

/// Checks every crash point of a history on a device with space for all its objects.
fn every_point(name: &'static str, count: usize, options: fn() -> Options, all: bool) {
    for seed in seeds(name, crate::rig::fewer(count)) {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut rig = Rig::open(formatted(64 * MIB, 32 << 10), options());
        let wrecks = collect_wrecks(&rig, seed, crate::rig::rarity());
        small_history(&mut rig, &mut random, 20);
        rig = rig.reopen();
        small_history(&mut rig, &mut random, 20);
        rig.probe.watch.set_hook(None);
        for wreck in wrecks.borrow().iter() {
            salvage(wreck, options(), all);
        }
        assert!(!wrecks.borrow().is_empty(), "it may crash nowhere");
    }
}

#[test]
pub fn every_crash_point_of_a_small_history() {
    every_point("crash::every_crash_point_of_a_small_history", 4, product, true);
}

#[test]
pub fn every_crash_point_with_write_on_evict() {
    every_point("crash::every_crash_point_with_write_on_evict", 3, ucfs, false);
}

#[test]
pub fn crashes_while_clusters_are_evicted_and_used_again() {
    for seed in
        seeds("crash::crashes_while_clusters_are_evicted_and_used_again", crate::rig::fewer(2))
    {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut rig = Rig::open(formatted(8 * MIB, 32 << 10), product());
        let wrecks = collect_wrecks(&rig, seed, 120);
        for _ in 0..1_200 {
            let number = random.u32(..60);
            match random.u8(..17) {
                16 => rig.invalidate(number).unwrap(),
                0..12 => _ = rig.insert(number, any_len(&mut random)).unwrap(),
                12 => _ = rig.refresh(number),
                13 => _ = rig.remove(number),
                14 => _ = rig.purge(number).unwrap(),
                _ => rig.pass(Duration::from_millis(random.u64(..2_000))),
            }
        }
        rig.probe.watch.set_hook(None);
        for wreck in wrecks.borrow().iter() {
            salvage(wreck, product(), false);
        }
        assert!(wrecks.borrow().len() > 8, "only {} wrecks", wrecks.borrow().len());
    }
}

#[test]
pub fn power_is_lost_while_the_journal_goes_round_without_a_flush() {
    let name = "crash::power_is_lost_while_the_journal_goes_round_without_a_flush";
    for seed in seeds(name, crate::rig::fewer(2)) {
        let mut random = fastrand::Rng::with_seed(seed);
        // An object that waits for others has no journal entry: here each one is placed at once.
        let flush_interval = Duration::from_secs(86_400);
        let options = || Options { flush_interval, batch: 0, ..product() };
        let mut rig = Rig::open(formatted(64 * MIB, 32 << 10), options());
        for number in 0..30 {
            rig.insert(number, 500).unwrap();
        }
        rig.purge(0).unwrap();
        let wrecks = collect_wrecks(&rig, seed, 20);
        // Each removal takes one block of the journal, which has about sixty.
        for _ in 0..300 {
            let number = random.u32(..30);
            if rig.current(number).is_some() {
                rig.remove(number);
            } else {
                rig.insert(number, 500).unwrap();
            }
        }
        rig.probe.watch.set_hook(None);
        for wreck in wrecks.borrow().iter() {
            salvage(wreck, options(), false);
        }
        assert!(wrecks.borrow().len() > 8, "only {} wrecks", wrecks.borrow().len());
    }
}

#[test]
pub fn crash_after_crash_after_crash() {
    for seed in seeds("crash::crash_after_crash_after_crash", 6) {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut rig = Rig::open(formatted(32 * MIB, 32 << 10), product());
        for _ in 0..6 {
            small_history(&mut rig, &mut random, 25);
            let (end, memory) = match random.bool() {
                true => (KILL, rig.probe.memory.crash_process_torn(random.u64(..))),
                false => (POWER, rig.probe.memory.crash_power(random.u64(..))),
            };
            let wreck = Wreck { memory, history: history_of(&rig), end };
            rig = salvage(&wreck, product(), true);
            rig.adopt();
        }
    }
}

#[test]
pub fn power_is_lost_again_and_again_with_records_of_one_size() {
    // A leftover of an earlier session then lies exactly where the next record of a later one
    // would.
    let name = "crash::power_is_lost_again_and_again_with_records_of_one_size";
    for seed in seeds(name, 16) {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut rig = Rig::open(formatted(16 * MIB, 32 << 10), product());
        for _ in 0..6 {
            for number in 0..random.u32(1..40) {
                rig.insert(number, 2_000).unwrap();
            }
            rig.settle();
            let memory = rig.probe.memory.crash_power(random.u64(..));
            let wreck = Wreck { memory, history: history_of(&rig), end: POWER };
            rig = salvage(&wreck, product(), true);
            rig.adopt();
        }
    }
}

#[test]
pub fn a_crash_during_recovery() {
    for seed in seeds("crash::a_crash_during_recovery", crate::rig::fewer(6)) {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut rig = Rig::open(formatted(32 * MIB, 32 << 10), product());
        small_history(&mut rig, &mut random, 60);
        let history = history_of(&rig);
        let end = if random.bool() { KILL } else { POWER };
        let mut memory = match end.power {
            true => rig.probe.memory.crash_power(seed),
            false => rig.probe.memory.crash_process_torn(seed),
        };
        for _ in 0..4 {
            let wrecks = wrecks_of_opening(&memory, end, seed);
            for wreck in &wrecks {
                let wreck = Wreck { memory: wreck.clone(), history: Rc::clone(&history), end };
                salvage(&wreck, product(), true);
            }
            assert!(!wrecks.is_empty(), "opening a crashed cache writes something");
            memory = wrecks[random.usize(..wrecks.len())].clone();
        }
    }
}

#[test]
pub fn operations_during_recovery_win_over_what_it_finds() {
    let name = "crash::operations_during_recovery_win_over_what_it_finds";
    for seed in seeds(name, 12) {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut rig = Rig::open(formatted(32 * MIB, 32 << 10), product());
        let mut options = product();
        for _ in 0..3 {
            for number in 0..30 {
                rig.insert(number, any_len(&mut random)).unwrap();
            }
            small_history(&mut rig, &mut random, 10);
            let history = history_of(&rig);
            // Recovery and the operations are polled in turns.
            options.recovery_wait = Duration::ZERO;
            let memory = rig.probe.memory.crash_process();
            memory.shuffle(Some(seed));
            let beside = Rig::after_crash(memory, options.clone(), &history, KILL);
            rig = beside_recovery(beside, &mut random);
        }
    }
}

/// Uses a store during its recovery, then checks it, then returns it.
fn beside_recovery(mut rig: Rig, random: &mut fastrand::Rng) -> Rig {
    let steps = if random.bool() { 6 } else { 40 };
    for _ in 0..random.u32(..steps) {
        let number = random.u32(..30);
        match random.u8(..6) {
            0 => _ = rig.insert(number, any_len(random)).unwrap(),
            1 => _ = rig.refresh(number).unwrap(),
            2 => _ = rig.remove(number),
            3 => _ = rig.purge(number).unwrap(),
            _ => {
                let seen = rig.look(number).state();
                let permitted = rig.history.borrow().permitted(number, KILL);
                let fine = seen.is_none_or(|seen| permitted.contains(&seen));
                assert!(fine, "{number}: {seen:?}, permitted {permitted:?}");
            }
        }
    }
    let again = random.bool();
    if !again {
        rig.settle();
    }
    // Interrupt recovery once more.
    let history = history_of(&rig);
    let mut rig = match again {
        true => Rig::open(rig.probe.memory.crash_process(), product()),
        false => rig,
    };
    for number in history.keys() {
        let seen = rig.look(number).state();
        let permitted = history.permitted(number, KILL);
        let fine = seen.is_none_or(|seen| permitted.contains(&seen));
        assert!(fine, "{number}: {seen:?}, permitted {permitted:?}, again {again}");
    }
    let memory = rig.probe.memory.crash_process();
    let mut fresh = Rig::after_crash(memory, product(), &history, KILL);
    fresh.adopt();
    fresh
}

/// Returns crash images taken during an opening and shortly after it.
fn wrecks_of_opening(memory: &MemoryDevice, end: End, seed: u64) -> Vec<MemoryDevice> {
    let probe = Probe::new(memory.crash_process());
    let wrecks = Rc::new(RefCell::new(Vec::new()));
    let kept = Rc::clone(&wrecks);
    let mut tears = fastrand::Rng::with_seed(seed);
    probe.watch.set_hook(Some(Box::new(move |memory| {
        kept.borrow_mut().push(match end.power {
            true => memory.crash_power(tears.u64(..)),
            false => memory.crash_process_torn(tears.u64(..)),
        });
    })));
    let mut rig = Rig::open_probe(probe.clone(), product(), 1_700_000_000).unwrap();
    rig.settle_durably();
    probe.watch.set_hook(None);
    wrecks.take()
}
