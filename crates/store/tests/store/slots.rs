//! The layouts that reuse space record by record keep what the layout `cluster` keeps: the same
//! tests, on caches of each of them, with and without packets.

use store::LayoutName;

use crate::rig::use_layout;
use crate::{any_sequence, crash};

/// Runs tests on caches of one layout.
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

    use super::*;
    use crate::rig::use_locality;

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
