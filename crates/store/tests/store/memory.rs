//! Admission of objects to memory when they are read, and the buffers of these reads.

use larder_store::{Options, ReadUnit, Source, TierAdmission, TryLookup};
use store_oracle::key;

use crate::rig::{Rig, formatted, product};

/// Returns a cache with far more objects on the device than fit into memory: objects 0 to 2,499 of
/// 5,000 bytes, the last of them in memory.
fn filled(options: Options) -> Rig {
    let options = Options { read_unit: ReadUnit::Object, ..options };
    let mut rig = Rig::open(formatted(24 << 20, 64 << 10), options);
    for number in 0..2_500 {
        rig.insert(number, 5_000).unwrap();
    }
    rig.settle();
    rig
}

fn source(rig: &mut Rig, number: u32) -> Source {
    let entry = rig.entry(number).unwrap();
    let source = entry.source();
    assert_eq!(rig.verify(number, &entry).state(), rig.current(number));
    source
}

#[test]
fn what_is_read_enters_full_memory_by_its_second_use() {
    let mut rig = filled(product());
    assert_eq!(source(&mut rig, 2_499), Source::Ram, "what is stored enters memory");
    let uses = [0; 3].map(|number| source(&mut rig, number));
    assert_eq!(uses, [Source::Disk, Source::Disk, Source::Ram]);
    for number in 1..50 {
        assert_eq!(source(&mut rig, number), Source::Disk);
    }
    assert_eq!(rig.store.stats()[0].counters.not_kept, 50);
    assert_eq!(source(&mut rig, 0), Source::Ram, "nobody pushed it out");
}

#[test]
fn what_has_just_left_memory_was_asked_for_before() {
    let mut rig = filled(product());
    let left = (0..2_500).rev().find(|number| source(&mut rig, *number) == Source::Disk);
    let left = left.expect("more than memory holds");
    assert!(left > 1_500, "{left}");
    assert_eq!(source(&mut rig, left), Source::Ram);
}

#[test]
fn without_a_doorkeeper_all_that_is_read_enters_memory() {
    let mut rig = filled(Options { tier_admission: TierAdmission::All, ..product() });
    let uses = [0; 2].map(|number| source(&mut rig, number));
    assert_eq!(uses, [Source::Disk, Source::Ram]);
    assert_eq!(rig.store.stats()[0].counters.not_kept, 0);
}

#[test]
fn what_is_read_enters_memory_that_has_room() {
    let mut rig = filled(product()).reopen();
    let uses = [0; 2].map(|number| source(&mut rig, number));
    assert_eq!(uses, [Source::Disk, Source::Ram]);
}

#[test]
fn buffers_for_reads_are_used_again_and_bounded() {
    let mut rig = filled(product());
    for number in 0..300 {
        source(&mut rig, number);
    }
    let stats = rig.store.stats()[0];
    assert!(stats.buffers.kept_bytes as u64 <= product().memory / 64);
    assert!(stats.buffers.allocated <= 4 && stats.buffers.reused > 100, "{:?}", stats.buffers);
}

/// `try_lookup` finds and counts what a lookup finds in memory; otherwise it leaves no trace.
#[test]
fn try_lookup_finds_and_counts_what_is_in_memory_alone() {
    let mut rig = filled(product());
    let try_lookup = |rig: &Rig, number| {
        let key = key(number);
        match rig.store.try_lookup(key.as_bytes(), || key.locality().group) {
            TryLookup::Hit(entry) => Some(Some((entry.source(), entry.whole()))),
            TryLookup::Elsewhere => Some(None),
            TryLookup::Miss => None,
        }
    };
    let counts = |rig: &Rig| {
        let counters = rig.store.stats()[0].counters;
        (counters.memory_hits, counters.disk_hits, counters.misses)
    };
    let before = counts(&rig);
    let whole = rig.entry(2_499).unwrap().whole();
    assert_eq!(try_lookup(&rig, 2_499), Some(Some((Source::Ram, whole))));
    assert_eq!(counts(&rig), (before.0 + 2, before.1, before.2));
    assert_eq!(try_lookup(&rig, 1), Some(None), "it is on the device");
    assert_eq!(try_lookup(&rig, 9_999), None, "it was never stored");
    assert_eq!(counts(&rig), (before.0 + 2, before.1, before.2));
    assert!(rig.remove(2_499));
    assert_eq!(try_lookup(&rig, 2_499), None, "it was removed");
    rig.purge(2_498).unwrap();
    assert_eq!(try_lookup(&rig, 2_498), None, "it was purged");
    assert_eq!(counts(&rig), (before.0 + 2, before.1, before.2));
}
