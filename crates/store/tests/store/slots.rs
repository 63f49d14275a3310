//! The tests of the layout `cluster` on the layouts that reuse space record by record, with and
//! without packets.

use std::future::Future as _;
use std::ops::Range;
use std::pin::pin;
use std::task::{Context, Waker};
use std::time::Duration;

use larder_store::{Inspector, LayoutName, Options};
use store_oracle::key;

use crate::rig::{LookupResult, Rig, formatted, now_or_never, product, use_layout};
use crate::{any_sequence, crash};

macro_rules! kept_by {
    ($name:ident, $layout:ident, $packet:expr) => {
        mod $name {
            use super::*;

            fn of(test: impl FnOnce()) {
                use_layout(LayoutName::$layout, $packet);
                test();
            }

            #[test]
            fn a_roomy_store_equals_a_map() {
                of(any_sequence::a_roomy_store_equals_a_map);
            }

            #[test]
            fn a_tight_store_equals_a_map_that_forgets() {
                of(any_sequence::a_tight_store_equals_a_map_that_forgets);
            }

            #[test]
            fn writing_on_evict_equals_a_map_that_forgets() {
                of(any_sequence::the_ucfs_preset_equals_a_map_that_forgets);
            }

            #[test]
            fn far_more_traffic_than_room() {
                of(any_sequence::far_more_traffic_than_room);
            }

            #[test]
            fn every_crash_point_of_a_small_history() {
                of(crash::every_crash_point_of_a_small_history);
            }

            #[test]
            fn every_crash_point_with_write_on_evict() {
                of(crash::every_crash_point_with_write_on_evict);
            }

            #[test]
            fn crashes_while_space_is_evicted_and_used_again() {
                of(crash::crashes_while_clusters_are_evicted_and_used_again);
            }

            #[test]
            fn power_is_lost_while_the_journal_goes_round_without_a_flush() {
                of(crash::power_is_lost_while_the_journal_goes_round_without_a_flush);
            }

            #[test]
            fn crash_after_crash_after_crash() {
                of(crash::crash_after_crash_after_crash);
            }

            #[test]
            fn power_is_lost_again_and_again_with_records_of_one_size() {
                of(crash::power_is_lost_again_and_again_with_records_of_one_size);
            }

            #[test]
            fn a_crash_during_recovery() {
                of(crash::a_crash_during_recovery);
            }
        }
    };
}

kept_by!(stream, Stream, 0);
kept_by!(stream_in_packets, Stream, 8 << 10);
kept_by!(unified, Unified, 0);
kept_by!(unified_in_packets, Unified, 256 << 10);
kept_by!(buddy, Buddy, 0);

mod gathered {
    //! Objects of one site wait for one another, in every layout.

    use larder_store::Source;

    use super::*;
    use crate::rig::use_locality;

    #[test]
    fn what_was_placed_stays_in_memory() {
        for (layout, packet) in [(LayoutName::Stream, 8 << 10), (LayoutName::Cluster, 0)] {
            use_layout(layout, packet);
            use_locality();
            let mut rig = Rig::open(formatted(24 << 20, 64 << 10), product());
            (0..40).for_each(|number| _ = rig.insert(number, 3_000).unwrap());
            let entry = rig.entry(7).unwrap();
            rig.settle_durably();
            let stats = rig.store.stats()[0];
            assert!(stats.counters.record_bytes_written > 40 * 3_000, "{layout}: {stats:?}");
            for number in 0..40 {
                assert_eq!(rig.entry(number).unwrap().source(), Source::Ram, "{layout}: {number}");
            }
            // An entry found before the object was placed is still current.
            let token = rig.store.clone().begin_fetch(&key(7));
            let state = rig.refresh_entry(&token, &entry).unwrap().unwrap();
            assert_eq!(rig.look(7), LookupResult::Whole(state), "{layout}");
            let mut rig = rig.reopen();
            assert_eq!(rig.look(7), LookupResult::Whole(state), "{layout}: after a start");
        }
    }

    #[test]
    fn a_tight_store_equals_a_map_that_forgets() {
        for (layout, packet) in [(LayoutName::Stream, 8 << 10), (LayoutName::Cluster, 0)] {
            use_layout(layout, packet);
            use_locality();
            any_sequence::a_tight_store_equals_a_map_that_forgets();
        }
    }

    #[test]
    fn crash_after_crash_after_crash() {
        for (layout, packet) in [(LayoutName::Stream, 8 << 10), (LayoutName::Cluster, 0)] {
            use_layout(layout, packet);
            use_locality();
            crash::crash_after_crash_after_crash();
        }
    }
}

/// Number of objects, which fill more of the device than recovery reads at once.
const STORED: u32 = 220;

/// More removals than can be remembered while recovery waits for a read: the removed objects are
/// gone, in this run and after a kill during it.
#[test]
fn more_is_removed_during_recovery_than_can_be_remembered() {
    use_layout(LayoutName::Unified, 0);
    let mut rig = Rig::open(formatted(24 << 20, 32 << 10), product());
    (0..STORED).for_each(|number| _ = rig.insert(number, 60_000).unwrap());
    rig.settle_durably();
    let killed = rig.probe.memory.crash_process();
    let at_once = Options { recovery_wait: Duration::ZERO, ..product() };
    let mut rig = Rig::open(killed.crash_process(), at_once.clone());
    rig.probe.watch.stall_read();
    rig.pass(Duration::ZERO);
    assert!(!rig.store.share().recovered(), "the rest of the device has not been read");
    for number in 0..STORED + 9_000 {
        // The first removals are forgotten first: these matter.
        let (store, key) = (rig.store.clone(), key(number));
        let mut removal = pin!(store.remove(&key));
        _ = removal.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    }
    // The journal is half full: a checkpoint is made before recovery has ended.
    rig.pass(Duration::from_secs(2));
    let again = rig.probe.memory.crash_process();
    rig.probe.watch.resume_read();
    rig.settle_durably();
    let found = |rig: &mut Rig| -> Vec<u32> {
        (0..STORED).filter(|number| rig.look(*number) != LookupResult::Nothing).collect()
    };
    assert!(rig.store.share().recovered());
    assert_eq!(found(&mut rig), Vec::<u32>::new(), "removed, and back in the same run");
    let mut rig = Rig::open(again, product());
    assert_eq!(found(&mut rig), Vec::<u32>::new(), "removed, and back after a kill");
    let mut rig = Rig::open(killed, product());
    rig.settle();
    assert!(rig.store.share().recovered());
}

/// An insertion does not wait for the journal entries of other dead records. It waits for that of
/// an older version of its key, whatever removed that, until a kill cannot bring it back.
#[test]
fn an_insertion_waits_for_the_deaths_of_its_own_key_alone() {
    for layout in [LayoutName::Stream, LayoutName::Unified, LayoutName::Buddy] {
        use_layout(layout, 256 << 10);
        let mut rig = Rig::open(formatted(24 << 20, 32 << 10), product());
        (0..8).for_each(|number| _ = rig.insert(number, 3_000).unwrap());
        rig.settle_durably();
        let begin = rig.probe.memory.counts().writes;
        let writes = |rig: &Rig| rig.probe.memory.counts().writes - begin;
        assert!(rig.store.evict(&key(1)) && rig.store.evict(&key(2)));
        rig.insert(9, 4_000).unwrap();
        assert_eq!(writes(&rig), 0, "nothing of its key has died");
        rig.insert(1, 4_000).unwrap();
        assert_eq!(writes(&rig), 1, "its older version was given up");
        rig.insert(2, 4_000).unwrap();
        assert_eq!(writes(&rig), 1, "that is told by now");
        rig.insert(3, 4_000).unwrap();
        assert_eq!(writes(&rig), 2, "its older version is superseded");
        let mut killed = Rig::open(rig.probe.memory.crash_process(), product());
        let found = (0..10).filter(|number| killed.entry(*number).is_some());
        assert_eq!(found.collect::<Vec<u32>>(), [0, 4, 5, 6, 7], "the new ones are not written");
    }
}

/// Evictions do not wait for the journal, but it is written before it has many entries, even if no
/// time passes.
#[test]
fn removals_are_written_without_a_waiting_caller() {
    use_layout(LayoutName::Stream, 64 << 10);
    // An object evicted while it waits for others leaves no trace.
    let options = Options { batch: 0, ..product() };
    let mut rig = Rig::open(formatted(24 << 20, 32 << 10), options);
    let round = |round: u32| round * 500..(round + 1) * 500;
    for number in 0..12 {
        round(number).for_each(|number| _ = rig.insert(number, 100).unwrap());
        // It is on the device now, except for the last packet.
        rig.pass(Duration::ZERO);
        assert!(round(number).all(|number| rig.store.evict(&key(number))));
        rig.pass(Duration::ZERO);
    }
    let mut killed = Rig::open(rig.probe.memory.crash_process(), product());
    let mut found = |round: Range<u32>| round.filter(|n| killed.entry(*n).is_some()).count();
    assert_eq!((found(round(0)), found(round(8))), (0, 0), "they filled a write");
    assert!(found(round(11)) > 300, "there was no hurry");
}

/// Full packets are written at once, and an incomplete one may wait without bound. A kill then
/// leaves a record without its end, which is not damage and takes no space after the next start.
#[test]
fn a_record_whose_end_was_not_written_is_forgotten() {
    use_layout(LayoutName::Stream, 8 << 10);
    let durability_bound = Duration::from_secs(3_600);
    let options = Options { durability_bound, batch: 0, ..product() };
    let mut rig = Rig::open(formatted(8 << 20, 32 << 10), options.clone());
    rig.insert(1, 20_000).unwrap();
    rig.pass(Duration::from_secs(60));
    let (probe, killed) = (rig.probe.clone(), rig.probe.memory.crash_process());
    assert!(probe.memory.counts().writes > 0);
    let damaged = |memory: &device::MemoryDevice| {
        let inspector = now_or_never(Inspector::open(memory)).unwrap();
        let report = now_or_never(inspector.verify(|_, _| {})).unwrap();
        (report.damaged, report.dead)
    };
    assert_eq!(damaged(&killed), (Vec::new(), 1));
    let mut rig = Rig::open(killed, options);
    assert_eq!(rig.look(1), LookupResult::Nothing);
    rig.settle_durably();
    let slots = rig.store.stats()[0].slots.unwrap();
    assert_eq!((slots.live, slots.free), (0, slots.slots));
    let probe = rig.stop();
    assert_eq!(damaged(&probe.memory), (Vec::new(), 1));
}
