//! The purge log: a follower of a store misses no purge through any crash; purges received from
//! another store are as durable as its own.

use std::cell::RefCell;
use std::pin::pin;
use std::rc::Rc;

use bytes::Bytes;
use device::{Fault, ManualClock, MemoryDevice, Operation};
use larder_store::{
    FormatOptions, LayoutName, LoggedPurge, MadePurge, Mode, Options, PurgeMaker, PurgePosition,
    PurgeRange, PurgedTarget, PurgesLacking, PurgesSince, Store, Target,
};
use store_oracle::key;

use crate::devices::drive;
use crate::probe::Probe;
use crate::purging::{WORD, labelled, word};
use crate::rig::{LookupResult, Rig, TestStore, formatted, product, use_layout};
use crate::seeds::seeds;

fn logging() -> Options {
    Options { purge_log: true, ..labelled(product()) }
}

fn here(store: &TestStore) -> PurgePosition {
    store.purge_log_end().unwrap()
}

/// Returns the purges since `position`; `None` when that is too old.
async fn follow(store: &TestStore, mut position: PurgePosition) -> Option<Vec<PurgedTarget>> {
    let mut all = Vec::new();
    loop {
        let told = store.purges_since(Some(position)).await.unwrap();
        let PurgesSince::Purges(purges, next) = told else { return None };
        if purges.is_empty() {
            return Some(all);
        }
        all.extend(purges.into_iter().map(|purge| purge.target));
        position = PurgePosition::from_bytes(next.to_bytes());
    }
}

fn followed_by(rig: &mut Rig, position: PurgePosition) -> Option<Vec<PurgedTarget>> {
    let store = rig.store.clone();
    rig.run(follow(&store, position))
}

fn purge_word(rig: &mut Rig, name: &str, mode: Mode) {
    let store = rig.store.clone();
    rig.run(store.purge_all(&[word(name)], mode)).unwrap();
}

fn label(name: &str) -> PurgedTarget {
    PurgedTarget::Label { kind: WORD, name: Bytes::copy_from_slice(name.as_bytes()) }
}

#[test]
fn without_the_option_nothing_is_logged() {
    let mut rig = Rig::open(formatted(24 << 20, 64 << 10), labelled(product()));
    let store = rig.store.clone();
    assert_eq!(rig.run(store.purges_since(None)), None);
}

#[test]
fn every_kind_of_purge_is_logged_by_name_and_in_order() {
    for layout in LayoutName::ALL {
        use_layout(layout, 0);
        let mut rig = Rig::open(formatted(24 << 20, 64 << 10), logging());
        let start = here(&rig.store);
        rig.purge(1).unwrap();
        purge_word(&mut rig, "that nothing bears", Mode::Soft);
        let store = rig.store.clone();
        let targets = [Target::Prefix(b"http://a/"), Target::Everything];
        rig.run(store.purge_all(&targets, Mode::Hard)).unwrap();
        rig.run(store.purge_keys(&[key(2), key(3)])).unwrap();
        let expected = [
            PurgedTarget::Key(key(1)),
            label("that nothing bears"),
            PurgedTarget::Prefix(Bytes::from_static(b"http://a/")),
            PurgedTarget::Everything,
            PurgedTarget::Key(key(2)),
            PurgedTarget::Key(key(3)),
        ];
        assert_eq!(followed_by(&mut rig, start), Some(expected.to_vec()), "{layout}");
        let told = rig.run(store.purges_since(Some(start))).unwrap();
        let PurgesSince::Purges(purges, _) = told else {
            panic!("it was just given");
        };
        assert_eq!(purges[1].mode, Mode::Soft);
        assert_eq!(purges[1].at, device::Clock::unix_seconds(&rig.clock));
        rig.remove(4);
        assert_eq!(followed_by(&mut rig, start).unwrap().len(), 6, "an invalidation is no purge");
    }
}

#[test]
fn purges_that_are_not_in_memory_are_read_and_what_cannot_be_read_is_too_old() {
    let mut rig = Rig::open(formatted(24 << 20, 64 << 10), logging());
    let start = here(&rig.store);
    let (store, keys) = (rig.store.clone(), (0..600).map(key).collect::<Vec<_>>());
    rig.run(store.purge_keys(&keys)).unwrap();
    let all = Some(keys.into_iter().map(PurgedTarget::Key).collect());
    assert_eq!(followed_by(&mut rig, start), all);
    let error = std::io::ErrorKind::Other;
    rig.probe.memory.inject(Fault { operation: Operation::Read, after: 0, times: 1, error });
    assert_eq!(followed_by(&mut rig, start), None);
    assert_eq!(followed_by(&mut rig, start), all, "the next attempt reads it");
}

#[test]
fn a_position_outlives_a_stop_a_kill_and_a_power_loss() {
    let mut rig = Rig::open(formatted(24 << 20, 64 << 10), logging());
    let start = here(&rig.store);
    rig.purge(1).unwrap();
    let first = here(&rig.store);
    let mut rig = rig.reopen();
    rig.purge(2).unwrap();
    for image in [rig.probe.memory.crash_process(), rig.probe.memory.crash_power(1)] {
        let mut rig = Rig::open(image, logging());
        let (one, two) = (PurgedTarget::Key(key(1)), PurgedTarget::Key(key(2)));
        assert_eq!(followed_by(&mut rig, start), Some(vec![one, two.clone()]));
        assert_eq!(followed_by(&mut rig, first), Some(vec![two.clone()]));
        rig.purge(3).unwrap();
        assert_eq!(followed_by(&mut rig, first), Some(vec![two, PurgedTarget::Key(key(3))]));
    }
}

#[test]
fn a_run_without_the_log_and_an_empty_start_begin_another() {
    let mut rig = Rig::open(formatted(24 << 20, 64 << 10), logging());
    rig.purge(1).unwrap();
    let position = here(&rig.store);
    let probe = rig.stop();
    let mut rig = Rig::open(probe.memory.crash_process(), labelled(product()));
    rig.purge(2).unwrap();
    let probe = rig.stop();
    let mut rig = Rig::open(probe.memory.crash_process(), logging());
    assert_eq!(followed_by(&mut rig, position), None);
    let end = here(&rig.store);
    assert_eq!(followed_by(&mut rig, end), Some(Vec::new()));
}

/// The purges that a follower must know at some moment: those acknowledged, and how many began.
#[derive(Clone, Default)]
struct Known {
    targets: Vec<PurgedTarget>,
    acknowledged: usize,
    /// Positions returned so far, with the number of purges before them.
    positions: Vec<(PurgePosition, usize)>,
}

/// Copies the device as crashes at random moments would leave it, with what was known then.
fn watch(rig: &Rig, seed: u64, known: &Rc<RefCell<Known>>) -> Rc<RefCell<Vec<Crashed>>> {
    let images: Rc<RefCell<Vec<Crashed>>> = Rc::default();
    let mut random = fastrand::Rng::with_seed(seed);
    let (taken, known) = (Rc::clone(&images), Rc::clone(known));
    rig.probe.watch.set_hook(Some(Box::new(move |memory: &MemoryDevice| {
        if random.u8(..25) == 0 && taken.borrow().len() < 40 {
            let killed = random.bool();
            let image = match killed {
                true => memory.crash_process(),
                false => memory.crash_power(random.u64(..)),
            };
            taken.borrow_mut().push((image, killed, known.borrow().clone()));
        }
    })));
    images
}

/// A device after a crash, whether that was a kill, and what was known then.
type Crashed = (MemoryDevice, bool, Known);

#[test]
fn a_follower_misses_no_purge_that_was_acknowledged() {
    let (mut followed, mut too_old) = (0, 0);
    for seed in seeds("purge_log::a_follower_misses_no_purge", 3) {
        let mut random = fastrand::Rng::with_seed(seed);
        for layout in LayoutName::ALL {
            use_layout(layout, 0);
            let mut rig = Rig::open(formatted(24 << 20, 64 << 10), logging());
            let known: Rc<RefCell<Known>> = Rc::default();
            known.borrow_mut().positions.push((here(&rig.store), 0));
            let images = watch(&rig, seed, &known);
            for step in 0..60 {
                let number = random.u32(..20);
                match random.u8(..6) {
                    0..3 => _ = rig.insert(number, random.u64(..9_000)),
                    3 => rig.settle(),
                    kind => {
                        let name = format!("word {step}");
                        let by_key = kind == 4;
                        let target =
                            if by_key { PurgedTarget::Key(key(number)) } else { label(&name) };
                        known.borrow_mut().targets.push(target);
                        match by_key {
                            true => _ = rig.purge(number).unwrap(),
                            false => purge_word(&mut rig, &name, Mode::Hard),
                        }
                        let mut known = known.borrow_mut();
                        known.acknowledged = known.targets.len();
                        let position = (here(&rig.store), known.acknowledged);
                        known.positions.push(position);
                    }
                }
            }
            rig.probe.watch.set_hook(None);
            for (image, killed, known) in images.take() {
                let mut rig = Rig::open(image, logging());
                for (position, before) in &known.positions {
                    let Some(purges) = followed_by(&mut rig, *position) else {
                        assert!(!killed, "seed {seed}, {layout}: a kill loses nothing");
                        too_old += 1;
                        continue;
                    };
                    followed += 1;
                    let end = before + purges.len();
                    assert!(end >= known.acknowledged, "seed {seed}, {layout}: one is missing");
                    assert_eq!(purges, known.targets[*before..end], "seed {seed}, {layout}");
                }
            }
        }
    }
    assert!(followed > 50, "{followed} followed, {too_old} too old");
}

#[test]
fn purges_of_another_store_are_durable_here_and_logged_with_their_maker() {
    let mut rig = Rig::open(formatted(24 << 20, 64 << 10), logging());
    let start = here(&rig.store);
    rig.purge(1).unwrap();
    purge_word(&mut rig, "2", Mode::Hard);
    let store = rig.store.clone();
    let told = rig.run(store.purges_since(Some(start))).unwrap();
    let PurgesSince::Purges(purges, _) = told else {
        panic!("it was just given");
    };
    let maker = PurgeMaker { name: Bytes::from_static(b"another"), incarnation: start.log() };
    let made = |(number, purge): (u64, &LoggedPurge)| MadePurge {
        maker: maker.clone(),
        number,
        purge: purge.clone(),
    };
    let made: Vec<MadePurge> = (1..).zip(&purges).map(made).collect();
    let all = PurgeRange { maker: maker.clone(), after: 0, through: 2 };
    let is_logged = |rig: &mut Rig| {
        let store = rig.store.clone();
        assert!(store.purge_vector().unwrap().contains(&(maker.clone(), 2)));
        let told = rig.run(store.purges_lacking(std::slice::from_ref(&all)));
        assert_eq!(told, Some(PurgesLacking::Purges(made.clone())));
    };
    for layout in LayoutName::ALL {
        use_layout(layout, 0);
        let mut other = Rig::open(formatted(24 << 20, 64 << 10), logging());
        let states: Vec<_> = (1..4).map(|number| other.insert(number, 4_000).unwrap()).collect();
        other.settle_durably();
        let (store, before) = (other.store.clone(), here(&other.store));
        other.run(store.apply_purges(&purges, made.clone())).unwrap();
        assert_eq!(followed_by(&mut other, before), Some(Vec::new()), "every store tells its own");
        is_logged(&mut other);
        for image in [other.probe.memory.crash_process(), other.probe.memory.crash_power(3)] {
            let mut other = Rig::open(image, logging());
            is_logged(&mut other);
            assert_eq!(other.look(1), LookupResult::Nothing, "{layout}");
            // The words of its metadata are numbers; its key and its version are 2.
            assert_eq!(other.look(2), LookupResult::Nothing, "{layout}");
            assert_eq!(other.look(3), LookupResult::Whole(states[2]), "{layout}");
        }
    }
    let nothing: &[LoggedPurge] = &[];
    rig.run(store.apply_purges(nothing, Vec::new())).unwrap();
    assert_eq!(rig.run(store.purges_lacking(&[all])), Some(PurgesLacking::TooOld));
}

/// Opens a store over `devices`, runs `body` and ends without an orderly stop.
fn with_devices<T>(devices: &[MemoryDevice], body: impl AsyncFnOnce(&TestStore) -> T) -> T {
    let clock = ManualClock::new(1_700_000_000);
    let run = async {
        let devices = devices.iter().cloned().map(|memory| Rc::new(Probe::new(memory))).collect();
        let options = Options { memory: 8 << 20, ..logging() };
        let opened = Store::open(devices, clock.clone(), options).await;
        let store = opened.unwrap();
        let mut background = pin!(store.run_background());
        let mut body = pin!(body(&store));
        std::future::poll_fn(|context| {
            let _ = background.as_mut().poll(context);
            body.as_mut().poll(context)
        })
        .await
    };
    drive(&clock, run)
}

fn empty_device() -> MemoryDevice {
    let memory = MemoryDevice::new(16 << 20, 512);
    let entropy = std::array::from_fn(|_| fastrand::u8(..));
    crate::rig::now_or_never(larder_store::format_with_seed(
        &memory,
        &FormatOptions::default(),
        entropy,
        1,
    ))
    .unwrap();
    memory
}

#[test]
fn one_device_keeps_the_log_and_when_it_is_another_it_is_another_log() {
    let devices = [empty_device(), empty_device()];
    let purge = async |store: &TestStore, number| store.purge(&key(number)).await.unwrap();
    let first = with_devices(&devices, async |store| {
        let start = here(store);
        for number in 0..20 {
            purge(store, number * 8).await;
        }
        assert_eq!(
            follow(store, start).await.map(|purges| purges.len()),
            Some(20),
            "of both devices"
        );
        start
    });
    // The second device alone does not know the first one's log.
    let alone = with_devices(&devices[1..], async |store| {
        assert_eq!(follow(store, first).await, None);
        let here = here(store);
        purge(store, 1).await;
        assert_eq!(follow(store, here).await.map(|purges| purges.len()), Some(1));
        here
    });
    // Both: the first one is not trusted any more, and the second keeps no log beside it.
    let both = with_devices(&devices, async |store| {
        assert_eq!((follow(store, first).await, follow(store, alone).await), (None, None));
        let here = here(store);
        purge(store, 2).await;
        here
    });
    with_devices(&devices[1..], async |store| {
        assert_eq!(
            (follow(store, alone).await, follow(store, both).await),
            (None, None),
            "it missed a purge"
        );
    });
}

#[test]
fn a_device_that_fails_leaves_the_log_to_the_next_and_is_not_believed_again() {
    let devices = [empty_device(), empty_device()];
    let (before, after) = with_devices(&devices, async |store| {
        let before = here(store);
        store.purge(&key(1)).await.unwrap();
        for operation in [Operation::Write, Operation::Flush] {
            let error = std::io::ErrorKind::Other;
            devices[0].inject(Fault { operation, after: 0, times: u64::MAX, error });
        }
        for number in 0..40 {
            let _ = store.purge(&key(number * 8)).await;
        }
        let after = here(store);
        let purged = store.purge_all(&[Target::Everything], Mode::Hard).await;
        purged.unwrap();
        // Purges that failed on the first device may be logged late, but none is lost.
        let told = follow(store, after).await.unwrap();
        assert_eq!(told.last(), Some(&PurgedTarget::Everything));
        assert_eq!(follow(store, before).await, None);
        (before, after)
    });
    devices[0].heal();
    with_devices(&devices, async |store| {
        assert_eq!((follow(store, before).await, follow(store, after).await), (None, None));
    });
}

#[test]
fn a_later_log_has_the_purges_of_the_one_before_and_is_followed_from_the_first() {
    let mut rig = Rig::open(formatted(24 << 20, 64 << 10), logging());
    let begin = here(&rig.store);
    purge_word(&mut rig, "before", Mode::Hard);
    let before = here(&rig.store);
    rig.store.begin_later_purge_log(0);
    let after = rig.store.purge_log_end().unwrap();
    assert!(after.log() > before.log() && after.number() >= before.number());
    assert!([begin, before].map(|position| followed_by(&mut rig, position)) == [None, None]);
    purge_word(&mut rig, "after", Mode::Hard);
    assert_eq!(followed_by(&mut rig, after).unwrap(), [label("after")]);
    let first = PurgePosition::new(after.log(), 0);
    assert_eq!(followed_by(&mut rig, first).unwrap(), [label("before"), label("after")]);
    let known = after.log() + 1000;
    rig.store.begin_later_purge_log(known);
    assert!(rig.store.purge_log_end().unwrap().log() > known);
}

#[test]
fn invalidated_keys_are_logged_and_keys_with_a_common_name_are_one_entry() {
    let mut rig = Rig::open(formatted(24 << 20, 64 << 10), logging());
    let begin = here(&rig.store);
    let (store, keys) = (rig.store.clone(), [key(1), key(2)]);
    rig.run(store.invalidate(&keys[..1], None)).unwrap();
    let name = Bytes::from_static(b"http://a/x");
    rig.run(store.purge_named(name.clone(), &keys)).unwrap();
    let logged = [PurgedTarget::Key(key(1)), PurgedTarget::Name(name)];
    assert_eq!(followed_by(&mut rig, begin).unwrap(), logged);
}
