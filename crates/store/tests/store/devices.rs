//! Stores of several devices, devices that are missing for a while, and devices that stall.

use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use device::{Clock, Fault, ManualClock, MemoryDevice, Operation};
use larder_store::{FormatOptions, Hint, Key, Locality, Lookup, Mode, Options, Refusal, Target};

use crate::probe::Probe;
use crate::rig::TestStore;
use crate::seeds::seeds;

const OBJECTS: u64 = 60;

fn key(number: u64) -> Key {
    Key::new(format!("object {number}").into(), Locality { site: 1, group: number }).unwrap()
}

fn formatted() -> MemoryDevice {
    let memory = MemoryDevice::new(16 << 20, 512);
    let entropy = std::array::from_fn(|_| fastrand::u8(..));
    let options = FormatOptions::default();
    let mut format = pin!(larder_store::format_with_seed(&memory, &options, entropy, 1));
    let mut context = Context::from_waker(Waker::noop());
    while format.as_mut().poll(&mut context).map(Result::unwrap).is_pending() {}
    memory.clone()
}

/// Runs `body` on a store over `devices` with its background. Advances the clock when all wait.
fn with_store<T>(
    devices: &[MemoryDevice],
    body: impl AsyncFnOnce(&TestStore, &ManualClock) -> T,
) -> T {
    let clock = ManualClock::new(1_700_000_000);
    let run = async {
        let devices = devices.iter().cloned().map(|memory| Rc::new(Probe::new(memory))).collect();
        let options = Options { memory: 8 << 20, ..Options::default() };
        let store = TestStore::open(devices, clock.clone(), options).await.unwrap();
        let mut background = pin!(store.run_background());
        let mut body = pin!(async {
            let value = body(&store, &clock).await;
            store.shutdown().await;
            value
        });
        std::future::poll_fn(|context| {
            let _ = background.as_mut().poll(context);
            body.as_mut().poll(context)
        })
        .await
    };
    drive(&clock, run)
}

/// Runs a future to its end. Advances the clock when it waits.
pub fn drive<T>(clock: &ManualClock, run: impl Future<Output = T>) -> T {
    let mut run = pin!(run);
    for turn in 0..1_000_000 {
        if let Poll::Ready(value) = run.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return value;
        }
        // Poll a few times first: completions may be pending.
        if turn % 50 == 49
            && let Some(next) = clock.next_deadline()
        {
            clock.advance(next.saturating_sub(clock.now()));
        }
    }
    panic!("nothing came of it");
}

async fn insert(store: &TestStore, number: u64) {
    insert_in(store, number, None).await;
}

/// Inserts an object with the hint that it belongs to a group.
async fn insert_in(store: &TestStore, number: u64, group: Option<u64>) {
    let token = store.begin_fetch(&key(number));
    let hint = Hint { group, ..Hint::default() };
    let meta = Bytes::from_static(b"meta");
    let mut writer = store.insert(&token, &key(number), meta, hint).await.unwrap();
    writer.write(Bytes::from(vec![number as u8; 2000])).await.unwrap();
    writer.commit().await.unwrap();
}

async fn is_there(store: &TestStore, number: u64) -> bool {
    match store.lookup(&key(number)).await {
        Lookup::Hit(entry) => {
            assert_eq!(entry.whole().unwrap(), vec![number as u8; 2000]);
            true
        }
        Lookup::Miss => false,
    }
}

async fn count(store: &TestStore) -> u64 {
    let mut found = 0;
    for number in 0..OBJECTS {
        found += u64::from(is_there(store, number).await);
    }
    found
}

async fn fill(store: &TestStore) {
    for number in 0..OBJECTS {
        insert(store, number).await;
    }
}

#[test]
fn objects_are_spread_and_found_again_after_a_restart() {
    let devices = [formatted(), formatted()];
    with_store(&devices, async |store, _| {
        fill(store).await;
        let shares: Vec<u64> = store.stats().iter().map(|s| s.counters.insertions).collect();
        assert!(shares.iter().all(|share| *share > OBJECTS / 5), "{shares:?}");
    });
    assert_eq!(with_store(&devices, async |store, _| count(store).await), OBJECTS);
}

#[test]
fn a_device_that_cannot_be_opened_costs_its_share_only() {
    let devices = [formatted(), formatted()];
    with_store(&devices, async |store, _| fill(store).await);
    // Both superblocks; the second one is near the end.
    let len = device::Device::geometry(&devices[0]).len;
    for offset in [0, len - (1 << 20)] {
        devices[0].poke(offset, &[0xAA; 1 << 20]);
    }
    let found = with_store(&devices, async |store, _| {
        assert_eq!(store.stats().len(), 1);
        count(store).await
    });
    assert!(found > OBJECTS / 5 && found < OBJECTS, "{found}");
}

#[test]
fn what_was_purged_while_its_device_was_away_does_not_come_back_with_it() {
    let devices = [formatted(), formatted()];
    with_store(&devices, async |store, _| fill(store).await);
    for present in [[0], [1]] {
        let alone = [devices[present[0]].clone()];
        with_store(&alone, async |store, _| {
            for number in 0..OBJECTS {
                store.purge(&key(number)).await.unwrap();
            }
        });
    }
    // The first device missed a run of the second one, so its contents are discarded.
    assert_eq!(with_store(&devices, async |store, _| count(store).await), 0);
}

#[test]
fn what_was_purged_where_it_no_longer_belonged_does_not_come_back_with_the_former_devices() {
    for invalidates in [false, true] {
        let devices = [formatted(), formatted()];
        with_store(&devices[..1], async |store, _| fill(store).await);
        with_store(&devices, async |store, _| {
            assert!((1..OBJECTS).contains(&count(store).await), "some belong to the new device");
            let keys: Vec<_> = (0..OBJECTS).map(key).collect();
            match invalidates {
                true => store.invalidate(&keys, None).await.unwrap(),
                false => assert_eq!(store.purge_keys(&keys).await.unwrap(), [true; OBJECTS as _]),
            }
        });
        assert_eq!(with_store(&devices[..1], async |store, _| count(store).await), 0);
    }
}

#[test]
fn what_was_purged_after_a_device_was_copied_does_not_come_back_with_the_copy() {
    let devices = [formatted(), formatted()];
    let copy = with_store(&devices, async |store, _| {
        fill(store).await;
        let copy = devices[0].crash_process();
        for number in 0..OBJECTS {
            store.purge(&key(number)).await.unwrap();
        }
        copy
    });
    let restored = [copy, devices[1].clone()];
    assert_eq!(with_store(&restored, async |store, _| count(store).await), 0);
}

#[test]
fn what_was_purged_after_its_device_was_given_up_does_not_come_back_with_it() {
    let devices = [formatted(), formatted(), formatted()];
    with_store(&devices, async |store, _| fill(store).await);
    // One fails before the first purge, another before the second.
    for failing in [&[0][..], &[0, 1]] {
        with_store(&devices, async |store, _| {
            fill(store).await;
            for number in failing {
                let error = std::io::ErrorKind::Other;
                let operation = Operation::Write;
                devices[*number].inject(Fault { operation, after: 0, times: u64::MAX, error });
                store.purge_all(&[Target::Everything], Mode::Hard).await.unwrap();
                assert!(!store.stats()[*number].online);
                assert_eq!(count(store).await, 0);
            }
        });
        devices.iter().for_each(MemoryDevice::heal);
        assert_eq!(with_store(&devices, async |store, _| count(store).await), 0);
    }
}

#[test]
fn a_purge_that_no_device_can_be_told_is_an_error() {
    let devices = [formatted()];
    with_store(&devices, async |store, _| {
        fill(store).await;
        let error = std::io::ErrorKind::Other;
        let fault = Fault { operation: Operation::Flush, after: 0, times: u64::MAX, error };
        devices[0].inject(fault);
        let purged = store.purge_all(&[Target::Everything], Mode::Hard).await;
        assert_eq!(purged, Err(Refusal::Offline));
        assert_eq!(count(store).await, 0);
    });
}

#[test]
fn a_stalled_device_is_passed_by_and_used_again_when_it_answers() {
    let devices = [formatted()];
    with_store(&devices, async |store, _| fill(store).await);
    with_store(&devices, async |store, clock| {
        devices[0].hold();
        let before = clock.now();
        assert!(!is_there(store, 1).await, "the read is given up");
        let waited = clock.now() - before;
        assert!(waited >= Options::default().stall_bound.as_nanos() as u64);
        let before = clock.now();
        assert!(!is_there(store, 2).await);
        assert_eq!(clock.now(), before, "nobody waits for a device that stalls");
        clock.advance(2_000_000_000);
        devices[0].release_all();
        assert!(is_there(store, 3).await);
        assert!(is_there(store, 1).await);
    });
}

#[test]
fn a_purge_while_one_of_two_devices_hangs_is_refused_and_kept_on_both() {
    let devices = [formatted(), formatted()];
    with_store(&devices, async |store, clock| {
        fill(store).await;
        devices[0].hold();
        let before = clock.now();
        let purged = store.purge_all(&[Target::Everything], Mode::Hard).await;
        assert_eq!(purged, Err(Refusal::Busy));
        assert!(clock.now() - before <= Options::default().stall_bound.as_nanos() as u64);
        assert_eq!(count(store).await, 0);
        fill(store).await;
        assert_eq!(count(store).await, OBJECTS);
        devices[0].release_all();
        for number in 100..120 {
            insert(store, number).await;
        }
    });
    // It was not given up: it missed nothing, and nothing on it is lost.
    with_store(&devices, async |store, _| {
        assert_eq!(count(store).await, OBJECTS);
        for number in 100..120 {
            assert!(is_there(store, number).await, "{number}");
        }
    });
}

#[test]
fn devices_keep_their_shares_in_any_order() {
    let [a, b, c] = [formatted(), formatted(), formatted()];
    let there = async |store: &TestStore, _: &ManualClock| {
        let mut there = 0;
        for number in 0..OBJECTS {
            there += u32::from(is_there(store, number).await);
        }
        there
    };
    with_store(&[a.clone(), b.clone(), c.clone()], async |store, _| {
        for number in 0..OBJECTS {
            insert(store, number).await;
        }
    });
    assert_eq!(with_store(&[c.clone(), a.clone(), b.clone()], there), OBJECTS as u32);
    let two = with_store(&[c, a], there);
    assert!(two > 20 && two < OBJECTS as u32, "{two} found on two of three devices");
}

#[test]
fn a_group_that_is_hinted_at_is_no_part_of_the_key() {
    for seed in seeds("a_group_that_is_hinted_at_is_no_part_of_the_key", 4) {
        let mut random = fastrand::Rng::with_seed(seed);
        let devices: Vec<_> = (0..random.usize(1..=3)).map(|_| formatted()).collect();
        let mut hints: Vec<Option<u64>> = Vec::new();
        with_store(&devices, async |store, _| {
            for _ in 0..2 {
                let hint = |_| random.bool().then(|| 1_000 + random.u64(..4));
                hints = (0..OBJECTS).map(hint).collect();
                for (number, hint) in (0..).zip(&hints) {
                    insert_in(store, number, *hint).await;
                }
            }
            assert_eq!(count(store).await, OBJECTS);
            for number in 0..OBJECTS {
                for neighbour in store.neighbours(&key(number)) {
                    assert!(store.resident(&neighbour.key).is_some(), "{number}: {neighbour:?}");
                }
            }
        });
        with_store(&devices, async |store, _| {
            assert_eq!(count(store).await, OBJECTS);
            for number in 0..OBJECTS {
                assert!(store.remove(&key(number)).await);
                assert!(!is_there(store, number).await, "{number} was stored twice");
            }
        });
    }
}

#[test]
fn what_is_hinted_to_be_of_one_group_is_neighbours() {
    let near = |devices: &[MemoryDevice]| {
        with_store(devices, async |store, _| {
            for number in 0..OBJECTS {
                insert_in(store, number, Some(1_000 + number % 3)).await;
            }
            let near = store.neighbours(&key(0)).into_iter().map(|near| near.key);
            let mut near: Vec<String> =
                near.map(|key| String::from_utf8(key.as_bytes().to_vec()).unwrap()).collect();
            near.sort();
            near
        })
    };
    let mut all: Vec<_> =
        (3..OBJECTS).step_by(3).map(|number| format!("object {number}")).collect();
    all.sort();
    assert_eq!(near(&[formatted()]), all);
}
