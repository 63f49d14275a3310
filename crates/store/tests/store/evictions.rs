//! Evicted objects are offered to a subscriber.

use std::collections::BTreeMap;

use larder_store::{Evicted, EvictionLimits, LayoutName, Mode, Options, Target};
use store_oracle::{State, key};

use crate::probe::Probe;
use crate::purging::labelled;
use crate::rig::{Rig, formatted, product, ucfs, use_layout};
use crate::seeds::seeds;

const LIMITS: EvictionLimits = EvictionLimits { offers: 64, bytes: 4 << 20 };

type Subscription = larder_store::Evictions<Probe, device::ManualClock>;

/// Fills memory with objects of 5,000 bytes under the keys from this number on.
fn fill(rig: &mut Rig, numbers: std::ops::Range<u32>) {
    for number in numbers {
        rig.insert(number, 5_000).unwrap();
    }
}

/// Verifies the bytes of an offer; returns its state.
fn offered(offer: &Evicted<Probe, device::ManualClock>) -> State {
    let state = State::from_meta(&offer.meta).unwrap();
    assert_eq!((&offer.key, offer.len), (&key(state.key), state.len));
    if let Some(entry) = &offer.entry {
        assert_eq!((entry.meta(), entry.whole()), (&offer.meta, Some(state.body())));
    }
    state
}

fn drain(subscription: &mut Subscription) -> BTreeMap<u32, (State, bool)> {
    let mut all = BTreeMap::new();
    while let Some(offer) = subscription.take() {
        let state = offered(&offer);
        assert!(all.insert(state.key, (state, offer.last_copy)).is_none(), "offered twice");
    }
    all
}

#[test]
fn what_leaves_memory_is_offered_and_the_oldest_offers_make_way() {
    let mut rig = Rig::open(formatted(24 << 20, 64 << 10), product());
    fill(&mut rig, 0..600);
    let mut subscription = rig.store.evictions(LIMITS);
    assert!(subscription.take().is_none(), "nothing has left since");
    fill(&mut rig, 600..620);
    let first = drain(&mut subscription);
    assert!((10..=20).contains(&first.len()), "{}", first.len());
    assert!(first.values().all(|(_, last_copy)| !last_copy), "all of it is on the device");
    fill(&mut rig, 620..1_000);
    let later = drain(&mut subscription);
    assert_eq!(later.len(), 64, "no more may wait");
    assert!(subscription.dropped() > 250, "{}", subscription.dropped());
    // The objects evicted last entered memory last.
    assert!(later.keys().min() > first.keys().max());
    let other = rig.store.evictions(EvictionLimits { bytes: 20_000, ..LIMITS });
    fill(&mut rig, 1_000..1_100);
    assert!(subscription.take().is_none(), "another took its place");
    drop(subscription);
    let mut other = other;
    assert_eq!(drain(&mut other).len(), 3, "no more bytes may wait");
}

#[test]
fn an_object_in_pieces_is_offered_without_its_bytes() {
    let options = Options { object_max: Some(1 << 20), ..product() };
    let mut rig = Rig::open(formatted(24 << 20, 256 << 10), options);
    let mut subscription = rig.store.evictions(LIMITS);
    let large = rig.insert(0, 300_000).unwrap();
    let mut found = None;
    for number in 1..600 {
        rig.insert(number, 5_000).unwrap();
        while let Some(offer) = subscription.take() {
            if offered(&offer) == large {
                found = Some(offer.entry.is_none());
            }
        }
    }
    assert_eq!(found, Some(true));
}

#[test]
fn what_left_the_device_first_is_a_last_copy() {
    // A device hardly larger than memory: records are evicted while their objects are in memory.
    for layout in LayoutName::ALL {
        use_layout(layout, 0);
        let options = Options { memory: 24 << 20, ..product() };
        let mut rig = Rig::open(formatted(8 << 20, 64 << 10), options);
        let mut subscription = rig.store.evictions(LIMITS);
        let mut copies = [0, 0];
        for round in 0..30 {
            fill(&mut rig, round * 100..round * 100 + 100);
            while let Some(offer) = subscription.take() {
                copies[usize::from(offer.last_copy)] += 1;
                let number = offered(&offer).key;
                let found = rig.entry(number).is_some();
                assert_eq!(found, !offer.last_copy, "{layout}: {number}");
            }
        }
        assert!(copies[1] > 100, "{layout}: {copies:?}");
    }
}

/// An offered object is the current version, has left memory, and is on the device unless the offer
/// denies it, whatever happens between the eviction and the offer.
#[test]
fn offers_are_what_a_lookup_would_have_found() {
    for seed in seeds("evictions::offers_are_what_a_lookup", 4) {
        let mut random = fastrand::Rng::with_seed(seed);
        let ways = LayoutName::ALL.map(|layout| (layout, product()));
        let (mut all, mut last) = (0, 0);
        for (layout, options) in ways.into_iter().chain([(LayoutName::Cluster, ucfs())]) {
            use_layout(layout, 0);
            let options = Options { memory: 4 << 20, ..labelled(options) };
            let mut rig = Rig::open(formatted(16 << 20, 64 << 10), options);
            let limits = EvictionLimits { offers: random.usize(1..200), bytes: 1 << 20 };
            let mut subscription = rig.store.evictions(limits);
            for _ in 0..1_500 {
                let number = random.u32(..600);
                match random.u16(..200) {
                    0..140 => _ = rig.insert(number, random.u64(..12_000)),
                    140..150 => _ = rig.refresh(number),
                    150..158 => _ = rig.remove(number),
                    158..163 => _ = rig.purge(number),
                    163..185 => _ = rig.look(number),
                    185..188 => rig.settle(),
                    188 => {
                        let (site, store) =
                            (format!("http://site{}/", number / 64), rig.store.clone());
                        let target = Target::Prefix(site.as_bytes());
                        rig.run(store.purge_all(&[target], Mode::Hard)).unwrap();
                        for number in number / 64 * 64..(number / 64 + 1) * 64 {
                            let begun = rig.history.borrow_mut().purge(number);
                            rig.history.borrow_mut().returned(begun);
                        }
                    }
                    _ => {
                        let Some(offer) = subscription.take() else { continue };
                        let state = offered(&offer);
                        let current = rig.current(state.key);
                        assert_eq!(current, Some(state), "seed {seed}, {layout}");
                        assert!(!offer.token.overtaken(), "seed {seed}, {layout}");
                        let resident = rig.store.resident(&key(state.key));
                        assert!(resident.is_none(), "seed {seed}, {layout}");
                        let found = rig.entry(state.key).is_some();
                        assert_eq!(found, !offer.last_copy, "seed {seed}, {layout}");
                        (all, last) = (all + 1, last + u32::from(offer.last_copy));
                        rig.remove(state.key);
                        assert!(offer.token.overtaken(), "seed {seed}, {layout}");
                    }
                }
            }
        }
        assert!(all > 50, "seed {seed}: {all} offers, {last} of last copies");
    }
}
