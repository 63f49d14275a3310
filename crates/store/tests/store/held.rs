//! Readers of large bodies: a reader gets the whole body of the version that it began with,
//! whatever happens to that version, and no lookup finds a version that is gone.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use device::ManualClock;
use larder_store::{Body, Event, LayoutName, Mode, Options, Target};
use store_oracle::{State, any_len, key};

use crate::probe::Probe;
use crate::rig::{LookupResult, Rig, TestEntry, formatted, product, ucfs, use_layout};
use crate::seeds::seeds;

const MIB: u64 = 1 << 20;
const LAYOUTS: [LayoutName; 4] =
    [LayoutName::Cluster, LayoutName::Stream, LayoutName::Unified, LayoutName::Buddy];

/// A reader of a body, chunk by chunk.
struct Reader {
    state: State,
    body: Body<Probe, ManualClock>,
    at: u64,
    end: u64,
}

/// How a reader ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Read {
    On,
    Whole,
    Cut,
}

impl Reader {
    fn begin(entry: &TestEntry, range: std::ops::Range<u64>) -> Reader {
        let state = State::from_meta(entry.meta()).unwrap();
        Reader { state, body: entry.body(range.clone()), at: range.start, end: range.end }
    }

    /// Reads a chunk and verifies it.
    fn read(&mut self, rig: &mut Rig) -> Read {
        match rig.run(self.body.next()) {
            Some(Ok(bytes)) => {
                let expected = self.state.body().slice(self.at as usize..);
                assert_eq!(bytes, expected[..bytes.len()], "a wrong byte of {:?}", self.state);
                self.at += bytes.len() as u64;
                Read::On
            }
            Some(Err(_)) => Read::Cut,
            None => {
                assert_eq!(self.at, self.end, "a silent end of {:?}", self.state);
                Read::Whole
            }
        }
    }

    fn read_on(&mut self, rig: &mut Rig) -> Read {
        loop {
            match self.read(rig) {
                Read::On => {}
                end => return end,
            }
        }
    }
}

/// Stores more than fits on the device.
fn fill(rig: &mut Rig, first: u32) {
    for number in first..first + 450 {
        _ = rig.insert(number, 60_000);
        rig.pass(Duration::from_millis(1));
    }
    rig.settle_durably();
}

/// An operation that may end the version under key 1.
type Happens = fn(&mut Rig);

const WHAT_HAPPENS: [(&str, Happens); 6] = [
    ("removed", |rig| assert!(rig.remove(1))),
    ("purged", |rig| assert!(rig.purge(1).unwrap())),
    ("replaced", |rig| _ = rig.insert(1, 1_700_000).unwrap()),
    ("refreshed", |rig| _ = rig.refresh(1).unwrap()),
    ("evicted", |rig| fill(rig, 100)),
    ("purged with all else", |rig| {
        let store = rig.store.clone();
        rig.run(store.purge_all(&[Target::Everything], Mode::Hard)).unwrap();
        // The first lookup removes it.
        assert_eq!(rig.look(1), LookupResult::Nothing);
    }),
];

#[test]
fn a_reader_gets_the_whole_body_that_it_began() {
    for layout in LAYOUTS {
        use_layout(layout, 0);
        // The layout `cluster` depends on when a cluster is written.
        let both = [product(), ucfs()].into_iter();
        for options in both.take(if layout == LayoutName::Cluster { 2 } else { 1 }) {
            for (name, happens) in WHAT_HAPPENS {
                let mut rig = Rig::open(formatted(24 * MIB, 256 << 10), options.clone());
                let state = rig.insert(1, 2_000_000).unwrap();
                rig.settle();
                let entry = rig.entry(1).unwrap();
                let mut reader = Reader::begin(&entry, 0..state.len);
                let mut part = Reader::begin(&entry, 700_000..1_900_000);
                drop(entry);
                (0..3).for_each(|_| assert_eq!(reader.read(&mut rig), Read::On));
                happens(&mut rig);
                // Free space is reused again and again.
                fill(&mut rig, 2_000);
                let what = format!("{layout}, {:?}, {name}", options.write_policy);
                assert_eq!(reader.read_on(&mut rig), Read::Whole, "{what}");
                assert_eq!(part.read_on(&mut rig), Read::Whole, "{what}: a range");
                drop((reader, part));
                let held = rig.store.stats()[0].held;
                assert_eq!((held.readers, held.bytes, held.memory_bytes), (0, 0, 0), "{what}");
                let seen = rig.look(1).state();
                assert!(seen.is_none() || seen == rig.current(1), "{what}: {seen:?}");
                rig.store.account().into_iter().for_each(|account| _ = account.unwrap());
            }
        }
    }
}

#[test]
fn what_is_held_does_not_come_back() {
    for layout in LAYOUTS {
        use_layout(layout, 0);
        let mut rig = Rig::open(formatted(24 * MIB, 256 << 10), product());
        let state = rig.insert(1, 2_000_000).unwrap();
        rig.settle();
        let entry = rig.entry(1).unwrap();
        let mut reader = Reader::begin(&entry, 0..state.len);
        assert_eq!(reader.read(&mut rig), Read::On);
        assert!(rig.purge(1).unwrap());
        assert_eq!(rig.look(1), LookupResult::Nothing, "{layout}");
        let mut after = Rig::open(rig.probe.memory.crash_process(), product());
        assert_eq!(after.look(1), LookupResult::Nothing, "{layout}: after a kill");
        assert_eq!(reader.read_on(&mut rig), Read::Whole, "{layout}");
        drop((reader, entry));
        let mut rig = rig.reopen();
        assert_eq!(rig.look(1), LookupResult::Nothing, "{layout}: after a stop");
    }
}

#[test]
fn any_readers_among_any_traffic_read_to_the_end() {
    for layout in LAYOUTS {
        use_layout(layout, 0);
        for seed in seeds("held::any_readers_among_any_traffic", 2) {
            let mut random = fastrand::Rng::with_seed(seed);
            let options = if random.bool() { product() } else { ucfs() };
            let mut rig = Rig::open(formatted(24 * MIB, 64 << 10), options);
            let mut readers: Vec<Reader> = Vec::new();
            for step in 0..1_500 {
                let number = random.u32(..60);
                match random.u8(..12) {
                    0..5 => _ = rig.insert(number, any_len(&mut random)),
                    5 => _ = rig.remove(number),
                    6 => _ = rig.refresh(number),
                    7 => rig.pass(Duration::from_millis(random.u64(..1_000))),
                    8 if readers.len() < 8 => {
                        let Some(entry) = rig.entry(number) else { continue };
                        let start = random.u64(..=entry.len());
                        let end = random.u64(start..=entry.len());
                        readers.push(Reader::begin(&entry, start..end));
                    }
                    _ if readers.is_empty() => {}
                    _ => {
                        let chosen = random.usize(..readers.len());
                        match readers[chosen].read(&mut rig) {
                            Read::On => {}
                            Read::Whole => _ = readers.swap_remove(chosen),
                            Read::Cut => panic!("{layout}, {step}: {:?}", readers[chosen].state),
                        }
                    }
                }
            }
            drop(readers);
            assert_eq!(rig.store.stats()[0].held.bytes, 0, "{layout}");
            rig.check_all(false);
            assert_eq!(rig.store.stats()[0].counters.damaged_records, 0, "{layout}");
            rig = rig.reopen();
            rig.check_all(false);
        }
    }
}

#[test]
fn the_first_piece_of_a_found_object_stays_readable() {
    for layout in LAYOUTS {
        use_layout(layout, 0);
        let options = Options { held_percent: 0, ..product() };
        let mut rig = Rig::open(formatted(24 * MIB, 256 << 10), options);
        let state = rig.insert(1, 2_000_000).unwrap();
        rig.settle();
        let entry = rig.entry(1).unwrap();
        rig.remove(1);
        fill(&mut rig, 1_000);
        let mut reader = Reader::begin(&entry, 0..state.len);
        assert_eq!(reader.read(&mut rig), Read::On, "{layout}");
        assert_eq!(reader.read_on(&mut rig), Read::Cut, "{layout}: nothing else is held");
    }
}

/// Returns how the readers of ten removed objects of `len` bytes ended, in the order in which they
/// began.
fn read_removed(options: Options, len: u64, between: impl FnOnce(&mut Rig)) -> (Vec<Read>, Rig) {
    let mut rig = Rig::open(formatted(24 * MIB, 64 << 10), options);
    let mut readers = Vec::new();
    for number in 0..10 {
        let state = rig.insert(number, len).unwrap();
        rig.settle();
        readers.push(Reader::begin(&rig.entry(number).unwrap(), 0..state.len));
        rig.remove(number);
    }
    between(&mut rig);
    fill(&mut rig, 1_000);
    let read = readers.iter_mut().map(|reader| reader.read_on(&mut rig)).collect();
    (read, rig)
}

#[test]
fn the_slowest_reader_is_dropped_when_all_hold_more_than_their_share() {
    for layout in LAYOUTS {
        use_layout(layout, 0);
        let (read, rig) =
            read_removed(Options { held_percent: 20, ..product() }, 1_000_000, |_| {});
        assert!((3..9).contains(&rig.store.stats()[0].held.revoked), "{layout}: {read:?}");
        assert_eq!((read[0], read[9]), (Read::Cut, Read::Whole), "{layout}: {read:?}");
        assert!(read.is_sorted_by_key(|read| *read == Read::Whole), "{layout}: {read:?}");
    }
    let (read, _) = read_removed(Options { held_percent: 0, ..product() }, 1_000_000, |_| {});
    assert_eq!(read, [Read::Cut; 10]);
}

#[test]
fn dropped_readers_are_reported_at_intervals() {
    use_layout(LayoutName::Cluster, 0);
    let told = Arc::new(Mutex::new(Vec::new()));
    let listener = Arc::clone(&told);
    let on_event = move |event: Event| {
        if let Event::HoldsRevoked { objects, transfers, .. } = event {
            listener.lock().unwrap().push((objects, transfers));
        }
    };
    let options = Options {
        held_percent: 20,
        held_time: Duration::from_secs(100),
        on_event: Arc::new(on_event),
        ..product()
    };
    let mut rig = Rig::open(formatted(24 * MIB, 64 << 10), options);
    let mut readers = Vec::new();
    for number in 0..10 {
        let state = rig.insert(number, MIB).unwrap();
        rig.settle();
        readers.push(Reader::begin(&rig.entry(number).unwrap(), 0..state.len));
        rig.remove(number);
    }
    // At most two events within ten seconds; the count of the last ones is reported later.
    rig.pass(Duration::from_secs(60));
    let objects = rig.store.stats()[0].held.revoked;
    let so_far = std::mem::take(&mut *told.lock().unwrap());
    assert!(objects > 2 && so_far.len() < objects as usize, "{so_far:?} of {objects}");
    assert_eq!(so_far.iter().map(|told| told.0).sum::<u64>(), objects, "{so_far:?}");
    assert!(so_far.iter().all(|told| told.1 == 0), "{so_far:?}");
    // A reader whose time is over is reported when its pieces are reclaimed.
    rig.pass(Duration::from_secs(200));
    rig.insert(100, 1_000).unwrap();
    rig.pass(Duration::from_secs(60));
    assert_eq!(rig.store.stats()[0].held.timed_out, 10);
    let transfers = told.lock().unwrap().iter().map(|told| told.1).sum::<u64>();
    assert_eq!(transfers, 10);
}

#[test]
fn no_reader_holds_pieces_longer_than_the_limit() {
    let options = Options {
        held_time: Duration::from_secs(100),
        flush_interval: Duration::from_secs(5),
        ..product()
    };
    let (read, rig) =
        read_removed(options.clone(), 400_000, |rig| rig.pass(Duration::from_secs(20)));
    assert_eq!(read, [Read::Whole; 10]);
    drop(rig);
    let (read, rig) = read_removed(options, 400_000, |rig| rig.pass(Duration::from_secs(200)));
    assert_eq!(read, [Read::Cut; 10]);
    assert_eq!(rig.store.stats()[0].held.timed_out, 10);
}

#[test]
fn a_version_larger_than_the_share_does_not_stop_what_is_stored() {
    for layout in LAYOUTS {
        use_layout(layout, 0);
        let mut rig = Rig::open(formatted(24 * MIB, 64 << 10), product());
        let mut readers = Vec::new();
        for number in 0..16 {
            // A quarter of the device is the largest object.
            if let Ok(state) = rig.insert(number, 4 * MIB) {
                readers.push(Reader::begin(&rig.entry(number).unwrap(), 0..state.len));
            }
        }
        assert!(readers.len() > 10, "{layout}: only {} were stored", readers.len());
        let held = rig.store.stats()[0].held;
        assert!(held.bytes <= 24 * MIB / 4, "{layout}: {held:?}");
        assert_eq!(readers.last_mut().unwrap().read_on(&mut rig), Read::Whole, "{layout}");
        readers.iter_mut().for_each(|reader| _ = reader.read_on(&mut rig));
        assert!(rig.store.knows(&key(15)), "{layout}");
    }
}
