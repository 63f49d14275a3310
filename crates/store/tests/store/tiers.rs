//! Lookups in one tier only, and lookups that leave nothing in memory.

use larder_store::{LayoutName, Lookup, LookupOptions, Options, Retention, Source, Stats, Tiers};
use store_oracle::{any_len, key};

use crate::rig::{LookupResult, Rig, formatted, product, ucfs, use_layout};
use crate::seeds::seeds;

const DEFAULT: LookupOptions =
    LookupOptions { tiers: Tiers::MemoryAndDisk, retention: Retention::Keep };
const MEMORY: LookupOptions = LookupOptions { tiers: Tiers::Memory, ..DEFAULT };
const EXCLUSIVE: LookupOptions = LookupOptions { retention: Retention::Exclusive, ..DEFAULT };

/// Looks the object up and verifies every byte; also returns the tier of the first bytes.
fn look(rig: &mut Rig, number: u32, options: LookupOptions) -> Option<(LookupResult, Source)> {
    let store = rig.store.clone();
    let Lookup::Hit(entry) = rig.run(store.lookup_with(&key(number), options)) else { return None };
    Some((rig.verify(number, &entry), entry.source()))
}

fn source(rig: &mut Rig, number: u32, options: LookupOptions) -> Option<Source> {
    look(rig, number, options).map(|(_, source)| source)
}

fn stats(rig: &Rig) -> Stats {
    rig.store.stats()[0]
}

/// Returns the number of reads, of memory hits, of disk hits and of misses so far.
fn figures(rig: &Rig) -> (u64, u64, u64, u64) {
    let Stats { reads, counters, .. } = stats(rig);
    let reads = reads.exact + reads.windows + reads.clusters;
    (reads, counters.memory_hits, counters.disk_hits, counters.misses)
}

#[test]
fn memory_alone_is_asked_without_a_read_and_a_miss_there_is_not_counted() {
    for layout in LayoutName::ALL {
        use_layout(layout, 0);
        let mut rig = Rig::open(formatted(24 << 20, 64 << 10), product());
        rig.insert(1, 5_000).unwrap();
        assert_eq!(source(&mut rig, 1, MEMORY), Some(Source::Ram), "not placed yet");
        let mut rig = rig.reopen();
        let before = figures(&rig);
        assert_eq!(source(&mut rig, 1, MEMORY), None);
        assert_eq!(source(&mut rig, 2, MEMORY), None);
        assert_eq!(figures(&rig), before);
        assert_eq!(source(&mut rig, 1, DEFAULT), Some(Source::Disk));
        assert_eq!(source(&mut rig, 1, MEMORY), Some(Source::Ram));
        let (reads, memory, disk, misses) = before;
        assert_eq!(figures(&rig), (reads + 1, memory + 1, disk + 1, misses));
    }
}

#[test]
fn what_is_found_exclusively_leaves_memory_and_stays_on_the_device() {
    for layout in LayoutName::ALL {
        use_layout(layout, 0);
        let mut rig = Rig::open(formatted(24 << 20, 64 << 10), product());
        rig.insert(2, 5_000).unwrap();
        // In memory only: nothing may be lost.
        assert_eq!(source(&mut rig, 2, EXCLUSIVE), Some(Source::Ram));
        assert_eq!(source(&mut rig, 2, MEMORY), Some(Source::Ram));
        let state = rig.insert(1, 5_000).unwrap();
        rig.settle();
        let objects = stats(&rig).tier_objects;
        assert_eq!(look(&mut rig, 1, EXCLUSIVE), Some((LookupResult::Whole(state), Source::Ram)));
        assert_eq!(stats(&rig).tier_objects, objects - 1);
        assert_eq!(source(&mut rig, 1, MEMORY), None);
        let mut rig = rig.reopen();
        for _ in 0..3 {
            let found = look(&mut rig, 1, EXCLUSIVE);
            assert_eq!(found, Some((LookupResult::Whole(state), Source::Disk)), "{layout}");
        }
        assert_eq!((stats(&rig).tier_objects, stats(&rig).read_ahead_bytes), (0, 0), "{layout}");
        assert_eq!(source(&mut rig, 2, MEMORY), None, "its neighbour did not come along");
    }
}

#[test]
fn the_pieces_of_a_large_object_are_read_as_it_was_found() {
    let options = Options { object_max: Some(1 << 20), memory: 16 << 20, ..product() };
    let mut rig = Rig::open(formatted(24 << 20, 256 << 10), options);
    let state = rig.insert(1, 500_000).unwrap();
    let mut rig = rig.reopen();
    assert_eq!(source(&mut rig, 1, MEMORY), None);
    assert_eq!(look(&mut rig, 1, EXCLUSIVE), Some((LookupResult::Whole(state), Source::Disk)));
    assert_eq!(stats(&rig).tier_objects, 0);
    assert_eq!(look(&mut rig, 1, DEFAULT), Some((LookupResult::Whole(state), Source::Disk)));
    assert_eq!(stats(&rig).tier_objects, 5, "the head and four pieces");
    assert_eq!(look(&mut rig, 1, MEMORY), Some((LookupResult::Whole(state), Source::Ram)));
    assert_eq!(look(&mut rig, 1, EXCLUSIVE), Some((LookupResult::Whole(state), Source::Ram)));
    assert_eq!(stats(&rig).tier_objects, 0);
}

/// Lookups with any options find the current version, and lose none.
#[test]
fn no_lookup_loses_anything() {
    for seed in seeds("tiers::no_lookup_loses_anything", 6) {
        let mut random = fastrand::Rng::with_seed(seed);
        let ways = LayoutName::ALL.map(|layout| (layout, product()));
        for (layout, options) in ways.into_iter().chain([(LayoutName::Cluster, ucfs())]) {
            use_layout(layout, 0);
            let options = Options { object_max: Some(1 << 20), ..options };
            let mut rig = Rig::open(formatted(64 << 20, 64 << 10), options);
            for _ in 0..150 {
                let number = random.u32(..12);
                match random.u8(..12) {
                    0 | 1 => _ = rig.insert(number, any_len(&mut random) / 2),
                    2 => _ = rig.refresh(number),
                    3 => _ = rig.remove(number),
                    4 => rig.settle(),
                    5 if random.u8(..4) == 0 => rig = rig.reopen(),
                    step => {
                        let options = [DEFAULT, MEMORY, EXCLUSIVE][usize::from(step) % 3];
                        let found = look(&mut rig, number, options).map(|(seen, _)| seen);
                        let current = rig.current(number).map(LookupResult::Whole);
                        let missed = options == MEMORY && found.is_none();
                        assert!(found == current || missed, "seed {seed}, {layout}: {found:?}");
                    }
                }
            }
            rig.check_all(true);
        }
    }
}
