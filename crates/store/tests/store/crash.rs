//! Crashes: whatever the device holds at any moment, the store that is opened on it answers only
//! what [`History`] permits, and what it requires.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use device::MemoryDevice;
use store::Options;

use crate::content::any_len;
use crate::history::{Crash, History};
use crate::probe::{Probe, Stamp};
use crate::rig::{Rig, Seen, formatted, product, ucfs};
use crate::seeds::seeds;

const MIB: u64 = 1 << 20;

/// The device as a crash left it.
struct Wreck {
    memory: MemoryDevice,
    crash: Crash,
    at: Stamp,
}

/// Opens a wreck and checks every key of the history. With `all`, nothing can have been evicted.
fn salvage(wreck: &Wreck, history: &History, options: Options, all: bool) -> Rig {
    let mut rig = Rig::open(wreck.memory.crash_process(), options);
    for number in history.keys() {
        let permitted = history.permitted(number, wreck.crash, wreck.at);
        let seen = rig.look(number);
        if let Some(state) = seen.state() {
            let what = (wreck.crash, wreck.at);
            assert!(permitted.contains(&state), "{what:?}: {seen:?}, permitted {permitted:?}");
        }
        let required = history.required(number, wreck.crash, wreck.at);
        let kept = required.is_none_or(|required| seen == Seen::Whole(required));
        assert!(!all || kept, "{:?} {}: {seen:?}, required {required:?}", wreck.crash, wreck.at);
    }
    // The new store works.
    rig.history.version = history.version;
    let state = rig.insert(9_999, 2_000).unwrap();
    assert_eq!(rig.look(9_999), Seen::Whole(state));
    rig
}

/// Takes wrecks of all kinds while the rig works: at the first point at which it may crash, and at
/// each further one with a chance of one in `rarity`.
fn collect_wrecks(rig: &Rig, seed: u64, rarity: u32) -> Rc<RefCell<Vec<Wreck>>> {
    let wrecks = Rc::new(RefCell::new(Vec::new()));
    let kept = Rc::clone(&wrecks);
    let mut random = fastrand::Rng::with_seed(seed);
    rig.probe.watch.set_hook(Some(Box::new(move |memory, at| {
        let mut wrecks = kept.borrow_mut();
        if !wrecks.is_empty() && random.u32(..rarity) > 0 {
            return;
        }
        let mut keep = |memory, crash| wrecks.push(Wreck { memory, crash, at });
        keep(memory.crash_process(), Crash::Kill);
        keep(memory.crash_process_torn(random.u64(..)), Crash::Kill);
        keep(memory.crash_power(random.u64(..)), Crash::Power);
        keep(memory.crash_power(random.u64(..)), Crash::Power);
    })));
    wrecks
}

/// A history that meets every kind of operation, on few keys.
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

/// The history so far, with the flushes that the device has seen.
pub fn history_of(rig: &Rig) -> History {
    let mut history = rig.history.clone();
    history.flushes = rig.probe.watch.flushes();
    history
}

/// Every crash point of a history on a device with room for everything.
fn every_point(name: &'static str, count: usize, options: fn() -> Options, all: bool) {
    for seed in seeds(name, crate::rig::fewer(count)) {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut rig = Rig::open(formatted(64 * MIB, 32 << 10), options());
        let wrecks = collect_wrecks(&rig, seed, crate::rig::rarity());
        small_history(&mut rig, &mut random, 20);
        rig = rig.reopen();
        small_history(&mut rig, &mut random, 20);
        rig.probe.watch.set_hook(None);
        let history = history_of(&rig);
        for wreck in wrecks.borrow().iter() {
            salvage(wreck, &history, options(), all);
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
        let history = history_of(&rig);
        for wreck in wrecks.borrow().iter() {
            salvage(wreck, &history, product(), false);
        }
        assert!(wrecks.borrow().len() > 8, "only {} wrecks", wrecks.borrow().len());
    }
}

#[test]
pub fn power_is_lost_while_the_journal_goes_round_without_a_flush() {
    let name = "crash::power_is_lost_while_the_journal_goes_round_without_a_flush";
    for seed in seeds(name, crate::rig::fewer(2)) {
        let mut random = fastrand::Rng::with_seed(seed);
        // What waits for others has nothing in the journal: here each object is placed at once.
        let flush_interval = Duration::from_secs(86_400);
        let options = || Options { flush_interval, batch: 0, ..product() };
        let mut rig = Rig::open(formatted(64 * MIB, 32 << 10), options());
        for number in 0..30 {
            rig.insert(number, 500).unwrap();
        }
        rig.purge(0).unwrap();
        let wrecks = collect_wrecks(&rig, seed, 20);
        // Each removal is a block of the journal, which has some sixty.
        for _ in 0..300 {
            let number = random.u32(..30);
            if rig.history.current(number).is_some() {
                rig.remove(number);
            } else {
                rig.insert(number, 500).unwrap();
            }
        }
        rig.probe.watch.set_hook(None);
        let history = history_of(&rig);
        for wreck in wrecks.borrow().iter() {
            salvage(wreck, &history, options(), false);
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
            let at = rig.probe.watch.stamp();
            let history = history_of(&rig);
            let (crash, memory) = match random.bool() {
                true => (Crash::Kill, rig.probe.memory.crash_process_torn(random.u64(..))),
                false => (Crash::Power, rig.probe.memory.crash_power(random.u64(..))),
            };
            let wreck = Wreck { memory, crash, at };
            rig = salvage(&wreck, &history, product(), true);
            rig.adopt(&history);
        }
    }
}

#[test]
pub fn power_is_lost_again_and_again_with_records_of_one_size() {
    // What an earlier life left behind in a cluster then lies just where the next record of a
    // later life would.
    let name = "crash::power_is_lost_again_and_again_with_records_of_one_size";
    for seed in seeds(name, 16) {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut rig = Rig::open(formatted(16 * MIB, 32 << 10), product());
        for _ in 0..6 {
            for number in 0..random.u32(1..40) {
                rig.insert(number, 2_000).unwrap();
            }
            rig.settle();
            let (at, history) = (rig.probe.watch.stamp(), history_of(&rig));
            let memory = rig.probe.memory.crash_power(random.u64(..));
            let wreck = Wreck { memory, crash: Crash::Power, at };
            rig = salvage(&wreck, &history, product(), true);
            rig.adopt(&history);
        }
    }
}

#[test]
pub fn a_crash_during_recovery() {
    for seed in seeds("crash::a_crash_during_recovery", crate::rig::fewer(6)) {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut rig = Rig::open(formatted(32 * MIB, 32 << 10), product());
        small_history(&mut rig, &mut random, 60);
        let (at, history) = (rig.probe.watch.stamp(), history_of(&rig));
        let crash = if random.bool() { Crash::Kill } else { Crash::Power };
        let mut memory = match crash {
            Crash::Power => rig.probe.memory.crash_power(seed),
            _ => rig.probe.memory.crash_process_torn(seed),
        };
        for _ in 0..4 {
            let wrecks = wrecks_of_opening(&memory, crash, seed);
            for wreck in &wrecks {
                let wreck = Wreck { memory: wreck.clone(), crash, at };
                salvage(&wreck, &history, product(), true);
            }
            assert!(!wrecks.is_empty(), "opening a crashed cache writes something");
            memory = wrecks[random.usize(..wrecks.len())].clone();
        }
    }
}

#[test]
pub fn what_happens_before_recovery_ends_wins_over_what_it_finds() {
    let name = "crash::what_happens_before_recovery_ends_wins_over_what_it_finds";
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
            let at = rig.probe.watch.stamp();
            // Recovery has a single poll for each that the operations have.
            options.recovery_wait = Duration::ZERO;
            let memory = rig.probe.memory.crash_process();
            memory.shuffle(Some(seed));
            let beside = Rig::open(memory, options.clone());
            rig = beside_recovery(beside, &history, at, &mut random);
        }
    }
}

/// Uses a store whose recovery is not complete yet, then checks it, then returns it.
fn beside_recovery(mut rig: Rig, crashed: &History, at: Stamp, random: &mut fastrand::Rng) -> Rig {
    rig.history = crashed.after_kill(at);
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
                let permitted = rig.history.permitted(number, Crash::Kill, Stamp::MAX);
                let fine = seen.is_none_or(|seen| permitted.contains(&seen));
                assert!(fine, "{number}: {seen:?}, permitted {permitted:?}");
            }
        }
    }
    let again = random.bool();
    if !again {
        rig.settle();
    }
    // Recovery may be interrupted once more.
    let history = rig.history.clone();
    let mut rig = match again {
        true => Rig::open(rig.probe.memory.crash_process(), product()),
        false => rig,
    };
    for number in history.keys() {
        let seen = rig.look(number).state();
        let permitted = history.permitted(number, Crash::Kill, Stamp::MAX);
        let fine = seen.is_none_or(|seen| permitted.contains(&seen));
        assert!(fine, "{number}: {seen:?}, permitted {permitted:?}, again {again}");
    }
    let mut fresh = Rig::open(rig.probe.memory.crash_process(), product());
    fresh.adopt(&history);
    fresh
}

/// Opens the device and crashes while that is under way and shortly after.
fn wrecks_of_opening(memory: &MemoryDevice, crash: Crash, seed: u64) -> Vec<MemoryDevice> {
    let probe = Probe::new(memory.crash_process());
    let wrecks = Rc::new(RefCell::new(Vec::new()));
    let kept = Rc::clone(&wrecks);
    probe.watch.set_hook(Some(Box::new(move |memory, at| {
        kept.borrow_mut().push(match crash {
            Crash::Power => memory.crash_power(seed ^ at),
            _ => memory.crash_process_torn(seed ^ at),
        });
    })));
    let mut rig = Rig::open_probe(probe.clone(), product(), 1_700_000_000).unwrap();
    rig.settle_durably();
    probe.watch.set_hook(None);
    wrecks.take()
}
